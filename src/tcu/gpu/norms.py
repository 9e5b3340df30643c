"""The kernel of rows over the root of their mean square, of rows of mean 0 and variance 1, and of rows of norm 1."""

from __future__ import annotations

import numpy as np

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, Recipe
from tcu.gpu.rows_in_registers import CLUSTERED, Rows, is_wide, kernel_of_rows
from tcu.gpu.structs import constants, struct
from tcu.plan.whole_sums import LIFTS, LIFTS64, SCALE, SCALE64, lift_of

__all__ = ["norms_recipe", "pitch_of"]

_FINISHES = {"unit": "UNIT", "standard": "STANDARD", "direction": "DIRECTION"}


Norms = struct("Norms", """
    const void* data;
    void* out;
    i64 rows, length;
    i64 stride, out_stride;         // from row to row, in elements
    double eps, eps_up, eps_down;   // as it is, and for rows that were multiplied by powers of two
    i64 up;                         // the exponent of that of small rows
    const void* beside;             // the weight's numbers, and `pitch` behind them the bias's, in the format of the work
    i64 pitch;
""")  # fmt: skip


def _lifts(scale: int, lifts: tuple[int, ...]) -> str:
    small, _, large, down, lowest = lifts
    return constants(SCALE=scale, SMALL=small, LARGE=large, DOWN=down, LOWEST=lowest)


NORM_LIFTS = f"#if WIDE\n{_lifts(SCALE64, LIFTS64)}#else\n{_lifts(SCALE, LIFTS)}#endif\n"
"""As in :mod:`tcu.plan.whole_sums`."""


def pitch_of(length: int) -> int:
    """From a weight to the bias behind it, in numbers: a multiple of 16 bytes."""
    return -(-length // 4) * 4


def norms_recipe(
    rows: Rows, out_stride: int, element: Format, target: Format, eps: float, finish: str, gpu: Gpu,
    weighted: tuple[bool, bool] = (False, False),
) -> Recipe:  # fmt: skip
    """What serves one row or several; ``finish`` is that of the operation.

    ``weighted``: whether there is a weight, and a bias, which a call gives as its other array, one ``pitch_of`` a row behind
    the other.
    """
    wide = is_wide(element, target)
    up, down = lift_of(eps, wide), (LIFTS64 if wide else LIFTS)[3]
    power = 1 if finish == "direction" else 2  # whether eps stands beside norms or beside squares
    with np.errstate(over="ignore"):
        of_lifted = [float(np.ldexp(eps, power * lift)) for lift in (0, up, down)]
    problem = Norms(
        0, 0, rows.count, rows.length, rows.stride, out_stride, *of_lifted, up, 0, pitch_of(rows.length)
    )
    return Recipe(
        (
            kernel_of_rows(
                "norms",
                rows,
                element,
                target,
                problem,
                gpu.compute_capability >= CLUSTERED,
                {"beside": OTHER} if any(weighted) else None,
                FINISH=_FINISHES[finish],
                WEIGHT=int(weighted[0]),
                BIAS=int(weighted[1]),
            ),
        )
    )
