"""Which algorithm of paper 002 is fastest at which length of segments, on the GPU at hand: ``tcu tune --paper-002``.

``benchmarks/paper_002.py`` measures at the same lengths, beside CUB.  Both
choose by :func:`choose`.  What is found here changes no result: on every
machine variant="paper-002" goes by ``plan/paper_002.json``, which is part of the plan.

The array holds the same 2^20 numbers again and again.  So the sums of shorter
segments repeat, too, and each has the bits that the model on the CPU returns;
longer segments are all alike and must have the same bits.  All are as near to
the exact sums as is proved for their plan.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import pairwise
from types import TracebackType

import numpy as np
import numpy.typing as npt

from tcu.formats import get_format
from tcu.gpu import Gpu, TuningError, find_gpu
from tcu.gpu.device import call, current, read
from tcu.gpu.launch import Launch, Recipe
from tcu.gpu.segmented import segmented_recipe
from tcu.gpu.sums import contiguous
from tcu.gpu.tune import Progress, prepared
from tcu.gpu.turns import SCRATCH_BYTES, Turns, memory
from tcu.model.rows import execute_rows
from tcu.plan import Plan, make_plan, plan_error_bound
from tcu.plan.segmented import ALGORITHMS

__all__ = [
    "COUNT", "QUICK_COUNT", "TIE", "Measured", "Table", "choose", "fastest", "lengths_of", "measure", "written",
]  # fmt: skip

COUNT, QUICK_COUNT = 1 << 30, 1 << 26
"""Numbers in all; the paper's figure 5 has the first."""
SHORTEST = 4
"""The shortest segment's binary logarithm, as in the figure."""
TIE = 0.02
"""Algorithms as near to the fastest count as equal: the first of them is taken, which rounds least."""
ROUNDS, QUICK_ROUNDS = 31, 11
PERIOD = 1 << 20
"""Numbers that are drawn; the array holds them again and again."""

Table = tuple[tuple[int | None, str], ...]
"""(the longest segment, algorithm) in ascending order; None: any length."""

_INPUT, _TARGET = get_format("binary16"), get_format("binary32")


def lengths_of(count: int, quick: bool = False) -> list[int]:
    """The lengths of segments that are measured of so many numbers: powers of two, or every other one."""
    return [1 << power for power in range(SHORTEST, count.bit_length(), 2 if quick else 1)]


def fastest(seconds: Mapping[str, float]) -> str:
    """The first of the algorithms that takes at most ``TIE`` longer than the fastest."""
    limit = min(seconds[name] for name in ALGORITHMS) * (1 + TIE)
    return next(name for name in ALGORITHMS if seconds[name] <= limit)


def choose(seconds: Mapping[int, Mapping[str, float]]) -> Table:
    """The fastest algorithm up to each length, from seconds by length and algorithm; one row for neighbours that are alike."""
    picked = [(length, fastest(times)) for length, times in sorted(seconds.items())]
    ends = [one for one, following in pairwise(picked) if one[1] != following[1]]
    return (*ends, (None, picked[-1][1]))


def written(source: str, table: Table) -> str:
    """The table as plan/paper_002.json has it; ``source``: what measured it, where and when."""
    rows = ",\n".join(f"  {json.dumps({'up_to': most, 'algorithm': name})}" for most, name in table)
    return f'{{\n "source": {json.dumps(source)},\n "choice": [\n{rows}\n ]\n}}\n'


@dataclass(frozen=True)
class Measured:
    """What was found on a GPU."""

    gpu: Gpu
    source: str
    """Command, GPU and date."""
    count: int
    """Numbers that every sum took, in segments."""
    times: Mapping[int, Mapping[str, float]]
    """Seconds to sum all segments, by length and algorithm."""
    table: Table
    seconds: float
    """That the measurement took."""


def measure(
    ordinal: int = 0, *, quick: bool = False, command: str = "tcu tune --paper-002", progress: Progress | None = None
) -> Measured:  # fmt: skip
    """Time every algorithm at every length on the GPU of that number, and check its sums; nothing is stored.

    Raises the errors of :func:`tcu.gpu.find_gpu`, UnsupportedInstructionError, and TuningError.
    """
    start = time.perf_counter()
    told = progress or (lambda done, total: None)
    gpu = find_gpu(ordinal)
    times = {}
    with current(gpu), _Machine(gpu, QUICK_COUNT if quick else COUNT) as machine:
        lengths = lengths_of(machine.count, quick)
        kernels = machine.kernels(lengths)
        total = len(kernels) + len(lengths)
        for done, _ in enumerate(prepared(machine.prepare, kernels), 1):
            told(done, total)
        for done, length in enumerate(lengths, len(kernels) + 1):
            machine.check(length)
            times[length] = machine.times(length, QUICK_ROUNDS if quick else ROUNDS)
            told(done, total)
    source = f"{command} on {gpu.name}, {date.today().isoformat()}"
    return Measured(gpu, source, machine.count, times, choose(times), time.perf_counter() - start)


class _Machine:
    """The current GPU with an array of binary16 and a place for the sums of its segments.

    Of ``most`` numbers, or of as many as half the free memory has room for.
    """

    def __init__(self, gpu: Gpu, most: int) -> None:
        self._gpu = gpu
        free = int(call("cuMemGetInfo")[0])
        self.count = most
        while self.count > QUICK_COUNT and _needed(self.count) > free // 2:
            self.count //= 2
        if _needed(self.count) > free:
            raise TuningError(
                f"{gpu.name} has {free / 1e6:,.0f} MB of memory free, the measurement needs "
                f"{_needed(self.count) / 1e6:,.0f} MB: end other programs on it"
            )
        self._numbers = np.random.default_rng(0).standard_normal(min(PERIOD, self.count)).astype(np.float16)
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> _Machine:
        with contextlib.ExitStack() as stack:
            self._data = memory(stack, 2 * self.count)
            self._sums = memory(stack, 4 * (self.count >> SHORTEST))
            self._turns = Turns(stack)
            self._turns.fill(self._data, 2 * self.count, self._numbers)
            self._resources = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._resources.close()

    def kernels(self, lengths: list[int]) -> list[tuple[str, int]]:
        """An algorithm and a length for every kernel that has to be compiled."""
        unlike = {
            frozenset(self._recipe(name, length).kernels[0].macros.items()): (name, length)
            for length in lengths
            for name in ALGORITHMS
        }
        return list(unlike.values())

    def prepare(self, algorithm: str, length: int) -> None:
        """Compile its kernel; any thread may ask."""
        with current(self._gpu):  # contexts belong to threads
            self._launch(algorithm, length)

    def _plan(self, algorithm: str, length: int) -> Plan:
        return make_plan(length, _INPUT, self._gpu.unit, variant=algorithm)

    def _recipe(self, algorithm: str, length: int) -> Recipe:
        rows, x = self.count // length, contiguous(0, self.count)
        plan = self._plan(algorithm, length)
        return segmented_recipe(plan, x, "ALIGNED", rows, length, _TARGET, self._gpu, 1.0)

    def _launch(self, algorithm: str, length: int) -> Callable[[], None]:
        launch = Launch(self._recipe(algorithm, length), self._gpu)
        return partial(launch.start, self._data, self._data, self._sums, self._turns.stream)

    def times(self, length: int, rounds: int) -> dict[str, float]:
        """Seconds to sum all segments of that length: the median of the rounds, by algorithm."""
        launches = [self._launch(name, length) for name in ALGORITHMS]
        taken = self._turns.times(launches, 2 * self.count, rounds)
        return dict(zip(ALGORITHMS, map(statistics.median, zip(*taken, strict=True)), strict=True))

    def check(self, length: int) -> None:
        """Raises TuningError where an algorithm's sums of segments of that length are not what they must be."""
        segments = Segments(self._numbers, length)
        for name in ALGORITHMS:
            size = 4 * (self.count // length)
            call("cuMemsetD8Async", self._sums, 0xA5, size, self._turns.stream)
            self._launch(name, length)()
            self._turns.wait()
            found = np.frombuffer(read(self._sums, size), np.float32)
            wrong = segments.fault(found, self._plan(name, length), self._gpu)
            if wrong:
                raise TuningError(
                    f"{name}, segments of {length:,}: {wrong}: please report it; no table was written"
                )


class Segments:
    """What the sums of segments must be, of an array that holds these numbers again and again."""

    def __init__(self, numbers: npt.NDArray[np.float16], length: int) -> None:
        self._unlike = numbers.reshape(-1, min(length, len(numbers)))
        self._copies = max(1, length // len(numbers))
        wide = self._unlike.astype(np.float64)
        self._exact = wide.sum(1) * self._copies  # 2^20 multiples of 2^-24 below 8 need 47 bits
        self._mass = float(np.abs(wide).sum(1).max()) * self._copies
        self._top = float(np.abs(wide).max())

    def fault(self, found: npt.NDArray[np.float32], plan: Plan, gpu: Gpu) -> str:
        """What is wrong with the sums that a GPU returned by that plan; nothing where they are right.

        Of a GPU that the catalogue does not have the model knows no bits.
        """
        repeated = found.reshape(-1, len(self._unlike))
        sums = repeated[0]
        if (repeated.view(np.uint32) != sums.view(np.uint32)).any():
            return "segments of the same numbers have sums of different bits"
        if gpu.units and self._copies == 1:
            model = execute_rows(plan, self._unlike, gpu.unit).astype(np.float32)
            differing = np.flatnonzero(model.view(np.uint32) != sums.view(np.uint32))
            if len(differing):
                first = differing[0]
                return (
                    f"the sum of segment {first} is {sums[first]!r}, the model of {gpu.unit.name} on the CPU returns "
                    f"{model[first]!r}"
                )
        error = float(np.abs(sums.astype(np.float64) - self._exact).max())
        bound = plan_error_bound(plan, gpu.unit, self._mass, self._top, _TARGET, self._mass)
        return "" if error <= bound else f"a sum errs by {error:.3g}, the proved bound is {bound:.3g}"


def _needed(count: int) -> int:
    return 2 * count + 4 * (count >> SHORTEST) + SCRATCH_BYTES
