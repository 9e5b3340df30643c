"""The kernel of rows over the root of their mean square, of rows of mean 0 and variance 1, and of rows of norm 1."""

from __future__ import annotations

import numpy as np

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, ROOM, Recipe
from tcu.gpu.rows_in_registers import Rows, Straight, Tuned, gradients_macros, is_wide, kernel_of_rows
from tcu.gpu.structs import constants, struct
from tcu.plan.whole_sums import LIFTS, LIFTS64, SCALE, SCALE64, lift_of

__all__ = ["norms_recipe"]

_CONVERTED = 8192
"""Numbers of 16 bits of a row above which squares become whole numbers by conversions, of rows that are not centred: those of 8192
reach 3.91 TB/s without them and 3.84 with them, of 16,384 3.70 and 3.83 (H200)."""
_STRAIGHT: dict[tuple[str, int], Straight] = {
    ("standard", 16): "always",
    ("standard", 32): "where rows begin anywhere",
}
"""By the bits of a number, too."""
_FINISHES = {"unit": "UNIT", "standard": "STANDARD", "direction": "DIRECTION"}


Norms = struct("Norms", """
    const void* data;
    void* out;
    i64 rows, length;
    i64 stride, out_stride;         // from row to row, in elements
    double eps, eps_up, eps_down;   // as it is, and for rows that were multiplied by powers of two
    i64 up;                         // the exponent of that of small rows
    const void* weight;             // in the format of the work, from a multiple of 16 bytes on
    const void* bias;
    const void* given;              // gradients
    i64 given_stride;
""")  # fmt: skip


def _lifts(scale: int, lifts: tuple[int, ...]) -> str:
    small, _, large, down, lowest = lifts
    return constants(SCALE=scale, SMALL=small, LARGE=large, DOWN=down, LOWEST=lowest)


NORM_LIFTS = f"#if WIDE\n{_lifts(SCALE64, LIFTS64)}#else\n{_lifts(SCALE, LIFTS)}#endif\n"
"""As in :mod:`tcu.plan.whole_sums`."""


def norms_recipe(
    rows: Rows, out_stride: int, element: Format, target: Format, eps: float, finish: str, gpu: Gpu,
    weighted: tuple[bool, bool] = (False, False), given: tuple[Rows, Format] | None = None,
) -> Recipe:  # fmt: skip
    """What serves one row or several; ``finish`` is that of the operation.

    ``weighted``: whether there is a weight, a call's other array, and a bias, its room.
    ``given``: gradients, of binary32 or ``element``, by which the norms in binary32 are multiplied, a call's other array.
    """
    wide = is_wide(element, target)
    up, down = lift_of(eps, wide), (LIFTS64 if wide else LIFTS)[3]
    power = 1 if finish == "direction" else 2  # whether eps stands beside norms or beside squares
    with np.errstate(over="ignore"):
        least = np.nextafter(0, eps)  # in place of an underflow, as in tcu/model/norms.py
        of_lifted = [float(max(np.ldexp(eps, power * lift), least)) for lift in (0, up, down)]
    eps, eps_up, eps_down = of_lifted
    problem = Norms(
        rows=rows.count, length=rows.length, stride=rows.stride, out_stride=out_stride, eps=eps, eps_up=eps_up,
        eps_down=eps_down, up=up, given_stride=given[0].stride if given else 0,
    )  # fmt: skip
    return Recipe(
        (
            kernel_of_rows(
                "norms",
                rows,
                element,
                target,
                problem,
                gpu.most_of_cluster,
                {"weight": OTHER, "bias": ROOM} if any(weighted) else {"given": OTHER} if given else None,
                tuned=Tuned(
                    converted=element.bits == 16 and (finish == "standard" or rows.length > _CONVERTED),
                    straight=_STRAIGHT.get((finish, element.bits), "never"),
                ),
                FINISH=_FINISHES[finish],
                WEIGHT=int(weighted[0]),
                BIAS=int(weighted[1]),
                GIVEN=int(given is not None),
                **gradients_macros(given),
            ),
        )
    )
