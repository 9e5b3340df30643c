"""Contract: sums of numbers by index, by additions of integers to slots, are exact, whatever the numbers and the indices are.

The kernels run on the host as their recipe says (cuda_on_host.py).  Results are the host's exact sums and means, for numbers of
every exponent, cancelling, subnormal, inf and NaN; for few slots, more than a block's table has, all of one, and long runs;
with memory that is packed, strided and shifted.  What is out of range is told and counts nowhere.  An error in a kernel's text
is seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numbers_of_all_kinds import KINDS, draw
from test_kernels_on_host import HostGpu, Result, alike, placed

import tcu
from tcu.formats import format_of
from tcu.gpu import slot_sums
from tcu.gpu.launch import Launch
from tcu.gpu.slot_sums import SlotWords, slot_sums_recipe

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch, built: Path) -> HostGpu:
    found = HostGpu(monkeypatch, built)
    object.__setattr__(found.gpu, "l2", 50 << 20)
    return found


def sums(
    host: HostGpu, x: Any, index: Any, slots: int, *, dtype: Any = None, shift: int = 0, mean: bool = False,
    wrong: int = 0, bits: int | None = None,
) -> Any:  # fmt: skip
    """Of a line of numbers, which may be strided; ``bits`` of a word in place of what n numbers leave."""
    n, element, target = x.size, format_of(x.dtype), format_of(np.dtype(dtype or x.dtype))
    stride = x.strides[0] // x.itemsize
    place, host.readable = placed(
        np.lib.stride_tricks.as_strided(x, (stride * (n - 1) + 1,), (x.itemsize,)), shift
    )
    room = SlotWords.of(10**6, slots, element, mean, host.gpu)
    assert room is not None
    if bits is not None:
        room = SlotWords(bits, -(-(element.emax + 1 - element.quantum_exponent) // bits) + mean, 0)
    words = 4 + room.planes * slots + -(-slots // 2)
    memory = Result(8 * words, np.uint8)
    memory.array[:] = 0xEE  # whatever was there
    memory.array.view(np.int64)[: room.zeros] = 0
    places, _ = placed(index)
    packed = stride == 1 and shift == 0
    result = Result(slots, target.dtype)
    recipe = slot_sums_recipe(
        n, slots, index.dtype == np.int64, room, stride, packed, element, target, host.gpu, mean=mean
    )
    Launch(recipe, host.gpu).start(
        place.ctypes.data, places.ctypes.data, result.array.ctypes.data, 0, memory.array.ctypes.data
    )
    memory.check()
    result.check()
    assert int(memory.array.view(np.int64)[0]) == wrong
    return result.array.copy()


def wanted(x: Any, index: Any, slots: int, dtype: Any = None, *, mean: bool = False) -> Any:
    function = tcu.index_mean if mean else tcu.index_sum
    with np.errstate(all="ignore"):
        return function(x, index, slots, dtype=np.dtype(dtype or x.dtype).name)


def drawn(rng: Any, n: int, dtype: Any, kind: str) -> Any:
    """Without -inf, whose sum with inf the host refuses."""
    x = draw(rng, n, dtype, kind)
    with np.errstate(all="ignore"):
        x[np.isneginf(x.astype(float))] = 1
    return x


@pytest.mark.some(2)
@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("slots", [3, 3000])
def test_sums_and_means_are_those_of_the_host(host: HostGpu, dtype: Any, slots: int) -> None:
    rng = np.random.default_rng(slots)
    for case, kind in enumerate(KINDS):
        n = 4500 - case
        x = drawn(rng, n, dtype, kind)
        index = (rng.zipf(1.2, n) % slots - slots * rng.integers(0, 2, n)).astype(
            [np.int64, np.int32][case % 2]
        )
        target = [dtype, np.float64][case % 2]
        gap, shift = (1, 1, 2)[case % 3], (0, 1, 1)[case % 3]
        spaced = np.zeros(gap * n, x.dtype)[::gap]
        spaced[:] = x
        for mean in (False, True):
            found = sums(host, spaced, index, slots, dtype=target, shift=shift, mean=mean)
            assert alike(found, wanted(x, index, slots, target, mean=mean)), (kind, mean)


@pytest.mark.some(4)
@pytest.mark.slow(1)
@dtypes
def test_any_order_and_crowd_of_indices(host: HostGpu, dtype: Any) -> None:
    """Sorted, in runs, all of one slot, and each its own."""
    rng = np.random.default_rng(2)
    for kind in ("normal", "spread", "cancelling"):
        x = draw(rng, 4096 + 77, dtype, kind)
        for index in (
            np.sort(rng.integers(0, 900, x.size)),
            np.repeat(np.arange(7), 600)[: x.size],
            np.full(x.size, 3),
            rng.permutation(x.size),
        ):
            index = np.resize(index, x.size)
            slots = int(index.max()) + 2
            assert alike(sums(host, x, index, slots), wanted(x, index, slots)), kind


@pytest.mark.slow
@dtypes
def test_slots_in_parts(host: HostGpu, monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    monkeypatch.setattr(slot_sums, "_PART_BYTES", 8 * 1000)
    rng = np.random.default_rng(7)
    for kind in ("normal", "finite"):
        x = draw(rng, 4000, dtype, kind)
        for index in (
            rng.integers(0, 2999, x.size),
            np.sort(rng.integers(0, 2999, x.size)),
            np.full(x.size, 2998),
        ):
            index = np.resize(index, 20_000)
            y = np.resize(x, index.size)
            for mean in (False, True):
                assert alike(sums(host, y, index, 2999, mean=mean), wanted(y, index, 2999, mean=mean)), kind
        assert host.launches[-5:-1] == ["clear_words", *["add_to_slots"] * 3]


@pytest.mark.some(4)
@pytest.mark.slow
@dtypes
@pytest.mark.parametrize("bits", [32, 33, 37, 40])
def test_words_of_any_width(host: HostGpu, dtype: Any, bits: int) -> None:
    """Longer arrays leave fewer bits to a word."""
    rng = np.random.default_rng(bits)
    for kind in KINDS:
        x = drawn(rng, 700, dtype, kind)
        index = rng.integers(0, 60, x.size)
        for target in (dtype, np.float64):
            for mean in (False, True):
                found = sums(host, x, index, 60, dtype=target, bits=bits, mean=mean)
                assert alike(found, wanted(x, index, 60, target, mean=mean)), kind


def test_infinities_of_both_signs_are_no_number(host: HostGpu) -> None:
    x = np.array([np.inf, -np.inf, np.inf, np.nan, -np.inf, 1, 2, np.inf], np.float32)
    found = sums(host, x, np.array([0, 0, 1, 2, 3, 4, 1, 2]), 6)
    same = np.array([np.nan, np.inf, np.nan, -np.inf, 1, 0], np.float32)
    assert np.array_equal(found, same, equal_nan=True)
    assert found.view(np.uint32)[0] == 0x7FFFFFFF


def test_what_is_out_of_range_is_told_and_counts_nowhere(host: HostGpu) -> None:
    index = np.arange(1000) % 7
    index[[300, 301, 999]] = 7, -8, 1 << 40
    x = np.ones(1000, np.float32)
    assert sums(host, x, index, 7, wrong=700).sum() == 997


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("(before + low < low)", "0"),
        ("if (there != word) continue;", ""),
        ("pending.sum = warp::reduce_add(pending.sum);", ""),
        ("if (threadIdx.x % WARP) continue;", ""),
        ("static_cast<u32>(word * p.slots) + slot", "slot"),
        ("p.words[i] = 0;", ""),
        ("lower[i] = upper[i] = 0", ""),
        ("if (above & mask) add_lower(word - 1, with_sign(above & mask));", ""),
        ("unit - (first + 2) * bits", "unit - (first + 1) * bits"),
        ("rest += negative ? -word : word;", "rest += word;"),
        ("sticky |= digit != 0;", ";"),
        ("smallest = less < smallest ? less : smallest;", "smallest = less;"),
        ("largest = digits > largest ? digits : largest;", "largest = digits;"),
        ("slots[i] < from || ", ""),
        ("if (p.is_part && !in_parts && p.from) return;", ""),
        ("if (in_parts && is_any) numbers.read(p.numbers, first, p.n, p.stride);", ""),
    ],
)
def test_an_error_in_a_kernel_is_seen(
    host: HostGpu, monkeypatch: pytest.MonkeyPatch, text: str, error: str
) -> None:
    if "parts" in text or "from" in text:
        monkeypatch.setattr(slot_sums, "_PART_BYTES", 8 * 1100)
    rng = np.random.default_rng(5)
    cases = []
    for kind, index in (
        ("spread", rng.integers(0, 200, 5000)),
        ("cancelling", rng.integers(0, 3000, 5000)),
        ("normal", np.full(5000, 2500)),
    ):
        x = draw(rng, 5000, np.float32, kind)
        cases.append((x, index, wanted(x, index, 3000, np.float64)))
    # The largest and the smallest number alone; and what only the last digit tells apart from the middle of two results.
    x = np.ones(5000, np.float32)
    x[[1, 6, 9]] = 1e38, 2.0**-24, 1e-44
    index = np.arange(5000) % 3000
    index[9] = 6
    cases.append((x, index, wanted(x, index, 3000, np.float32)))
    for x, index, right in cases:
        assert alike(sums(host, x, index, 3000, dtype=right.dtype), right)
    host.changes = {"slot_sums.cu": {text: error}}

    def is_seen(x: Any, index: Any, right: Any) -> bool:
        try:
            return not alike(sums(host, x, index, 3000, dtype=right.dtype), right)
        except AssertionError:  # it wrote outside of its memory
            return True

    assert any(is_seen(*case) for case in cases)
