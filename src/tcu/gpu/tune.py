"""The search for the fastest launch configurations of a GPU: what ``tcu tune`` measures, and how it chooses.

A case is a kernel, a format of the elements, and a size.  Every configuration
of a case must return the same bits.  Then all take turns, so that a drift of
clocks or temperature hits all alike, and the one of the least median meets the
present one in a match of its own: fresh rounds, because the best of many
measured is partly the luckiest.  It is chosen where it wins by more than the
match's spread.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from types import TracebackType
from typing import Any, Protocol, cast

import numpy as np

from tcu.formats.format import Format, get_format
from tcu.gpu.compiler import compiler_version
from tcu.gpu.configs import MEASURED
from tcu.gpu.device import Gpu, attribute_of, call, current, find_gpu, read
from tcu.gpu.errors import TuningError
from tcu.gpu.launch import Launch
from tcu.gpu.sums import exact_recipe, sum_recipe
from tcu.gpu.tuning import (
    BLOCK,
    BLOCK_BYTES,
    ELEMENTS,
    KERNELS,
    Config,
    ExactConfig,
    Size,
    SumConfig,
    TuningRow,
    exact_config,
    sum_config,
)
from tcu.gpu.turns import SCRATCH_BYTES, Turns, memory
from tcu.plan import Plan, make_dot_plan, make_plan
from tcu.version import __version__

__all__ = ["Case", "Choice", "Machine", "Progress", "Tuning", "choose", "prepared", "tune"]

LEAST_GAIN = 0.005
"""What a new configuration must win, whatever the spread."""
ROUNDS, MATCH_ROUNDS = 15, 61
QUICK_ROUNDS, QUICK_MATCH_ROUNDS = 5, 15
TINY_BYTES = 2 << 20
SMALL_BYTES = 32 << 20
LARGE_BYTES = 2 << 30
QUICK_LARGE_BYTES = 256 << 20
_PIECE = (1 << 20) - 8
"""Numbers drawn on the host; no part of an array that a dot product multiplies by itself."""
_COMPILERS = 16

Progress = Callable[[int, int], None]
"""Told how many steps are done, and how many there are."""


@dataclass(frozen=True)
class Case:
    """What a configuration is chosen for."""

    kernel: str
    element: str
    size: Size
    nbytes: int
    """Read by one launch."""

    @property
    def format(self) -> Format:
        return get_format(self.element)

    @property
    def n(self) -> int:
        """Elements of an operand."""
        operands = 2 if self.kernel == "dot" else 1
        return self.nbytes // (operands * self.format.dtype.itemsize)

    def __str__(self) -> str:
        return f"{self.kernel} of {self.element}, {self.size}"


@dataclass(frozen=True)
class Choice:
    """What came of a case."""

    case: Case
    present: Config
    chosen: Config
    present_seconds: float
    """Of a launch, by the match."""
    chosen_seconds: float
    gain: float
    """By which the best of the others was faster than the present one, 0.01 for 1 %; may be negative."""
    spread: float
    """Between the quartiles of that gain, over the rounds."""
    tried: int


@dataclass(frozen=True)
class Tuning:
    """The results of a search."""

    gpu: Gpu
    choices: tuple[Choice, ...]
    row: TuningRow
    seconds: float


class Machine(Protocol):
    """What the search asks of a GPU."""

    def present(self, case: Case) -> Config:
        """The configuration in use."""

    def prepare(self, case: Case, config: Config) -> None:
        """Compile it; any thread may ask."""

    def results(self, case: Case, configs: Sequence[Config]) -> list[bytes]:
        """What each of them returns."""

    def times(self, case: Case, configs: Sequence[Config], rounds: int) -> list[list[float]]:
        """Seconds of a launch: for each round, those of all configurations in turn."""


def choose(
    case: Case, machine: Machine, others: Sequence[Config], rounds: int = ROUNDS, match: int = MATCH_ROUNDS
) -> Choice:
    """The present configuration, or the one of the others that is faster beyond doubt.

    Raises TuningError where two of them return different bits.
    """
    present = machine.present(case)
    configs = [present, *(config for config in others if config != present)]
    _same_bits(case, configs, machine.results(case, configs))
    taken = machine.times(case, configs, rounds)
    medians = [statistics.median(each) for each in zip(*taken, strict=True)]
    best = min(range(len(configs)), key=medians.__getitem__)
    if best == 0:
        return Choice(case, present, present, medians[0], medians[0], 0.0, 0.0, len(configs))
    pairs = machine.times(case, (present, configs[best]), match)
    gains = [before / after - 1 for before, after in pairs]
    low, gain, high = np.percentile(gains, [25, 50, 75]).tolist()
    before, after = (statistics.median(each) for each in zip(*pairs, strict=True))
    if gain > max(LEAST_GAIN, high - low):
        return Choice(case, present, configs[best], before, after, gain, high - low, len(configs))
    return Choice(case, present, present, before, before, gain, high - low, len(configs))


def _same_bits(case: Case, configs: Sequence[Config], results: Sequence[bytes]) -> None:
    for config, result in zip(configs, results, strict=True):
        if result != results[0]:
            raise TuningError(
                f"{case}: {configs[0]} returns 0x{results[0].hex()} and {config} returns 0x{result.hex()}, "
                "which must be the same bits: please report it; no configuration was stored"
            )


def search(
    machine: Machine, cases: Sequence[Case], threads: int, quick: bool, progress: Progress
) -> list[Choice]:
    """A choice for every case; compiles all configurations first, several at a time."""
    tried = {case: KERNELS[case.kernel].candidates(case.size, threads, quick) for case in cases}
    unlike = {
        (case.kernel, case.element, config.compiled): (case, config)
        for case, configs in tried.items()
        for config in (machine.present(case), *configs)
    }
    rounds, match = (QUICK_ROUNDS, QUICK_MATCH_ROUNDS) if quick else (ROUNDS, MATCH_ROUNDS)
    total = len(unlike) + sum(map(len, tried.values()))
    done = 0
    for _ in prepared(machine.prepare, unlike.values()):
        done += 1
        progress(done, total)
    choices = []
    for case, configs in tried.items():
        choices.append(choose(case, machine, configs, rounds, match))
        done += len(configs)
        progress(done, total)
    return choices


def prepared(prepare: Callable[..., None], jobs: Iterable[tuple[Any, ...]]) -> Iterator[None]:
    """Calls ``prepare``, which compiles, for every job, several at a time; one item for each that is done."""
    with ThreadPoolExecutor(
        min(_COMPILERS, os.cpu_count() or 1)
    ) as pool:  # NVRTC works without Python's lock
        try:
            yield from pool.map(lambda job: prepare(*job), jobs)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def tune(
    ordinal: int = 0, *, quick: bool = False, command: str = "tcu tune", progress: Progress | None = None
) -> Tuning:
    """Search on the GPU of that number; nothing is stored.

    Raises the errors of :func:`tcu.gpu.find_gpu`, and TuningError.
    """
    start = time.perf_counter()
    gpu = find_gpu(ordinal)
    with current(gpu), _GpuMachine(gpu, QUICK_LARGE_BYTES if quick else LARGE_BYTES) as machine:
        cases = list(machine.cases())
        choices = search(machine, cases, machine.threads, quick, progress or (lambda done, total: None))
    driver = int(call("cuDriverGetVersion"))
    versions = {
        "tcu": __version__,
        "cuda": f"{driver // 1000}.{driver % 1000 // 10}",
        "nvrtc": "{}.{}".format(*compiler_version()),
    }
    configs = {(one.case.kernel, one.case.element, one.case.size): one.chosen for one in choices}
    row = TuningRow(gpu.name, date.today().isoformat(), versions, command, machine.resident_blocks, configs)
    return Tuning(gpu, tuple(choices), row, time.perf_counter() - start)


class _GpuMachine:
    """The current GPU, on a stream of its own, with memory for the arrays."""

    def __init__(self, gpu: Gpu, large: int) -> None:
        self.threads = attribute_of(gpu.ordinal, "MAX_THREADS_PER_MULTIPROCESSOR")
        self.resident_blocks = gpu.multiprocessors * (self.threads // BLOCK)
        self._small = min(SMALL_BYTES, self.resident_blocks * BLOCK_BYTES)
        free, _ = call("cuMemGetInfo")
        self._large = min(large, int(free) // 4) // 4096 * 4096
        if self._large < 2 * self._small:
            raise TuningError(
                f"{gpu.name} has {int(free) / 1e6:,.0f} MB of memory free, the search needs "
                f"{8 * self._small / 1e6:,.0f} MB: end other programs on it"
            )
        self._gpu = gpu
        self._launches: dict[tuple[Case, Config], Callable[[], None]] = {}
        self._holds = ""
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> _GpuMachine:
        with contextlib.ExitStack() as stack:
            self._data = memory(stack, self._large)
            # Not a part of the other: 32 MiB out of 2 GiB were in L2 less often than 32 MiB of their own.
            self._near = memory(stack, self._small)
            self._out = memory(stack, 8)
            self._turns = Turns(stack, min(self._large, SCRATCH_BYTES))
            self._resources = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._resources.close()

    def cases(self) -> Iterator[Case]:
        """Of all elements; an element's follow one another."""
        for element in ELEMENTS:
            for kernel in MEASURED:
                for size, nbytes in (("tiny", TINY_BYTES), ("small", self._small), ("large", self._large)):
                    yield Case(kernel, element, cast("Size", size), nbytes)

    def _plan(self, case: Case) -> Plan:
        if case.kernel == "dot":
            return make_dot_plan(case.n, case.format)
        return make_plan(case.n, case.format, self._gpu.unit)

    def present(self, case: Case) -> Config:
        capability = self._gpu.compute_capability
        if case.kernel == "exact":
            return exact_config(capability, case.format, case.n)
        chunks = -(-case.nbytes // ((2 if case.kernel == "dot" else 1) * BLOCK_BYTES))
        return sum_config(capability, self._plan(case), chunks)

    def prepare(self, case: Case, config: Config) -> None:
        with current(self._gpu):  # contexts belong to threads
            self._launch(case, config)

    def _launch(self, case: Case, config: Config) -> Callable[[], None]:
        found = self._launches.get((case, config))
        if found is None:
            found = self._launches[case, config] = self._new_launch(case, config)
        return found

    def _new_launch(self, case: Case, config: Config) -> Callable[[], None]:
        x, out, stream = self._data if case.size == "large" else self._near, self._out, self._turns.stream
        target = get_format("binary64")  # shows every bit of the sum
        if isinstance(config, ExactConfig):
            recipe = exact_recipe(case.n, case.format, "ALIGNED", target, self._gpu, config)
        else:
            assert isinstance(config, SumConfig)
            product = case.kernel == "dot"
            recipe = sum_recipe(self._plan(case), "ALIGNED", target, self._gpu, config, product=product)
        y = x + case.nbytes // 2 if case.kernel == "dot" else x
        return partial(Launch(recipe, self._gpu).start, x, y, out, stream)

    def results(self, case: Case, configs: Sequence[Config]) -> list[bytes]:
        self._hold(case.element)
        found = []
        for config in configs:
            call("cuMemsetD8Async", self._out, 0xA5, 8, self._turns.stream)
            self._launch(case, config)()
            self._turns.wait()
            found.append(read(self._out, 8)[::-1])  # in the order in which numbers are written
        return found

    def _hold(self, element: str) -> None:
        """Normal numbers of that format, drawn once and copied until the memory is full."""
        if self._holds == element:
            return
        numbers = np.random.default_rng(0).standard_normal(_PIECE).astype(get_format(element).dtype)
        self._turns.fill(self._data, self._large, numbers)
        self._turns.copy(self._near, self._data, self._small)
        self._holds = element

    def times(self, case: Case, configs: Sequence[Config], rounds: int) -> list[list[float]]:
        self._hold(case.element)
        return self._turns.times([self._launch(case, config) for config in configs], case.nbytes, rounds)
