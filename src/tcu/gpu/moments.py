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
_RESIDENT = {8: 2, 4: 3, 2: 4}
"""Blocks of 256 threads per multiprocessor, by the numbers of a load: two accumulators for each stay in registers."""
_RESIDENT_ALONE = {False: {8: 6, 4: 6, 2: 6}, True: {8: 5, 4: 5, 2: 6}}
"""Blocks of 128 threads, for variances of rows that have a warp each; True: of rows that go on beyond the warp's tiles."""
_RESIDENT_OF_ROWS = {True: {8: 4, 4: 4, 2: 4}, False: {8: 3, 4: 3, 2: 4}}
"""And of those that have blocks; True: of whole vectors (of 131,072 numbers of binary32 3.90 in place of 3.39 TB/s, H200)."""


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
        resident = _RESIDENT_ALONE[longer][per_load] if of_rows else _RESIDENT[per_load] * 256 // threads
        own = {
            "ALONE": 1, "RESIDENT": resident, "LANES": lanes, "TILES": tiles, "TURNS": turns, "LONGER": int(longer),
            "WHOLE": whole,
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
        resident = (_RESIDENT_OF_ROWS[is_whole] if of_rows else _RESIDENT)[per_load]
        own = {"ALONE": 0, "RESIDENT": max(1, min(16, resident * 8 // warps)), "WHOLE": int(is_whole)}
        kernels.append(KernelChoice(
            "moments", {**macros, **own}, max(groups, 1), plan.block, problem(), takes, more=parts,
        ))  # fmt: skip
    return Recipe(tuple(kernels), space=space)
