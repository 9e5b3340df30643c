"""Contract: launches that hand each other words of a workspace follow each other on its stream.

Neither a launch of another thread comes between them, nor what an exception
left half done before them.  The driver is a pretended one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from launches import ends_here

from tcu.formats import get_format
from tcu.gpu import Gpu, exact_segments, segments, variants, workspace
from tcu.gpu.launch import KernelChoice, Launch
from tcu.gpu.sums import contiguous
from tcu.plan import make_plan
from tcu.units import get_unit

STREAM = 7
GPU = Gpu(0, "H200", (9, 0))


class Driver:
    """Writes down what is put on the stream, by which thread; ``then`` is called after each launch."""

    def __init__(self) -> None:
        self.started: list[tuple[str, str]] = []
        self.then: Callable[[], None] = lambda: None

    def call(self, name: str, *given: Any) -> int:
        if name == "cuMemsetD8Async" and given[-1] == STREAM:
            address, byte, size, _ = given
            assert (address, byte, size) == (4096, 0, 8 * (segments.STATES // 2))
            self.started.append((threading.current_thread().name, "zeros"))
        return {"cuMemAlloc": 4096, "cuStreamIsCapturing": 0}.get(name, 0)

    def start(self, choice: KernelChoice, entry: str, stream: int) -> None:
        assert stream == STREAM
        self.started.append((threading.current_thread().name, entry))
        self.then()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    driver = Driver()
    names = SimpleNamespace(CUstream_flags=SimpleNamespace(CU_STREAM_NON_BLOCKING=1),
                            CUstreamCaptureMode=SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2))  # fmt: skip
    monkeypatch.setattr(Gpu, "multiprocessors", 132)
    monkeypatch.setattr(workspace, "_pieces", {})
    monkeypatch.setattr(workspace, "call", driver.call)
    monkeypatch.setattr(workspace, "cuda_module", lambda name: names)
    ends_here(monkeypatch, driver.start, lambda source, entry, *_: entry, space=None)
    return driver


def sums(n: int) -> None:
    fmt = get_format("float32")
    Launch(segments.segments_recipe(n, 4, fmt, fmt, GPU), GPU).start(0, 0, 0, STREAM)


def exact_sums(n: int) -> None:
    fmt = get_format("float32")
    Launch(exact_segments.exact_segments_recipe(n, 4, fmt, fmt, GPU), GPU).start(0, 0, 0, STREAM)


def levels(n: int) -> None:
    plan = make_plan(n, get_format("float16"), get_unit("H200"), variant="two-mma")
    recipe = variants.variant_recipe(plan, contiguous(0, n), "ALIGNED", get_format("float32"), GPU)
    Launch(recipe, GPU).start(4096, 4096, 8192, STREAM)


@pytest.mark.slow(1)
@pytest.mark.parametrize("start", [sums, exact_sums, levels])
def test_no_other_thread_comes_between(driver: Driver, start: Callable[[int], None]) -> None:
    """The other thread begins, with a launch of its own, when the first kernel is on the stream."""
    others: list[threading.Thread] = []

    def begin() -> None:
        driver.then = lambda: None
        others.append(threading.Thread(target=start, args=(1 << 19,), name="other"))
        others[0].start()
        others[0].join(0.5)  # as long as it would take

    driver.then = begin
    start(1 << 20)
    others[0].join()
    own = [name for name, _ in driver.started]
    count = len(own) // 2
    assert count >= 2
    assert own == [threading.current_thread().name] * count + ["other"] * count


@pytest.mark.parametrize("start", [sums, exact_sums])
def test_what_was_given_up_half_way_leaves_nothing_behind(
    driver: Driver, start: Callable[[int], None]
) -> None:
    """As by Ctrl-C when the list of long segments is there, and nobody has taken it."""

    def interrupt() -> None:
        driver.then = lambda: None
        raise KeyboardInterrupt

    start(1 << 20)
    first, second = (entry for _, entry in driver.started)
    driver.then = interrupt
    with pytest.raises(KeyboardInterrupt):
        start(1 << 20)
    start(1 << 20)
    start(1 << 20)
    entries = [entry for _, entry in driver.started]
    assert entries == [first, second, first, "zeros", first, second, first, second]


@pytest.mark.parametrize("lasting", [True, False])
def test_a_streams_number_is_asked_for_once_if_its_handle_lasts(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, lasting: bool
) -> None:
    """In a capture it is never asked for, and every capture has words of its own."""
    asked: list[str] = []
    state = {"cuStreamIsCapturing": 0, "cuStreamGetId": 31, "cuStreamGetCaptureInfo": (1, 5)}

    def call(name: str, *given: Any) -> Any:
        asked.append(name)
        return state[name] if name in state else driver.call(name, *given)

    monkeypatch.setattr(workspace, "call", call)
    monkeypatch.setattr(workspace, "lasts", lambda stream, ordinal: lasting and stream == STREAM)
    monkeypatch.setattr(workspace, "_numbers", {})
    found = [workspace.workspace("kind", 4, False, 0, STREAM) for _ in range(3)]
    assert found[0] is found[1] is found[2]
    assert asked.count("cuStreamGetId") == (1 if lasting else 3)
    asked.clear()
    state["cuStreamIsCapturing"] = 1
    one = workspace.workspace("kind", 4, False, 0, STREAM)
    state["cuStreamGetCaptureInfo"] = (1, 6)
    other = workspace.workspace("kind", 4, False, 0, STREAM)
    assert len({found[0], one, other}) == 3
    assert "cuStreamGetId" not in asked
