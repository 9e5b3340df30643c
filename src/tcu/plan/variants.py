"""The ways to sum: one row each, from the problem to its plan."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Real

from tcu.errors import DtypeError, ParameterError, unknown_name
from tcu.formats.array import whole_number
from tcu.formats.format import Format, named_format
from tcu.plan import segmented
from tcu.plan.plan import AddStep, Layout, MmaStep, Part, Plan, Step, granularity, output_length
from tcu.plan.version import VERSIONS, Family
from tcu.units.instruction import Unit
from tcu.units.lookup import find_instruction

__all__ = ["DEFAULT_VARIANT", "OWN_VARIANTS", "VARIANTS", "Variant", "make_plan"]

DEFAULT_VARIANT = "binary64"
OWN_VARIANTS = (DEFAULT_VARIANT, "short-chain")
"""Whose kernels serve every layout."""
WARP = 32
MAX_BLOCK = 1024
MAX_CHAIN = 1 << 10
DOUBLE = "binary64"


@dataclass(frozen=True)
class Problem:
    """What a plan is made from, checked."""

    n: int
    input: Format
    chain: int
    block: int
    accumulator: str
    fraction: float
    unit: Unit

    @property
    def warps(self) -> int:
        return self.block // WARP

    @property
    def operand(self) -> str:
        """Format in which an MMA takes the elements."""
        return "tf32" if self.input.name == "binary32" else self.input.name

    @property
    def shape(self) -> tuple[int, int, int]:
        """The MMA of the papers' variants: wmma m16n16k16, and what TF32 and binary64 have instead."""
        return {"tf32": (16, 16, 8), "binary64": (8, 8, 4)}.get(self.operand, (16, 16, 16))

    @property
    def wide(self) -> str:
        """Format of the additions outside the unit in the papers' variants."""
        return "binary64" if self.input.name == "binary64" else "binary32"


_Built = tuple[tuple[Part, ...], tuple[Step, ...], str]
"""The parts, the final steps and the format of the result."""


@dataclass(frozen=True)
class Variant:
    name: str
    source: str
    summary: str
    build: Callable[[Problem], _Built]
    chain: int | None
    """Default R; None: the variant has no MMAs to chain."""
    block: int
    """Default B."""
    chains: Callable[[Format], bool] = lambda fmt: True
    """Whether more than one MMA may follow another on one accumulator, for elements of a format."""
    takes: Callable[[Format], bool] = lambda fmt: True
    """Whether it sums elements of a format, on a unit that has the MMA."""
    family: Family = "sum"
    """Whose version its plans have."""
    reproducible: bool = True
    """Whether a GPU returns the model's bits; False: it adds in another order each time."""

    @property
    def uses_mma(self) -> bool:
        return self.chain is not None

    def longest_chain(self, fmt: Format) -> int:
        """The largest R for elements of that format."""
        return MAX_CHAIN if self.chains(fmt) else 1


def _chained(problem: Problem, chain: int, layout: Layout, last: str) -> list[Step]:
    """R MMAs on one accumulator and the (R+1)-th that adds up the m partial sums (paper 000, 4.3)."""
    m, n, k = problem.shape
    dots = m if layout == "rows" else n
    first = MmaStep(problem.shape, problem.operand, problem.accumulator, dots, chain, layout)
    closing = MmaStep(problem.shape, problem.operand, last, 1, dots // k, "rows")
    return [first, closing]


def _levels(problem: Problem, step: Callable[[], list[Step]]) -> list[Step]:
    steps: list[Step] = []
    length = problem.n
    while length > 1 or not steps:
        for one in step():
            steps.append(one)
            length = output_length(one, length)
    return steps


def _two_mma(problem: Problem) -> _Built:
    steps = _levels(problem, lambda: _chained(problem, 1, "rows", problem.accumulator))
    return (Part(0, problem.n, tuple(steps)),), (), problem.accumulator


def _recurrence(problem: Problem) -> _Built:
    steps = _levels(problem, lambda: _chained(problem, problem.chain, "columns", problem.accumulator))
    # The results of every level are stored in the input format.
    return (Part(0, problem.n, tuple(steps)),), (), problem.input.name


def _blocks_of_chains(problem: Problem) -> tuple[Step, ...]:
    closing = "binary64" if problem.input.name == "binary64" else "binary32"
    block = AddStep(problem.wide, "tree", problem.warps)
    return (*_chained(problem, problem.chain, "columns", closing), block)


def _blocks_of_shuffles(problem: Problem) -> tuple[Step, ...]:
    return AddStep(problem.wide, "tree", WARP), AddStep(problem.wide, "tree", problem.warps)


GATHERED = 1 << 9
"""Blocks whose numbers one warp adds up at the end, before such sums are added up in the same way."""


def _together(problem: Problem, parts: tuple[Part, ...]) -> _Built:
    """Blocks' numbers, added up by one warp for every GATHERED of them, and by one warp in the end.

    One after another, at 5 to 6 ns each on an H200, they took longer than all else.
    """
    parts = tuple(part for part in parts if part.stop > part.start)
    blocks = 0
    for part in parts:
        length = part.stop - part.start
        for step in part.steps:
            length = output_length(step, length)
        blocks += length
    final: list[Step] = []
    for numbers in (min(blocks, GATHERED), -(-blocks // GATHERED)):
        if numbers > 1 or not final:
            final += [
                AddStep(problem.wide, "sequential", max(1, -(-numbers // WARP)), WARP),
                AddStep(problem.wide, "tree", WARP),
            ]
    return parts, tuple(final), problem.wide


def _atomically(problem: Problem, parts: tuple[Part, ...]) -> _Built:
    """Blocks' numbers, added to one in memory as they come, as the paper has it."""
    parts = tuple(part for part in parts if part.stop > part.start)
    return parts, (AddStep(problem.wide, "any", None),), problem.wide


def _single_pass(problem: Problem) -> tuple[Part, ...]:
    return (Part(0, problem.n, _blocks_of_chains(problem)),)


def _warp_shuffle(problem: Problem) -> tuple[Part, ...]:
    return (Part(0, problem.n, _blocks_of_shuffles(problem)),)


def _split(problem: Problem) -> tuple[Part, ...]:
    chains = _blocks_of_chains(problem)
    first = chains[0]
    assert isinstance(first, MmaStep)
    whole_block = first.group * problem.warps
    # Whole blocks go to the tensor cores, so that the border falls between blocks.
    border = min(problem.n, math.ceil(problem.fraction * problem.n / whole_block) * whole_block)
    return Part(0, border, chains), Part(border, problem.n, _blocks_of_shuffles(problem))


def _combined(
    blocks: Callable[[Problem], tuple[Part, ...]], combine: Callable[[Problem, tuple[Part, ...]], _Built]
) -> Callable[[Problem], _Built]:
    return lambda problem: combine(problem, blocks(problem))


LOAD = 16
"""Bytes that a thread loads at once."""
LOADS = 8
"""Loads that a thread adds up in its registers, at least."""
NEIGHBOURS = 4
"""Lanes whose sums of 16-bit numbers come together first."""
_CHUNKS = 1 << 13
"""Where there would be more chunks than this, they become longer.

One block adds up the chunks' sums at the end: on an H200, 65,536 of them took
1.5 % of the time of 2^30 binary16 numbers.
"""


def _short_chain(problem: Problem) -> _Built:
    steps: tuple[Step, ...]
    if problem.input.bits != 16:
        return _binary64(problem)
    chain = MmaStep((16, 8, 16), problem.operand, "binary32", 16, problem.chain, "fragment")
    rows = problem.warps * chain.results
    steps = (
        chain,
        AddStep(DOUBLE, "sequential", loads_of(problem.n, problem.warps * chain.group), rows),
        AddStep(DOUBLE, "tree", chain.results),
        AddStep(DOUBLE, "tree", problem.warps),
    )
    return (Part(0, problem.n, steps),), binary64_final(steps, problem.n, problem.block), DOUBLE


def _binary64(problem: Problem) -> _Built:
    steps = binary64_chunks(problem.n, problem.input, problem.block)
    return (Part(0, problem.n, steps),), binary64_final(steps, problem.n, problem.block), DOUBLE


def loads_of(n: int, together: int) -> int:
    """How often a chunk's threads load, ``together`` numbers each time."""
    loads = LOADS
    while n > _CHUNKS * loads * together:
        loads *= 2
    return loads


def binary64_chunks(n: int, fmt: Format, block: int) -> tuple[AddStep, ...]:
    """The steps of a chunk that binary64 additions alone reduce.

    A thread has an accumulator for each number of a load.  Of 16-bit numbers it has one for all: those of a load come
    together first, as eight accumulators of each of a chunk's eight warps would be too many for the lanes of one warp,
    which adds up a chunk of a long segment.  Then come those of 64 bytes, of which sums of segments are made (H200,
    segments of 100 and 1000 bfloat16 numbers on average: 2.1 and 1.8 TB/s where four lanes' sums stayed apart).
    """
    rows = block * per_load(fmt)
    if fmt.bits == 16:
        return (
            AddStep(DOUBLE, "tree", per_load(fmt)),
            AddStep(DOUBLE, "sequential", loads_of(n, rows), block),
            AddStep(DOUBLE, "tree", NEIGHBOURS),
            AddStep(DOUBLE, "tree", WARP // NEIGHBOURS),
            AddStep(DOUBLE, "tree", block // WARP),
        )
    return AddStep(DOUBLE, "sequential", loads_of(n, rows), rows), *binary64_trees(fmt, block)


def per_load(fmt: Format) -> int:
    """Numbers that a thread loads at once."""
    return LOAD // fmt.dtype.itemsize


def binary64_trees(fmt: Format, block: int) -> tuple[AddStep, ...]:
    """One number of a block's accumulators, of which a thread has one for each number of a load."""
    return (
        AddStep(DOUBLE, "tree", per_load(fmt)),
        AddStep(DOUBLE, "tree", WARP),
        AddStep(DOUBLE, "tree", block // WARP),
    )


def binary64_final(steps: tuple[Step, ...], n: int, block: int) -> tuple[AddStep, ...]:
    """One block adds up the chunks' sums."""
    chunks = n
    for step in steps:
        chunks = output_length(step, chunks)
    return (
        AddStep(DOUBLE, "sequential", max(1, -(-chunks // block)), block),
        AddStep(DOUBLE, "tree", WARP),
        AddStep(DOUBLE, "tree", block // WARP),
    )


def _never(fmt: Format) -> bool:
    return False


def _of_16_bits(fmt: Format) -> bool:
    return fmt.bits == 16


def _segmented(
    algorithm: str,
) -> Callable[[Problem], _Built]:
    def build(problem: Problem) -> _Built:
        warp = segmented.warp_steps(
            algorithm, problem.n, problem.shape, problem.operand, problem.accumulator, problem.chain
        )
        block = segmented.block_steps(problem.n, warp, problem.warps, _CHUNKS)
        steps: tuple[Step, ...] = (*warp, *block)
        final = binary64_final(steps, problem.n, problem.block) if problem.n > granularity(steps) else ()
        return (Part(0, problem.n, steps),), final, DOUBLE if block else problem.accumulator

    return build


def _best_segmented(problem: Problem) -> _Built:
    return _segmented(segmented.best_algorithm(problem.n))(problem)


VARIANTS: dict[str, Variant] = {
    row.name: row
    for row in (
        Variant(
            "binary64", "tcu",
            "binary64 additions alone: the same bits on every unit",
            _binary64, None, 256, _never, family="additions",
        ),
        Variant(
            "short-chain", "tcu",
            "16-bit numbers by R MMAs from zero in binary32, everything else by binary64 additions",
            _short_chain, 1, 256, lambda fmt: fmt.bits == 16,
        ),
        Variant(
            "single-pass", "paper 000, 5.2",
            "R chained MMAs and one more per warp, a warp shuffle per block, a tree over the blocks",
            _combined(_single_pass, _together), 4, 128, family="blocks",
        ),
        Variant(
            "single-pass-atomic", "paper 000, 5.2",
            "single-pass whose blocks add to one number by atomics, as printed: on a GPU the bits differ from run to run",
            _combined(_single_pass, _atomically), 4, 128, reproducible=False,
        ),
        Variant(
            "recurrence", "paper 000, 5.1",
            "levels of R chained MMAs and one more, partial results stored in the input format",
            _recurrence, 5, 32,
        ),
        Variant(
            "two-mma", "paper 001, Algorithms 1 and 2", "levels of two MMAs", _two_mma, 1, 32, _never,
        ),
        Variant(
            "split", "paper 000, 5.3",
            "a fraction of the elements by chained MMAs, the rest by warp shuffles",
            _combined(_split, _together), 1, 512, family="blocks",
        ),
        Variant(
            "split-atomic", "paper 000, 5.3",
            "split whose blocks add to one number by atomics, as printed: on a GPU the bits differ from run to run",
            _combined(_split, _atomically), 1, 512, reproducible=False,
        ),
        Variant(
            "warp-shuffle", "paper 000, 5.4",
            "the classic reduction: one element a thread, warp shuffles, a tree over the blocks",
            _combined(_warp_shuffle, _together), None, 1024, _never, family="blocks",
        ),
        Variant(
            "reduction-16", "paper 002, Reduction_16",
            "16 numbers a column, 16 columns an MMA, up to R MMAs; the columns' sums by binary64 additions",
            _segmented("reduction-16"), 16, 256, takes=_of_16_bits, family="segmented",
        ),
        Variant(
            "reduction-256", "paper 002, Reduction_256",
            "256 numbers by two MMAs, the rest by binary64 additions",
            _segmented("reduction-256"), 1, 256, _never, _of_16_bits, "segmented",
        ),
        Variant(
            "reduction-256n", "paper 002, Reduction_256N, work-efficient",
            "up to R MMAs and one more for 256 numbers each, the rest by binary64 additions",
            _segmented("reduction-256n"), 16, 256, takes=_of_16_bits, family="segmented",
        ),
        Variant(
            "reduction-256n-work-inefficient", "paper 002, figure 4",
            "two MMAs for each 256 numbers, up to R times, the rest by binary64 additions",
            _segmented("reduction-256n-work-inefficient"), 16, 256, takes=_of_16_bits, family="segmented",
        ),
        Variant(
            "paper-002", "paper 002, figure 5", "for each length the algorithm of paper 002 that an H200 runs fastest",
            _best_segmented, 16, 256, takes=_of_16_bits, family="chosen",
        ),
    )
}  # fmt: skip


def make_plan(
    n: int,
    input_format: Format,
    unit: Unit,
    *,
    variant: str = DEFAULT_VARIANT,
    chain: int | None = None,
    block: int | None = None,
    accumulator: str | None = None,
    fraction: float | None = None,
) -> Plan:
    """The plan for n elements of a format; see :func:`tcu.sum` for the parameters.

    Raises UnknownNameError, ParameterError and DtypeError.
    """
    if not isinstance(variant, str) or variant not in VARIANTS:
        raise unknown_name("variant", variant, VARIANTS)
    row = VARIANTS[variant]
    if not row.takes(input_format):
        raise DtypeError(
            f"{variant} sums float16 and bfloat16, x has {input_format.dtype}: round it with "
            "x.astype('float16'), or choose single-pass, which has MMAs for it"
        )
    longest = row.longest_chain(input_format)
    if longest == 1 and chain not in (None, 1):
        raise ParameterError(
            f"chain (R) = {chain!r}: {variant} chains no MMAs for {input_format.dtype}; "
            "leave it out, or choose single-pass"
        )
    if fraction is not None and not variant.startswith("split"):
        raise ParameterError(
            f"fraction={fraction}: only the variant split divides the elements; leave it out"
        )
    chain = _whole("chain (R)", (row.chain or 1) if chain is None else chain, 1, longest)
    block = checked_block(row.block if block is None else block)
    fraction = 0.5 if fraction is None else fraction
    if not isinstance(fraction, Real) or not 0 <= fraction <= 1:
        raise ParameterError(f"fraction={fraction}: choose 0 to 1, the share for the tensor cores")
    widest = "binary64" if input_format.name == "binary64" else "binary32"
    if accumulator is None:
        accumulator = widest
    else:
        accumulator = named_format(accumulator).name
        if variant in (*OWN_VARIANTS, "warp-shuffle") and accumulator != widest:
            raise ParameterError(f"accumulator={accumulator}: {variant} has its own; leave it out")
    problem = Problem(n, input_format, chain, block, accumulator, fraction, unit)
    if row.uses_mma:
        _require(problem, variant)
    parts, final, result = row.build(problem) if n else ((), (), widest)
    parts = tuple(replace(part, steps=without_idle(part.steps)) for part in parts)
    final = without_idle(final)
    chained = any(isinstance(step, MmaStep) for part in parts for step in part.steps)
    return Plan(
        n, input_format.name, variant, chain if chained else None, block, parts, final, result, VERSIONS[row.family]
    )  # fmt: skip


def without_idle(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Without the additions of one number, which small blocks and small arrays leave over."""
    return tuple(step for step in steps if not isinstance(step, AddStep) or step.length != 1)


def checked_block(block: object) -> int:
    """B, if it is a whole number of warps; raises ParameterError."""
    threads = _whole("block (B)", block, WARP, MAX_BLOCK)
    if threads % WARP:
        raise ParameterError(f"block (B) = {threads}: choose a multiple of {WARP}, the threads of a warp")
    return threads


def _whole(name: str, value: object, low: int, high: int) -> int:
    whole = whole_number(value)
    if whole is None or not low <= whole <= high:
        raise ParameterError(f"{name} = {value!r}: choose a whole number from {low} to {high}")
    return whole


def _require(problem: Problem, variant: str) -> None:
    """Whether the unit has the MMAs that the variant needs."""
    operand = problem.operand
    if variant == "short-chain":
        if problem.input.bits != 16:
            return
        find = (operand, "binary32")
    else:
        find = (operand, problem.accumulator)
    try:
        find_instruction(problem.unit, "mma", find[0], find[0], find[1])
    except DtypeError as error:
        raise DtypeError(
            f"{problem.unit.name} has no MMA {find[0]} → {find[1]} to sum {problem.input.dtype} by {variant}: "
            f"round the array with x.astype('float16'), choose another unit, or variant='warp-shuffle' ({error})"
        ) from None
