"""Contract: ``pytest --skipped`` runs what the run before skipped, single tests and whole files, and nothing else.

After ``--quick`` it runs what that left out, besides.
"""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

FILES = {
    "test_some": """
        import os, pytest
        @pytest.mark.parametrize("name", ["A", "B"])
        def test_two(name): name in os.environ or pytest.skip("for want of " + name)
        def test_another(): pass
        @pytest.mark.slow
        def test_slow(): pass
    """,
    "test_whole": """
        import os, pytest
        if "A" not in os.environ: pytest.skip("for want of A", allow_module_level=True)
        def test_this(): pass
        def test_that(): pass
    """,
}


@pytest.mark.parametrize("processes", ["0", pytest.param("1", marks=pytest.mark.slow)])
def test_what_was_skipped_runs(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(**FILES)

    def outcomes(*arguments: str) -> dict[str, int]:
        found = pytester.runpytest("-n", processes, *arguments).parseoutcomes()
        found.pop("deselected", None)  # pytest-xdist does not tell
        return found

    assert outcomes() == {"passed": 2, "skipped": 3}
    assert outcomes("--quick") == {"passed": 1, "skipped": 3}
    monkeypatch.setenv("A", "")
    assert outcomes("--skipped") == {"passed": 4, "skipped": 1}
    monkeypatch.setenv("B", "")
    assert outcomes("--skipped") == {"passed": 1}
    assert outcomes("--skipped") == {}


def test_without_the_cache(pytester: pytest.Pytester) -> None:
    pytester.makeconftest((Path(__file__).parent / "conftest.py").read_text())
    pytester.makeini("[pytest]\nmarkers = slow")
    pytester.makepyfile(**FILES)
    without = ("-p", "no:cacheprovider")
    assert pytester.runpytest(*without).parseoutcomes() == {"passed": 2, "skipped": 3}
    result = pytester.runpytest("--skipped", *without)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --skipped needs pytest's cache*"])
