"""The kernels of variances and standard deviations, norms and dot products: of rows, or of ragged segments."""

from __future__ import annotations

from tcu.formats.format import Format, get_format
from tcu.gpu.device import Gpu
from tcu.gpu.launch import OTHER, OUT, SPACE, Given, KernelChoice, Recipe, Space, X
from tcu.gpu.structs import Struct, struct
from tcu.gpu.sums import ELEMENTS, LOAD, TARGETS
from tcu.plan import Plan
from tcu.plan.variants import LOADS, loads_of

__all__ = ["moments_recipe"]

_WARP, _WARPS_ALONE = 32, 4
_ENOUGH = 4096
"""Groups from which on a warp for each keeps a GPU busy."""
_SHORT = 2
"""Loads of a lane up to which a warp has a group to itself, however few there are."""
_MOST_TILES = 8
"""Warps of the plan that a warp takes on."""
_TURNS = 4
"""Groups of a few lanes that a warp has one after another, all of which it loads at once."""
_TURNS_OF_TILES = {2: {1: 8, 2: 4, 3: 2, 4: 2}, 1: {1: 4, 2: 2, 3: 2, 4: 2}, 0: {1: 4, 2: 2}}
"""The same of rows of so many tiles, by WHOLE of the kernel; one where nothing is said.  With more, registers go to memory."""
_LONGER = 2
"""A segment that shares a warp with others may be so many times as long as they are on average."""
_BLOCKS = 8
"""For each multiprocessor, before the chunks of a group have one block for several."""
_AHEAD = {8: 4, 4: 4, 2: 0}
"""Vectors of a lane for a tile up to which it asks for those of the next tile, too, by the numbers of each: of 4096 numbers of bfloat16 2.77
in place of 1.99 TB/s, of 8192 3.34 in place of 2.71, of 2048 of binary32 3.32 in place of 2.49, of binary64 4.22 in place of 4.35 (H200)."""
_THREADS: dict[str, dict[int, int]] = {
    "ahead": {8: 640, 4: 640}, "whole and longer": {8: 512, 4: 640, 2: 768}, "longer": {8: 640, 4: 640, 2: 768},
    "alone": {8: 768, 4: 1024, 2: 768}, "of blocks": {8: 1024, 4: 1024, 2: 1024}, "else": {8: 512, 4: 768, 2: 1024},
}  # fmt: skip
"""Of a multiprocessor at least, by the numbers of a load, for variances of rows and else: so that accumulators stay in registers.  Rows
have a warp each, which asks for up to 3 vectors ahead, goes on beyond its tiles, or does neither; or blocks.  Of copying's
rate 1000 numbers of binary32 reach 0.92 with 1024 threads and 0.81 with 768, 131,072 1.01 and 0.94 (H200)."""


Moments = struct("Moments", """
    const void* data;
    const void* other;   // with TERM PRODUCT, and as far from row to row
    const i64* offsets;  // of segments, with RAGGED
    void* out;
    u64* slots;          // two for each chunk, all MISSING
    i64 groups;
    i64 length;          // of a row; of segments, of all of them
    i64 stride;          // from row to row, in elements
    i64 most;            // numbers of a group that a warp has to itself; 0: all have blocks
    double correction;
    i64 root;
    i64 target;
""")  # fmt: skip


def moments_recipe(
    plan: Plan, groups: int, target: Format, gpu: Gpu, *, correction: float = 0.0, root: bool = False,
    stride: int | None = None, aligned: bool = False, term: str = "moments",
) -> Recipe:  # fmt: skip
    """The variance of each row of ``plan.n`` numbers, or its root; without a ``stride``, of segments of so many in all.

    ``stride``: from row to row in elements; ``aligned``: whether every row begins at a multiple of 16 bytes.  ``term``:
    "product" and "square" give dot products with a second array's rows and the squares' sums instead.
    """
    per_load, ragged = LOAD // get_format(plan.input).dtype.itemsize, stride is None
    turn, warps, per_warp = plan.block * per_load, plan.block // _WARP, _WARP * per_load
    least = LOADS * turn
    average = plan.n // max(groups, 1) if ragged else plan.n
    chunks = -(-plan.n // (loads_of(plan.n, turn) * turn))
    tiles = min(warps, max(1, -(-(least if ragged else plan.n) // per_warp)))
    alone = tiles <= _MOST_TILES and (
        average <= _SHORT * per_warp or (groups >= _ENOUGH and average <= least)
    )
    lanes = 1 << (max(1, -(-average * (_LONGER if ragged else 1) // per_load)) - 1).bit_length()
    lanes = min(lanes, _WARP)
    if lanes < _WARP:
        tiles = 1
    most = (least if lanes == _WARP else lanes * per_load) if alone else 0
    kernels: list[KernelChoice] = []
    space: Space | None = None
    takes: dict[str, Given] = {"data": X, "out": OUT}
    if ragged:
        takes["offsets"] = OTHER
    if term == "product":
        assert not ragged, "a launch takes one address besides x"
        takes["other"] = OTHER
    is_whole = aligned and plan.n % per_load == 0
    whole = is_whole + (is_whole and groups > 0 and plan.n == lanes * tiles * per_load)
    longer = ragged or plan.n > tiles * per_warp
    turns = _TURNS if lanes < _WARP else 1 if longer else _TURNS_OF_TILES[whole].get(tiles, 1)
    of_rows = not ragged and term == "moments"
    macros = {
        "ELEMENT": ELEMENTS[plan.input], "LAYOUT": "ALIGNED" if aligned else "SHIFTED", "PLAN_WARPS": warps,
        "TERM": term.upper(), "RAGGED": int(ragged),
    }  # fmt: skip

    def problem() -> Struct:
        return Moments(
            0, 0, 0, 0, 0, groups, plan.n, stride or 0, most, correction, root, TARGETS[target.name]
        )

    if alone:
        together = _WARPS_ALONE * (_WARP // lanes) * turns
        threads = _WARPS_ALONE * _WARP
        vectors = -(-plan.n // turn)  # of a lane for a tile
        ahead = longer and is_whole and term != "product" and vectors <= _AHEAD[per_load]
        if ahead and vectors < 4:
            kind = "ahead"
        elif longer:
            kind = "whole and longer" if is_whole else "longer"
        else:
            kind = "alone"
        own = {
            "ALONE": 1, "RESIDENT": _THREADS[kind if of_rows else "else"][per_load] // threads, "LANES": lanes, "TILES": tiles,
            "TURNS": turns, "LONGER": vectors if ahead else int(longer), "AHEAD": int(ahead), "WHOLE": whole,
        }  # fmt: skip
        kernels.append(KernelChoice(
            "moments", {**macros, **own}, max(-(-groups // together), 1), threads, problem(), takes,
        ))  # fmt: skip
    if not alone or plan.n > most:
        most_chunks = plan.n // least + 1 if ragged else chunks
        parts = max(1, min(most_chunks, _BLOCKS * gpu.multiprocessors // max(groups, 1)))
        if most_chunks > 1:
            space = Space(
                "moments", 2 * (plan.n // least + groups + 1 if ragged else groups * chunks), ones=True
            )
            takes = takes | {"slots": SPACE}
        resident = max(1, min(16, _THREADS["of blocks" if of_rows else "else"][per_load] // plan.block))
        own = {"ALONE": 0, "RESIDENT": resident, "WHOLE": int(is_whole)}
        kernels.append(KernelChoice(
            "moments", {**macros, **own}, max(groups, 1), plan.block, problem(), takes, more=parts,
        ))  # fmt: skip
    return Recipe(tuple(kernels), space=space)
