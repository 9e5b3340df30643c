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

__all__ = [
    "AlignedSum",
    "Arithmetic",
    "Evidence",
    "ExactInteger",
    "FusedChain",
    "Instruction",
    "Standing",
    "Unit",
]

MAX_BLOCK = 64
MAX_FRACTION_BITS = 42


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
    4. The terms are added exactly.
    5. One rounding to the output format, kept to ``output_fraction_bits``.
       Overflow gives inf under every rounding; a result of zero is +0.
    6. NaN, inf·0 and inf-inf give the output format's NaN with all fraction bits set.

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

    def __post_init__(self) -> None:
        for name in ("block", "fraction_bits", "exponent_floor", "output_fraction_bits"):
            value = getattr(self, name)
            if value is not None or name in ("block", "fraction_bits"):
                object.__setattr__(self, name, _whole(name, value))
        if self.order is not None:
            object.__setattr__(self, "order", _permutation(self.order))
        if not 1 <= self.block <= MAX_BLOCK:
            raise ParameterError(f"block={self.block}: choose 1 to {MAX_BLOCK} products")
        if not 1 <= self.fraction_bits <= MAX_FRACTION_BITS:
            raise ParameterError(f"fraction_bits={self.fraction_bits}: choose 1 to {MAX_FRACTION_BITS}")
        if self.rounding not in ROUNDINGS:
            raise ParameterError(f"rounding={self.rounding!r}: choose one of {', '.join(ROUNDINGS)}")
        if self.output_fraction_bits is not None and not 1 <= self.output_fraction_bits <= 52:
            raise ParameterError(f"output_fraction_bits={self.output_fraction_bits}: choose 1 to 52, or None")
        if self.exponent_floor is not None and not -400 <= self.exponent_floor <= 0:
            raise ParameterError(f"exponent_floor={self.exponent_floor}: choose -400 to 0, or None")


@dataclass(frozen=True)
class FusedChain:
    """One fused multiply-add after another, starting from c, each rounded to nearest.

    IEEE 754 arithmetic, subnormals and signed zeros included.  A NaN result
    of binary64 is, quieted, the first NaN among b, the accumulator and a; an
    invalid operation gives the negative default NaN (H200 vectors f64_k4,
    f64_k16).  Every NaN result of narrower formats has all fraction bits set.
    """

    order: tuple[int, ...] | None = None
    """Order in which the k of one instruction are added; None: ascending."""
    rounded_products: bool = False
    """A product is rounded to the output format before it is added, to nearest: not fused, two roundings."""

    def __post_init__(self) -> None:
        if self.order is not None:
            object.__setattr__(self, "order", _permutation(self.order))


@dataclass(frozen=True)
class ExactInteger:
    """Integer products and sums, exact; the result wraps modulo 2^32 (PTX ISA, mma without .satfinite)."""


Arithmetic = AlignedSum | FusedChain | ExactInteger


@dataclass(frozen=True)
class Evidence:
    """What pins a row of the catalogue."""

    kind: Literal["hardware vectors", "paper", "published model", "specification", "user"]
    text: str


Standing = Literal[
    "pinned by hardware outputs", "resting on a paper", "resting on a published model", "resting on a specification", "a user's"
]  # fmt: skip
"""How much a row of the catalogue has behind it."""
_STANDING: dict[str, Standing] = {
    "hardware vectors": "pinned by hardware outputs", "paper": "resting on a paper",
    "published model": "resting on a published model", "specification": "resting on a specification", "user": "a user's",
}  # fmt: skip
"""Kind of evidence → standing, the strongest first: a paper is itself about hardware, a published model is not always."""


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

    @property
    def standing(self) -> Standing:
        """By the strongest piece of evidence; a row without any is a user's."""
        kinds = {each.kind for each in self.evidence}
        return next((told for kind, told in _STANDING.items() if kind in kinds), "a user's")

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
                f"arithmetic={self.arithmetic!r}: in binary64 a FusedChain goes by ascending k and rounds no product; "
                "leave order and rounded_products out"
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
