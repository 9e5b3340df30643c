"""Contract of paper 002's algorithms: the bits of the paper's own words, on every unit; the selector is one of them.

The reference reads the paper literally: matrices A of 16 columns, P·A and
V·Pᵀ by the slow definition, one dot product after another, and rational
additions beyond the warp.  The kernel compiles without a GPU and its loads
are where the plan wants them; with a GPU its bits are the model's.
"""

from __future__ import annotations

import json
import math
from fractions import Fraction
from importlib import import_module, resources
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import codes, same
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip
from hypothesis import given, settings
from hypothesis import strategies as st
from launches import ends_here, launch_variant
from numbers_of_all_kinds import KINDS, draw
from test_gpu_compile import nvrtc_or_skip
from test_gpu_rows import check as check_on_gpu
from test_gpu_sums import to_gpu

import tcu
from tcu.calibration.paper_002 import choose
from tcu.errors import DtypeError, ParameterError
from tcu.formats import Number, decode, encode, format_of, get_format
from tcu.gpu import Gpu, UnsupportedInstructionError, segmented
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.compiler import compile_cuda, task_of
from tcu.gpu.launch import KernelChoice, Launch
from tcu.gpu.sums import contiguous
from tcu.model.definition import dot
from tcu.plan import SEGMENTED, VARIANTS, MmaStep, Plan, make_plan, tile_order
from tcu.plan.segmented import ALGORITHMS, best_algorithm, choices
from tcu.units import CATALOGUE, find_instruction, get_unit, input_formats

RESULTS = Path(__file__).parents[1] / "benchmarks" / "results"
DTYPES = [np.float16, ml_dtypes.bfloat16]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
algorithms = pytest.mark.parametrize("algorithm", ALGORITHMS)
F16, H100 = get_format("binary16"), get_unit("H100")


def plan_of(n: int, variant: str, **options: Any) -> Plan:
    return make_plan(n, F16, H100, variant=variant, **options)


# The paper, read literally.


class Warp:
    """P·A and V·Pᵀ on a unit, with codes in and codes out."""

    def __init__(self, unit: str, dtype: Any, accumulator: str) -> None:
        self.input, self.accumulator = format_of(dtype).name, accumulator
        self.row = find_instruction(get_unit(unit), "mma", self.input, self.input, accumulator)
        self.one = encode(Number.of(1), self.input)

    def columns(self, tile: list[int], c: list[int]) -> list[int]:
        """The first row of P·A + C, where A holds 256 numbers in column major order."""
        ones = [self.one] * 16
        return [dot(ones, tile[16 * i : 16 * i + 16], c[i], self.row) for i in range(16)]

    def across(self, v: list[int], c: int) -> int:
        """The first element of V·Pᵀ + C; V is an operand, so it has the format of A."""
        v = [encode(decode(code, self.accumulator), self.input) for code in v]
        return dot(v, [self.one] * 16, c, self.row)

    def sum(self, algorithm: str, x: list[int]) -> int:
        """What one warp returns for a segment (in reduction-16, one of its 16 columns)."""
        if algorithm == "reduction-16":
            total = 0
            for at in range(0, len(x), 16):
                column = (x[at : at + 16] + [0] * 16)[:16]
                total = self.columns(column * 16, [total] * 16)[0]
            return total
        v, q = [0] * 16, 0
        for at in range(0, len(x), 256):
            tile = (x[at : at + 256] + [0] * 256)[:256]
            v = self.columns(tile, [0] * 16 if algorithm.endswith("inefficient") else v)
            if algorithm.endswith("inefficient"):
                q = self.across(v, q)
        return q if algorithm.endswith("inefficient") else self.across(v, 0)


LONGEST = {
    name: 256 if name == "reduction-256" else 16 * (16 if name == "reduction-16" else 256)
    for name in ALGORITHMS
}


def check(x: np.ndarray, algorithm: str, unit: str, accumulator: str = "binary32") -> None:
    """Segments that one warp takes, against the paper."""
    warp = Warp(unit, x.dtype, accumulator)
    names = {"binary32": "float32", "binary16": "float16"}
    with np.errstate(all="ignore"):
        result = tcu.sum(
            x, axis=-1, variant=algorithm, unit=unit, accumulator=names[accumulator], dtype=np.float64
        )
    for segment, found in zip(x, result, strict=True):
        paper = decode(warp.sum(algorithm, segment.view(np.uint16).tolist()), accumulator)
        expected = float(paper) + 0.0
        same = np.float64(found).tobytes() == np.float64(expected).tobytes()
        assert same or (math.isnan(found) and math.isnan(expected)), f"{found!r}, by the paper {expected!r}"


@pytest.mark.some(14)
@pytest.mark.slow(2)
@pytest.mark.parametrize(
    ("unit", "dtype"),
    [
        pytest.param(name, dtype, id=f"{name}-{np.dtype(dtype)}")
        for name, unit in CATALOGUE.items()
        for dtype in DTYPES
        if format_of(np.dtype(dtype)).name in input_formats(unit)
    ],
)
@algorithms
def test_a_warp_s_segment_has_the_bits_of_the_paper(algorithm: str, dtype: Any, unit: str) -> None:
    rng = np.random.default_rng([ALGORITHMS.index(algorithm), list(CATALOGUE).index(unit)])
    for n in (1, 16, 17, LONGEST[algorithm] // 3, min(LONGEST[algorithm], 1100)):
        for kind in ("normal", "scaled", "special"):
            x = draw(rng, 2 * n, dtype, kind).reshape(2, n)
            check(x, algorithm, unit)
            halves = any(row.output == "binary16" for row in CATALOGUE[unit].instructions)
            if dtype is np.float16 and kind == "normal" and halves:
                check(x, algorithm, unit, "binary16")


def test_columns_in_another_order_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    from tcu.model import execute, rows

    real = tile_order

    def row_major(step: MmaStep) -> Any:
        if step.dots == 1:
            return real(step)
        return real(MmaStep(step.shape, step.operand, step.accumulator, step.dots, step.chain, "columns"))

    x = draw(np.random.default_rng(0), 700, np.float16, "normal").reshape(1, 700)
    check(x, "reduction-256n", "H100")
    monkeypatch.setattr(execute, "tile_order", row_major)
    for cached in (execute._order_array, rows._live):
        cached.cache_clear()
    try:
        with pytest.raises(AssertionError, match="by the paper"):
            check(x, "reduction-256n", "H100")
    finally:
        for cached in (execute._order_array, rows._live):
            cached.cache_clear()


@pytest.mark.slow
@algorithms
def test_what_exceeds_a_warp_is_added_up_in_binary64(algorithm: str) -> None:
    """The sums of the pieces that warps take, which are multiples of one bit: binary64 adds them exactly."""
    rng = np.random.default_rng(3)
    for n, options in ((5000, {}), (40_000, {"block": 64}), (70_001, {"block": 32, "chain": 1})):
        if algorithm == "reduction-256":
            options.pop("chain", None)
        x = rng.standard_normal(n).astype(np.float16)
        total, info = tcu.sum(x, variant=algorithm, dtype=np.float64, return_info=True, **options)
        steps = [step for step in info.plan.parts[0].steps if isinstance(step, MmaStep)]
        piece = math.prod(step.chain for step in steps) * (16 if algorithm == "reduction-16" else 256)
        pieces = [x[at : at + piece] for at in range(0, n, piece)]
        sums = [tcu.sum(each, variant=algorithm, dtype=np.float64) for each in pieces]
        assert total == sum(map(Fraction, map(float, sums)))
        assert len(pieces) > 1


# Laws.


@st.composite
def integers(draw_: st.DrawFn) -> tuple[np.ndarray, str]:
    """Numbers of which every partial sum is a number of both formats, so that no order shows."""
    n = draw_(st.integers(0, 5000))
    seed = draw_(st.integers(0, 2**32 - 1))
    dtype = draw_(st.sampled_from(DTYPES))
    x = np.zeros(3 * n, dtype)
    where = np.random.default_rng(seed).integers(0, 3 * n, min(80, 3 * n))
    x[where] = np.random.default_rng(seed + 1).choice([-3, -1, 1, 3], where.size)
    return x.reshape(3, n), draw_(st.sampled_from(SEGMENTED))


@settings(max_examples=150)
@given(integers())
def test_integers_add_up_exactly(problem: tuple[np.ndarray, str]) -> None:
    x, variant = problem
    assert tcu.sum(x, axis=-1, variant=variant).tolist() == x.astype(np.float64).sum(axis=-1).tolist()


@settings(max_examples=100)
@given(st.integers(1, 3000), st.sampled_from(SEGMENTED), st.sampled_from(DTYPES), st.integers(0, 99))
def test_segments_know_nothing_of_each_other(n: int, variant: str, dtype: Any, seed: int) -> None:
    x = draw(np.random.default_rng(seed), 4 * n, dtype, "special" if seed % 3 == 0 else "normal").reshape(
        4, n
    )
    together = tcu.sum(x, axis=-1, variant=variant)
    apart = np.concatenate(
        [tcu.sum(x[:1], axis=-1, variant=variant), tcu.sum(x[1:], axis=-1, variant=variant)]
    )
    same(together, apart)


@algorithms
def test_numbers_twice_as_large_have_sums_twice_as_large(algorithm: str) -> None:
    x = np.random.default_rng(5).uniform(1, 2, (5, 3000)).astype(np.float16)
    assert np.array_equal(
        tcu.sum(2 * x, axis=1, variant=algorithm), 2 * tcu.sum(x, axis=1, variant=algorithm)
    )


@algorithms
def test_errors_stay_within_the_bound_that_is_proved(algorithm: str) -> None:
    rng = np.random.default_rng(6)
    for n in (16, 256, 5000, 300_000):
        x = rng.standard_normal(n).astype(np.float16)
        exact = math.fsum(x.tolist())
        bound = tcu.error_bound(x, variant=algorithm)
        assert abs(float(tcu.sum(x, variant=algorithm, dtype=np.float64)) - exact) <= bound < math.inf


def test_reduction_16_never_rounds_to_16_bits() -> None:
    x = np.full(256, 1 + 2.0**-10, np.float16)
    assert tcu.sum(x, variant="reduction-16") == 256 + 0.25
    x[:16] = 1
    x[0] = 1 + 2.0**-10  # the first column's sum is 16 + 2^-10, of which binary16 keeps 16
    assert tcu.sum(x, variant="reduction-16") == 256 + 241 * 2.0**-10
    assert tcu.sum(x, variant="reduction-256") == 256 + 240 * 2.0**-10


# Plans.


def test_three_algorithms_are_one_up_to_256_numbers() -> None:
    for n in range(1, 700):
        sixteen, one, many, double = (plan_of(n, name) for name in ALGORITHMS)
        assert (one.parts == many.parts == double.parts) == (n <= 256)
        assert sixteen.parts != one.parts
    x = np.random.default_rng(7).standard_normal((50, 4096)).astype(np.float16)
    three = [tcu.sum(x, axis=1, variant=name) for name in ALGORITHMS[1:]]
    assert len({result.tobytes() for result in three}) == 3, "beyond, their bits differ"


def test_counts_of_mmas() -> None:
    """16 segments of 16 in one MMA; two MMAs for 256; N + 1 and 2 N for 256 N numbers."""
    x = np.ones((32, 4096), np.float16)

    def mmas(n: int, algorithm: str) -> int:
        return int(tcu.sum(x[:, :n], axis=1, variant=algorithm, return_info=True)[1].mmas)

    assert mmas(16, "reduction-16") == 32 // 16
    assert mmas(64, "reduction-16") == 32 // 16 * 4
    assert mmas(4096, "reduction-16") == 32 * 16
    assert mmas(256, "reduction-256") == 32 * 2
    assert mmas(4096, "reduction-256") == 32 * 16 * 2
    assert mmas(4096, "reduction-256n") == 32 * 17
    assert mmas(4096, "reduction-256n-work-inefficient") == 32 * 32
    assert plan_of(16, "reduction-16").mmas == plan_of(16, "reduction-16").mmas_of(16) == 1
    assert plan_of(16, "reduction-16").mmas_of(17) == 2


def test_a_plan_prints_what_shares_an_mma() -> None:
    assert (
        "16 chained m16n16k16 MMAs binary16 → binary32, rows: 256 numbers → 1, 16 groups side by side"
        in str(plan_of(256, "reduction-16"))
    )


def test_a_block_never_waits_for_more_than_8192_others() -> None:
    for name in SEGMENTED:
        for n in (1 << 30, (1 << 33) + 1):
            for options in ({}, {"block": 32}):
                plan = plan_of(n, name, **options)
                first = plan.final[0]
                assert first.length * first.inner <= 8192 + plan.block


# The selector.


def test_the_selector_is_one_of_the_algorithms_at_every_length() -> None:
    for n in [*range(1, 600), 1000, 4096, 4097, 65537, 1 << 20, 1 << 30]:
        chosen = best_algorithm(n)
        assert chosen in ALGORITHMS
        for options in ({}, {"block": 64}, {"accumulator": "float16"}):
            selected, named = plan_of(n, "paper-002", **options), plan_of(n, chosen, **options)
            assert (selected.parts, selected.final, selected.result) == (
                named.parts,
                named.final,
                named.result,
            )
    x = draw(np.random.default_rng(8), 7 * 777, np.float16, "normal").reshape(7, 777)
    for n in (9, 100, 256, 257, 777):
        named = tcu.sum(x[:, :n], axis=1, variant=best_algorithm(n))
        same(tcu.sum(x[:, :n], axis=1, variant="paper-002"), named)


def test_the_choice_is_a_table_of_ascending_lengths_and_says_what_it_rests_on() -> None:
    lengths = [most for most, _ in choices()]
    assert lengths[-1] is None
    assert lengths[:-1] == sorted(set(lengths[:-1]))
    document = json.loads(resources.files("tcu.plan").joinpath("paper_002.json").read_text())
    figures = json.loads((RESULTS / "paper-002.json").read_text())
    assert document["source"] == f"{figures['command']} on {figures['machine']['gpu']}, {figures['date']}"
    seconds: dict[int, dict[str, float]] = {}
    for row in figures["figures"]["rows"]:
        seconds.setdefault(row["segment"], {})[row["who"]] = row["median"]
    for length, times in seconds.items():
        assert times[best_algorithm(length)] <= 1.02 * min(times[name] for name in ALGORITHMS), length
    for (most, name), (following, other) in zip(choices(), choices()[1:], strict=False):
        assert name != other
        assert best_algorithm(most) == name
        assert best_algorithm(most + 1) == other
        assert following is None or following > most


def test_the_table_is_chosen_from_the_stored_times_by_the_one_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``tcu tune --paper-002`` has the same rule; tests/test_tuning.py has its cases."""
    monkeypatch.syspath_prepend(str(RESULTS.parent))
    benchmark, table = import_module("paper_002_choose"), tmp_path / "table.json"
    monkeypatch.setattr(benchmark, "TABLE", table)
    assert benchmark.choose(RESULTS / "paper-002.json") == table
    assert table.read_text() == resources.files("tcu.plan").joinpath("paper_002.json").read_text()
    assert benchmark.chosen is choose


# Errors.


@pytest.mark.parametrize("variant", SEGMENTED)
def test_other_dtypes_are_told_what_to_do(variant: str) -> None:
    for dtype in ("float32", "float64"):
        words = rf"{variant} sums float16 and bfloat16, x has {dtype}: round it .* or choose single-pass"
        with pytest.raises(DtypeError, match=words):
            tcu.sum(np.ones((2, 3), dtype), axis=1, variant=variant)
        with pytest.raises(DtypeError, match=words):
            tcu.sum(np.ones(0, dtype), variant=variant)
    with pytest.raises(DtypeError, match="x has dtype complex128"):
        tcu.sum(np.ones(3, np.complex128), variant=variant)
    with pytest.raises(DtypeError, match="V100 has no MMA bfloat16"):
        tcu.sum(np.ones(3, ml_dtypes.bfloat16), variant=variant, unit="V100")
    with pytest.raises(DtypeError, match="has no MMA bfloat16 → binary16"):
        tcu.sum(np.ones(3, ml_dtypes.bfloat16), variant=variant, accumulator="float16")
    assert not VARIANTS[variant].takes(get_format("binary64"))


def test_reduction_256_has_no_chain() -> None:
    with pytest.raises(ParameterError, match="reduction-256 chains no MMAs for float16"):
        tcu.sum(np.ones(3, np.float16), variant="reduction-256", chain=2)
    assert tcu.sum(np.ones(3, np.float16), variant="reduction-256n", chain=2) == 3


# The kernel, without a GPU.

MNEMONIC = {
    "BINARY16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "BFLOAT16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
}


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], int, int, Any]]:
    """(macros, blocks, threads, problem) of launches, which end here instead of on a GPU."""
    done: list[tuple[dict[str, Any], int, int, Any]] = []

    def start(choice: KernelChoice, _: Any, stream: int) -> None:
        assert choice.source == "segmented"
        done.append((dict(choice.macros), choice.blocks, choice.threads, choice.problem))

    ends_here(monkeypatch, start)
    return done


def pretend(n: int, rows: int, variant: str, capability: tuple[int, int] = (9, 0), **options: Any) -> None:
    """Launch as on a GPU of that kind."""
    dtype, aligned = options.pop("dtype", "binary16"), options.pop("aligned", True)
    plan = make_plan(n, get_format(dtype), get_unit("A100"), variant=variant, **options)
    gpu, target = Gpu(0, "GPU", capability), get_format("binary32")
    every, layout = contiguous(0, rows * n), "ALIGNED" if aligned else "SHIFTED"
    recipe = segmented.segmented_recipe(plan, every, layout, rows, n, target, gpu, 1.0)
    Launch(recipe, gpu).start(4096, 4096, 8192, 0)


@pytest.mark.some(4)
@pytest.mark.parametrize("element", ["BINARY16", "BFLOAT16"])
@algorithms
def test_the_kernel_compiles_with_the_instruction_of_the_plan(recorded, algorithm: str, element: str) -> None:
    nvrtc_or_skip()
    for n in (16, 512, 1 << 20):
        pretend(n, 3, algorithm, (8, 0), dtype=element.lower(), aligned=n != 512)
    assert [macros["LONG"] for macros, *_ in recorded] == [0, 0, 1]
    for macros, *_ in recorded:
        ptx = compile_cuda(task_of("segmented.cu", macros, "sm_80")).ptx
        assert MNEMONIC[element] in ptx
        assert ".trans" not in ptx, "columns follow one another: nothing is transposed"
        assert ".local" not in ptx, "register arrays must stay in registers"


@pytest.mark.parametrize("capability", [(7, 5), (9, 0), (10, 0), (12, 0)])
def test_binary16_accumulators_on_every_architecture(recorded, capability: tuple[int, int]) -> None:
    nvrtc_or_skip()
    pretend(5000, 100, "reduction-256n-work-inefficient", capability, accumulator="float16", block=1024)
    pretend(16, 100, "reduction-16", capability, accumulator="float16")
    k = 8 if capability == (7, 5) else 16
    for macros, *_ in recorded:
        ptx = compile_cuda(task_of("segmented.cu", macros, "sm_{}{}".format(*capability))).ptx
        assert f"mma.sync.aligned.m16n8k{k}.row.col.f16.f16.f16.f16 " in ptx


def test_launches_follow_the_plan(recorded) -> None:
    for n, rows, variant, options, blocks in (
        (16, 1 << 20, "reduction-16", {}, (1 << 20) // (8 * 16 * 4)),  # 16 rows a warp, four times
        (64, 1000, "reduction-16", {}, 8),  # 128 rows a block
        (1000, 1000, "reduction-16", {}, 32),  # four pieces of 256: four rows a warp
        (4096, 10, "reduction-16", {}, 2),  # one row a warp
        (256, 1 << 20, "reduction-256", {}, (1 << 20) // 32),
        (1024, 100, "reduction-256", {}, 13),  # four warps for a row, two rows a block, four times
        (4096, 100, "reduction-256n", {}, 13),  # a row a warp
        (5000, 100, "reduction-256n", {}, 25),  # two warps for a row
        (5000, 100, "reduction-256n", {"block": 32}, 100),
        (32768, 100, "reduction-256n", {}, 100),
        (1 << 20, 3, "reduction-256n", {}, 3 * 32),
        (1 << 20, 3, "reduction-256", {}, 3 * 64),
    ):
        recorded.clear()
        pretend(n, rows, variant, **options)
        ((macros, grid, threads, problem),) = recorded
        assert (grid, threads) == (blocks, options.get("block", 256)), (n, rows, variant)
        assert (problem.rows, problem.length, problem.out, problem.x.data) == (rows, n, 8192, 4096)
        assert macros["AT_ONCE"] * macros["UNROLL"] == 4
        assert problem.slots == (1 << 20 if macros["LONG"] and problem.chunks > 1 else 0)
    pretend(0, 5, "reduction-16")
    assert recorded[-1][1] == 1


def test_one_array_of_any_layout(recorded) -> None:
    gpu, target = Gpu(0, "GPU", (9, 0)), get_format("binary32")
    for shape, strides, address, layout in (
        ((1000,), (1,), 4096, "ALIGNED"), ((1000,), (1,), 4098, "SHIFTED"), ((10, 100), (1, 10), 4096, "STRIDED"),
    ):  # fmt: skip
        recorded.clear()
        x = DeviceArray(address, shape, strides, np.dtype(np.float16), 0, None)
        launch_variant(plan_of(1000, "paper-002"), x, 8192, target, gpu, 0)
        ((macros, _, _, problem),) = recorded
        assert (macros["LAYOUT"], problem.rows, problem.x.data) == (layout, 1, address)


def test_older_gpus_are_told_what_to_do(recorded) -> None:
    with pytest.raises(UnsupportedInstructionError, match=r"need compute capability 8\.0, GPU has 7\.5"):
        pretend(100, 1, "reduction-16", (7, 5), dtype="bfloat16")
    pretend(100, 1, "reduction-16", (7, 5))
    assert len(recorded) == 1


# The maps of cuda/kernels/segmented.cu, written a second time.


def place_of(vector: int) -> int:
    return vector ^ (vector >> 3 & 1)


def lanes(at_once: int, sixteen: bool) -> list[tuple[int, int, int]]:
    """(link, vector, place) of every load of every lane."""
    found = []
    for i in range(at_once):
        for lane in range(32):
            if sixteen:
                column = 2 * at_once
                link, vector = lane % column // 2, 2 * (lane // column + i * (32 // column)) + lane % 2
            else:
                link, vector = i, lane
            found.append((link, vector, place_of(vector) ^ 8 // at_once * link))
    return found


@pytest.mark.parametrize("sixteen", [True, False])
@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_every_vector_is_loaded_once_and_becomes_its_operand(at_once: int, sixteen: bool) -> None:
    loads = lanes(at_once, sixteen)
    assert len({(link, vector) for link, vector, _ in loads}) == 32 * at_once
    shared = {(link, place): [8 * vector + i for i in range(8)] for link, vector, place in loads}
    order = tile_order(MmaStep((16, 16, 16), "binary16", "binary32", 16, 1, "rows"))
    for link in range(at_once):
        for matrix in range(4):
            lower, right = matrix % 2, matrix // 2
            for lane in range(32):
                row, column = lane // 4, 2 * (lane % 4)
                line = shared[link, place_of(2 * (row + 8 * lower) + right) ^ 8 // at_once * link]
                for half in range(2):
                    assert line[column + half] == order[column + half + 8 * right][row + 8 * lower]


@pytest.mark.parametrize("sixteen", [True, False])
@pytest.mark.parametrize("at_once", [1, 2, 4])
def test_vectors_meet_no_others_in_their_banks(at_once: int, sixteen: bool) -> None:
    loads = lanes(at_once, sixteen)
    for start in range(0, len(loads), 8):
        assert len({place % 8 for _, _, place in loads[start : start + 8]}) == 8, (
            "stored by a quarter of a warp"
        )
    for link in range(at_once):
        for lower in range(2):
            for right in range(2):
                rows = {
                    (place_of(2 * (row + 8 * lower) + right) ^ 8 // at_once * link) % 8 for row in range(8)
                }
                assert len(rows) == 8, "one matrix"


# With a GPU.


@pytest.fixture(scope="module")
def torch() -> Any:
    unit_or_skip(gpu_or_skip())
    return library_or_skip("torch")


@pytest.mark.gpu
@dtypes
@pytest.mark.parametrize("variant", SEGMENTED)
def test_a_gpu_returns_the_bits_of_the_model(torch: Any, variant: str, dtype: Any) -> None:
    rng = np.random.default_rng([SEGMENTED.index(variant), DTYPES.index(dtype)])
    lengths = [0, 1, 3, 15, 16, 17, 31, 32, 64, 100, 128, 255, 256, 257, 511, 512, 1000, 1024, 2048, 3000]
    lengths += [4095, 4096, 4097, 8192, 16384, 32768, 32769, 65536, 65537, 100_003, 1 << 20]
    for number, n in enumerate(lengths):
        for rows in (1, 67, 300) if n <= 1024 else (1, 5):
            options: dict[str, Any] = {}
            if (number + rows) % 7 == 1:  # seldom: each is another kernel to compile
                options["block"] = int(rng.choice([32, 96, 1024]))
            if (number + rows) % 4 == 1 and variant != "reduction-256":
                options["chain"] = int(rng.choice([1, 2, 3, 5, 8, 40]))
            if dtype is np.float16 and rng.random() < 0.2:
                options["accumulator"] = "float16"
            x = draw(rng, rows * n, dtype, str(rng.choice(list(KINDS)))).reshape(rows, n)
            tensor = to_gpu(torch, x, int(rng.integers(0, 9)) * (number % 2))
            check_on_gpu(x, tensor, axis=-1, variant=variant, **options)
            if rows == 1:
                check_on_gpu(x, tensor, variant=variant, dtype="float64", **options)


@pytest.mark.gpu
@pytest.mark.parametrize("variant", SEGMENTED)
def test_rows_with_gaps_other_axes_and_means(torch: Any, variant: str) -> None:
    rng = np.random.default_rng(SEGMENTED.index(variant))
    for _ in range(40):
        shape = tuple(int(extent) for extent in rng.integers(1, 40, 3))
        x = draw(rng, math.prod(shape), np.float16, "normal").reshape(shape)
        tensor = to_gpu(torch, x, int(rng.integers(3)))
        for axis in (-1, 0, 1, (1, 2), (0, 2)):
            check_on_gpu(x, tensor, axis=axis, variant=variant)
        check_on_gpu(x[:, :, : shape[2] // 2 + 1], tensor[:, :, : shape[2] // 2 + 1], axis=2, variant=variant)
        check_on_gpu(x[..., ::2], tensor[..., ::2], variant=variant)
        unit = gpu_or_skip().units[0].name
        mean = tcu.mean(x, axis=2, variant=variant, unit=unit)
        same(tcu.mean(tensor, axis=2, variant=variant), mean)


@pytest.mark.gpu
@pytest.mark.parametrize("variant", SEGMENTED)
def test_launches_follow_each_other_and_replay_in_a_graph(torch: Any, variant: str) -> None:
    x = torch.randn(6, 300_001, device="cuda", dtype=torch.float16)
    expected = codes(tcu.sum(x, axis=1, variant=variant))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = tcu.sum(x, axis=1, variant=variant)
    for _ in range(50):
        assert np.array_equal(codes(tcu.sum(x, axis=1, variant=variant)), expected)
        graph.replay()
        assert np.array_equal(codes(result), expected)
