"""Contract: the kernel of softmax and its kin has the bits of the model, without a GPU.

It runs on the host as its recipe says (cuda_on_host.py): every alignment and distance of rows, rows of a few lanes, of
a warp, of a block, and those that are read three times, formats of numbers and results in any pairing; numbers of every kind.
No byte outside the array's granules is read, none outside the result written, and an error in the kernel's text is seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from cuda_on_host import OUTSIDE
from test_kernels_on_host import BITS, HostGpu, Result, alike, complaint, placed

import tcu
from tcu.formats import format_of
from tcu.gpu import exponentials
from tcu.gpu.exponentials import Rows, exponentials_recipe
from tcu.gpu.launch import Launch
from tcu.ops import LOG_SOFTMAX, LOGSUMEXP, SOFTMAX, Operation

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
operations = pytest.mark.parametrize("operation", [SOFTMAX, LOG_SOFTMAX, LOGSUMEXP], ids=str)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    return HostGpu(monkeypatch, built)


def of_rows(
    host: HostGpu, operation: Operation, x: Any, *, dtype: Any = None, gap: int = 0, shift: int = 0, out_shift: int = 0,
) -> Any:  # fmt: skip
    """Of the rows of an array, ``gap`` numbers apart in memory."""
    count, length = x.shape
    line = np.pad(x, ((0, 0), (0, gap)), constant_values=np.nan).reshape(-1)
    place, host.readable = placed(line[: line.size - gap], shift)
    target = np.dtype(dtype or x.dtype)
    size = 1 if operation is LOGSUMEXP else length
    result = Result(count * size, target, out_shift)
    aligned = shift * x.itemsize % 16 == 0 and (length + gap) * x.itemsize % 16 == 0
    rows = Rows(count, length, length + gap, aligned)
    recipe = exponentials_recipe(operation, rows, size, format_of(x.dtype), format_of(target))
    Launch(recipe, host.gpu).start(place.ctypes.data, 0, result.array.ctypes.data, 0)
    result.check()
    return result.array.copy()


def model(operation: Operation, x: Any, dtype: Any = None) -> Any:
    return getattr(tcu, operation.name)(x, -1, dtype=dtype or x.dtype).reshape(-1)


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


@pytest.mark.slow(3)
@operations
@dtypes
def test_rows_have_the_bits_of_the_model(host: HostGpu, operation: Operation, dtype: Any) -> None:
    for length, gap, shift in (
        (1, 0, 0),
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


@pytest.mark.slow(2)
@operations
@dtypes
def test_rows_of_a_block(host: HostGpu, operation: Operation, dtype: Any) -> None:
    for length, gap, shift in ((2048, 0, 0), (4099, 1, 5), (9000, 0, 0)):
        x = numbers((9, length), dtype, length)
        assert alike(of_rows(host, operation, x, gap=gap, shift=shift), model(operation, x)), length


@pytest.mark.slow(1)
@operations
@dtypes
def test_rows_that_are_read_again(
    host: HostGpu, operation: Operation, dtype: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exponentials, "_MOST_WARPS", 2)
    for length, shift in ((5000, 3), (6144, 0)):
        x = numbers((9, length), dtype, length)
        assert alike(of_rows(host, operation, x, shift=shift), model(operation, x)), length
        assert host.macros[-1]["PASSES"] == 1


@pytest.mark.slow(2)
@operations
@dtypes
@pytest.mark.parametrize("target", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
def test_results_of_every_format(host: HostGpu, operation: Operation, dtype: Any, target: Any) -> None:
    """Also those that begin between granules, and stores of less than one."""
    for length, shift, out_shift in ((24, 0, 0), (50, 1, 0), (64, 0, 1), (9, 1, 1)):
        x = numbers((5, length), dtype, length)
        found = of_rows(host, operation, x, dtype=target, shift=shift, out_shift=out_shift)
        assert alike(found, model(operation, x, target)), (length, shift, out_shift)


def test_a_row_of_nothing(host: HostGpu) -> None:
    assert alike(of_rows(host, LOGSUMEXP, np.empty((3, 0), np.float32)), np.full(3, -np.inf, np.float32))


@pytest.mark.slow(3)
@pytest.mark.parametrize(
    ("right", "wrong", "seen"),
    [
        ("p = __fmaf_rn(p, r, 0.1666652113199234f);", "p = __fmaf_rn(p, r, 0.16666667f);", BITS),
        ("__fmaf_rn(k, -1.4286068203094172e-06f, ", "__fmaf_rn(k, -1.4e-06f, ", BITS),
        ("parts[0] += __float2ll_rn(e);", "parts[0] += __float2ll_rn(e) >> 21 << 21;", BITS),
        ("LOWEST = -104.0f", "LOWEST = -100.0f", BITS),
        ("j >= low && j < high", "j < high", BITS),
        ("j >= low && j < high", "j >= low", BITS),
        ("if (offset + j >= 0 && offset + j < length)", "if (offset + j < length)", BITS),
        ("if (!usual) of_row", "if (false) of_row", BITS),
        ("if (offset < row.length) v[i].words", "if (true) v[i].words", OUTSIDE),
        ("of_warps[threadIdx.x % WARP % WARPS]", "of_warps[0]", BITS),
        ("i < WARPS * WORDS", "i < WORDS", BITS),
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
