"""Contract: studies are a registry; a run loses at most the point in work, and resumes to the same result.

Every figure, table and theorem of the papers is covered by a study and has a
verdict; one that differs says why.  A result in full answers for a quick one,
never the other way round; what is no result of a study is refused and named.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, get_args

import pytest

from tcu.errors import DataFileError, UnknownNameError
from tcu.plan.segmented import ALGORITHMS, best_algorithm
from tcu.study import (
    PAPERS,
    STUDIES,
    Result,
    Study,
    Verdict,
    chosen,
    run_study,
    stored_folder,
    stored_result,
    what_is_missing,
)
from tcu.study import provenance as provenance_of
from tcu.study.atomics import atomic_rows
from tcu.study.comparison import CLASSIC, CUB_FLOAT, CUB_HALF, RECURRENCE, SINGLE, SPLIT, TREES
from tcu.study.data import spread
from tcu.study.features import _evidence_of
from tcu.study.gemm import GEMM, LIBRARY, NAIVE, READING, SHARED
from tcu.study.provenance import provenance
from tcu.study.run import finished, load
from tcu.study.segments import SEGMENTS
from tcu.study.study import Figure, Shown, Table
from tcu.study.theorems import _bound
from tcu.units import AlignedSum, Standing, get_unit, units_with

ROOT = Path(__file__).parents[1]
STOPPED_STUDY = """
import sys
from pathlib import Path
from tcu.study import Shown, Study, run_study

stop_at = int(sys.argv[2])

def measure(point):
    if point["x"] == stop_at:
        print("stopped", flush=True)
        sys.stdin.read()
    return [{**point, "square": point["x"] ** 2}]

study = Study("squares", "Squares", (), "How large?", lambda rows: Shown([], []),
              lambda quick: [{"x": x} for x in range(12)], measure)
run_study(study, Path(sys.argv[1]), quick=False, command="squares")
"""


def squares(calls: list[int] | None = None, last: int = 4, stop_at: int | None = None) -> Study:
    def measure(point: dict[str, Any]) -> list[dict[str, Any]]:
        if point["x"] == stop_at:
            raise KeyboardInterrupt
        if calls is not None:
            calls.append(point["x"])
        return [{**point, "square": point["x"] ** 2}]

    def points(quick: bool) -> list[dict[str, Any]]:
        return [{"x": x} for x in range(2 if quick else last)]

    return Study("squares", "Squares", (), "How large?", lambda rows: Shown([], []), points, measure, seed=1)


def run(study: Study, folder: Path, quick: bool = False, **options: Any) -> Result:
    return run_study(study, folder, quick=quick, command="squares", **options)


# Running and resuming


def test_a_result_has_rows_machine_versions_seed_and_command(tmp_path: Path) -> None:
    result = run(squares(), tmp_path)
    assert result.rows == [{"x": x, "square": x * x} for x in range(4)]
    assert (result.study, result.seed, result.command, result.quick) == ("squares", 1, "squares", False)
    assert result.machine["cores"] >= 1
    assert {"tcu", "numpy", "numba"} <= set(result.versions)
    assert load(tmp_path / "squares.json") == result
    assert [path.name for path in tmp_path.iterdir()] == ["squares.json"]


def test_an_interrupted_run_measures_only_what_is_left(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(squares(stop_at=2), tmp_path)
    assert not (tmp_path / "squares.json").exists()
    calls: list[int] = []
    told: list[tuple[int, int]] = []
    result = run(squares(calls), tmp_path, progress=lambda done, total: told.append((done, total)))
    assert calls == [2, 3]
    assert told == [(2, 4), (3, 4), (4, 4)]
    assert result.rows == run(squares(), tmp_path / "other").rows


@pytest.mark.some(2)
@pytest.mark.slow
@pytest.mark.parametrize("done", [0, 1, 11])
def test_a_killed_run_loses_at_most_one_point(tmp_path: Path, done: int) -> None:
    def start(stop_at: int) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", STOPPED_STUDY, str(tmp_path), str(stop_at)],
            text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
        )  # fmt: skip

    with start(stop_at=done) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "stopped\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    journal = tmp_path / "squares.points.jsonl"
    kept = [json.loads(line) for line in journal.read_text().splitlines()[1:]]
    assert [line["point"]["x"] for line in kept] == list(range(done))
    # Those were not measured again: their times are those of the first run.
    for line in kept:
        line["seconds"] = 1000.0
    head = journal.read_text().splitlines()[0]
    journal.write_text("".join(f"{line}\n" for line in (head, *map(json.dumps, kept))))
    with start(stop_at=-1) as process:
        process.communicate()
    assert process.returncode == 0
    result = load(tmp_path / "squares.json")
    assert result.rows == [{"x": x, "square": x * x} for x in range(12)]
    assert 1000 * done <= result.seconds < 1000 * (done + 1)
    assert not journal.exists()


@pytest.mark.parametrize("step", [17, pytest.param(1, marks=pytest.mark.slow)])
def test_a_journal_that_was_cut_off_anywhere_is_gone_on_from(tmp_path: Path, step: int) -> None:
    """At every ``step``-th byte of its points, in characters of several bytes too, which what is written today has not."""
    with pytest.raises(KeyboardInterrupt):
        run(squares(stop_at=3), tmp_path)
    journal = tmp_path / "squares.points.jsonl"
    lines = [json.loads(line) | {"remark": "é∞𝟙"} for line in journal.read_text().splitlines()]
    del lines[0]["remark"]  # the first line is part of the result
    ends = list(accumulate(len(json.dumps(line, ensure_ascii=False).encode()) + 1 for line in lines))
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines).encode()
    whole = run(squares(), tmp_path / "other").rows
    for size in (0, 1, ends[0] // 2, *range(ends[0] - 2, len(text) + 1, step)):
        (tmp_path / "squares.json").unlink(missing_ok=True)
        journal.write_bytes(text[:size])
        calls: list[int] = []
        assert run(squares(calls), tmp_path).rows == whole
        kept = sum(size >= end - 1 for end in ends[1:])  # its line's end may be missing
        assert calls == list(range(kept, 4)), size
        assert not journal.exists()


def test_points_of_another_study_are_not_taken_over(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(squares(stop_at=2), tmp_path)
    calls: list[int] = []
    run(replace(squares(calls, last=5), seed=2), tmp_path)
    assert calls == [0, 1, 2, 3, 4]


def test_a_finished_result_is_kept_and_fresh_measures_again(tmp_path: Path) -> None:
    calls: list[int] = []
    first = run(squares(calls), tmp_path)
    assert run(squares(calls), tmp_path) == first
    assert calls == [0, 1, 2, 3]
    run(squares(calls), tmp_path, fresh=True)
    assert len(calls) == 8


def test_a_result_of_other_sources_is_measured_again(tmp_path: Path) -> None:
    calls: list[int] = []
    result = run(squares(calls), tmp_path)
    assert result.sources is not None
    path = tmp_path / "squares.json"
    for sources, again in ((result.sources | {"probes": "another"}, False), (result.sources | {"model": "another"}, True),
                           (None, True)):  # fmt: skip
        path.write_text(json.dumps(asdict(replace(result, sources=sources))))
        calls.clear()
        run(squares(calls), tmp_path)
        assert bool(calls) == again


def test_points_that_other_sources_measured_are_not_taken_over(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(squares(stop_at=2), tmp_path)
    journal = tmp_path / "squares.points.jsonl"
    head, *points = journal.read_text().splitlines()
    older = json.loads(head) | {"sources": {}}
    journal.write_text("".join(f"{line}\n" for line in (json.dumps(older), *points)))
    calls: list[int] = []
    run(squares(calls), tmp_path)
    assert calls == [0, 1, 2, 3]


def test_a_result_in_full_answers_for_a_quick_one_but_not_the_other_way_round(tmp_path: Path) -> None:
    calls: list[int] = []
    assert run(squares(calls), tmp_path, quick=True).quick
    assert not run(squares(calls), tmp_path).quick
    assert calls == [0, 1, 0, 1, 2, 3]
    assert len(run(squares(calls), tmp_path, quick=True).rows) == 4
    assert len(calls) == 6
    assert finished(squares(last=9), tmp_path, quick=False) is None


def test_a_file_that_is_no_result_is_refused(tmp_path: Path) -> None:
    for text in ("", "[]", '{"study": "squares"}'):
        (tmp_path / "squares.json").write_text(text)
        with pytest.raises(DataFileError, match=r"squares\.json is no result of a study .*--results folder"):
            run(squares(), tmp_path)


def test_a_folder_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DataFileError, match=r"cannot write results to .*: choose another --results folder"):
        run(squares(), tmp_path / "file")


# The registry


def test_names_choose_studies() -> None:
    assert chosen([]) == list(STUDIES.values())
    assert [study.name for study in chosen(["split", "recurrence"])] == ["recurrence", "split"]
    assert [study.name for study in chosen(["errors"])] == ["errors", "errors-of-units"]
    with pytest.raises(UnknownNameError, match="unknown study 'erors': did you mean errors"):
        chosen(["erors"])


COVERED = (
    *(f"000 figure {number}" for number in (3, 5, 6, 7, 8, 9, 10, 11)), "000 cost", "001 cost",
    "000 error curves of every unit", "002 figure 3", "002 figure 5", "002 power",
    *(f"004 theorem {number}" for number in range(1, 9)), "004 calibration", "004 several units", "004 precision",
    "003 table 1", "003 table 2", "003 table 3", "003 findings",
)  # fmt: skip
"""What the papers measured or tabulated."""


SECTIONS_003 = (
    "Support for subnormal numbers", "Accuracy of the dot products", "Rounding modes in tensor core computations",
    "Extra bits in the alignment of significands", "Normalization in addition", "Normalization in subtraction",
    "Extra bits for carry out", "Monotonicity of dot product", "NVIDIA Turing tensor cores", "NVIDIA Ampere tensor cores",
)  # fmt: skip
PLACES = (
    *(one for one in COVERED if one.split()[1] in ("figure", "table")), "000 abstract", "000 appendix B",
    *(f"000 eq. {number}" for number in (16, 17, 23, 24)), "001 eq. 16", "001 eq. 17", "002 evaluation",
    *(f"003 {section}" for section in SECTIONS_003), *(f"004 Theorem {number}" for number in range(1, 9)),
    "004 section 6",
)  # fmt: skip
"""Where the papers state something that can be measured: each has a verdict of its own."""


def test_every_figure_and_table_of_the_papers_is_covered() -> None:
    covered = {one for study in STUDIES.values() for one in study.covers}
    assert set(COVERED) <= covered
    assert {one.split()[0] for one in covered} <= set(PAPERS)


def test_every_place_of_the_papers_has_a_verdict() -> None:
    found: set[str] = set()
    for study in STUDIES.values():
        if (result := stored_result(study, stored_folder())) is not None:
            found |= {item for verdict in study.show(result.rows).verdicts for item in verdict.items}
    assert set(PLACES) <= found
    assert {item.split()[0] for item in found} <= set(PAPERS)


def test_a_verdict_names_each_of_its_places() -> None:
    def items(place: str) -> tuple[str, ...]:
        return Verdict(place, "it is so", "it is", "reproduced").items

    assert items("paper 000, figure 7, section 5.4") == ("000 figure 7", "000 section 5.4")
    assert items("paper 001, eq. 16; paper 000, eq. 16") == ("001 eq. 16", "000 eq. 16")
    assert items("tcu") == items("tcu, after paper 000") == ()


@pytest.mark.slow(5)
@pytest.mark.parametrize("name", [study.name for study in STUDIES.values() if study.measure is not None])
def test_points_and_rows_are_json_and_points_differ(name: str) -> None:
    study = STUDIES[name]
    for quick in (False, True):
        points = study.points(quick)
        assert points
        assert len({json.dumps(point, sort_keys=True) for point in points}) == len(points)
    assert study.seconds[0] <= study.seconds[1]
    if what_is_missing(study):
        pytest.skip(f"cannot be measured here: {what_is_missing(study)}")
    rows = study.measure(study.points(True)[0])  # type: ignore[misc]
    assert rows
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows


def check(study: Study, shown: Shown) -> None:
    """Figures have lines of equal length; verdicts are whole."""
    assert shown.parts
    assert shown.verdicts
    for part in shown.parts:
        assert part.title
        for line in getattr(part, "lines", ()):
            assert len(line.x) == len(line.y) > 0, line.name
        for row in getattr(part, "rows", ()):
            assert len(row) == len(part.header)  # type: ignore[union-attr]
            assert all(isinstance(cell, str) for cell in row)
    for verdict in shown.verdicts:
        assert verdict.statement
        assert verdict.measured
        assert verdict.outcome == "reproduced" or verdict.why, verdict


def test_a_verdict_that_differs_without_a_reason_is_noticed() -> None:
    shown = Shown([], [Verdict.of("tcu", "it is so", "it is not", False)])
    with pytest.raises(AssertionError):
        check(STUDIES["errors"], shown)


@pytest.mark.parametrize("name", STUDIES)
def test_what_is_stored_of_every_study_can_be_shown(name: str) -> None:
    study = STUDIES[name]
    result = stored_result(study, stored_folder())
    if result is None:
        assert "gpu" in study.needs, "measure it: tcu report --results benchmarks/results/studies"
        pytest.skip(f"not measured yet: {study.command or 'tcu report --study ' + name}")
    assert json.loads(json.dumps(asdict(result), allow_nan=False))["rows"] == result.rows
    check(study, study.show(result.rows))


def test_segments_show_the_best_of_the_algorithms_at_each_length() -> None:
    seconds = {
        "reduction-16": 1.5,
        "reduction-256n": 1.05,
        "paper-002": 1.8,
        "CUB half→half": 1.5,
        "read alone": 1.0,
    }
    speed = [
        {"segment": n, "who": who, "median": t, "of_ceiling": 1 / t, "best": who == "reduction-256n", "largest_error": 0.1}
        for n in (16, 256) for who, t in seconds.items()
    ]  # fmt: skip
    energy = [
        {"segment": 16, "who": who, "watts": watts, "joules_per_terabyte": watts / 4}
        for who, watts in (("paper-002", 450.0), ("CUB half→half", 600.0))
    ]
    document = {"figures": {"count": 1 << 30, "rows": speed, "energy": energy}}
    shown = SEGMENTS.show(SEGMENTS.stored.rows(document))  # type: ignore[union-attr]
    check(SEGMENTS, shown)
    ideal, cub, selected, power = shown.verdicts
    assert [verdict.outcome for verdict in shown.verdicts] == ["reproduced"] * 2 + ["differs", "reproduced"]
    assert "more than 2% slower than the fastest at 2 of 2 lengths, 1.43 times" in selected.measured
    assert (
        "measured under an older table: at 2 lengths it is another's, up to 1.20 times as slow"
        in selected.measured
    )
    assert "95%" in ideal.measured
    assert "1.4 times" in cub.measured
    assert "25% less power" in power.measured
    for row in speed:
        row["median"], row["of_ceiling"] = (9.0, 1 / 9) if row["best"] else (row["median"], row["of_ceiling"])
    slow = SEGMENTS.show(SEGMENTS.stored.rows(document))  # type: ignore[union-attr]
    assert [verdict.outcome for verdict in slow.verdicts] == [
        "differs",
        "differs",
        "reproduced",
        "reproduced",
    ]
    assert "results to write are 12% of what is read" in slow.verdicts[0].why
    assert "67% of the ideal" in slow.verdicts[1].why
    assert "older table" not in segments({"reduction-16": 1.5, "paper-002": 1.51}).verdicts[2].measured
    for row in energy:
        row["watts"] = 700.0 if row["who"] == "paper-002" else 600.0
    hungry = SEGMENTS.show(SEGMENTS.stored.rows(document)).verdicts[-1]  # type: ignore[union-attr]
    assert hungry.outcome == "differs"
    assert "17% more power" in hungry.measured


def segments(*lengths: dict[str, float]) -> Shown:
    """Of 2^30 numbers in segments of 16, 2^20 and 2^21, which are 1,024 and 512: who takes how many seconds."""
    rows = [
        {"segment": n, "who": who, "median": t, "of_ceiling": 1 / t, "best": t == min(t for name, t in seconds.items() if "CUB" not in name)}
        for n, seconds in zip((16, 1 << 20, 1 << 21), lengths, strict=False) for who, t in seconds.items()
    ]  # fmt: skip
    return SEGMENTS.show(SEGMENTS.stored.rows({"figures": {"count": 1 << 30, "rows": rows, "energy": []}}))  # type: ignore[union-attr]


def test_cub_s_segmented_sum_is_no_peer_where_segments_are_few() -> None:
    ours = {"reduction-16": 1.0, "CUB half→half": 1.2}
    for few in (0.1, 300.0):  # faster, and much slower
        cub = segments(ours, ours, ours | {"CUB half→half": few}).verdicts[1]
        assert cub.outcome == "reproduced"
        assert "at 2 of 2 lengths: from 1.20 (segments of 16) to 1.2 times" in cub.measured
    fast = segments(ours, ours | {"CUB half→half": 0.9}).verdicts[1]
    assert (fast.outcome, fast.measured[:53]) == (
        "differs",
        "Faster than CUB's segmented sum at 1 of 2 lengths: fr",
    ), "1,024 are many"


def test_the_named_algorithm_of_the_stored_rows_is_the_fastest() -> None:
    """The table was chosen from these rows, so they must say so; the verdict goes by them and not by its own row."""
    result = stored_result(SEGMENTS, stored_folder())
    assert result is not None
    times: dict[int, dict[str, float]] = {}
    for row in result.rows:
        if row["part"] == "rows":
            times.setdefault(row["segment"], {})[row["who"]] = row["median"]
    slow = [
        n for n, own in times.items() if own[best_algorithm(n)] > 1.02 * min(own[name] for name in ALGORITHMS)
    ]
    stale = [n for n, own in times.items() if abs(own["paper-002"] / own[best_algorithm(n)] - 1) > 0.02]
    selected = SEGMENTS.show(result.rows).verdicts[2]
    assert selected.statement.startswith('variant="paper-002"')
    assert (selected.outcome == "reproduced") is (not slow)
    assert f"at {len(slow)} of {len(times)} lengths" in selected.measured
    assert (f"older table: at {len(stale)} lengths" in selected.measured) is bool(stale)


def test_rates_of_matrix_products_are_compared() -> None:
    rows = [
        {"n": n, "who": who, "seconds": 2 * n**3 / (tflops * 1e12), "relative_error": 2.0**-12}
        for n in (512, 1024) for who, tflops in ((NAIVE, 60), (SHARED, 200), (LIBRARY, 640))
    ]  # fmt: skip
    read = {"read": 1 << 29, "who": READING, "seconds": 2 * (1 << 29) / 4e12}
    shown = GEMM.show([*rows, read])
    check(GEMM, shown)
    assert [verdict.outcome for verdict in shown.verdicts] == ["reproduced"] * 3
    assert "60, 200 and 640 TFLOPS" in shown.verdicts[0].measured
    assert "40 TB/s of binary16, 10 times what memory delivers" in shown.verdicts[1].measured
    wrong = [{**row, "relative_error": 0.1} for row in rows]
    assert GEMM.show(wrong).verdicts[-1].outcome == "differs"
    assert GEMM.show([*rows, {**read, "seconds": 1e-6}]).verdicts[1].outcome == "differs"


def sweep(seconds: Callable[[int, int, int], float], variant: str = "single-pass") -> list[dict[str, Any]]:
    return [
        {"n": n, "variant": variant, "chain": chain, "block": block, "seconds": seconds(n, chain, block), "percent_error": {"normal": 0.1}}
        for n in (1 << 20, 1 << 26) for block in (32, 128, 1024) for chain in (1, 4, 5)
    ]  # fmt: skip


def test_the_reason_why_small_blocks_are_slow_is_found_in_the_times() -> None:
    def by_blocks(n: int, chain: int, block: int) -> float:
        return 5e-6 + 6e-9 * n / (block // 32 * chain * 256)

    shown = STUDIES["single-pass"].show(sweep(by_blocks))
    check(STUDIES["single-pass"], shown)
    (small,) = [verdict for verdict in shown.verdicts if verdict.statement.startswith("Small blocks")]
    assert small.outcome == "not measured", "times of adding the blocks' results in order are not the paper's"
    assert "the times follow the number of blocks (6.0 ns each, correlation 1.000)" in small.why
    shown = STUDIES["single-pass"].show(sweep(by_blocks, "single-pass-atomic"))
    check(STUDIES["single-pass"], shown)
    (small,) = [verdict for verdict in shown.verdicts if verdict.statement.startswith("Small blocks")]
    assert small.outcome == "differs"
    assert "a slope of 6.0 ns for each" in small.why
    assert "whose atomic additions meet" in small.why
    even = STUDIES["single-pass"].show(sweep(lambda n, chain, block: 5e-6 + n * 1e-13 + chain * 1e-9))
    assert {v.outcome for v in even.verdicts if v.statement.startswith(("Small blocks", "Large blocks"))} == {
        "reproduced"
    }


def test_the_shares_of_a_split_are_ranked_by_their_times() -> None:
    rows = [
        {"n": 1 << 20, "variant": "split", "fraction": share / 10, "seconds": 1e-5 + 1e-6 * (10 - share)}
        for share in range(11)
    ]  # fmt: skip
    assert STUDIES["split"].show(rows).verdicts[1].outcome == "reproduced"
    better = [{**row, "seconds": 1e-5 + 1e-6 * abs(row["fraction"] - 0.5)} for row in rows]
    verdict = STUDIES["split"].show(better).verdicts[1]
    assert (verdict.outcome, verdict.measured[:43]) == (
        "differs",
        "The fastest share of warp shuffles is 50% a",
    )
    papers = [{**row, "variant": "split-atomic"} for row in rows]
    verdict = STUDIES["split"].show(papers).verdicts[0]
    assert (verdict.place, verdict.outcome) == ("paper 000, figure 6, section 5.3, section 7", "reproduced")


def compared(times: dict[str, float], draws: int = 30) -> list[dict[str, Any]]:
    """Rows of "variants": microseconds at a million numbers, ten thousand times that at the largest n."""
    errors = {"normal": [0.1] * draws, "uniform": [1e-4] * draws}
    return [
        {"n": n, "who": who, "seconds": t * n * 1e-12, "percent_error": errors}
        for n in (1 << 20, 400_000_000) for who, t in times.items()
    ]  # fmt: skip


TIMES = {
    CLASSIC: 4.0, SINGLE: 1.0, RECURRENCE: 1.5, SPLIT: 3.0, TREES[SINGLE]: 9.0, TREES[SPLIT]: 0.1, "tcu.sum": 0.5,
    CUB_HALF: 1.1, CUB_FLOAT: 2.2,
}  # fmt: skip
"""As the paper ranks them; the forms of single-pass and the split that are not the paper's would rank otherwise."""


def test_the_paper_s_single_pass_and_split_are_those_with_atomics() -> None:
    assert "atomic" in SINGLE
    assert "atomic" in SPLIT
    assert all(point["variant"].endswith("-atomic") for name in ("single-pass", "split")
               for point in STUDIES[name].points(False)[0]["options"])  # fmt: skip
    pytest.importorskip("torch", reason="needs PyTorch")
    from tcu.study.gpu.peers import gather

    assert {SINGLE, RECURRENCE, SPLIT, *TREES.values()} <= {
        one.name for one in gather("float16", None, variants=True, compiled=False).participants
    }


def test_variants_are_ranked_by_the_forms_of_the_paper_alone() -> None:
    study = STUDIES["variants"]

    def outcomes(rows: list[dict[str, Any]]) -> list[str]:
        shown = study.show(rows)
        check(study, shown)
        return [verdict.outcome for verdict in shown.verdicts if "TITAN" not in verdict.statement]

    shown = study.show(compared(TIMES))
    ranks, sizes, large, beps, *_ = shown.verdicts
    assert (ranks.outcome, beps.outcome, large.outcome) == ("reproduced", "reproduced", "differs")
    assert (
        "with blocks added in tcu's order single-pass R=4 B=128 0.4, split R=1 B=512 40.0" in ranks.measured
    )
    turned = study.show(compared(TIMES | {SINGLE: 9.0, TREES[SINGLE]: 1.0}))
    assert [v.outcome for v in turned.verdicts[:4]] == ["differs", sizes.outcome, "reproduced", "differs"]
    # Without them nothing is said, whatever the other forms do.
    for lacking in ((SINGLE,), (SPLIT,), (SINGLE, SPLIT)):
        some = {who: t for who, t in TIMES.items() if who not in lacking}
        for trees in (0.1, 9.0):
            rows = compared(some | dict.fromkeys(TREES.values(), trees))
            assert outcomes(rows) == ["not measured"] * 7
            assert (
                "the paper's blocks add by atomics, which did not take part"
                in study.show(rows).verdicts[0].why
            )
    assert "(gpu-atomic.json)" not in ranks.measured
    assert "gpu-atomic.json): single-pass" in study.show(rows).verdicts[0].measured


def test_errors_beside_cub_are_judged_by_thirty_arrays() -> None:
    study = STUDIES["variants"]
    told = [study.show(compared(TIMES, draws)).verdicts[4:7] for draws in (30, 29, 1)]
    assert [verdict.outcome for verdict in told[0]] == ["differs", "reproduced", "differs"]
    assert [verdict.outcome for few in told[1:] for verdict in few] == ["not measured"] * 6
    assert "errors are judged by 30 arrays" in told[2][0].why
    rows = compared(TIMES)
    for row in rows:
        if row["who"] == CUB_FLOAT:
            row["percent_error"] = {"normal": [1e-4] * 30, "uniform": [1e-6] * 30}
        if row["who"] == CUB_HALF:
            row["percent_error"] = {"normal": [0.1] * 30, "uniform": [None] * 30}
    assert [verdict.outcome for verdict in study.show(rows).verdicts[4:7]] == ["reproduced"] * 3
    rows[1]["percent_error"] = {
        "normal": [0.1] * 30,
        "uniform": [1e-4] * 29 + [0.01],
    }  # one array of one size
    assert rows[1]["who"] == SINGLE
    assert study.show(rows).verdicts[5].outcome == "differs"


def test_single_pass_in_order_is_told_beside_what_atomics_take() -> None:
    """By the rows of benchmarks/results/gpu-atomic.json."""
    rows, source = atomic_rows("single-pass")
    assert len(rows) == 48
    assert all(row["variant"] == "single-pass-atomic" and row["seconds"] > 0 for row in rows)
    best = min(rows, key=lambda row: row["seconds"])
    in_order = STUDIES["single-pass"].show(
        sweep(lambda n, chain, block: 5e-6 + 6e-9 * n / (block // 32 * chain * 256))
    )
    for verdict in in_order.verdicts[:-1]:
        assert verdict.outcome == "not measured"
        assert f" With atomics ({source}): " in verdict.measured
    told = f"the best, B = {best['block']}, R = {best['chain']} ({best['seconds'] * 1e6:.1f} µs)"
    assert told in in_order.verdicts[2].measured
    split, _ = atomic_rows("split")
    fastest = 1 - min(split, key=lambda row: row["seconds"])["fraction"]
    shown = STUDIES["split"].show([{**row, "variant": "split"} for row in split])
    assert (
        f"With atomics ({source}): The fastest share of warp shuffles is {fastest:.0%}"
        in shown.verdicts[0].measured
    )


def test_a_calibration_says_which_assumption_the_times_contradict() -> None:
    def row(*predictions: dict[str, Any]) -> dict[str, Any]:
        return {"device": "a device", "m": 256, "latency": 1e6, "unit_seconds": 1e-12, "latency_seconds": 1e-4,
                "step_seconds": 4e-12, "median_error": 0.05, "predictions": list(predictions)}  # fmt: skip

    def run(name: str, calls: int, seconds: float, predicted: float, apart: float) -> dict[str, Any]:
        return {"algorithm": name, "n": calls, "tensor_calls": calls, "seconds": seconds, "predicted": predicted,
                "error": predicted / seconds - 1, "error_apart": apart / seconds - 1}  # fmt: skip

    study = STUDIES["calibration"]
    algorithms = ("sum", "dft", "matmul")
    exact = study.show([row(*(run(name, 10, 1e-3, 1e-3, 1e-3) for name in algorithms))])
    check(study, exact)
    assert exact.verdicts[0].outcome == "reproduced"
    alone = study.show([row(*(run("sum", n, 1e-3, 1e-3, 1e-3) for n in (10, 20, 30)))]).verdicts[0]
    assert (alone.outcome, alone.why) == ("not measured", "runs of sum alone do not tell how programs behave")
    together = run("matmul", 1000, 1e-3, 1e-1, 1e-1), run("strassen", 100, 1e-3, 1e-2, 1e-2)
    between = run("integer", 2, 1e-2, 2e-4, 2.1e-4)
    steps = run("dft", 2, 1e-2, 2e-3, 9e-3)
    calls = run("sum", 2, 1e-3, 5e-3, 5e-3)
    near = run("polynomial", 2, 1e-3, 6e-4, 7e-4)
    verdict = study.show([row(between, *together, calls, near, steps)]).verdicts[0]
    assert verdict.outcome == "differs"
    assert verdict.why.split("; ") == [
        "matmul, strassen (2 of 6 runs): too long by 10 to 100 times, a run took less than its calls' latencies alone, "
        "1 µs to 10 µs a call where ℓ is 100 µs: equal products start together, and the model starts one after another",
        "dft (1 of 6 runs): too short by 5.0 times, with the CPU's steps at their own measured time (4 ps where the unit "
        "of time is 1 ps) they are within a factor of 2",
        "sum (1 of 6 runs): too long by 5.0 times, the calls take less than the fit of full products says, as those with "
        "few columns do",
        "integer (1 of 6 runs): too short by 50 times, also with the CPU's steps at their own time: what a program does "
        "between its calls, passes over memory and starting them, costs more than its arithmetic",
    ]  # fmt: skip


def test_the_findings_of_paper_003_are_asked_of_every_unit() -> None:
    study = STUDIES["features"]
    result = stored_result(study, stored_folder())
    assert result is not None
    table = study.show(result.rows).parts[0]
    assert isinstance(table, Table)
    aligned = {
        name
        for name in units_with("mma")
        if isinstance(get_unit(name).instructions[0].arithmetic, AlignedSum)
    }
    assert aligned <= set(table.header)
    cells = {cell for row in table.rows for cell in row[1:-1]}
    assert {cell for cell in cells if ":" not in cell} <= {"✓", "✗", "–", "?", "23", "24", "25", "27", "RNE"}
    kept = next(row for row in table.rows if row[0].startswith("T4 and A100 keep one bit more"))
    bits = dict(zip(table.header[1:-1], kept[1:-1], strict=True))
    for unit, expected in (
        ("V100", "23"),
        ("T4", "✓"),
        ("A100", "✓"),
        ("L40S", "✓"),
        ("H100", "25"),
        ("B200", "25"),
    ):
        assert bits[unit] == expected


THIS_PAPER, PINNED = "model resting on this paper", "model pinned by hardware outputs"


def of_paper_003(*pinned: tuple[str, str]) -> dict[str, str]:
    """Outcomes by statement where every answer is the stored one and rests on the paper, but for those of these units and inputs."""
    result = stored_result(STUDIES["features"], stored_folder())
    assert result is not None
    rows = [
        {**row, "evidence": PINNED if (row["unit"], row["input"]) in pinned else THIS_PAPER}
        for row in result.rows
    ]
    # The table of sections and the sum of widths ask for answers alone, whatever they rest on.
    return {
        v.statement: v.outcome
        for v in STUDIES["features"].show(rows).verdicts
        if v.check.startswith("each answer")
    }


def test_what_rests_on_a_paper_does_not_confirm_it() -> None:
    nothing = of_paper_003()
    assert len(nothing) > 20
    assert set(nothing.values()) == {"not measured"}
    of_one = of_paper_003(("V100", "binary16"))
    confirmed = "Sums in binary32 are rounded toward zero."
    assert of_one[confirmed] == "reproduced"
    assert of_one["The V100 has no guard digit: 1 - (1 - 2^-24) is 2^-23."] == "reproduced"
    elsewhere = ("T4 and A100 keep one bit more, 24.", "In binary64 sums are monotonic.")
    assert {of_one[statement] for statement in elsewhere} == {"not measured"}
    assert of_paper_003(("A100", "binary64"))[elsewhere[1]] == "reproduced"
    # What contradicts the paper counts, whatever it rests on.
    result = stored_result(STUDIES["features"], stored_folder())
    assert result is not None
    wrong = [
        {**row, "evidence": THIS_PAPER, "value": "RNE" if (row["unit"], row["experiment"]) == ("T4", "rounding mode") else row["value"]}
        for row in result.rows
    ]  # fmt: skip
    (verdict,) = [v for v in STUDIES["features"].show(wrong).verdicts if v.statement == confirmed]
    assert verdict.outcome == "differs"


@pytest.mark.slow
def test_every_standing_of_a_model_is_evidence_of_its_own() -> None:
    expected = {
        "pinned by hardware outputs": PINNED, "resting on a paper": THIS_PAPER,
        "resting on a published model": "model resting on a published model",
        "resting on a specification": "model resting on a specification", "a user's": "model a user's",
    }  # fmt: skip
    assert {standing: _evidence_of(standing) for standing in get_args(Standing)} == expected
    asked = STUDIES["features"].measure(
        {"unit": "T4", "instruction": "mma", "input": "binary16", "output": "binary32"}
    )  # type: ignore[misc]
    assert {row["evidence"] for row in asked} == {_evidence_of(get_unit("T4").instructions[0].standing)}


def test_a_printed_bound_whose_ratio_grows_with_m_does_not_hold() -> None:
    """As that of Theorem 6, in whose whole calls one constant holds."""

    def bound(last: float, whole: float = 10.0) -> Verdict:
        return _bound([
            {"algorithm": "karatsuba", "m": m, "n": n, "fills": True, "cost": ratio * n, "bound": float(n), "whole": ratio * n / whole}
            for m, ratio in ((16, 100.0), (256, 120.0), (65536, last)) for n in (10**3, 10**6)
        ])  # fmt: skip

    assert bound(150.0).outcome == "reproduced"
    grown = bound(200.0)
    assert grown.outcome == "differs"
    assert (
        "As printed, the bound is exceeded 100 (m = 16), 120 (m = 256), 200 (m = 65,536) times"
        in grown.measured
    )
    assert "in whole calls one does" in grown.why
    assert (large := bound(150.0, 1000.0)).outcome == "differs"
    assert large.why == "the stated constant is too small"


@pytest.mark.parametrize(
    ("name", "key"), [("errors", "percent"), ("errors-of-units", "errors"), ("chain-length", "errors")]
)
def test_errors_are_those_of_thirty_arrays_of_awkward_lengths_with_their_spread(name: str, key: str) -> None:
    study = STUDIES[name]
    assert study.measure is not None
    for quick in (False, True):
        for point in study.points(quick):
            assert point["draws"] >= 30
            assert all(point["n"] % k for k in (2, 3, 5, 7, 11, 13))
    result = stored_result(study, stored_folder())
    assert result is not None
    assert all(len(row[key]) == row["draws"] for row in result.rows)
    figures = [part for part in study.show(result.rows).parts if isinstance(part, Figure)]
    drawn = 0
    for line in (line for figure in figures for line in figure.lines):
        for y, low, high in zip(line.y, line.low, line.high, strict=True):
            if y is not None and low is not None and high is not None:
                assert low <= y <= high
                drawn += low < high
        assert len(line.low) == len(line.y)
    assert drawn > 30


def test_a_median_has_the_spread_of_its_draws_and_an_overflow_none() -> None:
    assert spread([-3.0, 1.0, 2.0]) == (2.0, 1.2, 2.8)
    assert spread([1.0, None, 2.0]) == spread([]) == (None, None, None)


def test_a_stored_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    study = STUDIES["energy"]
    assert stored_result(study, None) is None
    assert stored_result(study, tmp_path) is None
    assert study.stored is not None
    (tmp_path / study.stored.file).write_text('{"figures": {}}')
    with pytest.raises(DataFileError, match=r"is no result of python benchmarks/gpu_sum\.py"):
        stored_result(study, tmp_path)


def test_stored_results_are_found_beside_a_clone_only() -> None:
    code = "from tcu.study import stored_folder; print(stored_folder())"
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
    ).stdout.strip()  # fmt: skip
    assert found == str(ROOT / "benchmarks" / "results")


def test_figures_name_the_commit_of_the_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCU_COMMIT", "0123456789ab")
    assert provenance("a command")["commit"] == "0123456789ab"
    monkeypatch.delenv("TCU_COMMIT")
    monkeypatch.setenv("PATH", "")
    assert provenance("a command")["commit"] is None, "without git nothing tells"


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_a_clone_tells_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TCU_COMMIT", raising=False)
    if not (ROOT / ".git").exists():
        pytest.skip("no clone")
    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    told = provenance("a command")["commit"]
    assert told is not None
    assert head.stdout.startswith(told.removesuffix("-dirty"))


@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
def test_results_that_were_written_make_no_other_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TCU_COMMIT", raising=False)
    module = tmp_path / "src" / "tcu" / "study" / "provenance.py"
    figures = tmp_path / "benchmarks" / "results" / "cpu.json"
    for path in (module, figures):
        path.parent.mkdir(parents=True)
        path.write_text("1", "utf-8")
    git = ("git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "a")):
        subprocess.run((*git, *words), check=True, capture_output=True)
    monkeypatch.setattr("tcu.study.provenance.__file__", str(module))
    clean = provenance_of.commit()
    assert clean is not None
    assert len(clean) == 12
    figures.write_text("2", "utf-8")
    assert provenance_of.commit() == clean
    module.write_text("2", "utf-8")
    assert provenance_of.commit() == clean + "-dirty"
