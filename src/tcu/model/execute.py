"""Execute a plan on the model of a unit."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError
from tcu.formats.format import format_of, get_format
from tcu.model import compiled, threads
from tcu.model.mma import LANES, multiply_accumulate
from tcu.model.tree import evaluate_tree
from tcu.plan.plan import AddStep, FmaStep, MmaStep, Plan, Step, granularity, tile_order
from tcu.plan.tree import TreeRegions, TreeStep
from tcu.plan.trim import trimmed
from tcu.units.instruction import Unit
from tcu.units.lookup import find_instruction

__all__ = [
    "Progress",
    "check_progress",
    "Source",
    "execute",
    "leading_steps",
    "multiply_groups",
    "multiply_tiles",
    "pieces",
    "run_steps",
]

_PIECE = 1 << 20
"""Elements that one thread takes at a time; several times the caches' size gains nothing."""

Progress = Callable[[int], None]


def check_progress(progress: Any) -> None:
    """Raises ParameterError for what cannot be called."""
    if progress is not None and not callable(progress):
        raise ParameterError(f"progress={progress!r}: give a function that takes how many numbers are done")


class Source(Protocol):
    """What a plan adds up, a piece at a time: numbers, or two arrays where it multiplies."""

    def read(self, start: int, stop: int) -> Any: ...


def execute(
    plan: Plan, elements: Source, unit: Unit | None = None, progress: Progress | None = None
) -> float:
    """The sum by ``plan``, or the dot product, in the plan's result format; zero is always +0.

    ``unit`` is needed where the plan has MMAs.  ``progress`` is called with the number of elements just finished.
    """
    parts, final, dtype = _ready(plan)
    if not parts:
        return 0.0
    with np.errstate(all="ignore"):
        partial = [_run_part(part, elements, unit, progress) for part in parts]
        numbers = partial[0] if len(partial) == 1 else np.concatenate(partial)
        return float(run_steps(numbers, final, unit).astype(dtype, copy=False)[0]) + 0.0


class _Part(NamedTuple):
    """A plan's part, made ready: steps whose groups fit a piece, and the rest on their results."""

    start: int
    stop: int
    local: tuple[_Work, ...]
    rest: tuple[_Work, ...]
    size: int
    """Elements of a piece."""


@lru_cache(maxsize=256)
def _ready(plan: Plan) -> tuple[tuple[_Part, ...], tuple[_Work, ...], np.dtype[Any]]:
    """What does not depend on the numbers: to find it took a small sum longer than to add up."""
    if any(isinstance(step, TreeStep) and step.results > 1 for part in plan.parts for step in part.steps):
        raise ParameterError(
            "the plan has several results, as running sums do: tcu.probes.predict gives them"
        )
    plan = trimmed(plan)
    parts = []
    for part in plan.parts:
        local = leading_steps(part.steps)
        grain = granularity(local)
        rest = _joined(part.steps[len(local) :])
        parts.append(_Part(part.start, part.stop, _joined(local), rest, grain * max(1, _PIECE // grain)))
    return tuple(parts), _joined(plan.final), get_format(plan.result).dtype


def _run_part(
    part: _Part, elements: Source, unit: Unit | None, progress: Progress | None
) -> npt.NDArray[Any]:
    start, stop, local, rest, size = part
    if stop - start <= size:
        numbers = run_steps(elements.read(start, stop), local, unit)
        if progress is not None:
            progress(stop - start)
        return run_steps(numbers, rest, unit)

    def work(at: int) -> tuple[int, npt.NDArray[Any]]:
        end = min(at + size, stop)
        with np.errstate(all="ignore"):  # a thread has its own
            return end - at, run_steps(elements.read(at, end), local, unit)

    results = []
    for done, numbers in threads.in_order(work, range(start, stop, size)):
        results.append(numbers)
        if progress is not None:
            progress(done)
    return run_steps(np.concatenate(results), rest, unit)


def leading_steps(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """The steps whose groups fit a piece, the first of them in any case."""
    count = min(1, len(steps))
    while 0 < count < len(steps) and granularity(steps[: count + 1]) <= _PIECE:
        count += 1
    return steps[:count]


@dataclass(frozen=True)
class _Chunks:
    """Additions of chunks: ``first`` in order, if there is that, then trees one after another, each of neighbours."""

    dtype: np.dtype[Any]
    first: AddStep | None
    widths: tuple[int, ...]
    """Of the trees; powers of two."""

    @cached_property
    def inner(self) -> int:
        """Numbers that the trees make one of."""
        return math.prod(self.widths)

    @property
    def length(self) -> int:
        """How many are added in order before that."""
        return 1 if self.first is None or self.first.length is None else self.first.length

    @cached_property
    def trees(self) -> npt.NDArray[np.int64]:
        """The widths, as kernels read them."""
        return np.array(self.widths)


_Work = Step | _Chunks
_COMPILED = 1 << 16
"""Numbers from which on a kernel adds chunks: its first use takes a process a third of a second."""
_used: set[np.dtype[Any]] = set()
"""Formats whose kernel was used: from then on it adds few numbers, too, which takes 1 µs in place of 9."""


def _joined(steps: tuple[Step, ...]) -> tuple[_Work, ...]:
    """Steps, of which those that are quicker together are one."""
    work: list[_Work] = []
    for name, group in groupby(steps, _format_of_tree):
        together = list(group)
        if name is None:
            work += together
            continue
        widths = tuple(step.width for step in together if isinstance(step, AddStep))
        chunks = _Chunks(get_format(name).dtype, None, widths)
        before = work[-1] if work else None
        if (
            isinstance(before, AddStep)
            and before.order == "sequential"
            and before.length is not None
            and (before.format, before.inner) == (name, chunks.inner)
        ):
            work[-1] = replace(chunks, first=before)
        else:
            work.append(chunks)
    return tuple(work)


def _format_of_tree(step: Step) -> str | None:
    """The format of a tree of neighbours, of a power of two of them; None of all else."""
    if isinstance(step, AddStep) and step.order == "tree" and step.inner == 1 and step.width == step.length:
        return step.format
    return None


def run_steps(given: Any, steps: Sequence[_Work], unit: Unit | None) -> npt.NDArray[Any]:
    """``given``: an array, or two where the first step multiplies."""
    numbers = given
    for step in steps:
        if isinstance(step, _Chunks):
            numbers = _add_chunks(numbers, step)
        elif isinstance(step, FmaStep):
            x, y = numbers
            numbers = multiply_groups(x, y, step)
        elif isinstance(step, MmaStep):
            numbers = _mma(numbers, step, unit)
        elif isinstance(step, TreeStep | TreeRegions):
            numbers = _tree(numbers, step)
        else:
            numbers = _add(numbers, step)
    return np.asarray(numbers)


def _padded(numbers: npt.NDArray[Any], multiple: int) -> npt.NDArray[Any]:
    missing = -numbers.size % multiple
    return np.concatenate([numbers, np.zeros(missing, numbers.dtype)]) if missing else numbers


@lru_cache(maxsize=64)
def _order_array(step: MmaStep) -> npt.NDArray[np.int64]:
    return np.array(tile_order(step), np.int64)


def _mma(numbers: npt.NDArray[Any], step: MmaStep, unit: Unit | None) -> npt.NDArray[Any]:
    dtype = get_format(step.operand).dtype
    numbers = _padded(numbers.astype(dtype, copy=False), step.group)
    if step.layout == "columns" and step.dots % LANES == 0:
        return _multiply(numbers.reshape(-1, step.chain * step.k, step.dots), step, unit)
    return multiply_tiles(numbers, step, _order_array(step), unit)


def multiply_tiles(
    numbers: npt.NDArray[Any], step: MmaStep, order: npt.NDArray[np.int64], unit: Unit | None
) -> npt.NDArray[Any]:
    """The dot products of groups in which ``order[i, d]`` is the i-th factor of dot product d."""
    kernels = compiled.load("kernels")

    factors, dots = order.shape
    tiles = numbers.size // order.size
    together = math.lcm(dots, LANES) // dots
    data = np.empty((-(-tiles // together), factors, together * dots), numbers.dtype)
    codes = f"u{numbers.dtype.itemsize}"
    kernels.gather_tiles(np.ascontiguousarray(numbers).view(codes), order, tiles, together, data.view(codes))
    return _multiply(data, step, unit)[: tiles * dots]


def _multiply(data: npt.NDArray[Any], step: MmaStep, unit: Unit | None) -> npt.NDArray[Any]:
    assert unit is not None
    row = find_instruction(unit, "mma", step.operand, step.operand, step.accumulator)
    ones = np.ones((1, data.shape[1]), data.dtype)
    zeros = np.zeros((1, data.shape[2]), get_format(step.accumulator).dtype)
    return multiply_accumulate(ones, data, zeros, row, parallel=False).reshape(-1)


def multiply_groups(x: npt.NDArray[Any], y: npt.NDArray[Any], step: FmaStep) -> npt.NDArray[Any]:
    """The sums of products of each group of pairs; the last group may lack some."""
    kernels = compiled.load("kernels")

    fmt = format_of(x.dtype)
    if fmt.bits == 16:
        x, y = x.view(fmt.code_dtype), y.view(fmt.code_dtype)
    sums = np.empty((-(-x.size // step.group), step.inner))
    whole = x.size // step.group
    border = whole * step.group
    for pairs, out in (
        ((x[:border], y[:border]), sums[:whole]),
        ((_padded(x[border:], step.group), _padded(y[border:], step.group)), sums[whole:]),
    ):
        kernels.fma_groups(*pairs, fmt.name == "binary16", step.length, out)
    return sums.reshape(-1)


def _add(numbers: npt.NDArray[Any], step: AddStep) -> npt.NDArray[Any]:
    dtype = get_format(step.format).dtype
    values = numbers.astype(dtype, copy=False)
    if step.length is None:
        return np.add.accumulate(values)[-1:]
    groups = _padded(values, step.group).reshape(-1, step.length, step.inner)
    if step.order == "sequential":
        total = groups[:, 0].copy()
        for i in range(1, step.length):
            total += groups[:, i]
        return total.reshape(-1)
    if step.width > step.length:
        groups = np.concatenate(
            [groups, np.zeros((groups.shape[0], step.width - step.length, step.inner), dtype)], axis=1
        )
    while groups.shape[1] > 1:
        half = groups.shape[1] // 2
        groups = groups[:, :half] + groups[:, half:]
    return groups.reshape(-1)


def _add_chunks(numbers: npt.NDArray[Any], step: _Chunks) -> npt.NDArray[Any]:
    if step.dtype == np.float64:
        if numbers.size >= _COMPILED:
            if numbers.dtype in _WIDE:
                return _add_by_kernel(numbers, step)
            if numbers.dtype.itemsize == 2 and step.first is None and step.widths == (LANES,):
                return _add_loads(numbers)
        elif numbers.dtype in _used:
            return _add_by_kernel(numbers, step)
    if step.first is not None:
        numbers = _add(numbers, step.first)
    groups = -(-numbers.size // step.inner)
    values = np.zeros(groups * step.inner, step.dtype)
    values[: numbers.size] = numbers
    # So laid that the halves of all trees are those of the line.
    values = values.reshape(groups, *reversed(step.widths)).T.reshape(-1)
    while values.size > groups:
        half = values.size // 2
        values = values[:half] + values[half:]
    return values


_WIDE = (np.dtype(np.float32), np.dtype(np.float64))


def _add_by_kernel(numbers: npt.NDArray[Any], step: _Chunks) -> npt.NDArray[np.float64]:
    kernels = compiled.load("kernels")

    group = step.length * step.inner
    sums = np.empty(-(-numbers.size // group))
    # Numba compiles for what may be written and for what may not: whoever adds few numbers never waits for it.
    whole = numbers.size // group if numbers.size >= _COMPILED or numbers.flags.writeable else 0
    if whole:
        kernels.add_chunks(numbers[: whole * group], step.length, step.inner, step.trees, sums[:whole])
    if whole < sums.size:
        rest = np.zeros((sums.size - whole) * group, numbers.dtype)
        rest[: numbers.size - whole * group] = numbers[whole * group :]
        kernels.add_chunks(rest, step.length, step.inner, step.trees, sums[whole:])
    if whole < sums.size or numbers.flags.writeable:
        _used.add(numbers.dtype)
    return sums


def _add_loads(numbers: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    kernels = compiled.load("kernels")

    fmt = format_of(numbers.dtype)
    sums = np.empty(-(-numbers.size // LANES))
    kernels.add_loads(_padded(numbers, LANES).view(fmt.code_dtype), fmt.name == "binary16", sums)
    return sums


def _tree(given: Any, step: TreeStep | TreeRegions) -> npt.NDArray[np.float64]:
    """The results of each group of numbers, or of pairs, one group after another."""
    if step.products:
        x, y = (_padded(each, step.group).reshape(-1, step.group) for each in given)
        return evaluate_tree(step, x[:, None], y[..., None]).reshape(step.results, -1).T.reshape(-1)
    rows = _padded(given, step.group).reshape(-1, step.group)
    return evaluate_tree(step, rows).T.reshape(-1)


def pieces(count: int) -> Iterator[tuple[int, int]]:
    """``range(count)`` in the runs that one thread takes at a time."""
    for at in range(0, count, _PIECE):
        yield at, min(at + _PIECE, count)
