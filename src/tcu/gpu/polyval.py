"""The kernels of polynomials' values, by the plan of :mod:`tcu.plan.polyval`."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, KernelChoice, Recipe, X
from tcu.gpu.structs import constants, struct
from tcu.plan.polyval import BLOCK, COLUMNS, ROWS, chains, is_blocked

__all__ = ["MOST_POLYNOMIALS", "polyval_recipe"]

_THREADS = 128
_PER, _TILES = (4, 2, 1), (4, 2, 1)
"""Points of a thread, and tiles of 8 points of a warp, that kernels are compiled for; the more, the fewer loads of coefficients."""
_FEW, _MOST_PER = _THREADS - 16, 8
"""Coefficients, with the empty places at most one for each thread; of so many a thread has more points, where these fill the GPU."""
_RESIDENT = {2: 4, 1: 6}
"""Of tiles, blocks of threads whose registers a multiprocessor holds without spills."""
_CHUNK, _GROUP = 1024, 16
"""Coefficients that threads have at a time, and the most that they load together."""
MOST_POLYNOMIALS = 65535
"""Of a launch, the most rows of blocks that a grid has."""
CONSTANTS = constants(
    ROWS=ROWS, COLUMNS=COLUMNS, BLOCK=BLOCK, CHUNK=_CHUNK, THREADS=_THREADS,
)  # fmt: skip


Polyval = struct("Polyval", """
    const u64* a;
    const u64* x;
    u64* out;            // polynomials × points, contiguous
    i64 a_step, a_stride, x_step;  // from coefficient to coefficient, polynomial to polynomial, point to point
    i64 n, points;
""")  # fmt: skip


def polyval_recipe(
    n: int, polynomials: int, points: int, steps: tuple[int, int, int], work: Format, gpu: Gpu
) -> Recipe:  # fmt: skip
    """At most MOST_POLYNOMIALS of n coefficients at the points, none of these numbers 0; ``steps``: a_step, a_stride and x_step.

    What a call gives as x is the coefficients, and as what goes with it the points.
    """
    blocked = is_blocked(n, work.name)
    # Of a block of threads: a tile of eight for each warp, or one for each thread.
    points_at_least = _THREADS // 4 if blocked else _THREADS
    # As many points at once as leave nearly every multiprocessor something to do; by the unit, all of them.
    least = gpu.multiprocessors * 3 // (2 if blocked else 4)
    for each in _TILES if blocked else _PER:
        blocks = -(-points // (each * points_at_least))
        if blocks * polynomials >= least:
            break
    macros: dict[str, object] = {
        "NUMBER": "double" if work.name == "binary64" else "float", "STRIDED": int((steps[0], steps[2]) != (1, 1)),
    }  # fmt: skip
    if blocked:
        macros |= {
            "TILES": each,
            "RESIDENT": _resident(each, -(-blocks * polynomials // gpu.multiprocessors)),
        }
    else:
        shape = _shape(n, each, blocks * polynomials, work, gpu)
        blocks = -(-points // (shape["PER"] * points_at_least))
        macros |= {
            "CHAINS": chains(n, work.name), "LOOPS": int(_has_chunks(n)), "SEVERAL": int(polynomials > 1), **shape
        }  # fmt: skip
    problem = Polyval(0, 0, 0, *steps, n, points)
    return Recipe((
        KernelChoice("polyval", macros, blocks, _THREADS, problem, {"a": X, "x": OTHER, "out": OUT},
                     entry="blocked" if blocked else "horner", more=polynomials),
    ))  # fmt: skip


def _shape(n: int, per: int, blocks: int, work: Format, gpu: Gpu) -> dict[str, int]:
    """Of Horner's rule, where so many points a thread make so many blocks of threads.

    Measured on an H200 over lengths of 64 to 5,000 at 2^16 to 10^6 points.
    """
    is_wide, is_few, rounds = work.name == "binary64", n <= _FEW, blocks / gpu.multiprocessors
    if is_few and rounds >= 8:
        per = _MOST_PER
    if not is_wide and _has_chunks(n):
        # An FMA takes 1.3 to 1.4 clocks with the registers that NVRTC 13.0 chooses then, and 1.5 with those of the other shapes.
        return {"PER": per, "GROUP": 8 if rounds <= 2 else 2, "FILL": 4, "RESIDENT": 4}
    return {
        "PER": per,
        "GROUP": 4 if is_wide or rounds <= 2 else 2,
        "FILL": 1 if is_few and (per == _MOST_PER or not is_wide) else 4,
        "RESIDENT": 4 if is_wide and per >= 4 else 8,
    }


def _has_chunks(n: int) -> bool:
    """Whether threads may have to bring coefficients more than once."""
    return n > _CHUNK - _GROUP


def _resident(tiles: int, blocks: int) -> int:
    """Blocks of threads that a multiprocessor has at a time, of all that it gets.

    Of four tiles, three have an eighth more done in the same time than two, where they all are there; a last one alone has less.
    """
    if tiles != 4:
        return _RESIDENT[tiles]
    return min((3, 2), key=lambda each: -(-blocks // each) * each * (1 if each == 3 else 9 / 8))
