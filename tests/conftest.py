"""Shared by all tests: options, what a quick run leaves out, and strict Hypothesis settings.

Tests draw the same numbers in every run; ``--hypothesis-profile anew`` draws others.
"""

from __future__ import annotations

import gc
import os
import sys
import zlib
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("anew", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("tcu", settings.get_profile("anew"), derandomize=True)
settings.load_profile("tcu")

SKIPPED = "tcu/skipped"
"""Where pytest's cache has the names of the tests, and of whole files, that the last run skipped."""
SLOW = "tcu/slow"
"""Likewise of those that it left out because they are slow."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quick",
        action="store_true",
        help="leave out what is marked slow, and cases that add no value of a parameter, as `make test` does",
    )
    parser.addoption(
        "--all-cases",
        action="store_true",
        help="also those of tests that run some of very many cases",
    )
    parser.addoption(
        "--skipped",
        action="store_true",
        help="only what the last run skipped or left out: of use once the packages that were missing are installed",
    )
    parser.addoption(
        "--dots",
        type=int,
        default=1000,
        help="dot products per instruction that the definition and the fast model are compared on",
    )
    parser.addoption("--units", type=int, default=5, help="random units that the inference must identify")
    parser.addoption("--sums", type=int, default=250, help="random sums per dtype and operation on a GPU")
    parser.addoption(
        "--integer-pairs", type=int, default=100, help="random pairs of long integers to multiply"
    )
    parser.addoption("--integer-bits", type=int, default=50_000, help="bits of the longest of them")
    parser.addoption("--rows", type=int, default=320, help="random sums along axes on a GPU")
    parser.addoption(
        "--segments", type=int, default=32, help="random ragged sums per dtype and operation on a GPU"
    )
    parser.addoption(
        "--scans", type=int, default=400, help="random running sums on a GPU; a quarter as many of segments"
    )
    parser.addoption("--chunkings", type=int, default=8, help="random chunkings on every scheduler of Dask")
    parser.addoption("--kills", type=int, default=1, help="how often a run with a checkpoint is killed")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collected tests live to the end; the garbage collector searched them again and again, half of the time of this."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def slow_cases(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """What ``--quick`` leaves out: a test marked ``slow``; of one marked ``slow(n)``, all cases but n; of one with several
    parameters and no mark, all cases but as many as hold every value of each.
    """
    return _all_but_some("slow", items, also_unmarked=True)


def further_cases(items: Iterable[pytest.Item]) -> Iterator[pytest.Item]:
    """What runs with ``--all-cases`` only: of a test marked ``some(n)``, all cases but n."""
    return _all_but_some("some", items)


def _all_but_some(
    mark: str, items: Iterable[pytest.Item], also_unmarked: bool = False
) -> Iterator[pytest.Item]:
    """The n cases that stay hold as many values of the test's parameters as n cases can, and then as many pairs of values; what else
    they are, a hash of their names says.
    """
    tests: dict[tuple[str, int | None], list[pytest.Item]] = defaultdict(list)
    for item in items:
        counts = [each.args[0] if each.args else 0 for each in item.iter_markers(mark)]
        if counts or (also_unmarked and len(_parameters(item)) > 1):
            tests[item.nodeid.partition("[")[0], min(counts, default=None)].append(item)
    for (_, count), cases in tests.items():
        cases.sort(key=lambda item: zlib.crc32(item.nodeid.encode()))
        held = {item: (_values(item, 1), _values(item, 2)) for item in cases if count != 0}
        seen: tuple[set[Any], set[Any]] = set(), set()
        for _ in range(len(cases) if count is None else min(count, len(cases))):
            best = max(
                cases,
                key=lambda item: [len(own - so_far) for own, so_far in zip(held[item], seen, strict=True)],
            )
            if count is None and held[best][0] <= seen[0]:
                break
            for so_far, own in zip(seen, held[best], strict=True):
                so_far |= own
            cases.remove(best)
        yield from cases


def _parameters(item: pytest.Item) -> dict[str, Any]:
    return item.callspec.params if hasattr(item, "callspec") else {}


def _values(item: pytest.Item, together: int) -> set[tuple[tuple[str, str], ...]]:
    """So many parameters at a time, with their values."""
    values = sorted((name, repr(value)) for name, value in _parameters(item).items())
    return set(combinations(values, together))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    further = set() if config.getoption("--all-cases") else set(further_cases(items))
    config.hook.pytest_deselected(items=[item for item in items if item in further])
    items[:] = [item for item in items if item not in further]
    left: set[pytest.Item] = set()
    if config.getoption("--quick"):
        # Not skipped: to report each takes longer than most tests.
        left = set(slow_cases(items))
        worker = getattr(config, "workerinput", {}).get("workerid", "gw0")
        if hasattr(config, "cache") and worker == "gw0":
            config.cache.set(SLOW, [item.nodeid for item in left])
    if config.getoption("--skipped"):
        if not hasattr(config, "cache"):
            raise pytest.UsageError(
                "--skipped needs pytest's cache, where the last run's names are: run without -p no:cacheprovider"
            )
        names = {*config.cache.get(SKIPPED, []), *config.cache.get(SLOW, [])}
        left = {item for item in items if not names & {item.nodeid, item.nodeid.partition("::")[0]}}
    config.hook.pytest_deselected(items=[item for item in items if item in left])
    items[:] = [item for item in items if item not in left]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if hasattr(config, "cache"):
        config.cache.set(SKIPPED, [report.nodeid for report in terminalreporter.stats.get("skipped", [])])
        if config.getoption("--quick"):
            slow = len(config.cache.get(SLOW, []))
            terminalreporter.write_line(f"{slow:,} slow tests or cases left out: `make test-all` runs them")
        else:
            config.cache.set(SLOW, [])


@pytest.fixture(autouse=True)
def _same_draws(request: pytest.FixtureRequest) -> None:
    """Tests of a GPU draw from PyTorch too: the same numbers, whichever tests ran before in the process."""
    if "torch" in sys.modules and request.node.get_closest_marker("gpu"):
        torch = sys.modules["torch"]
        torch.manual_seed(0)
        free, whole = torch.cuda.mem_get_info() if torch.cuda.is_available() else (1, 1)
        if free < whole / 3:  # what other processes of this run need, too
            torch.cuda.empty_cache()


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where kernels for the host are compiled, each once, for all processes that run these tests."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "kernels_on_host"
    folder.mkdir(exist_ok=True)
    return folder
