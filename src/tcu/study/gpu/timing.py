"""How calls on a GPU are timed; every benchmark of GPU sums uses these methods and says which.

**events**: CUDA events around one call, after a warm-up, over many rounds, each call queued behind
a kernel that only waits, so that the host is ahead: what the GPU needs for one
call, the start of its kernels and the events themselves (about 2 us) included.
A call that took the host longer than that wait is left out, if others did not.

**graph**: many calls in a row captured in a CUDA graph, events around its
replay, divided by the number of calls.  What the GPU needs without the host.

In both, participants take turns, so that a drift of clocks or temperature hits
all alike, and each follows each other one equally often: products run at the
GPU's power limit, and one of e4m3 (4096 x 11008 x 4096) had 0.90 of a peer's
speed where that one always came after a participant that drew less power, 0.92
where it did not (H200).  The figure is the median, with the 10th and 90th
percentile beside it.

**Cold-cache rule**, the same for all participants of a row.  An array larger
than FLUSH times the L2 cache is one buffer, read again and again.  A smaller
one is "cold": all calls together, whoever makes them, rotate over so many
distinct buffers that FLUSH times the L2 lies between two reads of the same
one.  The same array where it fits in L2 is measured once more as "in L2":
one buffer, no rotation.  Results that a call leaves in L2 are written to
memory while the next one runs, whosever that is: of a kernel that reads 2 GB,
17 MB of them take 17 us (H200).

**Bytes**: every input byte once; the 2 to 8 bytes of the result are left out.  1 TB/s is 10^12
bytes per second.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

FLUSH = 4
"""Times the L2 cache that is read before a buffer's turn comes again."""
HEAD_START = 1e-3
"""Seconds that the GPU waits before each call, while the host queues it.

One wait for a whole round was too short where a round had a hundred calls: the last ones were measured
at the host's speed.  Three tenths of it were too short for calls from Python where the host was slow: 0.1 to 0.5 ms a
call, by which single points had a third less speed.
"""
CLOCK_HZ = 1.98e9
"""Of a multiprocessor of an H200; only the length of the wait depends on it."""
ROUNDS = (11, 200)
"""Fewest and most rounds, whatever the time allowed; a caller may ask for fewer."""
GRAPH_BYTES = 1 << 31
"""Roughly what one replay reads, within the limits below."""
GRAPH_CALLS = (8, 64)

MOST_BUFFERS = 128
"""Of an array so small that its place in a cache is no matter beside the start of a kernel."""

Call = Callable[[int], Any]
"""Makes one call on the buffer of that number, without waiting for its result."""


@dataclass(frozen=True)
class Timing:
    """Seconds per call."""

    median: float
    p10: float
    p90: float
    samples: int
    late: int = 0
    """Further calls, left out because the host was not ahead; of ``samples``, if it never was."""

    @classmethod
    def of(cls, seconds: Sequence[float], late: Sequence[float] = ()) -> Timing:
        """Of the calls that were queued in time, and of those that were late."""
        taken = seconds or late
        p10, median, p90 = np.percentile(taken, [10, 50, 90]).tolist()
        return cls(median, p10, p90, len(taken), len(late))


def buffers_for(nbytes: int, l2: int, cold: bool) -> int:
    """How many distinct buffers of that size the calls of a row rotate over."""
    if not cold or nbytes > FLUSH * l2:
        return 1
    return min(math.ceil(FLUSH * l2 / nbytes) + 1, MOST_BUFFERS)


class Clock(Protocol):
    """What the benchmarks ask of a machine."""

    l2: int
    """Bytes of the last cache before memory."""

    def synchronize(self) -> None: ...

    def events(
        self, calls: Mapping[str, Call], buffers: int, seconds: float, fewest: int = ROUNDS[0]
    ) -> dict[str, Timing]:
        """Each call timed alone, in about that many seconds for all of them, but in no fewer rounds than that."""

    def graph(
        self, calls: Mapping[str, Call], buffers: int, nbytes: int, seconds: float
    ) -> dict[str, Timing | str]:
        """Each call timed by replays; in words, why one could not be captured."""


class CudaClock:
    """The current GPU of PyTorch, on a stream of its own that all libraries share."""

    def __init__(self) -> None:
        import torch

        self._torch = torch
        torch.cuda.set_stream(torch.cuda.Stream())  # the default stream cannot be captured
        self.l2 = int(torch.cuda.get_device_properties(0).L2_cache_size)

    def synchronize(self) -> None:
        self._torch.cuda.synchronize()

    def events(
        self, calls: Mapping[str, Call], buffers: int, seconds: float, fewest: int = ROUNDS[0]
    ) -> dict[str, Timing]:
        turn = itertools.cycle(range(buffers))
        turns = {name: _next_turn(call, turn) for name, call in calls.items()}
        return self._take_turns(turns, seconds, 1, fewest)

    def graph(
        self, calls: Mapping[str, Call], buffers: int, nbytes: int, seconds: float
    ) -> dict[str, Timing | str]:
        low, high = GRAPH_CALLS
        count = max(buffers, min(high, max(low, GRAPH_BYTES // nbytes)))
        turn = itertools.cycle(range(buffers))
        replays: dict[str, Callable[[], Any]] = {}
        refused: dict[str, str] = {}
        for name, call in calls.items():
            try:
                replays[name] = self._capture(_next_turn(call, turn), count).replay
            except Exception as error:  # whatever a library says to being captured is the answer
                refused[name] = f"not captured: {first_line(error)}"
        return {**self._take_turns(replays, seconds, count, ROUNDS[0]), **refused}

    def _capture(self, call: Callable[[], Any], count: int) -> Any:
        call()  # whatever a library sets up at its first call on this stream
        self.synchronize()
        graph = self._torch.cuda.CUDAGraph()
        # Relaxed: a library may allocate meanwhile.
        graph.capture_begin(capture_error_mode="relaxed")
        try:
            for _ in range(count):
                call()
        finally:
            graph.capture_end()
        return graph

    def _take_turns(
        self, calls: Mapping[str, Callable[[], Any]], seconds: float, division: int, fewest: int
    ) -> dict[str, Timing]:
        if not calls:
            return {}
        for _ in range(2):  # the first for set-up, the second for the length of a round
            start = time.perf_counter()
            for call in calls.values():
                call()
            self.synchronize()
            each = time.perf_counter() - start
        event = self._torch.cuda.Event
        wait = int(CLOCK_HZ * HEAD_START)
        marks: dict[str, list[tuple[Any, Any, bool]]] = {name: [] for name in calls}
        participants, orders = list(calls.items()), itertools.cycle(balanced_orders(len(calls)))
        for _ in range(rounds_in(seconds, each + HEAD_START * len(calls), fewest)):
            for name, call in (participants[i] for i in next(orders)):
                begin, end = event(enable_timing=True), event(enable_timing=True)
                self._torch.cuda._sleep(wait)
                start = time.perf_counter()
                begin.record()
                call()
                end.record()
                marks[name].append((begin, end, time.perf_counter() - start > HEAD_START))
            self.synchronize()

        def seconds_of(those: list[tuple[Any, Any, bool]], were_late: bool) -> list[float]:
            return [a.elapsed_time(b) * 1e-3 / division for a, b, late in those if late is were_late]

        return {
            name: Timing.of(seconds_of(those, False), seconds_of(those, True))
            for name, those in marks.items()
        }


class WallClock:
    """The host's clock with the same methods, to try the protocol where there is no GPU."""

    l2 = 1 << 20

    def synchronize(self) -> None:
        pass

    def events(
        self, calls: Mapping[str, Call], buffers: int, seconds: float, fewest: int = ROUNDS[0]
    ) -> dict[str, Timing]:
        turn = itertools.cycle(range(buffers))
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(fewest):
            for name, call in calls.items():
                start = time.perf_counter()
                call(next(turn))
                samples[name].append(time.perf_counter() - start)
        return {name: Timing.of(taken) for name, taken in samples.items()}

    def graph(
        self, calls: Mapping[str, Call], buffers: int, nbytes: int, seconds: float
    ) -> dict[str, Timing | str]:
        return dict.fromkeys(calls, "not captured: no GPU")


def host_time(call: Callable[[], Any], clock: Clock, batches: int = 21, batch: int = 200) -> Timing:
    """Seconds that a call keeps the host: the wall clock over a batch, waiting only between batches.

    A batch is shorter than the GPU's queue of launches (1024), which would make the host wait.
    """
    samples = []
    for _ in range(batches + 1):
        start = time.perf_counter()
        for _ in range(batch):
            call()
        samples.append((time.perf_counter() - start) / batch)
        clock.synchronize()
    return Timing.of(samples[1:])


def balanced_orders(count: int) -> list[list[int]]:
    """Orders of so many participants in which each directly follows each other one equally often (Williams 1949)."""
    first = [(i + 1) // 2 if i % 2 else (count - i // 2) % count for i in range(count)]
    orders = [[(each + shift) % count for each in first] for shift in range(count)]
    return orders + [order[::-1] for order in orders] if count % 2 else orders


def rounds_in(seconds: float, each: float, fewest: int = ROUNDS[0]) -> int:
    return max(fewest, min(ROUNDS[1], int(seconds / each)))


def first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:200]


def _next_turn(call: Call, turn: Iterator[int]) -> Callable[[], Any]:
    return lambda: call(next(turn))
