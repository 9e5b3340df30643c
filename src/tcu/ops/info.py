"""How results came about."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcu.formats.format import Format
from tcu.plan import DEFAULT_SCAN, MmaScanPlan, ModelledTime, Plan, ScanPlan, modelled_time, scan_plan
from tcu.units import DEFAULT_UNIT, Unit, get_unit

__all__ = ["DotInfo", "ScanInfo", "SumInfo", "scan_info", "sum_info"]


@dataclass(frozen=True)
class SumInfo:
    """How a sum came about.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> result, info = tcu.sum(np.ones(1000, np.float16), variant="short-chain", return_info=True)
    >>> info.unit, info.mmas, hex(info.bits)
    ('H100', 4, '0x447a0000')
    """

    unit: str
    plan: Plan
    """With an axis, the plan of every single row, to which ``levels`` and ``modelled_time`` belong."""
    mmas: int
    """Warp-level MMA operations of all rows."""
    levels: int
    """Reducing steps one after another."""
    modelled_time: ModelledTime
    """The papers' formulas for this n and R, with m = 16."""
    bits: int | None
    """The result's bit pattern; with an axis, None on a GPU and where there is more than one number."""
    rows: int = 1
    """How many sums there are, each by ``plan``."""


@dataclass(frozen=True)
class DotInfo:
    """How a dot product or a norm came about.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> result, info = tcu.dot(np.ones(1000), np.ones(1000), return_info=True)
    >>> info.levels, hex(info.bits)
    (6, '0x408f400000000000')
    """

    plan: Plan
    levels: int
    """Reducing steps one after another."""
    bits: int | None
    """The result's bit pattern; None where there are several results, or none."""


@dataclass(frozen=True)
class ScanInfo:
    """How running sums came about.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> result, info = tcu.cumsum(np.ones(1000, np.float32), return_info=True)
    >>> info
    ScanInfo(plan=ScanPlan(n=1000, input='binary32', group=8, radices=(32, 16), version=1), rows=1, unit=None)
    """

    plan: ScanPlan | MmaScanPlan
    """Of every single row."""
    rows: int
    """How many scans there are, each by ``plan``."""
    unit: str | None = None
    """Whose MMAs they have; None: they have none."""

    @property
    def mmas(self) -> int:
        """Warp-level MMA operations of all rows."""
        return self.plan.mmas_of(self.rows) if isinstance(self.plan, MmaScanPlan) else 0


def sum_info(unit: Unit, plan: Plan, bits: int | None, rows: int = 1) -> SumInfo:
    time = modelled_time(plan.n, plan.chain or 1)
    return SumInfo(unit.name, plan, plan.mmas_of(rows), plan.levels, time, bits, rows)


def scan_info(
    shape: tuple[int, ...], axis: int | None, fmt: Format, unit: str | Unit | None = None, variant: str = DEFAULT_SCAN,
    chain: int | None = None, accumulator: str | None = None,
) -> ScanInfo:  # fmt: skip
    """Of the running sums along an axis of an array, or of all its elements (None).

    Raises UnknownNameError, ParameterError and DtypeError.
    """
    n = math.prod(shape) if axis is None else shape[axis]
    rows = 1 if axis is None else math.prod(length for i, length in enumerate(shape) if i != axis)
    chosen = get_unit(DEFAULT_UNIT if unit is None else unit)
    plan = scan_plan(n, fmt, chosen, variant=variant, chain=chain, accumulator=accumulator)
    return ScanInfo(plan, rows, chosen.name if isinstance(plan, MmaScanPlan) else None)
