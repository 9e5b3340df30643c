"""The kernels of number-theoretic transforms, and of products of long integers by them."""

from __future__ import annotations

from typing import NamedTuple

from tcu.gpu.launch import OTHER, OUT, ROOM, Given, KernelChoice, Recipe, X
from tcu.gpu.structs import Struct, constants, struct
from tcu.plan.ntt import P, root_of_unity

__all__ = ["MOST_LEVELS", "Levels", "product_recipe", "transform_recipe"]

MOST_LEVELS = 26
"""Of a transform, the logarithm of its length: 2^30 bits of a product."""
_THREADS, _LOW_BITS, _CARRY_LINES, _WARP = 256, 12, 32, 32
_TILE = 11
"""The logarithm of a tile's numbers in shared memory."""
_LEAST_WIDTH = 3
"""The logarithm of a tile's columns: 64 bytes beside each other in memory."""
LIMITS = constants(THREADS=_THREADS, LOW_BITS=_LOW_BITS, CARRY_LINES=_CARRY_LINES)


Ntt = struct("Ntt", """
    const u64* x;        // rows of numbers; or, where it is not 0,
    const u32* limbs;    // rows of limbs, each of two digits
    const u64* y;        // what the numbers are multiplied by, or 0
    u64* out;
    const u64* roots;
    u64 factor;          // of all numbers, on the way back
    i64 stride, other_stride;  // from row to row of what is read, and of y
    i64 limb_count;      // of a row
    int levels;          // the logarithm of a row's length N
    int parts;           // logarithms: of the parts that a row is cut into,
    int radix;           // of the length R of this pass's transforms,
    int width;           // of the columns of a tile
""")  # fmt: skip


LimbCarries = struct("LimbCarries", """
    const u64* sums;
    u32* out;
    u32* lines;   // what lines of 32 limbs generate and propagate, in turn
    u32* states;  // of blocks of lines
    i64 length;   // sums of a number
    i64 limbs;    // of a product
    i64 blocks;   // of a number
""")  # fmt: skip


class Levels(NamedTuple):
    """A pass over a row of 2^levels numbers; all are logarithms."""

    parts: int
    radix: int
    width: int

    @classmethod
    def of(cls, levels: int) -> list[Levels]:
        """The passes in turn: the last one takes whole tiles of neighbours, those before it share what is left evenly."""
        last = min(levels, _TILE)
        left, passes = levels - last, []
        most = _TILE - _LEAST_WIDTH
        count = -(-left // most)
        for number in range(count):
            radix = -(-left // (count - number))
            passes.append(cls(levels - last - left, radix, _TILE - radix))
            left -= radix
        return [*passes, cls(levels - last, last, 0)]


def _words_of_roots(levels: int) -> int:
    return (1 << _LOW_BITS) + (1 << levels - _LOW_BITS if levels > _LOW_BITS else 0)


def _pass(
    entry: str, levels: int, rows: int, each: Levels, problem: Struct, takes: dict[str, Given]
) -> KernelChoice:
    size = 1 << each.radix + each.width
    threads = max(_WARP, min(_THREADS, size // 2))
    shared = 8 * (size + (1 << each.radix) // 2)
    blocks = rows << levels - each.radix - each.width
    return KernelChoice("ntt", {}, blocks, threads, problem, takes, entry=entry, shared=shared)


def _roots(levels: int, at: int) -> KernelChoice:
    words = _words_of_roots(levels)
    problem = Ntt(0, 0, 0, 0, 0, root_of_unity(1 << levels), 0, 0, 0, levels, 0, 0, 0)
    takes: dict[str, Given] = {"out": (ROOM, 8 * at)}
    return KernelChoice("ntt", {}, -(-words // _THREADS), _THREADS, problem, takes, entry="ntt_roots")


def _passes(
    levels: int, rows: int, roots: int, source: dict[str, Given], out: Given, *, limbs: int = 0, stride: int = 0
) -> list[KernelChoice]:  # fmt: skip
    """A transform of every row: the first pass reads numbers or limbs, the others what it wrote."""
    found = []
    for number, each in enumerate(Levels.of(levels)):
        own = (limbs, stride) if number == 0 else (0, 1 << levels)
        problem = Ntt(0, 0, 0, 0, 0, 1, own[1], 0, own[0], levels, *each)
        takes: dict[str, Given] = {
            **(source if number == 0 else {"x": out}),
            "out": out,
            "roots": (ROOM, 8 * roots),
        }
        found.append(_pass("ntt_pass", levels, rows, each, problem, takes))
    return found


def _passes_back(
    levels: int, rows: int, roots: int, source: dict[str, Given], out: Given, *, stride: int, other: int = 0
) -> list[KernelChoice]:  # fmt: skip
    """The way back, divided by the length; the first pass multiplies by y, where it is among what it reads."""
    found = []
    for number, each in enumerate(reversed(Levels.of(levels))):
        factor = pow(1 << levels, -1, P) if number == 0 else 1
        steps = (stride, other) if number == 0 else (1 << levels, 0)
        problem = Ntt(0, 0, 0, 0, 0, factor, *steps, 0, levels, *each)
        takes: dict[str, Given] = {
            **(source if number == 0 else {"x": out}),
            "out": out,
            "roots": (ROOM, 8 * roots),
        }
        found.append(_pass("ntt_pass_back", levels, rows, each, problem, takes))
    return found


def _reorder(levels: int, rows: int, source: Given, out: Given) -> KernelChoice:
    problem = Ntt(0, 0, 0, 0, 0, 1, 1 << levels, 0, rows, levels, 0, 0, 0)
    blocks = -(-(rows << levels) // _THREADS)
    takes = {"x": source, "out": out}
    return KernelChoice("ntt", {}, blocks, _THREADS, problem, takes, entry="ntt_reorder")


def transform_recipe(levels: int, rows: int, *, back: bool) -> Recipe:
    """Of every row of 2^levels numbers, in order; or the inverse."""
    assert levels <= MOST_LEVELS
    numbers, stride = _words_of_roots(levels), 1 << levels
    room: Given = (ROOM, 8 * numbers)
    roots = _roots(levels, 0)
    if back:
        kernels = [
            roots,
            _reorder(levels, rows, X, room),
            *_passes_back(levels, rows, 0, {"x": room}, OUT, stride=stride),
        ]
    else:
        kernels = [
            roots,
            *_passes(levels, rows, 0, {"x": X}, room, stride=stride),
            _reorder(levels, rows, room, OUT),
        ]
    return Recipe(tuple(kernels), numbers + (rows << levels))


def product_recipe(
    count: int, a_limbs: int, b_limbs: int, a_stride: int, b_stride: int, levels: int, *, square: bool
) -> Recipe:  # fmt: skip
    """Products of ``count`` pairs of numbers of so many words of 32 bits; a b_stride of 0: one b for all.

    ``square``: b is a.
    """
    assert levels <= MOST_LEVELS
    assert 2 * (a_limbs + b_limbs) - 1 <= 1 << levels
    assert a_stride or count == 1  # its place is the result's
    n, limbs = 1 << levels, a_limbs + b_limbs
    b_rows = 0 if square else count if b_stride else 1
    blocks = -(-limbs // (_WARP * _CARRY_LINES))
    first = _words_of_roots(levels)
    second = first + count * n
    lines = second + b_rows * n
    states = lines + count * blocks * _CARRY_LINES
    words = states + -(-count * blocks // 2)
    a, b = ((ROOM, 8 * place) for place in (first, second))
    kernels = [_roots(levels, 0), *_passes(levels, count, 0, {"limbs": X}, a, limbs=a_limbs, stride=a_stride)]
    if not square:
        kernels += _passes(levels, b_rows, 0, {"limbs": OTHER}, b, limbs=b_limbs, stride=b_stride)
    source: dict[str, Given] = {"x": a, "y": a if square else b}
    kernels += _passes_back(levels, count, 0, source, a, stride=n, other=n if square or b_stride else 0)
    carries = LimbCarries(0, 0, 0, 0, n, limbs, blocks)
    takes: dict[str, Given] = {
        "sums": a,
        "out": OUT,
        "lines": (ROOM, 8 * lines),
        "states": (ROOM, 8 * states),
    }
    kernels += [
        KernelChoice("limb_carries", {}, grid, threads, carries, takes, entry=entry)
        for entry, grid, threads in (
            ("carry_lines", count * blocks, _THREADS),
            ("carry_blocks", count, _WARP),
            ("carry_limbs", count * blocks, _THREADS),
        )
    ]
    return Recipe(tuple(kernels), words)
