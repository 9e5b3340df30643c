"""Contract: figures name the sources that they are of, and a document that quotes older ones says so.

Every file of results has digests of the sources that it measured: its own, written with it, or those of the commit that it
names or that stored it.  Where these are not the digests of the sources as they are, or the newest commit to what the file
measures is more than DAYS younger, the pages that quote it must say so; else this fails.  What needs a GPU cannot be
measured anew everywhere, so being older is no failure, and hiding it is.
"""

from __future__ import annotations

import ast
import datetime
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import cuda_layers
import pytest

from tcu.gpu.compiler import read_sources
from tcu.study import STUDIES, stored_folder, stored_result
from tcu.study.launches import launching, sources_of, without_words
from tcu.study.provenance import provenance
from tcu.study.sources import (
    GPU,
    INTEGERS,
    KERNELS_OF,
    PARTS,
    PEERS,
    RECORD,
    TRANSFORMS,
    changed,
    digests,
    digests_of_kernels,
    is_source,
    kernels_of,
    parts_of,
    remark,
    together,
)  # fmt: skip

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
        parts = sources.measured_parts(name, document)
        held = sources.of_file(name, document)
        if held is None or changed(held, parts, now):
            found.append(name)
        elif newest is not None:
            measured = datetime.date.fromisoformat(document["date"])
            youngest = max(datetime.date.fromisoformat(newest(part)) for part in parts)
            if (youngest - measured).days > DAYS:
                found.append(name)
    return found


def hidden_studies(
    said: Callable[[str], bool], now: Mapping[str, str], newest: Callable[[str], str] | None = None
) -> list[str]:
    """Studies' files that are older than the sources where the report does not say so."""
    found = []
    for name, study in STUDIES.items():
        result = stored_result(study, stored_folder())
        if result is None or said(name):
            continue
        parts = parts_of(study)
        if result.sources is None or changed(result.sources, parts, now):
            found.append(name)
        elif newest is not None:
            youngest = max(datetime.date.fromisoformat(newest(part)) for part in parts)
            if (youngest - datetime.date.fromisoformat(result.date)).days > DAYS:
                found.append(name)
    return found


def said_in_report(name: str) -> bool:
    section = REPORT.partition(f'<a id="{name}"></a>')[2].partition("<a id=")[0]
    return "Of older sources" in section


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


def test_a_file_of_transforms_belongs_to_them_alone() -> None:
    for part, paths in PARTS.items():
        for path in paths:
            assert (ROOT / "src" / "tcu" / path).exists(), path
            if path.endswith(".py"):
                assert [each for each in PARTS if is_source(path, each)] == [part]
    assert is_source("plan/matmul.py", "model")
    assert is_source("model/__init__.py", "model")
    assert not any(is_source("plan/version.py", part) for part in PARTS)


def test_what_is_measured_now_holds_the_digests_of_what_runs() -> None:
    assert provenance("a command")["sources"] == digests() == digests(ROOT / "src" / "tcu")
    assert all(digests().values())
    assert remark(digests(), digests()) == ""


def test_a_remark_names_what_has_changed() -> None:
    measured = digests() | {"model": "another"}
    assert remark(measured, ["model", "probes"]) == "Of older sources: model changed since."
    assert remark(measured, ["probes"]) == ""
    several = remark({**digests(), "model": "a", **dict.fromkeys(kernels_of("rows", "sums"), "a")}, digests())
    assert several == "Of older sources: model and kernels of rows, sums changed since."
    assert remark(None, ["model"]) == "Of which sources is not known."


def test_studies_measure_the_parts_that_they_are_about() -> None:
    assert parts_of(STUDIES["variants"]) == kernels_of("sums", "variants")
    assert parts_of(STUDIES["segments"]) == kernels_of("segmented", "rows")
    assert parts_of(STUDIES["gemm-rates"]) == (PEERS,), "products by hand and by cuBLAS are none of ours"
    assert parts_of(STUDIES["theorems"]) == ("algorithms",)
    assert parts_of(STUDIES["features"]) == ("model", "probes")
    assert parts_of(STUDIES["errors"]) == ("model",)


# Kernels of one module

SUM_CU = '#include "device/add.cuh"\n#include "generated/one/Sum.inc"\n__global__ void one() {}\n'
TEXTS = {
    "gpu/one.py": "from tcu.gpu.both import LOAD\nfrom tcu.gpu.configs import OneConfig\n"
                  'Sum = struct("Sum")\nchoice = KernelChoice("one", LOAD, OneConfig)\n',
    "gpu/two.py": 'from tcu.gpu.both import other\nchoice = KernelChoice("two", other())\n',
    "gpu/both.py": "LOAD = 16\n_STEP = 2\n\ndef other():\n    return _STEP\n",
    "gpu/device.py": "SLOW = 1\n",
    "gpu/configs.py": "class Config:\n    pass\n\nclass OneConfig(Config):\n    a = 1\n\nclass TwoConfig(Config):\n    b = 1\n"
                      'KERNELS: dict = {"one": OneConfig, "two": TwoConfig}\n',
    "gpu/tuning.json": '{"9.0": {"gpu": "H200", "one": {"a": 4}, "two": {"b": 4}}}',
    "gpu/cuda/kernels/one.cu": SUM_CU,
    "gpu/cuda/kernels/two.cu": "__global__ void two() {}\n",
    "gpu/cuda/device/add.cuh": "int add;\n",
    "engines/cuda/sums.py": "from tcu.gpu.one import choice\n",
}  # fmt: skip
ONE, TWO = kernels_of("one", "two")


@pytest.mark.parametrize(
    ("path", "old", "new", "changes"),
    [
        ("gpu/cuda/kernels/one.cu", "one()", "one(int)", {ONE}),
        ("gpu/cuda/kernels/two.cu", "two()", "two(int)", {TWO}),
        ("gpu/cuda/device/add.cuh", "add", "subtract", {ONE}),
        ("gpu/one.py", '"Sum"', '"Total"', {ONE}),
        ("gpu/both.py", "16", "32", {ONE}),
        ("gpu/both.py", "_STEP = 2", "_STEP = 3", {TWO}),
        ("gpu/configs.py", "a = 1", "a = 2", {ONE}),
        ("gpu/configs.py", "b = 1", "b = 2", set()),
        ("gpu/configs.py", "    pass", "    c = 1", {ONE}),
        ("gpu/tuning.json", '"a": 4', '"a": 8', {ONE}),
        ("gpu/tuning.json", '"b": 4', '"b": 8', set()),
        ("gpu/tuning.json", '"H200"', '"H100"', set()),
        ("engines/cuda/sums.py", "choice", "choice as chosen", {ONE}),
        ("gpu/device.py", "1", "2", set()),
        ("gpu/cuda/kernels/one.cu", "__global__", "// faster than before\n__global__ /* as measured */", set()),
        ("gpu/both.py", "LOAD = 16\n", 'LOAD = 16  # as measured\n"""Bytes."""\n\n', set()),
    ],
)  # fmt: skip
def test_a_digest_of_kernels_is_of_what_their_module_needs(
    path: str, old: str, new: str, changes: set[str]
) -> None:
    before = digests_of_kernels(TEXTS)
    assert set(before) == {ONE, TWO}
    assert old in TEXTS[path]
    after = digests_of_kernels({**TEXTS, path: TEXTS[path].replace(old, new)})
    assert {part for part in before if before[part] != after[part]} == changes


def test_modules_of_other_times_have_no_digest() -> None:
    missing = {path: text for path, text in TEXTS.items() if path != "gpu/cuda/device/add.cuh"}
    assert set(digests_of_kernels(missing)) == {TWO}


def test_strings_that_look_like_comments_stay() -> None:
    assert (
        without_words("a.cu", 'f("//", \'"\', "/* a */");  // b\n\n/* c\n */ g();')
        == 'f("//", \'"\', "/* a */");\ng();'
    )
    assert (
        without_words("a.py", 'x = "# no comment"  # one\n\n"""Words."""\ny = 1')
        == 'x = "# no comment"\ny = 1'
    )


def texts_here() -> dict[str, str]:
    root = ROOT / "src" / "tcu"
    return {
        path.relative_to(root).as_posix(): path.read_text()
        for folder in PARTS[GPU] for path in (root / folder).rglob("*") if path.suffix in (".py", ".cu", ".cuh", ".json")
    }  # fmt: skip


def test_every_kernel_belongs_to_a_module_that_launches_it() -> None:
    texts = texts_here()
    of_modules = launching(texts)
    launched = {path for found in of_modules.values() for path in found if "/kernels/" in path}
    assert launched == {path for path in texts if "/kernels/" in path and path.endswith(".cu")}
    named = {
        path: re.findall(r"KernelChoice\(\s*\"(\w+)\"", text)
        for path, text in texts.items()
        if path.endswith(".py")
    }
    for path, kernels in named.items():
        for kernel in kernels:
            module = path.removeprefix("gpu/").removesuffix(".py")
            assert f"gpu/cuda/kernels/{kernel}.cu" in of_modules[module], f"{path} launches {kernel}"
    assert sources_of("sums", texts) == of_modules["sums"]


def test_what_a_compiled_kernel_includes_is_among_its_module_s_sources() -> None:
    """The compiler's own reading of the includes, and ours."""
    assert cuda_layers.LAYERS, "it has imported what fills the kernels' structures"
    for module, found in launching(texts_here()).items():
        for path in (path for path in found if "/kernels/" in path):
            wanted = {name for name, _ in read_sources(path.rpartition("/")[2]) if name.startswith("device/")}
            assert {f"gpu/cuda/{name}" for name in wanted} <= set(found), f"{path} of {module}"


def test_kernels_without_a_digest_of_their_own_are_current_only_with_all() -> None:
    now = digests()
    whole = {part: now[part] for part in PARTS}
    sums = kernels_of("sums")
    assert changed(whole, sums, now) == ()
    assert changed({**whole, GPU: "another"}, sums, now) == sums
    assert changed({**whole, GPU: "another", sums[0]: now[sums[0]]}, sums, now) == ()
    assert changed({**whole, sums[0]: "another"}, sums, now) == sums
    assert changed({}, (PEERS,), now) == (PEERS,)
    assert changed(whole, kernels_of("gone"), now) == ()
    assert changed({**whole, f"{KERNELS_OF}gone": "one"}, kernels_of("gone"), now) == kernels_of("gone")


def test_a_record_adds_kernels_to_a_file_of_the_same_sources_alone() -> None:
    assert together({GPU: "a"}, {GPU: "a", "kernels of one": "b"}) == {GPU: "a", "kernels of one": "b"}
    assert together({GPU: "a"}, {GPU: "c", "kernels of one": "b"}) == together({GPU: "a"}, None) == {GPU: "a"}


def test_every_benchmark_on_a_gpu_says_what_it_measures() -> None:
    for name, document in sources.files().items():
        if "/" not in name and "gpu" in document["machine"]:
            assert any(name.startswith(each) for each in sources.MEASURED), name
    tree = ast.parse((ROOT / "benchmarks" / "gpu_segments.py").read_text())  # which imports PyTorch
    (parts,) = (ast.literal_eval(node.value) for node in tree.body
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PARTS")  # fmt: skip
    assert {f"gpu-segments-{part}" for part in parts} <= set(sources.MEASURED)
    kernels = {
        part for measured in sources.MEASURED.values() for part in measured if part.startswith(KERNELS_OF)
    }
    assert kernels <= set(digests()), "kernels of modules that there are"
    assert sources.measured_parts("gpu-segments-exactrows-67108864.json", {}) == kernels_of(
        "exact_rows", "exact_columns"
    )
    assert sources.measured_parts("gpu-new.json", {"machine": {"gpu": "H200"}}) == (GPU,)
    assert sources.measured_parts("new.json", {"machine": {}}) == ("model",)


# Files of results


def test_every_file_of_results_has_digests() -> None:
    kernels = digests()
    for name, document in sources.files().items():
        held = sources.of_file(name, document)
        assert held is not None, f"{name}: run python benchmarks/sources.py"
        assert set(held) >= {*PARTS} - {PEERS, INTEGERS, TRANSFORMS}, (
            name
        )  # which are younger than some files
        parts = sources.measured_parts(name, document)
        assert set(parts) <= set(held) | set(kernels), f"{name} measures what there is not: {parts}"
    record = json.loads((ROOT / "benchmarks" / "results" / RECORD).read_text())
    for name, each in record.items():
        own = sources.files()[name].get("sources")
        assert each["how"] in ((sources.SAME,) if own else (sources.OWN, sources.THAT_STORED))
        assert not own or own[GPU] == each["sources"][GPU]


def test_a_file_names_its_own_digests_before_those_of_the_record(tmp_path: Path) -> None:
    (tmp_path / RECORD).write_text(json.dumps({"a.json": {"sources": {"model": "recorded"}}}))
    assert sources.of_file("a.json", {}, tmp_path) == {"model": "recorded"}
    assert sources.of_file("a.json", {"sources": {"model": "own"}}, tmp_path) == {"model": "own"}
    assert sources.of_file("b.json", {}, tmp_path) is None


def test_no_page_hides_that_its_figures_are_older() -> None:
    said = said_older()
    assert hidden(said, digests()) == [], "run python docs/generated.py, or measure anew"
    assert {f"{name}.json" for name in page.older()} == said, "what is current is not said to be older"
    others = dict.fromkeys(digests(), "another digest")
    assert hidden(set(), others) == [name for name in sources.files() if "/" not in name]


def test_no_page_hides_figures_that_are_days_older_than_the_newest_commit() -> None:
    git_or_skip()
    assert hidden(said_older(), digests(), sources.newest_commit) == []
    assert hidden_studies(said_in_report, digests(), sources.newest_commit) == []


def test_figures_of_the_same_digests_that_are_too_old_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def document(date: str) -> dict[str, dict[str, Any]]:
        return {"cpu.json": {"date": date, "machine": {}, "sources": digests()}}

    def newest(part: str) -> str:
        return "2026-11-24"

    for date, expected in (("2026-11-17", []), ("2026-11-16", ["cpu.json"])):
        monkeypatch.setattr(sources, "files", lambda date=date: document(date))
        assert hidden(set(), digests(), newest) == expected


def test_studies_that_are_older_or_too_old_are_noticed() -> None:
    stored = [name for name, study in STUDIES.items() if stored_result(study, stored_folder()) is not None]
    assert len(stored) > 15
    others = dict.fromkeys(digests(), "another digest")
    assert hidden_studies(said_in_report, digests()) == []
    assert hidden_studies(lambda name: False, others) == stored
    young = [name for name in stored if not said_in_report(name)]
    assert hidden_studies(said_in_report, digests(), lambda part: "2100-01-01") == young


SINCE = datetime.date(2026, 11, 28)
"""Results that are younger name a commit."""
WITHOUT_COMMIT = {
    "file-rate.json",
    "gpu-distributed-2.json",
    "gpu-machine.json",
    "gpu-segments-rowscans.json",
    "gpu-segments-scans.json",
    "gpu-sum.json",
    "gpu-units.json",
    "matmul-errors.json",
    "paper-002.json",
    "simulate-ranks.json",
}
"""Files from before of which no commit, or a changed one, is named; none may be added."""


def without_commit(files: Mapping[str, dict[str, Any]]) -> set[str]:
    """Files of results that do not say of what commit they are."""
    return {
        name for name, document in files.items() if (document.get("commit") or "-dirty").endswith("-dirty")
    }


def test_results_name_the_commit_that_they_are_of() -> None:
    found = without_commit(sources.files())
    young = {name for name in found if datetime.date.fromisoformat(sources.files()[name]["date"]) > SINCE}
    assert young == set(), "commit first, or set TCU_COMMIT, and measure then"
    assert found - WITHOUT_COMMIT == set(), "commit first, or set TCU_COMMIT, and measure then"
    assert WITHOUT_COMMIT - found == set(), "take them off the list, which only shrinks"


def test_a_commit_that_is_missing_or_dirty_is_noticed() -> None:
    commits = {"a": None, "b": "5894507c6fe8-dirty", "c": "5894507c6fe8"}
    assert without_commit({"none": {}, **{name: {"commit": commit} for name, commit in commits.items()}}) == {
        "none", "a", "b",
    }  # fmt: skip


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
