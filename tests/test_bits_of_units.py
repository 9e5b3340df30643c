"""Which functions' bits depend on the unit.

- docs/reference/bits.md says it, as every unit of the catalogue says it now.
- The default of sums and means, of whole arrays, rows, columns and segments, has the same bits on every unit.
- A sum's bits depend on the unit where its plan has MMAs of a format that units add up differently, and nowhere else.
"""

from __future__ import annotations

import bits_of_units
import pytest
from bits_of_units import DTYPES, NONE, OWN, PAGE, PLANNED, SAME, SCANNED, answers, by_layouts, cell

from tcu.errors import DtypeError
from tcu.formats import get_format
from tcu.plan import DEFAULT_VARIANT, SCAN_VARIANTS, VARIANTS, MmaStep, make_plan
from tcu.units import CATALOGUE, get_unit


def has_mmas(variant: str, dtype: str) -> bool:
    plan = make_plan(20_000, get_format(dtype), get_unit("H100"), variant=variant)
    return any(isinstance(step, MmaStep) for part in plan.parts for step in part.steps)


@pytest.mark.some(28)
@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_bits_depend_on_the_unit_where_a_plan_has_mmas(variant: str, dtype: str) -> None:
    try:
        differ = has_mmas(variant, dtype) and dtype != "float64"  # binary64 MMAs are FMAs on every unit
    except DtypeError:
        assert cell(by_layouts(PLANNED, variant, dtype)) == NONE
        return
    assert cell(by_layouts(PLANNED, variant, dtype)) == (OWN if differ else SAME)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("variant", SCAN_VARIANTS)
def test_bits_of_scans_depend_on_the_unit_where_a_plan_has_mmas(variant: str, dtype: str) -> None:
    row = SCAN_VARIANTS[variant]
    kind = (OWN if row.uses_mma else SAME) if row.takes(get_format(dtype)) else NONE
    assert cell(by_layouts(SCANNED, variant, dtype)) == kind


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_default_has_the_same_bits_on_every_unit_of_the_catalogue(dtype: str) -> None:
    found = answers(by_layouts(PLANNED, DEFAULT_VARIANT, dtype))
    assert list(found) == list(CATALOGUE)
    assert len(set(found.values())) == 1


@pytest.mark.slow
def test_the_documentation_has_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == bits_of_units.page()
