"""The kinds of arithmetic of matrix units, as parameters.

A few kinds of arithmetic cover every instruction in the catalogue.  A user's
own unit is the same rows with other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Literal

from tcu.errors import ParameterError
from tcu.formats.array import whole_number
from tcu.formats.scalar import ROUNDINGS, Rounding

__all__ = [
    "AlignedSum", "Arithmetic", "ExactBlock", "ExactInteger", "FlushedTree", "FusedChain", "GroupedSum", "LateSum",
    "sequence", "whole",
]  # fmt: skip

MAX_BLOCK = 64
MAX_FRACTION_BITS = 42
MAX_CARRY_BITS = 8
NanRule = Literal["nvidia", "x86", "arm"]
NAN_RULES: tuple[NanRule, ...] = ("nvidia", "x86", "arm")
SumNanRule = NanRule | Literal["c first"]
SUM_NAN_RULES: tuple[SumNanRule, ...] = (*NAN_RULES, "c first")
"""Of aligned sums."""


def whole(name: str, value: object) -> int:
    """A parameter as a whole number.  Raises ParameterError."""
    number = whole_number(value)
    if number is None:
        raise ParameterError(f"{name}={value!r}: give a whole number")
    return number


def sequence(value: object) -> Sequence[object]:
    """A parameter as several.  Raises ParameterError."""
    if not isinstance(value, Sequence):
        raise ParameterError(f"{value!r} is no sequence of whole numbers")
    return value


def _check_rounding(value: str) -> None:
    if value not in ROUNDINGS:
        raise ParameterError(f"rounding={value!r}: choose one of {', '.join(ROUNDINGS)}")


def _check_nan_rule(value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ParameterError(f"nan_rule={value!r}: choose one of {', '.join(known)}")


def _permutation(value: object) -> tuple[int, ...]:
    order = tuple(whole("order", k) for k in sequence(value))
    if sorted(order) != list(range(len(order))):
        raise ParameterError(f"order={order}: give every k of the instruction exactly once")
    return order


class _Rules:
    """Shows the parameters that differ from their defaults."""

    def __repr__(self) -> str:
        named = [(field.name, getattr(self, field.name), field.default) for field in fields(self)]  # type: ignore[arg-type]
        shown = ", ".join(f"{name}={value!r}" for name, value, default in named if value != default)
        return f"{type(self).__name__}({shown})"


@dataclass(frozen=True, repr=False)
class AlignedSum(_Rules):
    """Products aligned to the largest exponent, truncated, added exactly, rounded once.

    The rules (paper 003 and the hardware vectors of H200 and other GPUs):

    1. Products are exact; a product's exponent is the sum of its factors'
       exponents, so its significand lies in [1, 4) (below 1 with subnormals).
    2. The common exponent is the largest among the non-zero products and the
       non-zero c, and at least ``exponent_floor``.
    3. Every term's magnitude is truncated to ``fraction_bits`` at that exponent.
    4. The terms are added exactly, with as many bits for carries as it takes unless ``carry_bits`` limits them.
    5. One rounding to the output format, kept to ``output_fraction_bits``.
       Overflow gives inf under every rounding (unless ``saturate``); a result
       of zero is +0 (unless ``signed_zeros``).
    6. NaN, inf·0 and inf-inf give the output format's NaN with all fraction bits set (or as ``nan_rule`` says).

    K is cut into blocks in the order ``order``; the result of one block is
    the c of the next.
    """

    block: int
    """Products that are aligned together, 1 to 64."""
    fraction_bits: int
    """F: bits kept below the common exponent, 1 to 42."""
    rounding: Rounding
    """Of the block's sum to the output format."""
    exponent_floor: int | None = None
    """The common exponent is at least this; None: no floor."""
    output_fraction_bits: int | None = None
    """Fraction bits that the rounding keeps, if fewer than the output format has."""
    order: tuple[int, ...] | None = None
    """Order in which the k of one instruction enter the blocks; None: ascending."""
    late_c: bool = False
    """c takes no part in the blocks; it is added last, by an IEEE addition to nearest."""
    normalized_products: bool = False
    """A product in [2, 4) counts with its own exponent, one higher than rule 1 says."""
    flush_inputs: bool = False
    """Subnormal inputs and c count as zero."""
    flush_outputs: bool = False
    """Subnormal results become zero."""
    carry_bits: int | None = None
    """Bits of the sum above that of the common exponent, 1 to 8: a sum of 2^(carry_bits + 1 + common exponent) or
    more, either way, wraps around as in two's complement.  None: no sum is too large."""
    signed_zeros: bool = False
    """Zero terms and results keep their signs: a sum of zeros that are all negative is -0, and so is a negative result
    that rounds or is flushed to zero."""
    nan_rule: SumNanRule = "nvidia"
    """Which NaN a result is.  "nvidia": rule 6.  "arm": the positive default NaN.  "x86": the first NaN among a and b
    of each product, in order, then c, quieted; the negative default NaN where an operation is invalid.  "c first":
    the same with c before the products."""
    saturate: bool = False
    """A finite sum that overflows becomes the largest number of its sign."""
    through_binary16: bool = False
    """E4M3 and E5M2 become binary16 before they are multiplied: a subnormal number of E4M3 is a normal one there, and
    counts with its own exponent.  (mma.sync on an H200 shows it where E4M3 meets E5M2; pairs of one format cannot.)"""

    def __post_init__(self) -> None:
        for name in ("block", "fraction_bits", "exponent_floor", "output_fraction_bits", "carry_bits"):
            value = getattr(self, name)
            if value is not None or name in ("block", "fraction_bits"):
                object.__setattr__(self, name, whole(name, value))
        if self.order is not None:
            object.__setattr__(self, "order", _permutation(self.order))
        if not 1 <= self.block <= MAX_BLOCK:
            raise ParameterError(f"block={self.block}: choose 1 to {MAX_BLOCK} products")
        if not 1 <= self.fraction_bits <= MAX_FRACTION_BITS:
            raise ParameterError(f"fraction_bits={self.fraction_bits}: choose 1 to {MAX_FRACTION_BITS}")
        _check_rounding(self.rounding)
        if self.output_fraction_bits is not None and not 1 <= self.output_fraction_bits <= 52:
            raise ParameterError(f"output_fraction_bits={self.output_fraction_bits}: choose 1 to 52, or None")
        if self.exponent_floor is not None and not -400 <= self.exponent_floor <= 0:
            raise ParameterError(f"exponent_floor={self.exponent_floor}: choose -400 to 0, or None")
        if self.carry_bits is not None and not 1 <= self.carry_bits <= MAX_CARRY_BITS:
            raise ParameterError(f"carry_bits={self.carry_bits}: choose 1 to {MAX_CARRY_BITS}, or None")
        _check_nan_rule(self.nan_rule, SUM_NAN_RULES)
        if self.through_binary16 and self.nan_rule != "nvidia":
            raise ParameterError(f"nan_rule={self.nan_rule!r}: with through_binary16 it is 'nvidia'")


MAX_LANES = 16


@dataclass(frozen=True, repr=False)
class FusedChain(_Rules):
    """One product after another joins a sum, and every sum is rounded: a chain of fused multiply-adds.

    IEEE 754 arithmetic, subnormals and signed zeros included, but overflow
    gives inf under every rounding.  The defaults are those of NVIDIA's
    binary64 units.
    """

    order: tuple[int, ...] | None = None
    """Order in which the k of one instruction are added; None: ascending."""
    rounded_products: bool = False
    """A product is rounded to the output format before it is added: not fused, two roundings."""
    rounding: Rounding = "RNE"
    """Of every operation to the output format."""
    group: int = 1
    """Products that join the sum together, 1 or 2: a pair is added up first, and rounded once."""
    lanes: int = 1
    """Sums side by side, 1 to 16: group i joins lane i modulo lanes; in the end lane 1 is added to lane 0, then lane 2, ..."""
    late_c: bool = False
    """Every lane starts from +0, and c is added last; else lane 0 starts from c."""
    flush_inputs: bool = False
    """Subnormal a and b count as zero of their sign."""
    flush_outputs: bool = False
    """Subnormal c counts as zero of its sign; so does a result that is below the smallest normal number when
    rounded as if exponents went on: tininess after rounding, as x86 detects it.  (VDPBF16PS on an AMD EPYC 9005:
    2^-126 - 3·2^-152 gives 0 and not 2^-126.)"""
    nan_rule: NanRule = "nvidia"
    """Which NaN a result is.  "nvidia": of binary64, quieted, the first NaN among b, the sum and a, where an
    invalid operation gives the negative default NaN (H200 vectors f64_k4, f64_k16); of narrower formats the one
    with all fraction bits set.  "x86": the first NaN operand of an operation, quieted, of a multiply-add in the order
    a, b, the sum; the negative default NaN where an operation is invalid.  "arm": the positive default NaN."""

    def __post_init__(self) -> None:
        if self.order is not None:
            object.__setattr__(self, "order", _permutation(self.order))
        for name, most in (("group", 2), ("lanes", MAX_LANES)):
            value = whole(name, getattr(self, name))
            object.__setattr__(self, name, value)
            if not 1 <= value <= most:
                raise ParameterError(f"{name}={value}: choose 1 to {most}")
        _check_rounding(self.rounding)
        _check_nan_rule(self.nan_rule, NAN_RULES)


@dataclass(frozen=True)
class ExactBlock:
    """c and the products of a block are added exactly, and rounded once, to nearest (AMD CDNA1).

    inf and NaN as IEEE 754 has them; a sum of exactly zero is +0.  The result
    of one block is the c of the next.
    """

    block: int
    """Products that are added together, 1 to 64."""

    flush_inputs: ClassVar[bool] = False
    flush_outputs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_block(self)


@dataclass(frozen=True)
class FlushedTree:
    """Products of a group are added by a balanced tree, each operation in binary32 to nearest, subnormals flushed (AMD CDNA2).

    Subnormal a, b and c count as +0, and so does -0.  A product is rounded to
    binary32; it and every sum below the smallest normal number become zero and
    keep their sign.  The total of one group is added to c, which is the c of
    the next group.
    """

    group: int
    """Products of a tree: 2, 4, 8 ... 64."""

    flush_inputs: ClassVar[bool] = True
    flush_outputs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "group", whole("group", self.group))
        if self.group not in (2, 4, 8, 16, 32, 64):
            raise ParameterError(f"group={self.group}: choose 2, 4, 8, 16, 32 or 64 products")


@dataclass(frozen=True, repr=False)
class LateSum(_Rules):
    """The products of a block are aligned and cut among themselves; then their sum and c, toward -inf (AMD CDNA3).

    1. Products are exact, with exponents as in :class:`AlignedSum`; one of
       2^128 and more in magnitude counts as inf.  inf and NaN as IEEE 754 has them.
    2. Products whose index in the block is equal modulo ``groups`` are a group:
       their magnitudes are truncated to F = ``fraction_bits`` at their largest
       exponent, and added exactly.
    3. The groups' sums are cut toward -inf to F bits at the largest exponent E
       of all products, and added exactly.
    4. M is the larger of E and the exponent of c, which is at least emin, also
       of zero.  The sum is cut toward -inf to ``late_bits`` + 1 bits at M, c to
       F bits; c counts as zero where ``drops_small_c`` and its exponent is
       below M - F - 1.  They are added exactly.
    5. The total is cut toward -inf to ``late_bits`` at its own exponent (at
       least emin), and rounded to nearest.  A total of zero is +0.

    The result of one block is the c of the next.
    """

    block: int
    """Products that are aligned together, 1 to 64."""
    fraction_bits: int
    """F, 1 to 28."""
    late_bits: int
    """Bits kept of the total, F to 32."""
    groups: int = 1
    """Of a block: 1, or 2 for the even products and the odd ones."""
    drops_small_c: bool = False
    """Else a tiny negative c still takes one unit off the sum."""

    flush_inputs: ClassVar[bool] = False
    flush_outputs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_block(self)
        for name in ("fraction_bits", "late_bits", "groups"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if not 1 <= self.fraction_bits <= 28:
            raise ParameterError(f"fraction_bits={self.fraction_bits}: choose 1 to 28")
        if not self.fraction_bits <= self.late_bits <= 32:
            raise ParameterError(
                f"late_bits={self.late_bits}: choose fraction_bits={self.fraction_bits} to 32"
            )
        if self.groups not in (1, 2):
            raise ParameterError(f"groups={self.groups}: choose 1 or 2")


@dataclass(frozen=True)
class GroupedSum:
    """Products of a group are added exactly and scaled; the groups are aligned by their scales alone (NVIDIA mxf4, mxf4nvf4).

    1. The products of a group add up exactly.  A term is that sum times the
       significands of its two scales; its exponent is that of the scales, which
       is not normalized.
    2. The common exponent is the largest of the terms and of c, and at least
       ``exponent_floor``.  A group takes part unless all its products or one of
       its scales are zero; so does one whose products cancel.
    3. Every term's magnitude, and that of c, is truncated to ``fraction_bits``
       at that exponent; they are added exactly and rounded toward zero.
    4. A result of zero is +0.  A scale or a c of NaN gives NaN, with all fraction bits set.
    """

    block: int
    """Products that are aligned together, a multiple of the group, up to 64."""
    group: int
    """Products of a term, which share their scales."""
    fraction_bits: int
    """F, 1 to 36."""
    exponent_floor: int

    flush_inputs: ClassVar[bool] = False
    flush_outputs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        _set_block(self)
        for name in ("group", "fraction_bits", "exponent_floor"):
            object.__setattr__(self, name, whole(name, getattr(self, name)))
        if self.group < 1 or self.block % self.group:
            raise ParameterError(f"group={self.group}: choose a divisor of block={self.block}")
        if not 1 <= self.fraction_bits <= 36:
            raise ParameterError(f"fraction_bits={self.fraction_bits}: choose 1 to 36")
        if not -400 <= self.exponent_floor <= 0:
            raise ParameterError(f"exponent_floor={self.exponent_floor}: choose -400 to 0")


def _set_block(row: ExactBlock | LateSum | GroupedSum) -> None:
    object.__setattr__(row, "block", whole("block", row.block))
    if not 1 <= row.block <= MAX_BLOCK:
        raise ParameterError(f"block={row.block}: choose 1 to {MAX_BLOCK} products")


@dataclass(frozen=True)
class ExactInteger:
    """Integer products and sums, exact; the result wraps modulo 2^32 (PTX ISA, mma without .satfinite)."""

    saturate: bool = False
    """A sum beyond 32 bits becomes the largest number of its sign instead (.satfinite)."""


Arithmetic = AlignedSum | FusedChain | ExactBlock | FlushedTree | LateSum | GroupedSum | ExactInteger
