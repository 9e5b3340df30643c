"""Contract: `make test` leaves out what is marked slow, and cases without a value of their own, and still touches all that tcu has.

Every public function, every command of the README and every unit of the catalogue is named by a test that it runs, and
every surface has such tests, where its library is at hand.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
from pathlib import Path
from typing import get_args

import pytest
from conftest import slow_cases

import tcu
from tcu.surfaces.served import Surface
from tcu.units import CATALOGUE

pytest_plugins = ["pytester"]
README = Path(__file__).parents[1] / "README.md"
SURFACES = {"NumPy": "test_sum", "PyTorch": "test_torch", "GPU": "test_kernels_on_host", "Dask": "test_dask", "ranks": "test_distributed", "files": "test_streams", "command line": "test_cli"}  # fmt: skip
LIBRARIES = {"PyTorch": "torch", "Dask": "dask", "ranks": "torch"}


def test_what_is_marked_slow_is_left_out(pytester: pytest.Pytester) -> None:
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(
        test_some="""
        import pytest
        def test_quick(): pass
        @pytest.mark.slow
        def test_slow(): pass
        @pytest.mark.slow(3)
        @pytest.mark.parametrize("a", range(3))
        @pytest.mark.parametrize("b", range(3))
        def test_nine(a, b): pass
        @pytest.mark.parametrize("a", range(3))
        @pytest.mark.parametrize("b", range(4))
        def test_twelve(a, b): pass
        @pytest.mark.slow(3)
        @pytest.mark.parametrize("a", [pytest.param(0, marks=pytest.mark.slow), 1])
        def test_two(a): pass
        """
    )
    assert pytester.inline_run().countoutcomes() == [25, 0, 0]
    result = pytester.runpytest_inprocess("--quick")
    assert result.parseoutcomes() == {"passed": 9, "deselected": 16}
    result.stdout.fnmatch_lines(["16 slow tests or cases left out: `make test-all` runs them"])
    passed, _, _ = pytester.inline_run("--quick").listoutcomes()
    names = [report.nodeid.partition("::")[2] for report in passed]
    assert {"test_quick", "test_two[1]"} < set(names)
    nine, twelve = (
        [re.findall(r"\d", name) for name in names if name.startswith(test)]
        for test in ("test_nine", "test_twelve")
    )
    assert len(nine) == 3
    for values in zip(*nine, strict=True):
        assert set(values) == {"0", "1", "2"}, "as many values as three cases can have"
    assert len(twelve) == 4, "as many as hold every value"
    assert [len(set(values)) for values in zip(*twelve, strict=True)] in ([3, 4], [4, 3])


def test_some_cases_stand_for_all(pytester: pytest.Pytester) -> None:
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makeini("[pytest]\nmarkers = slow\n  some")
    pytester.makepyfile(
        test_some="""
        import pytest
        @pytest.mark.some(14)
        @pytest.mark.parametrize("a", range(3))
        @pytest.mark.parametrize("b", range(3))
        @pytest.mark.parametrize("c", range(3))
        def test_many(a, b, c): pass
        """
    )
    passed, _, _ = pytester.inline_run().listoutcomes()
    values = [re.findall(r"\d", report.nodeid) for report in passed]
    assert len(values) == 14
    for first, second in ((0, 1), (0, 2), (1, 2)):
        assert len({(each[first], each[second]) for each in values}) == 9
    assert pytester.inline_run("--all-cases").countoutcomes() == [27, 0, 0]


def test_the_quick_run_touches_everything(request: pytest.FixtureRequest) -> None:
    items = request.session.items
    if len({item.path for item in items}) < 50:
        pytest.skip("needs the names of all tests: run pytest without a file's name")
    left_out = set(slow_cases(items))
    kept = [item for item in items if item not in left_out and not item.get_closest_marker("gpu")]
    tests = {item.function: vars(item.module) for item in kept if isinstance(item, pytest.Function)}
    sources = {inspect.getsource(test): names for test, names in tests.items()}
    cases = {part for item in kept for part in re.split(r"[][ -]", item.nodeid)}

    functions = {name for name in dir(tcu) if inspect.isroutine(getattr(tcu, name)) and name[0] != "_"}
    called = functions & cases  # as operations of the golden bits
    called |= {
        name
        for name in functions
        for source, names in sources.items()
        if re.search(rf"\btcu\.{name}\b", source)
        or (names.get(name) is getattr(tcu, name) and re.search(rf"\b{name}\(", source))
    }
    assert functions - called == set()
    commands = set(re.findall(r"^\| `tcu (\w+)", README.read_text("utf-8"), re.M))
    text = "\n".join(sources)
    assert {name for name in commands if not re.search(rf"""(["(]|\btcu ){name}\b""", text)} == set()
    names = " ".join(item.nodeid for item in kept)
    assert {unit for unit in CATALOGUE if not re.search(rf"(?<!\w){unit}(?!\w)", names)} == set()
    assert SURFACES.keys() == set(get_args(Surface))
    files = {item.path.stem for item in kept}
    for surface, file in SURFACES.items():
        assert file in files or importlib.util.find_spec(LIBRARIES.get(surface, "tcu")) is None, surface
