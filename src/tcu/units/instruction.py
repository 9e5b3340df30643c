"""Matrix instructions, their units, and what pins them: the rows of the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcu.errors import ParameterError
from tcu.formats.format import get_format
from tcu.units.arithmetic import (
    AlignedSum,
    Arithmetic,
    ExactBlock,
    ExactInteger,
    FlushedTree,
    FusedChain,
    GroupedSum,
    LateSum,
    sequence,
    whole,
)

__all__ = ["Evidence", "Instruction", "Standing", "Unit"]

_SMALL = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_NARROW = (("binary16", "bfloat16", "tf32", *_SMALL), ("binary32", "binary16"))
_SINGLE = (("binary16", "bfloat16", "tf32", *_SMALL, "e4m3fnuz", "e5m2fnuz"), ("binary32",))
_GROUPED = (("e2m1",), ("binary32",))
_DOUBLE = (("binary64",), ("binary64",))
_INTEGER = (("u8", "s8"), ("s32",))
"""Input and output formats that go together."""


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
    """One matrix instruction of a unit: D (m × n) = A (m × k) · B (k × n) + C.

    Examples
    --------
    >>> import tcu
    >>> row = tcu.units.get_unit("V100").instructions[0]
    >>> row.signature, row.shape, row.arithmetic.fraction_bits
    ('mma binary16 → binary32', (16, 8, 16), 23)
    """

    name: str
    """"mma" (wmma, mma.sync, v_mfma), "wgmma", "tcgen05", "mxf8f6f4" ...; of a processor the mnemonic, such as "tdpbf16ps"."""
    a: str
    b: str
    """Input formats."""
    output: str
    """Format of D, and of C unless ``addend`` is given."""
    shape: tuple[int, int, int]
    """(m, n, k): the largest k that one instruction takes."""
    arithmetic: Arithmetic
    evidence: tuple[Evidence, ...]
    scale: str | None = None
    """Format of the scales of A and B, of which each belongs to ``per_scale`` successive k; None: it takes none."""
    per_scale: int = 0
    addend: str | None = None
    """Format of C where it is not that of D: binary16 into binary32.  C has its own exponent: of a subnormal one -14."""

    @property
    def c(self) -> str:
        """Format of C."""
        return self.addend or self.output

    @property
    def standing(self) -> Standing:
        """By the strongest piece of evidence; a row without any is a user's."""
        kinds = {each.kind for each in self.evidence}
        return next((told for kind, told in _STANDING.items() if kind in kinds), "a user's")

    def __post_init__(self) -> None:
        for name in ("a", "b", "output"):
            object.__setattr__(self, name, get_format(getattr(self, name)).name)
        object.__setattr__(self, "shape", tuple(whole("shape", n) for n in sequence(self.shape)))
        if len(self.shape) != 3 or min(self.shape) < 1:
            raise ParameterError(f"shape={self.shape}: give (m, n, k), each at least 1")
        kinds = {
            AlignedSum: (_NARROW,), FusedChain: (_DOUBLE, _NARROW), ExactBlock: (_SINGLE,), FlushedTree: (_SINGLE,),
            LateSum: (_SINGLE,), GroupedSum: (_GROUPED,), ExactInteger: (_INTEGER,),
        }  # fmt: skip
        if type(self.arithmetic) not in kinds:
            names = ", ".join(kind.__name__ for kind in kinds)
            raise ParameterError(f"arithmetic={self.arithmetic!r}: give an instance of {names}")
        known = kinds[type(self.arithmetic)]
        if not any({self.a, self.b} <= {*inputs} and self.output in outputs for inputs, outputs in known):
            takes = ", or ".join(
                f"{', '.join(inputs)} and gives {' or '.join(outputs)}" for inputs, outputs in known
            )
            raise ParameterError(f"{type(self.arithmetic).__name__} takes {takes}, not {self.signature}")
        if getattr(self.arithmetic, "through_binary16", False) and not {self.a, self.b} <= {"e4m3", "e5m2"}:
            raise ParameterError(f"through_binary16 takes e4m3 and e5m2, not {self.signature}")
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
        order = getattr(self.arithmetic, "order", None)
        if order is not None and len(order) != self.k:
            raise ParameterError(f"order has {len(order)} entries: one instruction takes k = {self.k}")
        self._check_scale()
        if self.addend is not None:
            object.__setattr__(self, "addend", get_format(self.addend).name)
            row = self.arithmetic
            formats = self.a == self.b == self.addend == "binary16" and self.output == "binary32"
            if not (formats and isinstance(row, AlignedSum) and row.block >= self.k and _is_plain(row)):
                raise ParameterError(
                    f"addend={self.addend!r}: binary16 with inputs of binary16 into binary32, by an AlignedSum of one block "
                    "that has no more than block, fraction_bits, rounding and exponent_floor; leave it out where C has "
                    "the format of D"
                )

    def _check_scale(self) -> None:
        row = self.arithmetic
        if self.scale is None:
            if isinstance(row, GroupedSum):
                raise ParameterError("GroupedSum takes scales: give scale='ue8m0' or 'ue4m3', and per_scale")
            return
        object.__setattr__(self, "scale", get_format(self.scale).name)
        object.__setattr__(self, "per_scale", whole("per_scale", self.per_scale))
        takes = ("ue8m0", "ue4m3") if isinstance(row, GroupedSum) else ("ue8m0",)
        plain = _is_plain(row) and self.output == "binary32"
        if not (plain or isinstance(row, GroupedSum)):
            raise ParameterError(
                f"scale={self.scale!r}: a GroupedSum takes scales, or an AlignedSum into binary32 that has no more than "
                "block, fraction_bits, rounding and exponent_floor"
            )
        if self.scale not in takes:
            raise ParameterError(f"scale={self.scale!r}: {type(row).__name__} takes {' or '.join(takes)}")
        if self.per_scale < 1 or self.k % self.per_scale:
            raise ParameterError(f"per_scale={self.per_scale}: choose a divisor of k = {self.k}")
        if isinstance(row, GroupedSum) and self.per_scale % row.group:
            raise ParameterError(f"per_scale={self.per_scale}: choose a multiple of group={row.group}")

    @property
    def k(self) -> int:
        return self.shape[2]

    @property
    def signature(self) -> str:
        inputs = self.a if self.a == self.b else f"{self.a}·{self.b}"
        scales = f", {self.per_scale} to a scale of {self.scale}" if self.scale else ""
        addend = f", C in {self.addend}" if self.addend else ""
        return f"{self.name} {inputs} → {self.output}{scales}{addend}"


def _is_plain(row: Arithmetic) -> bool:
    """Whether a row is of aligned sums, with no more than their first four parameters."""
    return isinstance(row, AlignedSum) and row == AlignedSum(
        row.block, row.fraction_bits, row.rounding, row.exponent_floor
    )


@dataclass(frozen=True)
class Unit:
    """A matrix unit: a name and its instructions.

    Examples
    --------
    >>> import tcu
    >>> tcu.units.get_unit("H200").title, len(tcu.units.CATALOGUE)
    ('NVIDIA H200', 19)
    """

    name: str
    title: str
    """The product, as its maker calls it, who comes first."""
    architecture: str
    compute_capability: str
    instructions: tuple[Instruction, ...]

    @property
    def vendor(self) -> str:
        """The maker, or the two who have it."""
        words = self.title.split()
        return " ".join(words[:3] if words[1:2] == ["and"] else words[:1])
