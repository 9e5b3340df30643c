"""Contract: a row of the catalogue says what it rests on, and no document promises more than the rows have.

The strongest piece of evidence decides a row's standing.  A row that names published hardware outputs of its own chip has
them, chip by chip and format by format, where those outputs are at hand.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hardware import FORMATS, OUTPUTS, names

from tcu.units import CATALOGUE, Evidence, Instruction, Unit

ROOT = Path(__file__).parents[1]
PUBLISHED = "F. A. Khattak and M. Mikaitis"
FP8 = {"e4m3": "E4M3", "e5m2": "E5M2"}


def without_outputs(units: dict[str, Unit]) -> list[str]:
    """Units no row of which any hardware output pins."""
    return [
        name for name, unit in units.items()
        if not any(row.standing == "pinned by hardware outputs" for row in unit.instructions)
    ]  # fmt: skip


def test_the_strongest_evidence_decides() -> None:
    row = CATALOGUE["V100"].instructions[0]

    def standing(*kinds: str) -> str:
        return replace(row, evidence=tuple(Evidence(kind, "") for kind in kinds)).standing  # type: ignore[arg-type]

    assert standing("published model", "hardware vectors", "paper") == "pinned by hardware outputs"
    assert standing("published model", "paper") == "resting on a paper"
    assert standing("specification", "published model") == "resting on a published model"
    assert standing("specification") == "resting on a specification"
    assert standing("user") == standing() == "a user's"


@pytest.mark.parametrize(
    ("unit", "given", "standing"),
    [
        ("V100", "binary16", "pinned by hardware outputs"), ("T4", "binary16", "resting on a paper"),
        ("A100", "tf32", "pinned by hardware outputs"), ("A100", "binary64", "resting on a paper"),
        ("A30", "binary16", "resting on a published model"), ("H200", "binary64", "pinned by hardware outputs"),
    ],
)  # fmt: skip
def test_what_rows_of_paper_003_rest_on(unit: str, given: str, standing: str) -> None:
    rows = [row for row in CATALOGUE[unit].instructions if row.name == "mma" and row.a == given]
    assert {row.standing for row in rows} == {standing}


def test_the_readme_names_the_units_without_hardware_outputs() -> None:
    readme = " ".join((ROOT / "README.md").read_text().split())
    *most, last = without_outputs(CATALOGUE)
    assert f"Of {', '.join(most)} and {last} there are no outputs here" in readme
    planted = {"V100": replace(CATALOGUE["V100"], instructions=CATALOGUE["T4"].instructions)}
    assert without_outputs(planted) == ["V100"]


def published_sets() -> set[tuple[str, str, str]]:
    """(unit, input, output) of the published outputs at hand."""
    found = set()
    for file, name in names():
        if file == "other-gpus.npz":
            unit, given, output = name.split("/")
            found.add((unit, FORMATS.get(given, given.lower()), OUTPUTS[output]))
    return found


def unfounded(units: dict[str, Unit], sets: set[tuple[str, str, str]]) -> list[tuple[str, Instruction]]:
    """Rows that name published outputs of their own chip which are not among the sets."""
    return [
        (unit.name, row) for unit in units.values() for row in unit.instructions
        if any(each.text.startswith(PUBLISHED) for each in row.evidence) and (unit.name, row.a, row.output) not in sets
    ]  # fmt: skip


def test_rows_that_name_published_outputs_have_them() -> None:
    if not (sets := published_sets()):
        pytest.skip("needs the published outputs: TCU_VECTORS")
    assert unfounded(CATALOGUE, sets) == []
    assert unfounded(CATALOGUE, sets - {("L40S", "e4m3", "binary32")})
