"""Contract: every verdict of every study can fail, and rests on the rows that it names.

Each verdict names its rows, the fields of what was measured there, and its check.  The test goes through all verdicts of all
studies whose results are stored, plants wrong values in those fields of those rows, and the verdict must turn; wrong values
in the same fields of any other row must leave it as it is.  What has no rows cannot be measured, is listed here, and says why.
No study is left out, and no place in the sources that makes a verdict: each makes one of those that are gone through.
"""

from __future__ import annotations

import ast
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

import tcu.study
from tcu.study import STUDIES, Rows, Shown, Study, Verdict, stored_folder, stored_result

Change = Callable[[Any], Any]

_UNIQUE = itertools.count()


def number(change: Change) -> Change:
    """Numbers are changed; answers are turned, names are new ones, and nothing is a number."""

    def other(value: Any) -> Any:
        if isinstance(value, bool):
            return not value
        if isinstance(value, str):
            return f"wrong {next(_UNIQUE)}"
        return 1e9 if value is None else change(value)

    return other


CHANGES: dict[str, Change] = {
    "a million times as much": number(lambda value: value * 1e6),
    "a millionth": number(lambda value: value * 1e-6),
    "nothing": number(lambda value: type(value)(0)),
    "one more": number(lambda value: value + 1),
    "its negative": number(lambda value: -value),
    "something of the size of 1": number(lambda value: type(value)(1)),
    "no answer": lambda value: None,
    "all alike": lambda value: "wrong" if isinstance(value, str) else 1,
}
"""Wrong values in place of a number, an answer or a name."""

UNMEASURABLE = {
    ("variants", "TITAN RTX"): 1, ("recurrence", "TITAN RTX"): 1, ("single-pass", "TITAN RTX"): 1, ("split", "TITAN RTX"): 1,
    ("format-tables", "A tensor core of the T4"): 1, ("format-tables", "Google TPU"): 1,
}  # fmt: skip
"""(study, words of the statement) → how many of its verdicts nothing that could be measured here decides."""


def wrong(value: Any, change: Change) -> Any:
    """The value with everything in it changed."""
    if isinstance(value, dict):
        return {key: wrong(each, change) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [wrong(each, change) for each in value]
    return change(value)


def plant(place: Any, path: list[str], change: Change) -> None:
    """Change what is named; a list stands for each of its elements."""
    if isinstance(place, list):
        for each in place:
            plant(each, path, change)
    elif path[0] in place and len(path) > 1:
        plant(place[path[0]], path[1:], change)
    elif path[0] in place:
        place[path[0]] = wrong(place[path[0]], change)


def planted(rows: Rows, chosen: Iterable[int], fields: tuple[str, ...], change: Change) -> Rows:
    """The rows with wrong values in those fields, "outer.inner" within another, of the chosen ones."""
    result = list(rows)
    for i in chosen:
        result[i] = deepcopy(rows[i]) if any("." in field for field in fields) else dict(rows[i])
        for field in fields:
            plant(result[i], field.split("."), change)
    return result


def shown(study: Study, rows: Rows) -> Shown | None:
    """None where the wrong rows make no sense to the study at all: that is no turn."""
    try:
        return study.show(rows)
    except (ArithmeticError, ValueError, LookupError, TypeError, RuntimeError, RuntimeWarning):
        return None


def outcomes(what: Shown) -> dict[tuple[str, str, str], str]:
    """By place and statement; those of a machine also by its name, with which their measure begins."""
    return {
        (v.place, v.statement, v.measured.partition(":")[0] if "004, section 6" in v.place else ""): v.outcome
        for v in what.verdicts
    }


def attempts(chosen: list[int]) -> Iterator[list[int]]:
    """All of them together, then every other one, then one by one."""
    yield chosen
    yield chosen[::2]
    yield from ([i] for i in chosen)


def turns(
    study: Study, rows: Rows, key: tuple[str, str, str], chosen: list[int], fields: tuple[str, ...]
) -> bool:
    before = outcomes(study.show(rows))[key]
    sets = [fields, *((field,) for field in fields if len(fields) > 1)]
    for some, names, change in itertools.product(attempts(chosen), sets, CHANGES.values()):
        after = shown(study, planted(rows, some, names, change))
        if after is not None and outcomes(after).get(key, before) != before:
            return True
    return False


def unmeasurable(name: str, verdict: Verdict) -> tuple[str, str] | None:
    return next((key for key in UNMEASURABLE if key[0] == name and key[1] in verdict.statement), None)


def check(name: str, study: Study, rows: Rows) -> None:
    """Every verdict of the study turns, by its own rows and by no others."""
    position = {id(row): i for i, row in enumerate(rows)}
    verdicts = study.show(rows).verdicts
    for key, verdict in zip(outcomes(study.show(rows)), verdicts, strict=True):
        if unmeasurable(name, verdict) is not None and not verdict.rows:
            assert verdict.outcome == "not measured", verdict
            assert verdict.why
            continue
        assert verdict.fields, f"{verdict.statement} names no fields"
        assert verdict.check, f"{verdict.statement} names no check"
        fields = verdict.fields
        chosen = [position[id(row)] for row in verdict.rows] or list(range(len(rows)))
        assert turns(study, rows, key, chosen, fields), (
            f"{name}: no wrong {fields} turns: {verdict.statement}"
        )
        others = [  # a row that has nothing there was not measured
            i for i, row in enumerate(rows)
            if i not in chosen and all(row.get(field.partition(".")[0]) is not None for field in fields)
        ]  # fmt: skip
        for change in CHANGES.values():
            after = shown(study, planted(rows, others, fields, change)) if others else None
            if after is not None:
                assert outcomes(after)[key] == verdict.outcome, (
                    f"{verdict.statement} rests on rows that it does not name"
                )


LONG = ("features", "errors")


@pytest.mark.slow(2)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in LONG else name for name in STUDIES]
)
def test_every_verdict_turns_by_wrong_rows_and_by_its_own_alone(name: str) -> None:
    result = stored_result(STUDIES[name], stored_folder())
    if result is None:
        pytest.skip("not measured yet")
    check(name, STUDIES[name], result.rows)


def test_no_study_is_left_out() -> None:
    assert [name for name, study in STUDIES.items() if stored_result(study, stored_folder()) is None] == []


def places_of_verdicts() -> set[tuple[str, int, int]]:
    """File, first and last line of each expression in the studies that makes a verdict of what was measured."""
    found = set()
    for path in Path(tcu.study.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Verdict", "Verdict.of"):
                assert node.end_lineno is not None
                if any(isinstance(each, ast.Constant) and each.value == "not measured" for each in node.args):
                    continue
                found.add((path.name, node.lineno, node.end_lineno))
    return found


def test_every_place_that_makes_a_verdict_makes_one_that_is_gone_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that waits for rows that nobody stores would turn by nothing."""
    made: set[tuple[str, int]] = set()
    first = Verdict.__init__

    def noted(self: Verdict, *args: Any, **kwargs: Any) -> None:
        frame = sys._getframe(1)
        while Path(frame.f_code.co_filename).name in ("study.py", "dataclasses.py"):
            assert frame.f_back is not None
            frame = frame.f_back
        made.add((Path(frame.f_code.co_filename).name, frame.f_lineno))
        first(self, *args, **kwargs)

    monkeypatch.setattr(Verdict, "__init__", noted)
    for study in STUDIES.values():
        if (result := stored_result(study, stored_folder())) is not None:
            study.show(result.rows)
    places = places_of_verdicts()
    assert len(places) > 60
    assert {
        (file, first, last) for file, first, last in places
        if not any(name == file and first <= line <= last for name, line in made)
    } == set()  # fmt: skip


def test_what_cannot_be_measured_is_listed() -> None:
    found = dict.fromkeys(UNMEASURABLE, 0)
    for name, study in STUDIES.items():
        if (result := stored_result(study, stored_folder())) is not None:
            for verdict in study.show(result.rows).verdicts:
                if verdict.outcome == "not measured" and not verdict.rows:
                    key = unmeasurable(name, verdict)
                    assert key is not None, f"{name}: {verdict.statement} has no rows"
                    found[key] += 1
    assert found == UNMEASURABLE


# The test itself


ROWS = [{"n": n, "error": n / 100, "name": "a"} for n in range(1, 6)]


def study_of(judge: Callable[[Rows], Verdict]) -> Study:
    return Study("made-up", "Made up", (), "How large?", lambda rows: Shown([], [judge(rows)]))


def test_a_verdict_that_can_fail_passes() -> None:
    check("made-up", study_of(lambda rows: Verdict.of(
        "tcu", "Errors are small.", "They are.", max(row["error"] for row in rows[2:]) < 1,
        check="below 1", rows=rows[2:], fields=("error",),
    )), ROWS)  # fmt: skip


@pytest.mark.parametrize(
    ("judge", "words"),
    [
        (lambda rows: Verdict.of("tcu", "It is so.", "It is.", True, check="-", rows=rows, fields=("error",)),
         "no wrong"),
        (lambda rows: Verdict.of("tcu", "It is so.", "It is.", {row["name"] for row in rows} == {"a"}, check="names",
                                 rows=rows, fields=("error",)), "no wrong"),
        (lambda rows: Verdict.of("tcu", "It is so.", "It is.", max(row["error"] for row in rows) < 1, check="-",
                                 rows=rows[:2], fields=("error",)), "rests on rows that it does not name"),
        (lambda rows: Verdict.of("tcu", "It is so.", "It is.", max(row["error"] for row in rows) < 1, check="-",
                                 rows=rows), "names no fields"),
        (lambda rows: Verdict.of("tcu", "It is so.", "It is.", max(row["error"] for row in rows) < 1, rows=rows,
                                 fields=("error",)), "names no check"),
    ],
    ids=["always true", "checks names alone", "names too few rows", "no fields", "no check"],
)  # fmt: skip
def test_a_verdict_that_cannot_fail_or_hides_its_rows_is_noticed(
    judge: Callable[[Rows], Verdict], words: str
) -> None:
    with pytest.raises(AssertionError, match=words):
        check("made-up", study_of(judge), ROWS)
