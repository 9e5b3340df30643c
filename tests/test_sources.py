"""Contract: figures name the sources that they are of, and a document that quotes older ones says so.

Every file of results has digests of the sources that it measured: its own, written with it, or those of the commit that it
names or that stored it.  Where these are not the digests of the sources as they are, or the newest commit to what the file
measures is more than DAYS younger, the pages that quote it must say so; else this fails.  What needs a GPU cannot be
measured anew everywhere, so being older is no failure, and hiding it is.
"""

from __future__ import annotations

import datetime
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tcu.study import STUDIES, stored_folder, stored_result
from tcu.study.provenance import provenance
from tcu.study.sources import PARTS, RECORD, changed, digests, parts_of, remark

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
import page  # noqa: E402
import readme  # noqa: E402
import sources  # noqa: E402

DAYS = 7
"""By so much the newest commit may be younger than figures that are not said to be older."""
PAGE, REPORT = ((ROOT / "docs" / name).read_text() for name in ("benchmarks.md", "report.md"))


def said_older() -> set[str]:
    """The files that the page of benchmarks says to be of older sources."""
    lines = [line for line in PAGE.splitlines() if line.startswith("Figures of older sources")]
    return {name for line in lines for name in sources.files() if f"`{name}`" in line}


def hidden(said: set[str], now: Mapping[str, str], newest: Callable[[str], str] | None = None) -> list[str]:
    """Benchmarks' files that are older than the sources and not said to be."""
    found = []
    for name, document in sources.files().items():
        if "/" in name or name in said:
            continue
        parts = sources.measured_parts(document)
        held = sources.of_file(name, document)
        if held is None or changed(held, parts, now):
            found.append(name)
        elif newest is not None:
            measured = datetime.date.fromisoformat(document["date"])
            youngest = max(datetime.date.fromisoformat(newest(part)) for part in parts)
            if (youngest - measured).days > DAYS:
                found.append(name)
    return found


def git_or_skip() -> None:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git and a clone")
    asked = ["git", "-C", str(ROOT), "rev-parse", "--is-shallow-repository"]
    if subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip() == "true":
        pytest.skip("needs a clone with its history")


# Digests


def test_a_digest_is_that_of_git_and_one_byte_changes_it(tmp_path: Path) -> None:
    if shutil.which("git") is None:
        pytest.skip("needs git")

    def git(*arguments: str) -> None:
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    def tree(name: str, kernel: str) -> Path:
        root = tmp_path / name / "src" / "tcu"
        for path, text in (
            ("gpu/cuda/kernels/a.cu", kernel),
            ("plan/b.py", "b = 1\n"),
            ("gpu/README.md", "words"),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    first = digests(tree("one", "int a;\n"))
    assert set(first) == set(PARTS)
    other = digests(tree("two", "int b;\n"))
    assert changed(first, PARTS, other) == ("GPU kernels",)
    shutil.copytree(tmp_path / "one" / "src", tmp_path / "src")
    git("init", "-q")
    git("add", "src")
    git("commit", "-qm", "one")
    assert sources.at_commit("HEAD", tmp_path) == first
    (tmp_path / "src/tcu/gpu/README.md").write_text("other words")
    assert digests(tmp_path / "src" / "tcu") == first, "words are no sources"


def test_what_is_measured_now_holds_the_digests_of_what_runs() -> None:
    assert provenance("a command")["sources"] == digests() == digests(ROOT / "src" / "tcu")
    assert all(digests().values())
    assert remark(digests(), PARTS) == ""


def test_a_remark_names_what_has_changed() -> None:
    measured = digests() | {"model": "another"}
    assert remark(measured, ["model", "probes"]) == "Of older sources: model changed since."
    assert remark(measured, ["probes"]) == ""
    assert remark(None, ["model"]) == "Of which sources is not known."


def test_studies_measure_the_parts_that_they_are_about() -> None:
    assert parts_of(STUDIES["variants"]) == parts_of(STUDIES["segments"]) == ("GPU kernels",)
    assert parts_of(STUDIES["theorems"]) == ("algorithms",)
    assert parts_of(STUDIES["features"]) == ("model", "probes")
    assert parts_of(STUDIES["errors"]) == ("model",)


# Files of results


def test_every_file_of_results_has_digests() -> None:
    for name, document in sources.files().items():
        held = sources.of_file(name, document)
        assert held is not None, f"{name}: run python benchmarks/sources.py"
        assert set(held) == set(PARTS), name
    record = json.loads((ROOT / "benchmarks" / "results" / RECORD).read_text())
    assert {each["how"] for each in record.values()} <= {"named by the file", "that stored the file"}
    assert not any(sources.files()[name].get("sources") for name in record), "files that say it themselves"


def test_a_file_names_its_own_digests_before_those_of_the_record(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(json.dumps({"a.json": {"sources": {"model": "recorded"}}}))
    assert sources.of_file("a.json", {}, tmp_path) == {"model": "recorded"}
    assert sources.of_file("a.json", {"sources": {"model": "own"}}, tmp_path) == {"model": "own"}
    assert sources.of_file("b.json", {}, tmp_path) is None


def test_no_page_hides_that_its_figures_are_older() -> None:
    said = said_older()
    assert hidden(said, digests()) == [], "run python docs/generated.py, or measure anew"
    assert {f"{name}.json" for name in page.older()} == said, "what is current is not said to be older"
    others = dict.fromkeys(PARTS, "another digest")
    assert hidden(set(), others) == [name for name in sources.files() if "/" not in name]


def test_no_page_hides_figures_that_are_days_older_than_the_newest_commit() -> None:
    git_or_skip()
    assert hidden(said_older(), digests(), sources.newest_commit) == []


def test_figures_of_the_same_digests_that_are_too_old_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def document(date: str) -> dict[str, dict[str, Any]]:
        return {"cpu.json": {"date": date, "machine": {}, "sources": digests()}}

    def newest(part: str) -> str:
        return "2026-11-24"

    for date, expected in (("2026-11-17", []), ("2026-11-16", ["cpu.json"])):
        monkeypatch.setattr(sources, "files", lambda date=date: document(date))
        assert hidden(set(), digests(), newest) == expected


@pytest.mark.parametrize("document", readme.QUOTED)
def test_documents_that_quote_older_figures_say_so(document: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = " ".join((ROOT / document).read_text().split())
    note = readme.older(document)
    assert note in text, "python benchmarks/readme.py prints what it must say"
    assert note or "Figures of older sources" not in text
    monkeypatch.setattr(readme, "remark", lambda held, parts: "older")
    assert all(f"`{name}.json`" in readme.older(document) for name in readme.QUOTED[document])
    monkeypatch.setattr(readme, "remark", lambda held, parts: "")
    assert readme.older(document) == ""


def test_the_report_says_which_studies_are_of_older_sources() -> None:
    for name, study in STUDIES.items():
        if (result := stored_result(study, stored_folder())) is not None:
            section = REPORT.partition(f'<a id="{name}"></a>')[2].partition("<a id=")[0]
            told = remark(result.sources, parts_of(study))
            assert told in section, name
            assert told or "Of older sources" not in section, name
