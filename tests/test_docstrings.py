"""Contract: every public function and class has an example in its docstring, and it prints what it says."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import tcu

PUBLIC = {
    **{name: getattr(tcu, name) for name in dir(tcu) if callable(getattr(tcu, name)) and not name.startswith("_")},
    **{f"fft.{name}": getattr(tcu.fft, name) for name in tcu.fft.__all__},
    **{f"streams.{name}": getattr(tcu.streams, name) for name in tcu.streams.index_sums.__all__},
    **{f"integers.{name}": each for name, each in vars(tcu.integers).items() if callable(each)},
}  # fmt: skip


def run(name: str, text: str) -> doctest.TestResults:
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    return doctest.DocTestRunner(verbose=False).run(test)


@pytest.mark.slow(6)
@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_prints_what_it_says(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # where some save a file
    text = PUBLIC[name].__doc__
    assert "\nExamples\n--------\n" in "\n".join(line.strip() for line in text.splitlines())
    found = run(name, text)
    assert found.failed == 0, capsys.readouterr().out
    assert found.attempted >= 2


def test_a_wrong_example_is_noticed() -> None:
    assert run("wrong", ">>> 1 + 1\n3\n").failed == 1
