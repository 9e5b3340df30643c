"""The kernel of the gradients of softmax and its logarithm, of norms and of variances of rows, whose sums are those of ``tcu.sum``."""

from __future__ import annotations

from tcu.formats.format import Format, get_format
from tcu.gpu.device import REGISTERS, Gpu
from tcu.gpu.launch import OTHER, OUT, ROOM, KernelChoice, Recipe, X
from tcu.gpu.rows_in_registers import Rows
from tcu.gpu.structs import constants, struct
from tcu.gpu.sums import ELEMENTS, loop_of
from tcu.plan import make_plan
from tcu.plan.row_lifts import BETWEEN, most_lift

__all__ = ["FINISHES", "LONGEST", "is_log_share_kept", "row_gradients_recipe"]

FINISHES = {
    "share": "SHARE", "log_share": "LOG_SHARE", "unit": "UNIT", "standard": "STANDARD", "direction": "DIRECTION",
    "variance": "SLOPE", "total": "TOTAL",
}  # fmt: skip
"""By that of the operation; a "total" is one of the gradients themselves."""
_WARP, _TOGETHER = 32, 4
LONGEST = 1 << 18
"""Numbers of a row: the plan's chunks of 2^13 that a warp's lanes add up."""
_BESIDE = {
    "share": ((5, 28), (1, 34), (1, 34)), "log_share": ((5, 28), (0, 36), (0, 36)), "unit": ((5, 28), (2, 38), (2, 38)),
    "direction": ((5, 28), (2, 38), (2, 38)), "standard": ((10, 16), (2, 40), (2, 34)), "variance": ((5, 28), (1, 34), (1, 34)),
    "total": ((5, 28), (1, 34), (1, 34)),
}  # fmt: skip
"""Registers of a thread beside its numbers, for each load of a row and else, of rows of a warp, of blocks that keep a row, and of
several chunks: what was fastest of one block more or less on a multiprocessor, of rows of 1000 to 50,257 numbers (H200)."""
_FORGETTING = {
    "share": (66, 42), "log_share": (27, 27), "unit": (32, 32), "direction": (32, 32), "standard": (42, 42), "variance": (48, 42),
    "total": (48, 42),
}  # fmt: skip
"""The same where numbers of 16 bits are converted again for each sum, of rows of a warp and of a block."""

RowGradients = struct("RowGradients", """
    const void* kept;
    const void* given;
    void* out;
    i64 rows, length, chunks;
    i64 kept_stride, given_stride;  // from row to row, in elements
    double eps, most_lift;
    double left;  // the numbers of a row less the correction
    const void* weight;
""")  # fmt: skip
ROW_LIFTS = constants(LOWEST=BETWEEN[0], HIGHEST=BETWEEN[1])
"""As in :mod:`tcu.plan.row_lifts`."""


def is_log_share_kept(length: int, gpu: Gpu) -> bool:
    """Whether blocks keep rows of "log_share" of this length; otherwise two launches serve them."""
    plan = make_plan(length, get_format("binary32"), gpu.unit)
    chunk = loop_of(plan)[0] * plan.block * _TOGETHER
    return length <= gpu.most_of_cluster * chunk


def row_gradients_recipe(
    finish: str, kept: Rows, given: Rows | None, formats: tuple[Format, Format, Format], eps: float, gpu: Gpu,
    weighted: bool = False, left: float = 1.0,
) -> Recipe:  # fmt: skip
    """What serves as many rows as there are, of up to ``LONGEST`` numbers, or, of "log_share", as :func:`is_log_share_kept` says.

    ``given``: None where there is one number of binary32 for each row, or, of "total", none; ``left``: of a "variance", the
    numbers of a row less the correction.
    ``formats``: of what was kept, of the gradients that are given and of those that are wanted; of 16 bits there may be one,
    the others are binary32.  ``weighted``: what is given is first multiplied by a line of binary32, which a call gives as its
    room: from a multiple of 16 bytes on, in whole fours.
    """
    binary32 = get_format("binary32")
    element = next((each for each in formats if each is not binary32), binary32)
    plan = make_plan(kept.length, binary32, gpu.unit)
    loads, chain = loop_of(plan)
    assert chain == 1, "one MMA after another is no sum of binary32"
    assert set(formats) <= {element, binary32}, "of 16 bits there is one format"
    assert finish != "log_share" or is_log_share_kept(kept.length, gpu), "a row is read once"
    turn = plan.block * _TOGETHER
    chunks = -(-kept.length // (loads * turn))
    by_warp = kept.length <= turn
    turns = -(-kept.length // (_WARP * _TOGETHER if by_warp else turn))
    read = [kept] if given is None else [kept, given]
    in_fours = kept.length % _TOGETHER == 0 and all(
        rows.aligned and (rows.count <= 1 or rows.stride % _TOGETHER == 0) for rows in read
    )
    turns = loads if chunks > 1 else turns
    are_kept = chunks <= gpu.most_of_cluster
    cluster = chunks if are_kept else 1
    threads = 4 * _WARP if by_warp else plan.block
    in_registers = [binary32 if finish == "log_share" else formats[0], *([formats[1]] if given else [])]
    words = turns * sum(4 if each is binary32 else 2 for each in in_registers)  # of a thread
    # Centred norms, whose numbers are in four sums, take less time to keep what was converted.
    forgets = element.bits == 16 and turns > 2 and (finish != "standard" or not in_fours or cluster > 1)
    if forgets:
        for_a_turn, else_ = 0, _FORGETTING[finish][not by_warp]
    else:
        for_a_turn, else_ = _BESIDE[finish][0 if by_warp else 1 if are_kept else 2]
    registers = words + for_a_turn * turns + else_ + _TOGETHER * weighted
    together = (_WARP if by_warp else plan.block) * _TOGETHER  # numbers of a load of all threads
    is_full = kept.length % (turns * together) == 0  # the last one of several chunks may have fewer
    whole = kept.length // together if chunks == 1 else turns * is_full
    macros = {
        "ELEMENT": ELEMENTS[element.name], "LAYOUT": "ALIGNED", "RESULT": ELEMENTS[formats[2].name],
        "FINISH": FINISHES[finish], "KEPT_WIDE": int(formats[0] is binary32), "GIVEN_WIDE": int(formats[1] is binary32),
        "ROW_WARPS": 1 if by_warp else plan.block // _WARP, "TURNS": turns, "CHUNKS": int(not are_kept), "CLUSTER": cluster,
        "WEIGHT": int(weighted), "IN_FOURS": int(in_fours), "WHOLE": whole,
        "FORGETS": int(forgets), "CONVERTED": int(formats[0].bits == 16), "RESIDENT": max(1, REGISTERS // (registers * threads)),
    }  # fmt: skip
    most = most_lift(eps, finish == "direction")
    problem = RowGradients(
        rows=kept.count, length=kept.length, chunks=chunks, kept_stride=kept.stride,
        given_stride=given.stride if given else 0, eps=eps, most_lift=most, left=left,
    )  # fmt: skip
    blocks = -(-kept.count // 4) if by_warp else kept.count * cluster
    takes = {"kept": X, "given": OTHER, "out": OUT} | ({"weight": ROOM} if weighted else {})
    return Recipe((KernelChoice("row_gradients", macros, blocks, threads, problem, takes, cluster=cluster),))
