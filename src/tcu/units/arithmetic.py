"""What a matrix unit computes, as parameters.

Three kinds of arithmetic cover every instruction in the catalogue.  A user's
own unit is the same rows with other numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from tcu.errors import ParameterError
from tcu.formats.array import whole_number
from tcu.formats.format import get_format
from tcu.formats.scalar import ROUNDINGS, Rounding

__all__ = ["AlignedSum", "Arithmetic", "Evidence", "ExactInteger", "FusedChain", "Instruction", "Unit"]

MAX_BLOCK = 64
MAX_FRACTION_BITS = 42
MAX_CARRY_BITS = 8
NanRule = Literal["nvidia", "x86", "arm"]
NAN_RULES: tuple[NanRule, ...] = ("nvidia", "x86", "arm")
SumNanRule = NanRule | Literal["c first"]
SUM_NAN_RULES: tuple[SumNanRule, ...] = (*NAN_RULES, "c first")
"""Of aligned sums."""


_NARROW = (("binary16", "bfloat16", "tf32", "e4m3", "e5m2"), ("binary32", "binary16"))
_DOUBLE = (("binary64",), ("binary64",))
_INTEGER = (("u8", "s8"), ("s32",))
"""Input and output formats that go together."""


def _whole(name: str, value: object) -> int:
    number = whole_number(value)
    if number is None:
        raise ParameterError(f"{name}={value!r}: give a whole number")
    return number


def _sequence(value: object) -> Sequence[object]:
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
    order = tuple(_whole("order", k) for k in _sequence(value))
    if sorted(order) != list(range(len(order))):
        raise ParameterError(f"order={order}: give every k of the instruction exactly once")
    return order


@dataclass(frozen=True)
class AlignedSum:
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

    def __post_init__(self) -> None:
        for name in ("block", "fraction_bits", "exponent_floor", "output_fraction_bits", "carry_bits"):
            value = getattr(self, name)
            if value is not None or name in ("block", "fraction_bits"):
                object.__setattr__(self, name, _whole(name, value))
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


MAX_LANES = 16


@dataclass(frozen=True)
class FusedChain:
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
            value = _whole(name, getattr(self, name))
            object.__setattr__(self, name, value)
            if not 1 <= value <= most:
                raise ParameterError(f"{name}={value}: choose 1 to {most}")
        _check_rounding(self.rounding)
        _check_nan_rule(self.nan_rule, NAN_RULES)


@dataclass(frozen=True)
class ExactInteger:
    """Integer products and sums, exact; the result wraps modulo 2^32 (PTX ISA, mma without .satfinite)."""

    saturate: bool = False
    """A sum beyond 32 bits becomes the largest number of its sign instead (.satfinite)."""


Arithmetic = AlignedSum | FusedChain | ExactInteger


@dataclass(frozen=True)
class Evidence:
    """What pins a row of the catalogue."""

    kind: Literal["hardware vectors", "paper", "published model", "specification", "user"]
    text: str


@dataclass(frozen=True)
class Instruction:
    """One matrix instruction of a unit: D (m × n) = A (m × k) · B (k × n) + C."""

    name: str
    """"mma" (wmma and mma.sync), "wgmma" or "tcgen05"."""
    a: str
    b: str
    """Input formats."""
    output: str
    """Format of C and D."""
    shape: tuple[int, int, int]
    """(m, n, k): the largest k that one instruction takes."""
    arithmetic: Arithmetic
    evidence: tuple[Evidence, ...]

    def __post_init__(self) -> None:
        for name in ("a", "b", "output"):
            object.__setattr__(self, name, get_format(getattr(self, name)).name)
        object.__setattr__(self, "shape", tuple(_whole("shape", n) for n in _sequence(self.shape)))
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ParameterError(f"shape={self.shape}: give (m, n, k), each at least 1")
        kinds = {AlignedSum: (_NARROW,), FusedChain: (_DOUBLE, _NARROW), ExactInteger: (_INTEGER,)}
        if type(self.arithmetic) not in kinds:
            raise ParameterError(
                f"arithmetic={self.arithmetic!r}: give an AlignedSum, a FusedChain or an ExactInteger"
            )
        known = kinds[type(self.arithmetic)]
        if not any({self.a, self.b} <= {*inputs} and self.output in outputs for inputs, outputs in known):
            takes = ", or ".join(
                f"{', '.join(inputs)} and gives {' or '.join(outputs)}" for inputs, outputs in known
            )
            raise ParameterError(f"{type(self.arithmetic).__name__} takes {takes}, not {self.signature}")
        if self.output == "binary64" and self.arithmetic != FusedChain():
            raise ParameterError(
                f"arithmetic={self.arithmetic!r}: in binary64 a FusedChain has no parameters; leave them out"
            )
        if isinstance(self.arithmetic, FusedChain) and self.k % (
            self.arithmetic.group * self.arithmetic.lanes
        ):
            raise ParameterError(
                f"shape={self.shape}: k must be a multiple of group · lanes = "
                f"{self.arithmetic.group * self.arithmetic.lanes}"
            )
        order = None if isinstance(self.arithmetic, ExactInteger) else self.arithmetic.order
        if order is not None and len(order) != self.k:
            raise ParameterError(f"order has {len(order)} entries: one instruction takes k = {self.k}")

    @property
    def k(self) -> int:
        return self.shape[2]

    @property
    def signature(self) -> str:
        inputs = self.a if self.a == self.b else f"{self.a}·{self.b}"
        return f"{self.name} {inputs} → {self.output}"


@dataclass(frozen=True)
class Unit:
    """A matrix unit: a name and its instructions."""

    name: str
    title: str
    """The product, as its maker calls it."""
    architecture: str
    compute_capability: str
    instructions: tuple[Instruction, ...]
