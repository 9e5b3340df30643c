"""The benchmark of segments and scans, where it needs no GPU.

The contract: its exact prefixes agree with math.fsum, along any axis and within segments; its check sees one wrong spacing, a NaN, an inf
and a missing element, and passes what is rounded once; its offsets begin with 0, never fall, end with
n and have the mean that they are named for; a claim holds at its threshold and fails just below it,
and a claim on nothing is "not measured".
"""

import math
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the benchmark makes its data by PyTorch")
sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

from gpu_segment_claims import evaluate  # noqa: E402
from gpu_segment_data import (  # noqa: E402
    POWER_LAW,
    RAGGED,
    Exact,
    confirm_checker,
    ragged_offsets,
    random_array,
)
from gpu_segment_peers import COPY  # noqa: E402

from tcu.study.gpu.peers import READ  # noqa: E402


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_exact_sums_are_those_of_fsum(dtype: str) -> None:
    x = random_array(10_000, dtype, "cpu")
    values = x.double().tolist()
    exact = Exact.of(x)
    offsets = torch.tensor([0, 0, 1, 17, 17, 5000, 10_000])
    wanted = [math.fsum(values[a:b]) for a, b in zip(offsets.tolist(), offsets[1:].tolist(), strict=False)]
    for where, sums, masses in exact.segments(offsets).pieces():
        assert where == slice(0, 6)
        assert (sums.double() * 2.0**-24).tolist() == wanted
        assert masses[-1] * 2.0**-24 == math.fsum(map(abs, values[5000:]))
    for _, sums, _ in exact.rows(100, 99).pieces():
        rows = [math.fsum(values[i * 99 : i * 99 + 99]) for i in range(100)]
        assert (sums.double() * 2.0**-24).tolist() == rows
    for _, sums, _ in exact.along((10, 100, 10), 1).pieces():
        assert float(sums[13]) * 2.0**-24 == math.fsum(values[1003:2000:10])
    for _, sums, _ in exact.prefixes(10_000, 100).pieces():
        assert float(sums[777]) * 2.0**-24 == math.fsum(values[700:778])
    for _, sums, _ in exact.prefixes_along((10, 100, 10), 1).pieces():
        assert float(sums[1773]) * 2.0**-24 == math.fsum(values[1003:1774:10])
    for _, sums, _ in exact.prefixes_of_segments(offsets).pieces():
        assert float(sums[0]) * 2.0**-24 == values[0]
        assert float(sums[999]) * 2.0**-24 == math.fsum(values[17:1000])


def test_exact_prefixes_that_are_wrong_are_seen() -> None:
    x = random_array(10_000, "float16", "cpu")
    exact = Exact.of(x)
    exact.sums[5000:] += 1
    with pytest.raises(Exception, match=r"by math.fsum"):
        exact.confirm(x)


def test_the_check_sees_planted_errors() -> None:
    confirm_checker("cpu")


@pytest.mark.parametrize("case", RAGGED)
def test_offsets(case: str) -> None:
    n = 1 << 22
    offsets = ragged_offsets(case, n, "cpu")
    lengths = offsets.diff()
    assert (offsets[0], offsets[-1], offsets.dtype) == (0, n, torch.int64)
    assert lengths.min() >= 0
    if case == POWER_LAW:
        assert lengths.max() > 1 << 15
        assert lengths.min() == 0
    else:
        mean = int(case.rsplit(" ", 1)[1])
        assert n / lengths.numel() == pytest.approx(mean, rel=4 / math.sqrt(lengths.numel()))
        assert lengths.min() == 0 or mean > 1000


def point(
    part: str, length: int, speeds: dict[str, float], layout: str = "rows", out: str = "float32"
) -> dict:
    rows = {
        name: {"tb_per_s": speed, "state": "right", "share_of_bound": 0.5} for name, speed in speeds.items()
    }
    return {
        "part": part, "dtype": "float16", "result": out, "layout": layout, "length": length, "shape": (4, length),
        "axis": 1, "participants": rows | {"CuPy": {"missing": "not installed"}},
    }  # fmt: skip


def states(part: str, points: list[dict], calls: list[dict] | None = None) -> dict[str, str]:
    lines = evaluate(part, {"points": points, "first_calls": calls or []})
    return {f"{line['claim']}, {line['pair']}": line["state"] for line in lines}


@pytest.mark.parametrize(("speed", "state"), [(0.93, "holds"), (0.9299, "FAILS")])
def test_a_claim_on_the_ceiling(speed: float, state: str) -> None:
    good = point("rows", 16, {"tcu.sum": 0.99, READ: 1.0, "torch": 0.5})
    found = states("rows", [good, point("rows", 1 << 20, {"tcu.sum": speed, READ: 1.0})])
    assert found["rows / ceiling, float16→float32"] == state
    assert found["best peer, float16→float32"] == "holds"
    assert found["rows of 3 and 17 / ceiling, float16→float32"] == "not measured"


@pytest.mark.parametrize(("peer", "state"), [(1.0, "holds"), (1.001, "FAILS")])
def test_a_claim_on_the_fastest_peer(peer: float, state: str) -> None:
    speeds = {"tcu.cumsum": 0.97, COPY: 1.0, "CUB half→half by key": 0.3, "torch.compile": peer, "torch": 0.1}
    found = states("rowscans", [point("rowscans", 64, speeds, out="float16")])
    assert found["best peer, float16→float16"] == state
    assert found["rows / ceiling, float16→float16"] == "holds"


def test_claims_on_scans_take_the_named_peer() -> None:
    found = states(
        "scans", [point("scans", 1 << 29, {"tcu.cumsum": 0.9, COPY: 1.0, "CUB": 0.4}, "one", "float16")]
    )
    assert found["2^29 / CUB, float16→float16"] == "holds"
    assert found["2^24 / CUB, float16→float16"] == "not measured"


def test_a_wrong_result_and_a_slow_first_call_fail() -> None:
    wrong = point("rowscans", 64, {"tcu.cumsum": 0.9}, out="float16")
    wrong["participants"]["tcu.cumsum"] |= {"state": "WRONG", "share_of_bound": math.inf}
    call = {"of": "tcu", "call": "tcu.cumsum(x)", "cache": "cold", "length": 1024, "first call": 1.01}
    found = states("rowscans", [wrong], [call])
    assert found["tcu's error / its bound, float16→float16"] == "FAILS"
    assert found["seconds of a first tcu.cumsum(x), cold cache"] == "FAILS"
    found = states(
        "rowscans", [], [{**call, "first call": 0.99}, {**call, "cache": "warm", "first call": 9.0}]
    )
    assert found["seconds of a first tcu.cumsum(x), cold cache"] == "holds"
