"""Pieces of work shared among threads: all are done once, results come in order, calls may lie within calls.

The threads are kept between calls, so a process that was forked from one that
has some, a call from a thread of theirs, and a failure are where this breaks.
"""

from __future__ import annotations

import multiprocessing
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from patience import HANGS

from tcu.model import threads


@pytest.mark.parametrize("workers", [1, 2, 3, 16])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_each_piece_is_done_once_and_results_come_in_order(count: int, workers: int) -> None:
    done: list[int] = []

    def work(n: int) -> int:
        time.sleep(0.002 * (n % 3 == 0))
        done.append(n)
        return n * n

    assert list(threads.in_order(work, iter(range(count)), workers)) == [n * n for n in range(count)]
    assert sorted(done) == list(range(count))


def test_no_more_threads_work_than_were_asked_for_and_all_of_them_do() -> None:
    for workers in (2, 3, 5):
        meeting = threading.Barrier(workers)
        seen: set[int] = set()

        def work(n: int, meeting: threading.Barrier = meeting, seen: set[int] = seen) -> None:
            seen.add(threading.get_ident())
            if n < meeting.parties:  # all threads at once
                meeting.wait(HANGS)

        list(threads.in_order(work, range(50), workers))
        assert len(seen) == workers
        assert threading.get_ident() in seen


@pytest.mark.parametrize("workers", ["1", "2", "3", "16"])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 100])
def test_each_piece_is_done_once_in_no_set_order(
    count: int, workers: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCU_NUM_THREADS", workers)
    done: list[int] = []

    def work(n: int) -> None:
        time.sleep(0.002 * (n % 3 == 0))
        done.append(n)

    threads.each(work, (n for n in range(count)))  # a generator, which one thread at a time may ask
    assert sorted(done) == list(range(count))


def test_each_has_as_many_threads_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    for workers in (1, 2, 5):
        monkeypatch.setenv("TCU_NUM_THREADS", str(workers))
        meeting = threading.Barrier(workers)
        seen: set[int] = set()

        def work(n: int, meeting: threading.Barrier = meeting, seen: set[int] = seen) -> None:
            seen.add(threading.get_ident())
            if n < meeting.parties:
                meeting.wait(HANGS)

        threads.each(work, range(50))
        assert len(seen) == workers
        assert threading.get_ident() in seen


def test_few_pieces_are_in_flight() -> None:
    asked: list[int] = []

    def pieces() -> Iterator[int]:
        for n in range(100):
            asked.append(n)
            yield n

    results = threads.in_order(abs, pieces(), 3)
    assert next(results) == 0
    assert len(asked) <= 2 * 3 + 1
    results.close()  # type: ignore[attr-defined]
    assert len(asked) <= 2 * 3 + 1


def test_calls_within_calls_end() -> None:
    def outer(n: int) -> int:
        return sum(threads.in_order(lambda m: n * m, range(10), 3))

    # More calls at a time than threads are kept, each from a thread of its own.
    with ThreadPoolExecutor(8) as pool:
        futures = [pool.submit(lambda: list(threads.in_order(outer, range(10), 3))) for _ in range(8)]
        assert {tuple(future.result(HANGS)) for future in futures} == {tuple(45 * n for n in range(10))}


def test_after_a_failure_nothing_still_runs() -> None:
    running = 0
    lock = threading.Lock()

    def work(n: int) -> int:
        nonlocal running
        with lock:
            running += 1
        try:
            time.sleep(0.01)
            if n == 3:
                raise ZeroDivisionError("three")
            return n
        finally:
            with lock:
                running -= 1

    got = []
    with pytest.raises(ZeroDivisionError, match="three"):
        got.extend(threads.in_order(work, range(100), 4))
    assert running == 0
    assert list(threads.in_order(work, range(3), 4)) == [0, 1, 2], "the threads are there for the next call"


@pytest.mark.parametrize("failing", [0, 3, 7])
def test_after_a_failure_in_any_thread_no_other_piece_begins(
    failing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TCU_NUM_THREADS", "4")
    begun: list[int] = []
    ended: list[int] = []

    def work(n: int) -> None:
        begun.append(n)
        time.sleep(0.01)
        ended.append(n)
        if n == failing:
            raise ZeroDivisionError(f"piece {n}")

    with pytest.raises(ZeroDivisionError, match=f"piece {failing}"):
        threads.each(work, range(1000))
    assert sorted(begun) == sorted(ended), "nothing still runs"
    assert len(begun) <= failing + 2 * 4
    begun.clear()
    threads.each(begun.append, range(3))
    assert sorted(begun) == [0, 1, 2], "the threads are there for the next call"


def test_each_within_each_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCU_NUM_THREADS", "3")
    done: list[tuple[int, int, int]] = []

    def call(number: int) -> None:
        threads.each(lambda n: threads.each(lambda m: done.append((number, n, m)), range(10)), range(10))

    with ThreadPoolExecutor(8) as pool:  # more calls at a time than threads are kept
        for future in [pool.submit(call, number) for number in range(8)]:
            future.result(HANGS)
    assert sorted(done) == [(a, b, c) for a in range(8) for b in range(10) for c in range(10)]


def test_whoever_stops_asking_waits_for_what_runs() -> None:
    ended: list[int] = []

    def work(n: int) -> int:
        time.sleep(0.02 * n)
        ended.append(n)
        return n

    results = threads.in_order(work, range(100), 3)
    next(results)
    results.close()  # type: ignore[attr-defined]
    before = len(ended)
    time.sleep(0.2)
    assert len(ended) == before


def _squares(_: int) -> list[int]:
    return list(threads.in_order(lambda n: n * n, range(20), 3))


@pytest.mark.skipif(sys.platform == "win32", reason="processes are not forked there")
def test_a_forked_process_has_threads_of_its_own() -> None:
    expected = _squares(0)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map_async(_squares, range(4)).get(HANGS) == [expected] * 4
