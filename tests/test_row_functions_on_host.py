"""Contract: the kernels of softmax and its kin and of norms have the bits of the model, without a GPU.

They run on the host as their recipes say (cuda_on_host.py): every alignment and distance of rows, rows of a few lanes, of
a warp, of a block, and those that are read three times, formats of numbers and results in any pairing; numbers of every kind.
No byte outside the array's granules is read, none outside the result written, and an error in the kernel's text is seen.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_on_host import OUTSIDE
from test_kernels_on_host import BITS, HostGpu, Result, alike, complaint, placed
from test_norms import far_from_zero

import tcu
from tcu.formats import format_of
from tcu.gpu import rows_in_registers
from tcu.gpu.device import Gpu
from tcu.gpu.exponentials import exponentials_recipe, log_gradients_recipe
from tcu.gpu.launch import Launch
from tcu.gpu.norms import norms_recipe
from tcu.gpu.rows_in_registers import Rows
from tcu.ops import LAYER_NORM, LOG_SOFTMAX, LOGSUMEXP, NORMALIZE, RMS_NORM, SOFTMAX, Operation

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
LINES = [(1, 0, 0), (7, 2, 1), (64, 0, 0), (515, 0, 0), (1024, 8, 0), (4099, 1, 5), (8192, 0, 0)]
"""(length of a row, numbers between rows, numbers behind a multiple of 16 bytes)"""
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
operations = pytest.mark.parametrize(
    "operation", [SOFTMAX, LOG_SOFTMAX, LOGSUMEXP, RMS_NORM, LAYER_NORM, NORMALIZE], ids=str
)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


def of_rows(
    host: HostGpu, operation: Operation, x: Any, *, dtype: Any = None, gap: int = 0, shift: int = 0, out_shift: int = 0,
    eps: float | None = None, weight: Any = None, bias: Any = None,
) -> Any:  # fmt: skip
    """Of the rows of an array, ``gap`` numbers apart in memory."""
    count, length = x.shape
    line = np.pad(x, ((0, 0), (0, gap)), constant_values=np.nan).reshape(-1)
    place, host.readable = placed(line[: line.size - gap], shift)
    target = np.dtype(dtype or x.dtype)
    size = 1 if operation is LOGSUMEXP else length
    result = Result(count * size, target, out_shift)
    rows = Rows(count, length, length + gap, shift * x.itemsize % 16 == 0)
    formats = format_of(x.dtype), format_of(target)
    if operation.arithmetic == "norms":
        work = np.float64 if np.float64 in (x.dtype, target) else np.float32
        weighted = weight is not None, bias is not None
        recipe = norms_recipe(
            rows, size, *formats, operation.eps((eps, None), work), operation.finish, host.gpu, weighted
        )
        beside = [None if each is None else placed(each.astype(work), 0)[0] for each in (weight, bias)]
        other, room = (0 if each is None else each.ctypes.data for each in beside)
        if any(weighted):
            host.readable = (0, 0)  # more than one place
    else:
        recipe, other = exponentials_recipe(operation.finish, rows, size, *formats, host.gpu), 0
        room = 0
    Launch(recipe, host.gpu).start(place.ctypes.data, other, result.array.ctypes.data, 0, room)
    result.check()
    return result.array.copy()


def model(operation: Operation, x: Any, dtype: Any = None, **options: Any) -> Any:
    return getattr(tcu, operation.name)(x, -1, dtype=dtype or x.dtype, **options).reshape(-1)


def small_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows longer than a block of two warps keeps have up to four of these."""
    monkeypatch.setattr(rows_in_registers, "_MOST_WARPS_BESIDE", 2)
    monkeypatch.setattr(rows_in_registers, "_LEAST_WARPS", 2)
    monkeypatch.setattr(rows_in_registers, "_MOST_WARPS", 2)
    monkeypatch.setattr(Gpu, "most_of_cluster", 4)


def numbers(shape: tuple[int, int], dtype: Any, seed: int = 1) -> Any:
    """Ordinary rows, and such with what is not finite, with far smaller numbers, with equal ones."""
    x = 4 * np.random.default_rng(seed).standard_normal(shape)
    for row, (value, step) in enumerate(
        [(np.nan, 7), (np.inf, 5), (-np.inf, 3), (-np.inf, 1), (-90, 2), (-104.5, 3), (1, 1), (-np.nan, 100)]
    ):
        x[(row + 1) % shape[0], ::step] = value
    x[0] = np.sort(x[0])
    with np.errstate(all="ignore"):
        return x.astype(dtype)


@pytest.mark.some(5)
@pytest.mark.slow(2)
@pytest.mark.parametrize("operation", [RMS_NORM, LAYER_NORM], ids=str)
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("wide", [False, True])
def test_norms_times_gradients_are_those_of_two_steps(
    host: HostGpu, operation: Operation, dtype: Any, wide: bool
) -> None:
    """The norms in binary32 first, then each product, rounded."""
    for length, gap, shift in LINES:
        x = numbers((9, length), dtype, length)
        given = numbers((9, length), np.float32 if wide else dtype, length + 1)
        found = times_given(host, operation, x, given, gap, shift)
        with np.errstate(all="ignore"):
            wanted = model(operation, x, np.float32) * given.astype(np.float32).reshape(-1)
        wanted.view(np.uint32)[np.isnan(wanted)] = 0x7FFFFFFF  # as kernels store it
        assert alike(found, wanted), (length, gap, shift)


def times_given(host: HostGpu, operation: Operation, x: Any, given: Any, gap: int, shift: int) -> Any:
    count, length = x.shape
    (own, mine), (theirs, beside) = (
        (lines, Rows(count, length, length + each, at * array.itemsize % 16 == 0))
        for array, each, at in ((x, gap, shift), (given, 0, 0))
        for lines in (placed(np.pad(array, ((0, 0), (0, each))).reshape(-1), at)[0],)
    )
    host.readable = (0, 0)  # more than one place
    formats = format_of(x.dtype), format_of(np.dtype(np.float32))
    eps = operation.eps((None, None), np.float32)
    result = Result(count * length, np.dtype(np.float32), 0)
    recipe = norms_recipe(
        mine, length, *formats, eps, operation.finish, host.gpu, given=(beside, format_of(given.dtype))
    )
    Launch(recipe, host.gpu).start(own.ctypes.data, theirs.ctypes.data, result.array.ctypes.data, 0)
    result.check()
    return result.array.copy()


@pytest.mark.some(4)
@pytest.mark.slow(2)
@pytest.mark.parametrize("finish", ["log", "log_share"])
@pytest.mark.parametrize("dtype", DTYPES[:3], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("wide", [False, True])
def test_gradients_of_logarithms_are_those_of_the_softmax(
    host: HostGpu, finish: str, dtype: Any, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The softmax in binary32 first, then each product and each difference, rounded."""
    target = np.dtype(np.float32 if wide else dtype)
    for passes, (length, gap, shift) in itertools.product((False, True), LINES):
        if passes:
            monkeypatch.setattr(rows_in_registers, "_MOST_WARPS", 2)
            monkeypatch.setattr(Gpu, "most_of_cluster", 1)
        x = numbers((9, length), dtype, length)
        given = numbers((9, length), target, length + 1)
        factors = numbers((9, 1), np.float32, length + 2)
        found = gradients_of_logarithms(host, finish, x, given, factors, gap, shift)
        with np.errstate(all="ignore"):
            of_rows = model(SOFTMAX, x, np.float32).reshape(x.shape)
            if finish == "log":
                wanted = factors * np.where((x == -np.inf).all(1, keepdims=True), 0, of_rows)
            else:
                wanted = given.astype(np.float32) - of_rows * factors
            wanted = wanted.astype(target).reshape(-1)
        wanted.view(f"u{target.itemsize}")[np.isnan(wanted)] = (
            1 << 8 * target.itemsize - 1
        ) - 1  # as kernels store it
        assert alike(found, wanted), (length, gap, shift)


def gradients_of_logarithms(
    host: HostGpu, finish: str, x: Any, given: Any, factors: Any, gap: int, shift: int
) -> Any:
    count, length = x.shape
    (own, mine), (theirs, beside) = (
        (lines, Rows(count, length, length + each, at * array.itemsize % 16 == 0))
        for array, each, at in ((x, gap, shift), (given, 0, 0))
        for lines in (placed(np.pad(array, ((0, 0), (0, each))).reshape(-1), at)[0],)
    )
    line = placed(factors.reshape(-1), 0)[0]
    host.readable = (0, 0)  # more than one place
    result = Result(count * length, given.dtype, 0)
    recipe = log_gradients_recipe(
        finish, mine, format_of(x.dtype), format_of(given.dtype), host.gpu,
        (beside, format_of(given.dtype)) if finish == "log_share" else None,
    )  # fmt: skip
    Launch(recipe, host.gpu).start(
        own.ctypes.data, theirs.ctypes.data, result.array.ctypes.data, 0, line.ctypes.data
    )
    result.check()
    return result.array.copy()


@pytest.mark.some(7)
@pytest.mark.slow(1)
@operations
@dtypes
def test_rows_have_the_bits_of_the_model(host: HostGpu, operation: Operation, dtype: Any) -> None:
    for length, gap, shift in (
        (1, 0, 0),
        (3, 0, 0),
        (7, 2, 1),
        (8, 0, 0),
        (64, 0, 0),
        (130, 6, 3),
        (515, 0, 0),
        (1024, 8, 0),
    ):
        x = numbers((9, length), dtype, length)
        found = of_rows(host, operation, x, gap=gap, shift=shift)
        assert alike(found, model(operation, x)), (length, gap, shift)


@pytest.mark.some(6)
@pytest.mark.slow(1)
@pytest.mark.parametrize(
    ("operation", "lines"),
    [
        (RMS_NORM, ("weight",)),
        (LAYER_NORM, ("weight",)),
        (LAYER_NORM, ("weight", "bias")),
        (LAYER_NORM, ("bias",)),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, tuple) else str(each),
)
@dtypes
def test_weighted_rows_have_the_bits_of_the_model(
    host: HostGpu, operation: Operation, dtype: Any, lines: tuple[str, ...]
) -> None:
    for length, gap, shift in LINES:
        x, rng = numbers((9, length), dtype, length), np.random.default_rng(length)
        work = np.float64 if dtype == np.float64 else np.float32
        given = {each: rng.standard_normal(length).astype(work) for each in lines}
        found = of_rows(host, operation, x, gap=gap, shift=shift, **given)
        assert alike(found, model(operation, x, **given)), (length, gap, shift)


@pytest.mark.some(7)
@pytest.mark.slow(1)
@operations
@dtypes
def test_rows_of_a_block(host: HostGpu, operation: Operation, dtype: Any) -> None:
    for length, gap, shift in ((2048, 0, 0), (4099, 1, 5), (9000, 0, 0)):
        x = numbers((9, length), dtype, length)
        assert alike(of_rows(host, operation, x, gap=gap, shift=shift), model(operation, x)), length


@pytest.mark.some(7)
@pytest.mark.slow(1)
@operations
@dtypes
def test_rows_that_are_read_again(
    host: HostGpu, operation: Operation, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_in_registers, "_MOST_WARPS", 2)
    monkeypatch.setattr(Gpu, "most_of_cluster", 1)
    for length, shift in ((5000, 3), (6144, 0)):
        x = numbers((9, length), dtype, length)
        assert alike(of_rows(host, operation, x, shift=shift), model(operation, x)), length
        assert host.macros[-1]["PASSES"] == 1
    if dtype in (np.float16, ml_dtypes.bfloat16):  # as many again as codes
        x = numbers((5, 3000), dtype)
        assert alike(of_rows(host, operation, x, shift=3), model(operation, x))
        assert (host.macros[-1]["PASSES"], host.macros[-1]["CODES"]) == (0, 1)


@pytest.mark.some(6)
@pytest.mark.slow
@operations
@dtypes
def test_rows_of_a_cluster(
    host: HostGpu, operation: Operation, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_clusters(monkeypatch)
    most, narrow = 2048 if dtype != np.float64 else 1024, np.dtype(dtype).itemsize == 2  # of a block
    cases = [(most + 1, 0, 2), (2 * most, 0, 2), (2 * most + 8, 3, 3), (4 * most, 0, 4)]
    cases += [(5 * most + 3, 1, 3)] if narrow else []  # as codes a thread keeps twice as many
    for length, shift, blocks in cases:
        x = numbers((3, length), dtype, length)
        assert alike(of_rows(host, operation, x, shift=shift), model(operation, x)), length
        found = [host.macros[-1][name] for name in ("CLUSTER", "PASSES", "CODES")]
        assert found == [blocks, 0, length > 4 * most]
    x = numbers((2, (8 if narrow else 4) * most + 1), dtype)
    assert alike(of_rows(host, operation, x), model(operation, x))
    assert host.macros[-1]["PASSES"] == 1


@pytest.mark.some(10)
@pytest.mark.slow(1)
@operations
@dtypes
@pytest.mark.parametrize("target", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_results_of_every_format(host: HostGpu, operation: Operation, dtype: Any, target: Any) -> None:
    """Also those that begin between granules, and stores of less than one."""
    for length, shift, out_shift in ((24, 0, 0), (50, 1, 0), (64, 0, 1), (9, 1, 1)):
        x = numbers((5, length), dtype, length)
        found = of_rows(host, operation, x, dtype=target, shift=shift, out_shift=out_shift)
        assert alike(found, model(operation, x, target)), (length, shift, out_shift)


@pytest.mark.slow(1)
@pytest.mark.parametrize("operation", [RMS_NORM, LAYER_NORM, NORMALIZE], ids=str)
@pytest.mark.parametrize("dtype", [np.float32, np.float64], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_norms_of_small_and_large_numbers(
    host: HostGpu, operation: Operation, dtype: Any, eps: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are multiplied by powers of two before; kept, and read again."""
    rng = np.random.default_rng(3)
    for most in (32, 1):
        monkeypatch.setattr(rows_in_registers, "_MOST_WARPS", most)
        scales = np.array(
            [1, 1e-20, 1e-38, 1e-44, 1e30] if dtype == np.float32 else [1, 1e-160, 1e-320, 1e160, 1e300]
        )
        x = scales[:, None] * rng.standard_normal((5, 2000)) + scales[:, None] * [[0], [0], [1], [9], [100]]
        x = x.astype(dtype)
        found = of_rows(host, operation, x, eps=eps)
        assert alike(found, model(operation, x, eps=eps)), most


@pytest.mark.slow(1)
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16], ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("most", [32, 1])
def test_numbers_farther_from_the_mean_than_the_format_reaches(
    host: HostGpu, dtype: Any, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside rows that are not so far; kept, and read again."""
    monkeypatch.setattr(rows_in_registers, "_MOST_WARPS", most)
    for length in (3, 40, 2000):
        x = np.full((5, length), 3.3e38)
        x[:, -1] *= -1
        x[1] *= -1
        x[2:4] *= [[0.5], [1e-3]]
        x[4, ::2] = np.inf
        found = of_rows(host, LAYER_NORM, x.astype(dtype))
        assert alike(found, model(LAYER_NORM, x.astype(dtype))), length
        assert np.isfinite(found.reshape(5, length)[:4].astype(np.float32)).all()


@pytest.mark.some(4)
@pytest.mark.slow(1)
@pytest.mark.parametrize("kept_by", ["lanes", "block", "cluster", "nobody"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32], ids=lambda dtype: np.dtype(dtype).name)
def test_rows_far_from_zero(host: HostGpu, dtype: Any, kept_by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In binary64, whose deviations are units in the last place of the mean; of numbers of binary32 in binary64, too."""
    if kept_by in ("cluster", "nobody"):
        monkeypatch.setattr(rows_in_registers, "_MOST_WARPS_BESIDE", 2)
    if kept_by == "nobody":
        monkeypatch.setattr(Gpu, "most_of_cluster", 1)
        monkeypatch.setattr(rows_in_registers, "_MOST_WARPS", 2)
    n = {"lanes": 61, "block": 1000, "cluster": 2500, "nobody": 5003}[kept_by]
    with np.errstate(over="ignore"):
        x = np.stack([*far_from_zero(n).values(), *(np.full(n, value) for value in (0.1, 1.7e308))]).astype(
            dtype
        )
    for eps in (0.0, 1e-5):
        found = of_rows(host, LAYER_NORM, x, dtype=np.float64, shift=1, eps=eps)
        assert alike(found, model(LAYER_NORM, x, np.float64, eps=eps))
    assert (host.macros[-1]["PASSES"], host.macros[-1]["CLUSTER"] > 1) == (
        kept_by == "nobody",
        kept_by == "cluster",
    )


def test_a_row_of_nothing(host: HostGpu) -> None:
    assert alike(of_rows(host, LOGSUMEXP, np.empty((3, 0), np.float32)), np.full(3, -np.inf, np.float32))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong", "seen"),
    [
        ("p = __fmaf_rn(p, r, 0.1666652113199234f);", "p = __fmaf_rn(p, r, 0.16666667f);", BITS),
        ("__fmaf_rn(k, -1.4286068203094172e-06f, ", "__fmaf_rn(k, -1.4e-06f, ", BITS),
        ("static_cast<i64>(high) * (1 << 23) + low", "static_cast<i64>(high) * (1 << 23)", BITS),
        ("LOWEST_DIFFERENCE = -104.0f", "LOWEST_DIFFERENCE = -100.0f", BITS),
        ("place >= 0 && place < length", "place < length", BITS),
        ("place >= 0 && place < length", "place >= 0", BITS),
        ("if (row.has_number(offset + j)) place[j]", "if (offset + j < row.length) place[j]", BITS),
        ("PER_LOAD - high + low", "PER_LOAD - high", BITS),
        ("if (!usual) of_row", "if (false) of_row", BITS),
        ("if (row.has(i, row.offset(first, i))) v[i].words", "if (true) v[i].words", OUTSIDE),
        ("of_warps[threadIdx.x % WARP % WARPS]", "of_warps[0]", BITS),
        ("lane < WARPS ? of_warps", "lane < 1 ? of_warps", BITS),
    ],
)  # fmt: skip
def test_an_error_in_the_kernel_is_seen(host: HostGpu, right: str, wrong: str, seen: str) -> None:
    x = numbers((9, 1531), np.float32)

    def run() -> Any:
        return of_rows(host, SOFTMAX, x, shift=1)

    wanted = model(SOFTMAX, x)
    assert alike(run(), wanted)
    host.changes = {"exponentials": {right: wrong}}
    try:
        found = complaint(run, wanted)
    except AssertionError as outside:
        found = BITS if "outside the result" in str(outside) else ""
    assert found == seen


@pytest.mark.slow
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("own.largest<TURNED>(row, first)", "own.largest<OWN>(row, first)"),
        ("minus(minus(lifted(x), high), low)", "minus(lifted(x), high)"),
        ("exponent < SMALL && largest > 0", "false"),
        ("fabs(deviation.of(-ends.least)));", "fabs(deviation.of(ends.most)));"),
        ("is_large = ends.usual && exponent > LARGE", "is_large = false"),
        ("sum_of_row<1, CENTRED + 1>(own, row", "sum_of_row<0, CENTRED + 1>(own, row"),
        ("terms.take_off(beside, PER_LOAD - high + low);", ""),
        ("if (!usual) over", "if (false) over"),
    ],
)
def test_an_error_in_the_kernel_of_norms_is_seen(host: HostGpu, right: str, wrong: str) -> None:
    x = np.random.default_rng(4).standard_normal((9, 1531)).astype(np.float32) + np.float32(3)
    x[0, 5] = np.inf
    x[6, 3] = -1000
    x[8] *= np.float32(1e-30)
    x[7] = -np.abs(x[7]) - 10
    x[5] = np.where(x[5] > 3, np.float32(3.3e38), np.float32(-3.3e38))

    def run() -> Any:
        return of_rows(host, LAYER_NORM, x, shift=1, eps=0.0)

    wanted = model(LAYER_NORM, x, eps=0.0)
    assert alike(run(), wanted)
    host.changes = {"norms": {right: wrong}}
    assert complaint(run, wanted)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [
        {"sum.take_off(times(high, unit), p.length);": ""},
        {"words[i] -= count * one.words[i];": "words[0] -= count * one.words[0];"},
    ],
    ids=["none", "a word"],
)
def test_an_error_in_the_means_low_part_is_seen(host: HostGpu, change: dict[str, str]) -> None:
    x = np.stack(list(far_from_zero(500).values()))

    def run() -> Any:
        return of_rows(host, LAYER_NORM, x, eps=0.0)

    wanted = model(LAYER_NORM, x, eps=0.0)
    assert alike(run(), wanted)
    host.changes = {"norms": change}
    assert complaint(run, wanted)
