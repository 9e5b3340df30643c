"""Contract of ``tcu.sum``: the plan's bits, rounded once to the dtype asked for, within the bound.

That the executor follows its plan is shown in test_plan.py.  Here: the bound
holds on every family of inputs, variant, unit and dtype; results do not
depend on threads, pieces, layout or memory mapping; border conditions; and
the statements of paper 000 on errors.
"""

from __future__ import annotations

import math
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rationals import exact_sum
from variants_and_dtypes import every_pair, takes

import tcu
from tcu.errors import DtypeError, ParameterError, UnknownNameError
from tcu.formats import format_of
from tcu.plan import OWN_VARIANTS, VARIANTS
from tcu.units import AlignedSum, FusedChain, Instruction, Unit

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
FAMILIES = {
    "uniform": lambda rng, n: rng.random(n),
    "normal": lambda rng, n: rng.standard_normal(n),
    "wide": lambda rng, n: rng.standard_normal(n) * 2.0 ** rng.integers(-14, 5, n),
    "tiny": lambda rng, n: rng.standard_normal(n) * 2.0**-20,
    "ones": lambda rng, n: np.ones(n),
    "alternating": lambda rng, n: np.where(np.arange(n) % 2, 1.0009765625, -1.0),
    "sorted": lambda rng, n: np.sort(rng.exponential(1.0, n)),
    "one large": lambda rng, n: np.r_[1024.0, rng.random(max(n - 1, 0)) * 2.0**-10][:n],
    "negative": lambda rng, n: -rng.random(n) * 8,
}


def check_bound(x: np.ndarray, **options: object) -> None:
    result = tcu.sum(x, **options)
    bound = tcu.error_bound(x, **options)
    if math.isinf(bound):
        return
    assert math.isfinite(float(result)), f"{options}: overflow within a finite bound {bound}"
    error = abs(Fraction(float(result)) - exact_sum(x))
    assert error <= Fraction(bound), f"{options}: error {float(error):.3e} above the bound {bound:.3e}"


@pytest.mark.some(90)
@pytest.mark.slow(10)
@pytest.mark.parametrize("family", FAMILIES)
@every_pair(DTYPES)
def test_the_bound_holds(dtype, variant: str, family: str) -> None:
    rng = np.random.default_rng(len(family))
    for unit in ("V100", "T4", "A100", "H100"):
        for n in (1, 2, 17, 256, 1025, 20_000):
            x = FAMILIES[family](rng, n).astype(dtype)
            try:
                check_bound(x, unit=unit, variant=variant)
            except DtypeError:
                assert unit in ("V100", "T4")


@given(
    st.lists(st.floats(-60000, 60000, width=16), max_size=700), st.sampled_from(DTYPES),
    st.sampled_from(list(VARIANTS)), st.sampled_from(["V100", "A100", "H100"]), st.integers(1, 6),
    st.sampled_from([None, "float16"]), st.sampled_from([*DTYPES, None]),
)  # fmt: skip
def test_the_bound_holds_on_anything(values, dtype, variant, unit, chain, accumulator, target) -> None:
    if not takes(variant, dtype):
        dtype = np.float16
    if dtype != np.float16 or variant in (*OWN_VARIANTS, "warp-shuffle"):
        accumulator = None
    options = {
        "unit": unit, "variant": variant, "dtype": target, "accumulator": accumulator,
        "chain": min(chain, VARIANTS[variant].longest_chain(format_of(dtype))),
    }  # fmt: skip
    try:
        check_bound(np.array(values).astype(dtype), **options)
    except DtypeError:
        assert unit == "V100"


def test_the_bound_is_of_use() -> None:
    """Within two orders of magnitude of the error, where errors have one sign."""
    x = np.random.default_rng(0).random(10**6).astype(np.float16)
    exact = tcu.fsum(x, dtype=np.float64)
    bound = tcu.error_bound(x)
    assert bound < 3 * 2.0**-24 * exact * 2
    assert tcu.error_bound(x, variant="warp-shuffle") < 1e-3 * exact


def test_a_bound_that_is_too_small_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).random(20_000).astype(np.float16)
    monkeypatch.setattr("tcu.surfaces.bounds.plan_error_bound", lambda *arguments: 1e-6)
    with pytest.raises(AssertionError, match="above the bound"):
        check_bound(x, variant="single-pass")


def test_bounds_of_special_arrays() -> None:
    assert tcu.error_bound(np.zeros(5, np.float16)) == 0
    assert tcu.error_bound(np.zeros(0, np.float32)) == 0
    assert math.isnan(tcu.error_bound(np.float16([1, np.inf])))
    assert math.isnan(tcu.error_bound(np.float32([np.nan])))
    assert tcu.error_bound(np.full(10**5, 1.0, np.float16), dtype=np.float16) == math.inf


@every_pair(DTYPES)
def test_border_lengths_of_exact_data(dtype, variant: str) -> None:
    """Small integers add up exactly whatever the order, so every length must give the exact sum."""
    for n in [0, 1, 2, 3, 15, 16, 17, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025, 1279, 4096, 4097, 5000]:
        if dtype == ml_dtypes.bfloat16 and variant in ("recurrence", "two-mma") and n > 512:
            continue  # partial results above 256 are no bfloat16 numbers
        x = (np.arange(n) % 2).astype(dtype)
        result = tcu.sum(x, variant=variant)
        assert result == n // 2, f"n = {n}"
        assert result.dtype == (np.float64 if dtype == np.float64 else np.float32)


@pytest.mark.parametrize("variant", VARIANTS)
def test_special_values(variant: str) -> None:
    def of(*values: float) -> float:
        return float(tcu.sum(np.array([*values, *[0.0] * 300], np.float16), variant=variant))

    assert of(math.inf, 1.0) == math.inf
    assert of(-math.inf, 1.0) == -math.inf
    assert math.isnan(of(math.inf, -math.inf))
    assert math.isnan(of(math.nan))
    zero = of(-0.0)
    assert zero == 0
    assert math.copysign(1, zero) == 1
    for dtype in DTYPES:
        if takes(variant, dtype):
            assert math.copysign(1, float(tcu.sum(np.full(64, -0.0, dtype), variant=variant))) == 1
    nan, info = tcu.sum(np.float16([math.nan]), variant=variant, return_info=True)
    assert info.bits == np.array([nan]).view(np.uint32)[0] == 0x7FFFFFFF


def test_uniform_data_overflow_the_recurrence_as_published() -> None:
    """Paper 000, 5.4: the recurrence keeps partial results in binary16, so uniform data overflow."""
    x = np.random.default_rng(1).random(300_000).astype(np.float16)
    for unit in ("V100", "H100"):
        assert tcu.sum(x, unit=unit, variant="recurrence") == math.inf
        assert math.isfinite(tcu.sum(x, unit=unit, variant="single-pass"))


@pytest.mark.parametrize("n", [10**4, 10**5, 10**6, 3 * 10**6])
def test_error_study_of_paper_000_in_small(n: int) -> None:
    """The full study, to n = 10^8, is `tcu report --study errors`; these are its claims where they are cheap."""
    rng = np.random.default_rng(n)
    for dist, x in (("normal", rng.standard_normal(n)), ("uniform", rng.random(n))):
        x = x.astype(np.float16)
        exact = float(tcu.fsum(x, dtype=np.float64))
        ulp = float(np.spacing(np.float32(abs(exact))))
        error = abs(float(tcu.sum(x, unit="H100")) - exact)
        assert error <= 4 * ulp
        single = abs(float(tcu.sum(x, unit="V100", variant="single-pass")) - exact)
        if dist == "uniform" and n >= 10**5:
            assert single < 1e-5 * exact
        assert single < 0.01 * abs(exact)


def test_default_is_far_better_than_single_pass_on_uniform_data() -> None:
    x = np.random.default_rng(5).random(4 * 10**6).astype(np.float16)
    exact = float(tcu.fsum(x, dtype=np.float64))
    ours = abs(float(tcu.sum(x, dtype=np.float64)) - exact)
    theirs = abs(float(tcu.sum(x, variant="single-pass", dtype=np.float64)) - exact)
    assert 10 * ours <= theirs


def test_chain_length_makes_truncation_drift() -> None:
    """RZ in the unit biases long chains of positive terms downwards, in proportion to R."""
    x = np.random.default_rng(2).random(2**20).astype(np.float16)
    exact = float(tcu.fsum(x, dtype=np.float64))
    drift = [
        exact - float(tcu.sum(x, variant="short-chain", chain=chain, dtype=np.float64))
        for chain in (1, 16, 256)
    ]
    assert 0 < 4 * drift[0] < drift[1]
    assert 4 * drift[1] < drift[2]


def test_layout_order_and_memory_mapping_do_not_matter(tmp_path) -> None:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((120, 250)).astype(np.float16)
    expected = tcu.sum(x)
    path = tmp_path / "x.npy"
    np.save(path, np.asfortranarray(x))
    wide = np.zeros((240, 750), np.float16)
    wide[::2, ::3] = x
    raw = np.zeros(x.nbytes + 1, np.uint8)
    raw[1:] = np.frombuffer(x.tobytes(), np.uint8)
    for other in (np.asfortranarray(x), x.astype(">f2"), np.load(path, mmap_mode="r"), wide[::2, ::3],
                  raw[1:].view(np.float16), x[::-1][::-1]):  # fmt: skip
        assert tcu.sum(other) == expected


@pytest.mark.parametrize("variant", VARIANTS)
def test_pieces_and_threads_do_not_matter(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(4).standard_normal(100_003).astype(np.float16)
    expected = tcu.sum(x, variant=variant)
    for piece, threads in ((1, "1"), (5000, "2"), (40_000, "3")):
        monkeypatch.setattr("tcu.model.execute._PIECE", piece)
        monkeypatch.setenv("TCU_NUM_THREADS", threads)
        assert tcu.sum(x, variant=variant) == expected


def test_rounded_to_the_dtype_asked_for() -> None:
    x = np.random.default_rng(6).random(5000).astype(np.float16)
    wide = tcu.sum(x, dtype=np.float64)
    for dtype in DTYPES:
        narrow = tcu.sum(x, dtype=dtype)
        assert narrow.dtype == dtype
        assert abs(float(narrow) - float(wide)) <= float(ml_dtypes.finfo(dtype).eps) * float(wide)


def test_info_tells_how_it_came_about() -> None:
    x = np.ones(10**5, np.float16)
    result, info = tcu.sum(x, unit="V100", variant="single-pass", chain=4, block=128, return_info=True)
    assert result == 10**5
    assert (info.unit, info.plan.variant, info.plan.chain, info.plan.block) == ("V100", "single-pass", 4, 128)
    assert info.mmas == info.plan.mmas == math.ceil(10**5 / 1024) * 5
    assert info.levels == 4
    assert info.modelled_time.speedup_two_mma == pytest.approx(6.4)
    assert info.bits == 0x47C35000


def test_progress_counts_every_element() -> None:
    done: list[int] = []
    tcu.sum(np.ones(3_000_000, np.float16), progress=done.append)
    assert sum(done) == 3_000_000
    assert len(done) > 1
    for call in (
        lambda: tcu.cumsum(np.ones(3), progress=5),
        lambda: tcu.ExactSum().add(np.ones(3), progress=5),
    ):
        with pytest.raises(
            ParameterError, match="progress=5: give a function that takes how many numbers are done"
        ):
            call()


def test_scalars_lists_and_nested_lists() -> None:
    assert tcu.sum(2.5) == 2.5
    assert tcu.sum([[1.0, 2.0], [3.0, 4.0]]) == 10.0


def test_unknown_unit() -> None:
    with pytest.raises(UnknownNameError, match=r"'A10'.*A100"):
        tcu.sum([1.0], unit="A10")


QUIRKS = [
    AlignedSum(16, 23, "RZ", exponent_floor=0),
    AlignedSum(16, 23, "RZ", flush_inputs=True),
    AlignedSum(16, 23, "RNE", flush_outputs=True),
    AlignedSum(16, 23, "RU", output_fraction_bits=5),
    AlignedSum(4, 12, "RD", -14, normalized_products=True),
    AlignedSum(8, 20, "RNE", late_c=True),
    FusedChain(),
    FusedChain(rounding="RZ", lanes=2, late_c=True, flush_inputs=True, flush_outputs=True, nan_rule="x86"),
    FusedChain(rounded_products=True, rounding="RO", group=2, flush_outputs=True, nan_rule="arm"),
]


@pytest.mark.slow(1)
@pytest.mark.parametrize("quirk", QUIRKS)
@pytest.mark.parametrize("scale", [2.0**-24, 2.0**-14, 1.0, 2.0**9])
def test_the_bound_holds_for_units_of_the_user_s_own(quirk: AlignedSum | FusedChain, scale: float) -> None:
    rows = [
        Instruction("mma", given, given, output, (16, 8, 16), quirk, ())
        for given in ("binary16", "bfloat16") for output in ("binary32", "binary16")
    ]  # fmt: skip
    unit = Unit("quirk", "-", "-", "-", tuple(rows))
    rng = np.random.default_rng(1)
    for dtype in (np.float16, ml_dtypes.bfloat16):
        for n in (1, 5, 300):
            x = (rng.integers(-9, 10, n) * scale).astype(dtype)
            for options in (
                {},
                {"variant": "single-pass"},
                {"variant": "single-pass", "accumulator": "float16"},
            ):
                check_bound(x, unit=unit, **options)


def test_names_of_formats_and_whole_numbers_of_numpy() -> None:
    x = np.ones(100, np.float16)
    assert tcu.sum(x, dtype="bf16").dtype == ml_dtypes.bfloat16
    assert tcu.fsum(x, dtype="f16").dtype == np.float16
    assert tcu.sum(x, variant="single-pass", accumulator="fp16", chain=np.int64(2), block=np.int32(64)) == 100


def test_out_that_cannot_be_written_to() -> None:
    out = np.empty((), np.float32)
    out.flags.writeable = False
    with pytest.raises(ParameterError, match="out is read-only"):
        tcu.sum(np.ones(3, np.float32), out=out)
