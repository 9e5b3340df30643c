"""Contract of ``tcu.fcumsum``: running sums that are each rounded once from the exact sum.

Element i has the bits of ``tcu.fsum`` of the elements up to i: on arrays built
to hurt, in every format, forwards and backwards, with the element or without,
along axes, within segments, across the pieces of long lines, on any number of
threads and in chunks.  After inf results are inf, after NaN, or where inf and -inf
have met, NaN.  Ordinary numbers go without limbs.  Faults in the quick way are seen.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from numbers_of_all_kinds import KINDS, draw
from rationals import exact_sum

import tcu
from tcu.engines.host import exact_scans
from tcu.errors import InvalidOperationError, ParameterError, UnknownOptionError
from tcu.model import exact_scan_kernels, threads
from tcu.ops.exact import SCALE, Tally

# PyTorch warns about itself: of torch.jit.script in forward mode, of what torch.compile imports.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


def prefixes(x: Any, target: Any, *, exclusive: bool = False, reverse: bool = False) -> Any:
    """Each by itself; NaN where fsum has no value."""
    line = x[::-1] if reverse else x
    found = []
    for i in range(x.size):
        try:
            found.append(tcu.fsum(line[: i + 1 - exclusive], dtype=np.dtype(target).name))
        except InvalidOperationError:
            found.append(tcu.fsum(np.array([np.nan]), dtype=np.dtype(target).name))
    result = np.array(found, target)
    return result[::-1] if reverse else result


@pytest.mark.slow(5)
@every_dtype
@pytest.mark.parametrize("kind", KINDS)
def test_each_is_the_exact_sum_of_what_comes_before(dtype: Any, kind: str) -> None:
    rng = np.random.default_rng(17)
    for case, n in enumerate((0, 1, 2, 3, 40, 150)):
        x, target = draw(rng, n, dtype, kind), DTYPES[case % 4]
        for way in ({}, {"exclusive": True}, {"reverse": True}, {"exclusive": True, "reverse": True}):
            found = tcu.fcumsum(x, dtype=np.dtype(target).name, **way)
            same(found, prefixes(x, target, **way), kind, n, way)


def test_against_python() -> None:
    x = np.random.default_rng(1).standard_normal(2000) * 2.0 ** np.random.default_rng(2).integers(
        -40, 40, 2000
    )
    assert tcu.fcumsum(x).tolist() == [math.fsum(x[: i + 1]) for i in range(2000)]
    assert tcu.fcumsum([1.0, 2.0**-53, 2.0**-53]).tolist() == [1.0, 1.0, 1 + 2.0**-52]
    assert tcu.cumsum([1.0, 2.0**-53, 2.0**-53])[-1] == 1.0
    assert not np.signbit(tcu.fcumsum(np.array([-0.0, 1.0, -1.0]))).any()
    big = np.array([1e308, 1e308, -1e308, -1e308, 5e-324])
    assert tcu.fcumsum(big).tolist() == [1e308, math.inf, 1e308, 0.0, 5e-324]


def halfway(rng: Any, n: int) -> Any:
    """Steps of a half and of much less, so that many sums lie at halfway points or just beside."""
    steps = [2.0**-53, 2.0**-52, -(2.0**-53), 2.0**-120, -(2.0**-120), 2.0**-24, 2.0**-25, 2.0**-170]
    return np.concatenate([[1.0], rng.choice(steps, n)])


@pytest.mark.parametrize("target", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_halfway_points(target: Any) -> None:
    for seed in range(6):
        x = halfway(np.random.default_rng(seed), 120)
        same(tcu.fcumsum(x, dtype=np.dtype(target).name), prefixes(x, target), seed)


@every_dtype
def test_pieces_and_threads_leave_no_trace(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(4)
    for kind in ("spread", "finite", "special"):
        x = draw(rng, 3000, dtype, kind)
        for way in ({}, {"reverse": True}, {"exclusive": True}):
            whole = tcu.fcumsum(x, **way)
            with monkeypatch.context() as change:
                change.setattr(exact_scans, "_PIECE", 257)
                same(tcu.fcumsum(x, **way), whole, kind)
                with threads.alone():
                    same(tcu.fcumsum(x, **way), whole, kind)


@every_dtype
def test_axes_and_segments_have_their_own(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_scans, "_PIECE", 64)
    rng = np.random.default_rng(5)
    x = draw(rng, 7 * 90, dtype, "spread").reshape(7, 90)
    same(tcu.fcumsum(x, axis=1), np.stack([tcu.fcumsum(row) for row in x]))
    same(tcu.fcumsum(x, dim=0), np.stack([tcu.fcumsum(row) for row in x.T]).T)
    same(tcu.fcumsum(x), tcu.fcumsum(x.reshape(-1)))
    offsets, line = [0, 0, 1, 50, 400, 630], x.reshape(-1)
    found = tcu.segment_fcumsum(line, offsets, reverse=True)
    same(found, np.concatenate([tcu.fcumsum(line[a:b], reverse=True) for a, b in pairwise(offsets)]))
    place = x.copy()
    same(tcu.fcumsum(place, axis=1, dtype=dtype, out=place), tcu.fcumsum(x, axis=1, dtype=dtype))


def test_integers_and_options() -> None:
    assert tcu.fcumsum([2**53, 1, 1]).tolist() == [2**53, 2**53 + 1, 2**53 + 2]
    assert tcu.fcumsum(np.array([True, True, False])).tolist() == [1, 2, 2]
    seen: list[int] = []
    tcu.fcumsum(np.ones(10), progress=seen.append)
    assert sum(seen) == 10
    with pytest.raises(UnknownOptionError, match="fcumsum has no option 'unit'"):
        tcu.fcumsum(np.ones(3), unit="V100")


def test_states_are_exact() -> None:
    """What comes before a piece: three numbers where they suffice, limbs where not."""
    for integer in (
        0,
        1,
        -(3 << 900),
        (1 << 1200) + (1 << 500) + 1,
        (1 << 2097) - 1,
        -sum(1 << i for i in range(0, 2000, 70)),
    ):
        parts, in_limbs, limbs = exact_scans._state(Tally(integer))
        if in_limbs:
            value = (
                sum(int(limb) << 32 * i for i, limb in enumerate(limbs)) >> SCALE - exact_scan_kernels.LOWEST
            )
            assert (value, parts.any()) == (integer, False)
        else:
            assert exact_sum(parts) == Fraction(integer, 1 << -SCALE)
    assert exact_scans._state(Tally((1 << 1200) + 1))[1] is False


def test_ordinary_numbers_go_without_limbs() -> None:
    def slow(x: Any, dtype: str) -> int:
        n, target = x.size, np.dtype(dtype)
        count = exact_scan_kernels.scan_exactly(
            x, np.array([0, n]), False, False, dtype == "float64", np.array([52, 1023, 2047, -1]), np.zeros(3), False,
            np.zeros(exact_scan_kernels.LIMBS, np.int64), np.zeros(3, np.bool_), np.empty(n), np.empty(n, np.int64),
            np.zeros(n, np.bool_),
        )  # fmt: skip
        assert target
        return int(count)

    rng = np.random.default_rng(6)
    assert slow(rng.standard_normal(100_000), "float64") == 0
    assert slow(rng.standard_normal(100_000) * 2.0 ** rng.integers(-30, 30, 100_000), "float32") == 0
    assert slow(rng.standard_normal(1000) * 2.0 ** rng.integers(-900, 900, 1000), "float64") > 900


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("if up - first == 2 * second:", "if False:"),
        ("if rest != 0.0 and bits[to] & 1 == 0:", "if False:"),
        ("narrow = (f - (d - b)) + (u - b) == 0.0", "narrow = True"),
        ("limbs[at + 1] += sign *", "limbs[at + 1] -= sign *"),
    ],
)
def test_faults_are_seen(right: str, wrong: str) -> None:
    from pathlib import Path

    text = Path(str(exact_scan_kernels.__file__)).read_text(encoding="utf-8").replace("@jit\n", "")
    assert text.count(right) == 1
    names: dict[str, Any] = {}
    exec(text.replace(right, wrong), names)

    def prefix_sums(x: Any, fmt: str) -> Any:
        target = np.dtype(fmt)
        with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as change:
            change.setattr(exact_scans.compiled, "load", lambda name: type("Module", (), names))
            out = np.empty(x.size, target)
            exact_scans.scan_segments(x, np.array([0, x.size]), out, False, False)
        return out

    rng = np.random.default_rng(7)
    arrays = [halfway(rng, 150) for _ in range(4)]
    wide = rng.standard_normal(40) * 2.0 ** rng.integers(-300, 300, 40)
    arrays.append(np.concatenate([wide, -wide[::-1]]))
    arrays.append(np.array([1.0, 2.0**-60, 2.0**-120, 2.0**-180, -(2.0**-60), -1.0, 2.0**-400, -(2.0**-400)]))
    arrays.append(
        np.concatenate(
            [
                [1.0, 2.0**-80, -1.0, 2.0**-140, -(2.0**-80)],
                rng.standard_normal(40) * 2.0 ** rng.integers(-300, 300, 40),
            ]
        )
    )
    assert any(
        (prefix_sums(x, fmt) != tcu.fcumsum(x, dtype=fmt)).any()
        for x in arrays
        for fmt in ("float32", "float64")
    )


def test_tensors_with_gradients() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x = torch.randn(4, 9, dtype=torch.float64, requires_grad=True)
    same(tcu.fcumsum(x, dim=1).detach().numpy(), tcu.fcumsum(x.detach().numpy(), axis=1))
    for given in ({"axis": 0}, {"axis": 1, "reverse": True, "exclusive": True}, {}):
        assert torch.autograd.gradcheck(lambda a, g=given: tcu.fcumsum(a, **g), x, check_forward_ad=True)
    line = x.detach().reshape(-1).requires_grad_()
    assert torch.autograd.gradcheck(lambda a: tcu.segment_fcumsum(a, torch.tensor([0, 5, 5, 36])), line)


def test_dask_chunks_leave_no_trace() -> None:
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    x = draw(np.random.default_rng(8), 12 * 30, np.float32, "finite").reshape(12, 30)
    for chunks in ((12, 30), (5, 7)):
        lazy = da.from_array(x, chunks)
        for given in ({"axis": 0}, {"axis": 1, "reverse": True}, {"exclusive": True}):
            same(tcu.fcumsum(lazy, **given).compute(), tcu.fcumsum(x, **given))


def test_what_is_not_there_is_refused() -> None:
    from tcu.engines import load_cuda
    from tcu.ops import FCUMSUM, Call
    from tcu.ops.layout import Along

    with pytest.raises(
        ParameterError, match="fcumsum has no kernel for GPUs: pass an array in the host's memory"
    ):
        load_cuda().execute(Call(FCUMSUM, (np.ones(3),), Along(0), (False, False, None)))
