"""Contract: ``tcu report`` writes one page that needs nothing else and says where every figure is from.

In a browser the page asks the network for nothing, has no errors, draws every
figure, in light and dark, on a phone, a laptop and a large screen, where nothing is
wider than the screen, cut, over another or too pale to read; on a phone chapters are
folded; the explorer answers with the library's bits; tables can be copied.  What was
not measured here is stored, with machine and date, or said to be missing.  Bad
input gives one line on stderr and exit code 2.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import Browser, find_browser
from rich.console import Console

import tcu
from tcu.cli import main
from tcu.cli import report as report_command
from tcu.errors import ExtraMissingError
from tcu.report.chapters import collect
from tcu.report.html_page import data, script
from tcu.report.page import HEAD, report_page
from tcu.report.plots import log_ticks, plot, plotly_script
from tcu.study import STUDIES, Figure, Line, chosen, named, stored_folder, what_is_missing

PROGRAM = find_browser()
DRAWN = "document.documentElement.dataset.drawn === document.documentElement.dataset.figures"
SCREENS = {
    "light": (1200, 900, False), "dark": (1200, 900, True), "phone": (390, 844, True), "phone-light": (390, 844, False),
    "wide": (1920, 1080, False), "wide-dark": (1920, 1080, True),
}  # fmt: skip

# What is wrong with the page as it is laid out: texts of the elements that are at fault.
WRONG = {
    "cut": """[...document.querySelectorAll('h1, h3, h4, p, summary, .tile span, .tile b, .item, .legend button, .pill, .count')]
        .filter(e => e.checkVisibility() && (e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).display !== 'inline'
            || e.getBoundingClientRect().right > innerWidth + 1)).map(e => e.textContent)""",
    "over another": """['.legend button', '.tile', '.card', '.item', 'figure', 'main > section'].flatMap(kind => {
        const boxes = [...document.querySelectorAll(kind)].filter(e => e.checkVisibility()).map(e => [e, e.getBoundingClientRect()]);
        return boxes.flatMap(([e, a], i) => boxes.slice(i + 1, i + 40).filter(([f, b]) => !e.contains(f) &&
            a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1)
            .map(([f]) => kind + ': ' + e.textContent.slice(0, 40) + ' | ' + f.textContent.slice(0, 40))); })""",
    "too pale": """(() => {
        const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
        const rgba = (colour) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
            return canvas.getImageData(0, 0, 1, 1).data; };
        const bright = (c) => { const v = [...c].slice(0, 3).map(x => x / 255).map(x => x <= .04045 ? x / 12.92 : ((x + .055) / 1.055) ** 2.4);
            return .2126 * v[0] + .7152 * v[1] + .0722 * v[2] + .05; };
        const behind = (e) => { for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; } };
        const known = new Map();
        for (const e of document.querySelectorAll('body *')) {
            if (!e.checkVisibility() || e.closest('svg, .plot, select') || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
            const back = behind(e), colour = getComputedStyle(e).color, key = colour + [...back];
            if (!known.has(key)) { const [a, b] = [bright(rgba(colour)), bright(back)]; known.set(key, [Math.max(a, b) / Math.min(a, b), e]); }
        }
        return [...known.values()].filter(([ratio]) => ratio < 4.5).map(([ratio, e]) => ratio.toFixed(2) + ' ' + e.textContent.slice(0, 40));
    })()""",
}  # fmt: skip

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A whole report: what is quick is measured, all else is stored."""
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")
    folder = tmp_path_factory.mktemp("report")
    stored = stored_folder()
    chapters = collect(chosen(["cost-formulas", "format-tables"]), folder, quick=True, stored=stored)
    rest = [study for study in STUDIES.values() if study.name not in ("cost-formulas", "format-tables")]
    chapters += collect(rest, folder, quick=True, stored=stored, measure=False)
    page = folder / "report.html"
    page.write_text(report_page(chapters, "as a test"), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if PROGRAM is None:
        pytest.skip("needs Chromium to open the page")
    with Browser(PROGRAM) as opened:
        yield opened


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")

    def call(*arguments: object) -> tuple[int, str, str]:
        code = main(["report", *map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


# The command


def test_the_command_measures_writes_and_tells(run: Run) -> None:
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")
    code, out, err = run("--quick", "--study", "cost-formulas", "-o", "report.html")
    assert (code, err) == (0, "")
    assert "cost-formulas" in out
    assert "report.html" in out
    result = json.loads(Path("report.results/cost-formulas.json").read_text())
    assert result["command"] == "tcu report --study cost-formulas --quick -o report.html"
    page = Path("report.html").read_text()
    assert f"<code>{result['command']}</code>" in page
    link = re.search(r'href="data:application/json;base64,([^"]+)" download="cost-formulas.json"', page)
    assert link is not None
    assert json.loads(base64.b64decode(link[1])) == result


def test_json_has_every_verdict(run: Run) -> None:
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")
    code, out, _ = run("--stored", "--study", "split", "--study", "hardware", "-o", "report.html", "--json")
    assert code == 0
    document = json.loads(out)
    assert [each["study"] for each in document["studies"]] == ["split", "hardware"]
    for each in document["studies"]:
        assert each["origin"] == "stored"
        assert "NVIDIA H200" in each["about"]
        assert each["verdicts"]


def test_stored_results_are_drawn_from_the_folder_that_is_named(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")
    assert run("--quick", "--study", "cost-formulas", "-o", "first.html")[0] == 0
    stored = ("--stored", "--study", "cost-formulas", "--results", "first.results")
    code, out, err = run(*stored, "-o", "second.html", "--json")
    assert (code, err) == (0, "")
    assert [each["origin"] for each in json.loads(out)["studies"]] == ["stored"]
    assert json.loads(out)["results"] == "first.results"
    result = Path("first.results/cost-formulas.json")
    changed = json.loads(result.read_text()) | {"date": "1999-12-31"}
    result.write_text(json.dumps(changed))
    assert run(*stored, "-o", "second.html")[0] == 0
    assert "1999-12-31" in Path("second.html").read_text()
    Path("like-a-clone/studies").mkdir(parents=True)
    result.rename("like-a-clone/studies/cost-formulas.json")
    assert run(*stored[:-1], "like-a-clone", "-o", "third.html")[0] == 0
    assert "1999-12-31" in Path("third.html").read_text()


def test_a_page_is_never_replaced_by_one_that_shows_nothing(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")
    Path("report.html").write_text("a good page")
    Path("empty").mkdir()

    def refused(*arguments: str) -> str:
        code, out, err = run(*arguments, "-o", "report.html")
        assert (code, out) == (2, "")
        assert Path("report.html").read_text() == "a good page"
        return " ".join(err.split())

    assert refused("--stored", "--results", "none") == (
        "error: --results none: there is no such folder: name the one that has the results"
    )
    assert refused("--stored", "--study", "split", "--study", "hardware", "--results", "empty") == (
        "error: nothing to draw of split, hardware (no stored result), and empty has no result of them: choose other "
        "studies (--list shows them), or give --stored --results FOLDER with results"
    )
    assert refused("--stored", "--fresh") == (
        "error: --fresh measures again and --stored measures nothing: leave one of them out"
    )
    monkeypatch.setattr(report_command, "stored_folder", lambda: None)  # as outside of a clone
    assert refused("--stored") == (
        "error: --stored: this installation of tcu has no stored results: give --results FOLDER, such as "
        "benchmarks/results of a clone"
    )
    if what_is_missing(STUDIES["split"]):
        assert "this installation of tcu has no stored results: choose other studies" in refused(
            "--study", "split"
        )


def test_the_list_names_every_study(run: Run) -> None:
    code, out, _ = run("--list", "--json")
    assert code == 0
    assert [each["name"] for each in json.loads(out)] == list(STUDIES)
    code, out, _ = run("--list")
    assert code == 0
    assert all(name in out for name in STUDIES)


def test_a_terminal_shows_how_far_it_is_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    told = io.StringIO()
    monkeypatch.setattr(
        report_command, "error_console", lambda: Console(file=told, force_terminal=True, width=100)
    )
    study = STUDIES["errors"]
    with report_command._progress([study], quick=True) as progress:
        for done in (0, 1, 2):
            progress(study, done, 4)
    assert "Errors of the variants: 2 of 4" in told.getvalue()
    assert " 50 %" in told.getvalue()
    assert re.search(r"-:--:--|0:00:0\d", told.getvalue())


STOPPED_AT_THE_THIRD_POINT = """
import signal, sys
from dataclasses import replace
from tcu.cli import main
from tcu.study import STUDIES

signal.signal(signal.SIGINT, signal.default_int_handler)  # a program in the background has none
study, measured = STUDIES["cost-formulas"], []

def measure(point):
    if len(measured) == 2:
        print("two points are done", flush=True)
        sys.stdin.read()
    measured.append(point)
    return study.measure(point)

STUDIES["cost-formulas"] = replace(study, measure=measure)
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.some(1)
@pytest.mark.slow(1)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_report_that_is_stopped_goes_on_where_it_was(tmp_path: Path, sent: signal.Signals) -> None:
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")

    def start(program: list[str], name: str) -> subprocess.Popen[str]:
        (tmp_path / name).mkdir(exist_ok=True)
        arguments = ["--quick", "--study", "cost-formulas", "-o", str(tmp_path / name / "report.html")]
        return subprocess.Popen(
            [sys.executable, *program, "report", *arguments], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": str(Path(tcu.__file__).parents[1])},
        )  # fmt: skip

    def finish(process: subprocess.Popen[str]) -> int:
        process.communicate()
        return process.returncode

    stopped = start(["-c", STOPPED_AT_THE_THIRD_POINT], "stopped")
    assert stopped.stdout is not None
    assert stopped.stdout.readline() == "two points are done\n"
    stopped.send_signal(sent)
    assert finish(stopped) == (130 if sent is signal.SIGINT else -sent)
    assert not (tmp_path / "stopped" / "report.html").exists()
    journal = tmp_path / "stopped" / "report.results" / "cost-formulas.points.jsonl"
    kept = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert len(kept) == 2
    assert finish(start(["-m", "tcu"], "stopped")) == finish(start(["-m", "tcu"], "whole")) == 0
    first, second = (
        json.loads((tmp_path / name / "report.results" / "cost-formulas.json").read_text())
        for name in ("stopped", "whole")
    )
    assert first["rows"] == second["rows"]
    assert first["rows"][: len(kept[0]["rows"])] == kept[0]["rows"]


@pytest.mark.parametrize(
    ("cut", "points"),
    [
        (lambda line: b"", 3),
        (lambda line: b"\n", 3),
        (lambda line: line[:1], 3),
        (lambda line: line[: len(line) // 2], 3),
        (lambda line: line[: line.index("∞".encode()) + 1], 3),
        (lambda line: line[:40] + bytes(100), 3),
        (lambda line: line[:-1], 4),
    ],
    ids=["between two lines", "an empty last line", "after its first character", "in the middle",
         "half a character", "zeros where the rest was", "without the end of its line"],
)  # fmt: skip
def test_a_report_goes_on_from_a_journal_whose_last_line_is_cut_off(
    run: Run, monkeypatch: pytest.MonkeyPatch, cut: Callable[[bytes], bytes], points: int
) -> None:
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")
    study = STUDIES["cost-formulas"]
    assert study.measure is not None
    measured: list[dict[str, Any]] = []
    stop_at: int | None = 4

    def measure(point: dict[str, Any]) -> list[dict[str, Any]]:
        if len(measured) == stop_at:
            raise KeyboardInterrupt
        measured.append(point)
        assert study.measure is not None
        return study.measure(point)

    monkeypatch.setitem(STUDIES, study.name, replace(study, measure=measure))
    command = ("--quick", "--study", study.name, "-o", "report.html")
    assert run(*command)[0] == 130
    journal = Path("report.results/cost-formulas.points.jsonl")
    *lines, last = journal.read_bytes().splitlines(keepends=True)
    assert len(lines) == 4, "the first says what is measured"
    # With a character of several bytes, which what is written today has not.
    last = json.dumps(json.loads(last) | {"remark": "∞"}, ensure_ascii=False).encode() + b"\n"
    journal.write_bytes(b"".join(lines) + cut(last))
    measured.clear()
    stop_at = None
    code, _, err = run(*command)
    assert (code, err) == (0, "")
    assert measured == study.points(True)[points:]
    rows = json.loads(Path("report.results/cost-formulas.json").read_text())["rows"]
    assert rows == [
        row for point in study.points(True) for row in json.loads(json.dumps(study.measure(point)))
    ]
    assert not journal.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "error: nowhere to write the report: give -o report.html, or --list to see the studies"),
        (("-o", "none/report.html"), "error: cannot write none/report.html: there is no folder none"),
        (("-o", "report.html", "--study", "figure9"), "error: unknown study 'figure9': "),
    ],
)
def test_bad_input_is_one_line(run: Run, arguments: tuple[str, ...], message: str) -> None:
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith(message)
    assert err.count("\n") == 1


def test_without_plotly_the_extra_is_named(monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    with pytest.raises(ExtraMissingError, match=r"pip install 'tcu\[plot\]'"):
        plotly_script()
    code, _, err = run("--quick", "-o", "report.html")
    assert code == 2
    assert "pip install 'tcu[plot]'" in err
    assert not Path("report.results").exists()  # told before the work


def test_without_stored_results_a_gpu_study_is_missing(tmp_path: Path) -> None:
    study = STUDIES["energy"]
    (chapter,) = collect([study], tmp_path, quick=True, stored=None)
    assert (chapter.origin, chapter.result, chapter.shown.parts) == ("missing", None, [])
    assert study.command in chapter.why


# The page, as text


def test_the_spread_of_draws_is_drawn_around_the_line() -> None:
    line = Line("errors", [1, 10], [2.0, None], low=[1.5, None], high=[4.0, None])
    (trace,) = plot(Figure("Errors", "n", "error", [line]))["data"]
    assert trace["error_y"]["array"] == [2.0, 0.0]
    assert trace["error_y"]["arrayminus"] == [0.5, 0.0]
    (trace,) = plot(Figure("Errors", "n", "error", [replace(line, low=(), high=())]))["data"]
    assert "error_y" not in trace


def test_the_page_loads_nothing_and_has_every_study(report: Path) -> None:
    page = report.read_text()
    assert not re.findall(
        r'<(?:link|img|iframe)\b|<script[^>]*\bsrc=|@import|url\(\s*["\']?http', page.split("<script>")[0]
    )
    for chapter in collect(list(STUDIES.values()), Path(), quick=True, stored=stored_folder(), measure=False):
        has = f'<section id="{chapter.study.name}">' in page
        assert has == (chapter.result is not None)
        assert has or f"<code>{chapter.command}</code>" in page
    figures = re.search(r'<script type="application/json" id="figures">(.*?)</script>', page)
    assert figures is not None
    assert re.findall(r'class="plot" id="([^"]+)"', page) == list(json.loads(figures[1]))


def test_what_was_not_run_is_one_folded_line_with_its_command(tmp_path: Path) -> None:
    pytest.importorskip("plotly", reason="needs plotly: pip install 'tcu[plot]'")
    names = ["cost-formulas", "split", "hardware"]
    for absent, command in (
        (names[1:2], "tcu report --study split -o report.html"),
        (names[1:], "tcu report -o report.html"),
    ):
        here = collect(chosen(names[:1]), tmp_path, quick=True, stored=None)
        here += collect(chosen(absent), tmp_path, quick=True, stored=None, measure=False)
        page = report_page(here, "as a test")
        (line,) = re.findall(r'<details id="not-run"><summary>(.*?)</summary>', page)
        assert f"<code>{command}</code>" in line
        shown = re.sub(r"<script.*?</script>|<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL).lower()
        assert "missing" not in shown
        for name in absent:
            assert f'<section id="{name}">' not in page
            assert f"<code>tcu report --study {name} -o report.html</code>" in page
    whole = report_page(collect(chosen(names[:1]), tmp_path, quick=True, stored=None), "as a test")
    assert 'id="not-run"' not in whole


def test_every_verdict_is_a_mark_that_leads_to_its_study(report: Path) -> None:
    page = report.read_text()
    summary = page.split('<section id="verdicts">')[1].split("</section>")[0]
    for number in ("000", "001", "002", "003", "004"):
        assert f"<h3>{named(f'paper {number}')}</h3>" in summary
    marks = re.findall(r'<a href="#([\w-]+)" title="[^"]+" aria-label="[^"]+" class="mark \w+">', summary)
    assert set(marks) <= set(STUDIES)
    statements = re.findall(r"All (\d+) statements", summary)
    assert len(marks) >= int(statements[0])


def test_ticks_are_few_round_numbers() -> None:
    assert [text for _, text in log_ticks(42, 1370)] == ["50", "100", "200", "500", "1,000"]
    assert [text for _, text in log_ticks(1e4, 1e8)] == [
        "10,000",
        "10<sup>5</sup>",
        "10<sup>6</sup>",
        "10<sup>7</sup>",
        "10<sup>8</sup>",
    ]
    assert [text for _, text in log_ticks(2e-6, 3e-5)] == [
        "2·10<sup>-6</sup>",
        "5·10<sup>-6</sup>",
        "10<sup>-5</sup>",
        "2·10<sup>-5</sup>",
    ]
    assert [text for _, text in log_ticks(0.5, 4)] == ["0.5", "1", "2", "5"]
    for low, high in ((1.0, 1.0), (1, 1e30), (0.97, 1.02), (3e-9, 2e5)):
        ticks = log_ticks(low, high)
        assert 1 <= len(ticks) <= 11
        assert [value for value, _ in ticks] == sorted(value for value, _ in ticks)


def test_scripts_and_data_cannot_end_early() -> None:
    assert "</script>" not in script("a = '</script>'").removesuffix("</script>")
    hostile = {"name": "</script><script>alert(1)</script><!--"}
    text = str(data(hostile, "x"))
    assert text.count("<") == 2
    assert json.loads(text[text.index(">") + 1 : -len("</script>")]) == hostile


# The page, in a browser


@pytest.mark.parametrize("screen", SCREENS)
def test_the_page_opens_and_every_figure_is_drawn(
    report: Path, browser: Browser, screen: str, tmp_path: Path
) -> None:
    width, height, dark = SCREENS[screen]
    browser.requests.clear()
    browser.errors.clear()
    browser.look(width, height, dark)
    browser.open(report, DRAWN)
    assert browser.errors == []
    assert [url for url in browser.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    drawn = browser.ask(
        "[...document.querySelectorAll('.plot')].map(p => p.querySelectorAll('.scatterlayer path').length)"
    )
    phone = width < 600
    assert len(drawn) > 30
    assert (max(drawn) == 0) if phone else (min(drawn) > 0), "chapters are folded on a phone"
    if phone:
        for name in ("single-pass", "errors"):
            browser.ask(f"document.querySelector('#{name} summary').click()")
            browser.wait(
                f"[...document.querySelectorAll('#{name} .plot')].every(p => p.querySelector('.scatterlayer path'))"
            )
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == (
        "rgb(20, 23, 26)" if dark else "rgb(255, 255, 255)"
    )
    assert browser.ask(WRONG["cut"]) == []
    assert browser.ask(WRONG["over another"]) == []
    assert browser.ask(WRONG["too pale"]) == []
    ink = browser.ask("getComputedStyle(document.querySelector('.plot .xtick text')).fill")
    assert ink == ("rgb(228, 231, 234)" if dark else "rgb(28, 32, 36)")
    for selector in ("#explorer", "#verdicts", "#single-pass", "#errors"):
        image = browser.photograph(selector, tmp_path / f"{selector[1:]}-{screen}.png")
        assert image.startswith(b"\x89PNG")
        assert len(image) > 10_000


@pytest.mark.parametrize(
    ("fault", "style"),
    [
        ("cut", ".tile span { white-space: nowrap; overflow: hidden; width: 3rem; display: block; }"),
        ("over another", ".legend { display: block; height: 20px; } .legend button { position: absolute; }"),
        ("too pale", ".dim { color: #aaa !important; }"),
    ],
)
def test_a_planted_fault_of_the_page_is_seen(report: Path, browser: Browser, fault: str, style: str) -> None:
    browser.look(390, 844, False)
    browser.open(report, DRAWN)
    browser.ask("document.querySelector('#split summary').click()")
    browser.wait("document.querySelector('#split .legend button') !== null")
    browser.ask(
        f"document.head.append(Object.assign(document.createElement('style'), {{textContent: {json.dumps(style)}}}))"
    )
    if fault == "over another":
        browser.ask(
            "document.querySelectorAll('#split .legend').forEach(l => l.append(l.firstChild.cloneNode(true)))"
        )
    assert browser.ask(WRONG[fault])


def test_a_link_unfolds_its_chapter_on_a_phone(report: Path, browser: Browser) -> None:
    browser.look(*SCREENS["phone"])
    browser.open(report, DRAWN)
    opened = (
        "[...document.querySelectorAll('details.chapter')].filter(d => d.open).map(d => d.parentElement.id)"
    )
    assert browser.ask(opened) == []
    browser.ask("document.querySelector('#verdicts .mark[href=\"#theorems\"]').click()")
    browser.wait("document.querySelector('#theorems .scatterlayer path') !== null")
    assert browser.ask(opened) == ["theorems"]


def test_a_legend_hides_and_shows_a_curve(report: Path, browser: Browser) -> None:
    browser.look(*SCREENS["phone"])
    browser.open(report, DRAWN)
    browser.ask("document.querySelector('#split summary').click()")
    browser.wait("document.querySelector('#split-0-legend button') !== null")
    shown = "document.querySelectorAll('#split-0 .scatterlayer .trace').length"
    before = browser.ask(shown)
    for count in (before - 1, before):
        browser.ask("document.querySelector('#split-0-legend button').click()")
        browser.wait(f"{shown} === {count}")


def _choose(browser: Browser, label: str, value: str) -> None:
    browser.ask(
        f"(() => {{ const s = document.querySelector('[aria-label=\"{label}\"]'); s.value = {json.dumps(value)}; "
        "s.dispatchEvent(new Event('change')); })()"
    )


def _type(browser: Browser, label: str, text: str) -> None:
    browser.ask(
        f"(() => {{ const i = document.querySelector('[aria-label=\"{label}\"]'); i.value = {json.dumps(text)}; "
        "i.dispatchEvent(new Event('input')); })()"
    )


def test_the_explorer_answers_with_the_units_bits(report: Path, browser: Browser) -> None:
    browser.look(*SCREENS["light"])
    browser.open(report, DRAWN)
    for unit in ("V100", "A100", "H100"):
        _choose(browser, "unit", unit)
        for c, x in (("1", "2^-24"), ("-1", "3*2^-25"), ("1.5", "0.1")):
            _type(browser, "c", c)
            _type(browser, "b0", x)
            value = np.float16(eval(x.replace("^", "**")))
            a = np.array([[1, 1]], np.float16)
            b = np.array([[value], [2.0**-24]], np.float16)
            d = tcu.mma(a, b, np.array([[float(c)]], np.float32), unit=unit)
            bits = f"0x{int(d.view(np.uint32)[0, 0]):08x}"
            assert bits in browser.ask("document.getElementById('explorer-result').textContent")
    _type(browser, "c", "one")
    assert "no number" in browser.ask("document.getElementById('explorer-answer').textContent")


def test_the_explorer_shows_what_is_cut_and_every_example_answers(report: Path, browser: Browser) -> None:
    browser.look(*SCREENS["phone"])
    browser.open(report, DRAWN)
    cut = "[...document.querySelectorAll('#explorer-answer .cut')].map(e => e.textContent).join('').trim()"
    assert browser.ask(cut) == "11"
    examples = browser.ask("[...document.querySelector('[aria-label=example]').options].map(o => o.value)")
    assert len(examples) > 5
    for example in filter(None, examples):
        _choose(browser, "example", example)
        assert browser.ask("document.getElementById('explorer-result').textContent").startswith("d = ")
        assert browser.ask("document.documentElement.scrollWidth") <= 390


def test_arrows_step_to_the_neighbouring_number(report: Path, browser: Browser) -> None:
    browser.look(*SCREENS["light"])
    browser.open(report, DRAWN)
    for label, value, expected in (("b0", "1", "1 + 2^-10"), ("c", "0", "2^-149"), ("b0", "65504", "inf")):
        _type(browser, label, value)
        browser.ask(f"document.querySelector('[aria-label=\"{label} one up\"]').click()")
        shown = browser.ask(f"document.querySelector('[aria-label=\"{label}\"]').value")
        told: Any = browser.ask(f"TcuUnit.parse({json.dumps(shown)}) !== null")
        assert told, shown
        browser.ask(f"document.querySelector('[aria-label=\"{label} one down\"]').click()")
        back = browser.ask(f"document.querySelector('[aria-label=\"{label}\"]').value")
        assert back == value, (shown, expected)


def test_who_zooms_gets_ticks_for_what_is_shown(report: Path, browser: Browser) -> None:
    browser.look(*SCREENS["light"])
    browser.open(report, DRAWN)
    mode = "document.getElementById('single-pass-0')._fullLayout.yaxis.tickmode"
    assert browser.ask(mode) == "array"
    browser.ask(
        "Plotly.relayout('single-pass-0', {'yaxis.range[0]': 0.9, 'yaxis.range[1]': 1}).then(() => 0)"
    )
    browser.wait(f"{mode} === 'auto'")
    browser.ask("Plotly.relayout('single-pass-0', {'yaxis.autorange': true}).then(() => 0)")
    browser.wait(f"{mode} === 'array'")


def test_the_contents_lie_beside_the_page_or_fold_above_it(report: Path, browser: Browser) -> None:
    opened = "document.querySelector('nav details').open"
    browser.look(1400, 900, False)
    browser.open(report, DRAWN)
    assert browser.ask(opened)
    assert browser.ask("document.querySelector('nav').getBoundingClientRect().right <= "
                       "document.querySelector('main').getBoundingClientRect().left")  # fmt: skip
    browser.look(*SCREENS["phone"])
    browser.open(report, DRAWN)
    assert not browser.ask(opened)
    browser.ask("document.querySelector('nav summary').click()")
    assert browser.ask(opened)
    browser.ask("document.querySelector('nav a[href=\"#theorems\"]').click()")
    assert not browser.ask(opened)
    assert browser.ask("location.hash") == "#theorems"


def test_tables_can_be_copied(report: Path, browser: Browser) -> None:
    browser.look(*SCREENS["light"])
    browser.open(report, DRAWN)
    copied = browser.ask(
        "(() => { let text = null; document.execCommand = () => { text = document.activeElement.value; };"
        "navigator.clipboard.writeText = () => Promise.reject(new Error('not here'));"
        "document.querySelector('#format-tables .copied .copy').click();"
        "return new Promise((done) => setTimeout(() => done(text), 100)); })()"
    )
    lines = copied.split("\n")
    assert lines[0].split("\t") == list(HEAD)
    assert any("Fasi et al., table 3" in line for line in lines)
