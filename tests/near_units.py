"""Black boxes that are a unit of the family but in one place: each is wrong there alone.

A box computes by one model and, where its condition holds, by another that differs in one parameter, or gives what no
member of the family gives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tcu.model.mma import multiply_accumulate
from tcu.units import (
    AlignedSum,
    ExactBlock,
    ExactInteger,
    FlushedTree,
    FusedChain,
    GroupedSum,
    Instruction,
    LateSum,
)

Array = np.ndarray[Any, Any]
Function = Callable[..., Array]


@dataclass(frozen=True)
class Box:
    name: str
    input: str
    output: str
    k: int
    function: Function
    scale: tuple[str, int] | None = None


HOPPER, AMPERE, VOLTA = (
    AlignedSum(16, 25, "RZ", -133),
    AlignedSum(8, 24, "RZ", -132),
    AlignedSum(4, 23, "RZ", -131),
)
HALF = AlignedSum(8, 24, "RNE", -20)
EXACT, TREE, LATE, LATE_PAIRS = (
    ExactBlock(4),
    FlushedTree(4),
    LateSum(8, 24, 31),
    LateSum(16, 24, 31, 2, True),
)
GROUPED = GroupedSum(64, 16, 35, -139)
THROUGH = AlignedSum(16, 13, "RZ", -133, through_binary16=True)


def model(
    rules: Any, a: Array, b: Array, c: Array, first: str, output: str,
    scale: tuple[str, int] | None = None, *scales: Array,
) -> Array:  # fmt: skip
    row = Instruction("mma", first, first, output, (16, 8, a.shape[1]), rules, (), *(scale or (None, 0)))
    return multiply_accumulate(a, b, c, row, scales=(scales[0], scales[1]) if scales else None)


def words(x: Array) -> Array:
    return x.view(np.dtype(f"u{x.itemsize}"))


def box(
    name: str, rules: Any, change: Callable[[Callable[..., Array], Array, Array, Array], Array],
    fmt: str = "binary16", output: str = "binary32", k: int = 16, scale: tuple[str, int] | None = None,
) -> Box:  # fmt: skip
    """``change`` is given the unit, whose parameters it may change, and the operands."""

    def function(a: Array, b: Array, c: Array, *scales: Array) -> Array:
        def unit(a: Array = a, b: Array = b, c: Array = c, **changes: Any) -> Array:
            return model(replace(rules, **changes), a, b, c, fmt, output, scale, *scales)

        with np.errstate(all="ignore"):
            return np.asarray(change(unit, a, b, c), c.dtype)

    function.__name__ = name.replace(" ", "_")
    return Box(name, fmt, output, k, function, scale)


def products(a: Array, b: Array) -> Array:
    return a.astype(np.float64)[:, None, :] * b.astype(np.float64).T[None]


def where(condition: Callable[[Array, Array, Array], Array], **changes: Any) -> Callable[..., Array]:
    """The unit with other parameters where the condition on (a, b, c) holds."""
    return lambda unit, a, b, c: np.where(condition(a, b, c), unit(**changes), unit())


def beyond(carry_bits: int, result: Callable[[Array], Array]) -> Callable[..., Array]:
    """What no carry bits are left for comes out as ``result`` makes of the right sum."""

    def change(unit: Callable[..., Array], a: Array, b: Array, c: Array) -> Array:
        right, wrapped = unit(), unit(carry_bits=carry_bits)
        return np.where(words(right) != words(wrapped), result(right), right)

    return change


def next_to(x: Array) -> Array:
    return (words(x) ^ 1).view(x.dtype)


def negative(a: Array, b: Array, c: Array) -> Array:
    return products(a, b).sum(axis=2) + c < 0


def zero_c(a: Array, b: Array, c: Array) -> Array:
    return c == 0


def minus_zero_c(a: Array, b: Array, c: Array) -> Array:
    return (c == 0) & np.signbit(c)


def all_positive(a: Array, b: Array, c: Array) -> Array:
    return (products(a, b) >= 0).all(axis=2) & (c >= 0)


def all_negative(a: Array, b: Array, c: Array) -> Array:
    return (products(a, b) <= 0).all(axis=2) & (c <= 0)


def first_is_used(a: Array, b: Array, c: Array) -> Array:
    return products(a, b)[..., 0] != 0


def negative_column(a: Array, b: Array, c: Array) -> Array:
    return np.broadcast_to(np.signbit(b[0])[None], c.shape)


def lone(place: int) -> Callable[[Array, Array, Array], Array]:
    """One product is larger than all others, and stands there."""

    def condition(a: Array, b: Array, c: Array) -> Array:
        size = np.abs(products(a, b))
        rest = np.delete(size, place, axis=2).max(axis=2)
        return size[..., place] > rest

    return condition


def edge(exponent: int) -> Callable[[Array, Array, Array], Array]:
    """A product just above this power of two."""

    def condition(a: Array, b: Array, c: Array) -> Array:
        size = np.abs(products(a, b))
        return ((size > 2.0**exponent) & (size < 2.0**exponent * 1.01)).any(axis=2)

    return condition


def off_at(condition: Callable[[Array, Array, Array], Array]) -> Callable[..., Array]:
    def change(unit: Callable[..., Array], a: Array, b: Array, c: Array) -> Array:
        right = unit()
        wrong = condition(a, b, c) & np.isfinite(right) & (right != 0)
        return np.where(wrong, next_to(right), right)

    return change


def minus_zero(condition: Callable[[Array, Array, Array], Array]) -> Callable[..., Array]:
    def change(unit: Callable[..., Array], a: Array, b: Array, c: Array) -> Array:
        right = unit()
        return np.where((right == 0) & condition(a, b, c), -np.zeros_like(right), right)

    return change


def any_minus_zero(a: Array, b: Array, c: Array) -> Array:
    return (np.signbit(products(a, b)) & (products(a, b) == 0)).any(axis=2)


def cancelled(a: Array, b: Array, c: Array) -> Array:
    return (products(a, b) != 0).any(axis=2)


def nan(result: Callable[[Array, Array, Array, Array], Array]) -> Callable[..., Array]:
    """Where a result is NaN, its word by a, b, c and the right word."""

    def change(unit: Callable[..., Array], a: Array, b: Array, c: Array) -> Array:
        right = unit()
        found = result(a, b, c, words(right)).astype(words(right).dtype)
        return np.where(np.isnan(right), found, words(right)).view(right.dtype)

    return change


def in_a(a: Array, b: Array, c: Array) -> Array:
    return np.broadcast_to(np.isnan(a.astype(np.float64)).any(axis=1)[:, None], c.shape)


def in_b(a: Array, b: Array, c: Array) -> Array:
    return np.broadcast_to(np.isnan(b.astype(np.float64)).any(axis=0)[None], c.shape)


def saturates(condition: Callable[[Array, Array, Array], Array]) -> Callable[..., Array]:
    return where(condition, saturate=True)


def words_of_16_bits(unit: Callable[..., Array], a: Array, b: Array, c: Array) -> Array:
    """Two neighbouring products are added up in 16 bits, which saturate."""
    single = a.astype(np.int64)[:, :, None] * b.astype(np.int64)[None]
    pairs = np.clip(single[:, 0::2] + single[:, 1::2], -(1 << 15), (1 << 15) - 1)
    return (pairs.sum(axis=1) + c + (1 << 31)) % (1 << 32) - (1 << 31)


def rows_without(*places: int) -> Callable[[Array, Array, Array], Array]:
    """The rows of A that are zero there, and nowhere else."""

    def condition(a: Array, b: Array, c: Array) -> Array:
        zero = np.isin(np.arange(a.shape[1]), places)
        return np.broadcast_to(((a == 0) == zero).all(axis=1)[:, None], c.shape)

    return condition


def columns_without(*places: int) -> Callable[[Array, Array, Array], Array]:
    """The columns of B, likewise."""
    of_rows = rows_without(*places)
    return lambda a, b, c: of_rows(b.T, a.T, c.T).T


def beyond_the_range(exponent: int) -> Callable[[Array, Array, Array], Array]:
    """A product is larger than this power of two."""
    return lambda a, b, c: np.abs(products(a, b)).max(axis=2) > 2.0**exponent


def one_for_zero(condition: Callable[[Array, Array, Array], Array]) -> Callable[..., Array]:
    return lambda unit, a, b, c: np.where((unit() == 0) & condition(a, b, c), 1, unit())


def finite_where(condition: Callable[[Array, Array, Array], Array], **changes: Any) -> Callable[..., Array]:
    """The unit with other parameters where the condition holds and the result is finite."""
    return lambda unit, a, b, c: np.where(np.isfinite(unit()) & condition(a, b, c), unit(**changes), unit())


QUIET = 0x7FC00000
HOLES = (
    # Carries
    *(
        box(f"{name} beyond {bits} carry bits, block {rules.block}", rules, beyond(bits, result))
        for rules, bits in ((HOPPER, 5), (HOPPER, 4), (AMPERE, 4), (VOLTA, 3))
        for name, result in (
            ("inf", lambda x: np.copysign(np.inf, x)), ("zero", np.zeros_like), ("a last bit less", next_to),
        )
    ),
    # Floors
    *(
        box(f"another floor, {floor}, where {name}", HALF, where(condition, exponent_floor=floor), output="binary16")
        for floor in (-21, -19)
        for name, condition in (("the sum is negative", negative), ("k = 0 is used", first_is_used), ("c is -0", minus_zero_c))
    ),
    box("no floor where the sum is negative", replace(AMPERE, block=4), where(negative, exponent_floor=None), "tf32", k=8),
    # Zeros
    box("-0 for c = -0", HOPPER, minus_zero(minus_zero_c)),
    box("-0 for any product that is -0", HOPPER, minus_zero(any_minus_zero)),
    box("-0 where terms cancel", HOPPER, minus_zero(cancelled)),
    box("+0 of zeros that are all -0 where b is negative", replace(HOPPER, signed_zeros=True),
        where(negative_column, signed_zeros=False)),
    # NaN
    box("another NaN where a has one", HOPPER, nan(lambda a, b, c, right: np.where(in_a(a, b, c), QUIET, right))),
    box("another NaN where a and b have one", HOPPER,
        nan(lambda a, b, c, right: np.where(in_a(a, b, c) & in_b(a, b, c), QUIET, right))),
    box("another NaN where c has one", HOPPER, nan(lambda a, b, c, right: np.where(np.isnan(c), QUIET, right))),
    box("c's NaN as it is, not quieted", HOPPER, nan(lambda a, b, c, right: np.where(np.isnan(c), words(c), right))),
    box("another NaN where an operation is invalid", HOPPER,
        nan(lambda a, b, c, right: np.where(in_a(a, b, c) | in_b(a, b, c) | np.isnan(c), right, QUIET | 1 << 31))),
    box("c's NaN before a's where b has none", replace(HOPPER, nan_rule="x86"),
        lambda unit, a, b, c: np.where(in_b(a, b, c), unit(), unit(nan_rule="c first"))),
    # Overflow
    *(
        box(f"saturates where {name}", replace(HOPPER, block=8), saturates(condition), "bfloat16", k=8)
        for name, condition in (("the sum is negative", negative), ("c is zero", zero_c), ("all is positive", all_positive))
    ),
    # Edges of binades
    *(
        box(f"a last bit off where a product is just above 2^{exponent}", HOPPER, off_at(edge(exponent)))
        for exponent in (-27, -20, -9, 0, 5, 13, 20, 29)
    ),
    # Orders that follow the data
    *(
        box(f"{name} where {when}", AMPERE, where(condition, **changes))
        for name, changes in (
            ("descending blocks", {"order": tuple(reversed(range(16)))}), ("blocks of 16", {"block": 16}),
            ("a late c", {"late_c": True}),
        )
        for when, condition in (("c is zero", zero_c), ("all is positive", all_positive), ("all is negative", all_negative))
        if (name, when) != ("a late c", "c is zero")
    ),
    # Positions
    *(
        box(f"a bit less where the largest product is k = {place}", HOPPER, where(lone(place), fraction_bits=24))
        for place in (0, 3, 7, 8, 11, 15)
    ),
    *(
        box(f"a last bit off where the largest product is k = {place}", AMPERE, off_at(lone(place)), "bfloat16")
        for place in (1, 14)
    ),
    # Zeros by place
    *(
        box(f"a last bit off where {name}", HOPPER, off_at(condition))
        for name, condition in (
            ("the first half of a row is zero, and no other number", rows_without(*range(8))),
            ("every other number of a row is zero", rows_without(*range(0, 16, 2))),
            ("two of four in a row are zero", rows_without(*(i for i in range(16) if i % 4 >= 2))),
            ("every other number of a column is zero", columns_without(*range(1, 16, 2))),
            ("one number of a column alone is not zero", columns_without(*(i for i in range(16) if i != 3))),
        )
    ),
    box("a bit less where the first quarter of a row is zero", HOPPER, where(rows_without(0, 1, 2, 3), fraction_bits=24)),
    # Products beyond the range that cancel
    *(
        box(f"a last bit off where products above 2^141 cancel, {fmt}", rules, off_at(beyond_the_range(141)), fmt, k=8)
        for fmt, rules in (("bfloat16", HOPPER), ("tf32", AMPERE))
    ),
    box("a bit less where products above 2^150 cancel", AMPERE, finite_where(beyond_the_range(150), fraction_bits=23), "bfloat16"),
    *(
        box(f"1 for 0 where products above 2^{exponent} cancel, {fmt}", HOPPER, one_for_zero(beyond_the_range(exponent)), fmt, k=8)
        for exponent, fmt in ((200, "bfloat16"), (250, "tf32"))
    ),
    # Chains
    box("a chain in two lanes where all is positive", FusedChain(), where(all_positive, lanes=2)),
    box("a chain with a late c where c is zero", FusedChain(), where(zero_c, late_c=True, order=(2, 0, 1, *range(3, 16)))),
    # Exact blocks
    box("an exact block of 2 where all is negative", EXACT, where(all_negative, block=2), k=8),
    box("an exact block with -0 for c = -0", EXACT, minus_zero(minus_zero_c), k=8),
    box("an exact block, a last bit off where the largest product is k = 3", EXACT, off_at(lone(3)), k=8),
    # Flushed trees
    box("a tree of 2 where c is zero", TREE, where(zero_c, group=2), "bfloat16", k=8),
    box("a tree with +0 for every zero", TREE, lambda unit, a, b, c: np.where(unit() == 0, 0, unit()), "bfloat16", k=8),
    box("a tree with another NaN where c has one", TREE,
        nan(lambda a, b, c, right: np.where(np.isnan(c), QUIET, right)), "bfloat16", k=8),
    # Late sums
    box("a bit less of the total where all is positive", LATE, where(all_positive, late_bits=30), k=8),
    box("a small c is dropped where the sum is negative", LATE, where(negative, drops_small_c=True), k=8),
    box("even and odd apart where the largest product is k = 7", LATE, where(lone(7), groups=2), k=8),
    box("a bit more where c is zero", LATE_PAIRS, where(zero_c, fraction_bits=25), "e5m2fnuz", k=32),
    # Scales
    box("groups of 8 where the sum is negative", GROUPED, where(negative, group=8), "e2m1", k=64, scale=("ue8m0", 32)),
    box("another floor where the sum is negative, with scales", GROUPED, where(negative, exponent_floor=-138), "e2m1", k=64, scale=("ue8m0", 32)),
    box("a bit less where b is negative", GROUPED, where(negative_column, fraction_bits=34), "e2m1", k=64,
        scale=("ue4m3", 16)),
    box("another NaN of scales where c is not negative", GROUPED,
        nan(lambda a, b, c, right: np.where(np.isnan(c) | (c < 0), right, QUIET)), "e2m1", k=64, scale=("ue8m0", 16)),
    box("blocks of 16 where all is positive, with scales", replace(HOPPER, block=32), where(all_positive, block=16), "e4m3",
        k=32, scale=("ue8m0", 32)),
    # Inputs that become binary16
    box("not through binary16 where the sum is negative", THROUGH, where(negative, through_binary16=False), "e4m3", k=32),
    # Integers
    box("no products of an even k where those of a row are zero", ExactInteger(),
        lambda unit, a, b, c: np.where(rows_without(*range(0, 32, 2))(a, b, c), c, unit()), "s8", "s32", 32),
    box("saturates upwards alone", ExactInteger(),
        lambda unit, a, b, c: np.where(unit(saturate=True) == 2**31 - 1, 2**31 - 1, unit()), "s8", "s32", 32),
    box("saturates where c is negative", ExactInteger(), where(lambda a, b, c: c < 0, saturate=True), "s8", "s32", 32),
    box("pairs in 16 bits", ExactInteger(), words_of_16_bits, "s8", "s32", 32),
)  # fmt: skip
