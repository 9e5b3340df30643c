"""The plan of a matrix product: chains of MMAs over chunks of K, added up outside the unit.

It depends on K and the formats alone: not on M, N, the batch, tiles, the unit
or whoever executes it.  So a row of the product has the same bits alone as in
any batch.

1. Operands of binary32 become TF32: rounded to nearest, ties to even, as
   tensor-map copies and cuBLAS do, or cut.
2. K is cut into *chunks*, the last one shorter.  A chunk's product is one
   chain of the unit's MMAs from C = 0: its K cut into the instruction's k in
   order, the last piece padded with zeros.
3. The chunks' products are added in order, ((r0 + r1) + r2) + ..., in
   binary32, to nearest, outside the unit.
4. The sum is multiplied by the scale of its row, then by that of its column,
   and the bias of its column is added: each one rounding in binary32
   (binary64 where the accumulator is), after s32 has been rounded to it.
5. One rounding to the format of the result, to nearest, ties to even.

Every NaN that steps 3 to 5 make or hand on has all fraction bits set.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from tcu.errors import DtypeError, ParameterError
from tcu.formats.format import get_format
from tcu.plan import stored
from tcu.plan.version import VERSIONS, said

__all__ = ["MatmulPlan", "Order", "Rounding", "checked_matmul_plan", "make_matmul_plan"]

Order = Literal["chunks", "chain"]
Rounding = Literal["nearest", "cut"]

_CHUNKS = {"binary16": 256, "bfloat16": 256, "tf32": 128, "e4m3": 128, "e5m2": 128}
"""By operand; the others have one chain, for it is exact, or rounds to nearest in binary64."""
_MULTIPLE = 128
"""What a chain's length is rounded up to: a multiple of every instruction's k."""
_RESULTS = ("binary16", "bfloat16", "binary32", "binary64")
"""What a sum is rounded to, unless it is left in the accumulator's format."""


@dataclass(frozen=True)
class MatmulPlan:
    """The order of every MMA and every addition of a product of sums of k numbers."""

    k: int
    """K: the length of the sums."""
    inputs: tuple[str, str]
    """Names of the formats of a and b as given."""
    rounding: Rounding
    """Of operands of binary32 to TF32."""
    accumulator: str
    """Format of the unit's C and D: binary32, binary16, s32 or binary64."""
    chunk: int
    """Numbers of K in a chain of MMAs, a multiple of 128."""
    result: str
    """Format of the result."""
    version: int = VERSIONS["matmul"]
    """Of the order of additions (tcu.plan.version)."""

    @property
    def operands(self) -> tuple[str, str]:
        """The formats in which the MMA takes a and b."""
        first, second = ("tf32" if name == "binary32" else name for name in self.inputs)
        return first, second

    @property
    def operand(self) -> str:
        """The format in which the MMA takes a, and b but where u8 meets s8."""
        return self.operands[0]

    @property
    def chains(self) -> int:
        """Chains of MMAs for one number of the result."""
        return -(-self.k // self.chunk)

    @property
    def outside(self) -> str:
        """The format of additions and products outside the unit."""
        return "binary64" if self.accumulator == "binary64" else "binary32"

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, which :func:`tcu.load_plan` reads; raises DataFileError or ParameterError."""
        stored.write(self, path)

    def __str__(self) -> str:
        first, second = self.operands
        inputs = first if first == second else f"{first}·{second}"
        how = {"nearest": " (rounded to nearest)", "cut": " (cut)"}[self.rounding]
        lines = [
            f"sums of {self.k} products of {inputs}{how if 'tf32' in self.operands else ''}"
            f"{said(self.version)}"
        ]
        if self.chains == 1:
            lines.append(f"one chain of MMAs from zero, in {self.accumulator}")
        elif self.chains:
            lines.append(
                f"{self.chains} chains of MMAs from zero, {self.chunk} of K each, in {self.accumulator}"
            )
            lines.append(f"sequential {self.outside} additions of {self.chains} numbers")
        lines.append(f"rounded to {self.result}")
        return "\n".join(lines)


def make_matmul_plan(
    k: int,
    a: str,
    b: str,
    *,
    order: Order = "chunks",
    rounding: Rounding = "nearest",
    accumulator: str | None = None,
    result: str | None = None,
) -> MatmulPlan:
    """The plan for sums of k products of formats a and b; None: the widest accumulator, the accumulator's format.

    Raises ParameterError, DtypeError.
    """
    if isinstance(k, bool) or not hasattr(k, "__index__") or k < 0:  # a symbol of torch.compile has no value
        raise ParameterError(f"k={k!r}: a sum has a whole number of products")
    if order not in ("chunks", "chain"):
        raise ParameterError(
            f"order of additions {order!r}: choose 'chunks', or 'chain' for one chain of MMAs over all of K"
        )
    if rounding not in ("nearest", "cut"):
        raise ParameterError(f"rounding={rounding!r}: choose 'nearest' or 'cut', of float32 to TF32")
    inputs = get_format(a).name, get_format(b).name
    operand = "tf32" if inputs[0] == "binary32" else inputs[0]
    widest = {"u8": "s32", "s8": "s32", "binary64": "binary64"}.get(operand, "binary32")
    held = widest if accumulator is None else get_format(accumulator).name
    if held not in (widest, *(("binary16",) if operand in ("binary16", "e4m3", "e5m2") else ())):
        raise DtypeError(f"accumulator={accumulator!r}: products of {operand} are added up in {widest}")
    rounded = held if result is None else get_format(result).name
    if rounded not in (held, *_RESULTS):
        raise DtypeError(
            f"result={result!r}: sums in {held} are rounded to {', '.join(_RESULTS)}, or left in {held}"
        )
    chunk = _CHUNKS.get(operand) if order == "chunks" else None
    if chunk is None:
        chunk = max(-(-k // _MULTIPLE), 1) * _MULTIPLE
    return MatmulPlan(int(k) if isinstance(k, np.integer) else k, inputs, rounding, held, chunk, rounded)


def checked_matmul_plan(plan: MatmulPlan) -> MatmulPlan:
    """A plan from elsewhere, if it is one that this tcu multiplies by; raises ParameterError, DtypeError."""
    k, chunk, version = plan.k, plan.chunk, plan.version
    if version != VERSIONS["matmul"]:
        raise ParameterError(
            f"its order of additions is of version {version!r}, this tcu's of {VERSIONS['matmul']}"
        )
    if type(chunk) is not int or chunk < 1 or chunk % _MULTIPLE:
        raise ParameterError(f"chunk={chunk!r}: the numbers of a chain are a multiple of {_MULTIPLE}")
    made = make_matmul_plan(
        k, *plan.inputs, rounding=plan.rounding, accumulator=plan.accumulator, result=plan.result
    )
    if replace(made, chunk=chunk) != plan:
        raise ParameterError(
            f"formats go by the names {', '.join(made.inputs)}, {made.accumulator}, {made.result}"
        )
    return plan
