"""Which functions' bits depend on the unit: found by asking every unit of the catalogue, and written as a page.

python tests/bits_of_units.py     docs/reference/bits.md anew
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tcu
from tcu.errors import DtypeError, UnknownNameError
from tcu.formats import get_format
from tcu.ops import OPERATIONS
from tcu.ops.matmul import MatmulOptions
from tcu.plan import DEFAULT_SCAN, DEFAULT_VARIANT, SCAN_VARIANTS, VARIANTS
from tcu.units import CATALOGUE

__all__ = ["PAGE", "answers", "page", "table"]

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "bits.md"
DTYPES = ("float16", "bfloat16", "float32", "float64")
ROWS, LENGTH = 40, 512
SHIFTS = (1, 2, 4, 8, 16, 64, 256)
OF_UNITS = [name for name, operation in OPERATIONS.items() if "unit" in operation.options]
PLANNED = [name for name in OF_UNITS if OPERATIONS[name].kind == "reduce"]
SCANNED = [name for name in OF_UNITS if OPERATIONS[name].kind == "scan"]
OWN, SAME, NONE = "the unit's", "the same", "–"

HEAD = """# Whose bits a result has

"the same": one set of bits, whatever the unit, on the CPU and on every GPU. "the unit's": those of the unit that `unit=`
names, which is an H100 on the CPU unless another is named, and on a GPU that GPU; two units may differ in the last
bits, and a CPU has a GPU's bits where `unit=` names it; variants by atomic additions have no bits of their own on a GPU, not
even from run to run. "–": not for this dtype. Found by asking every unit of
[the catalogue](units.md) (`python tests/bits_of_units.py` writes this page, and a test asks again).
"""

TRANSFORMS = [name for name in tcu.fft.__all__ if "freq" not in name and name != "error_bound"]
Asked = Callable[[str], npt.NDArray[Any]]


@cache
def numbers(dtype: str) -> npt.NDArray[Any]:
    """Rows in which small numbers meet large ones that cancel, so that what a unit cuts off is not lost in what is left.

    The large ones and their negatives lie 1 to 256 places apart, so that they are of one dot product in every variant.
    """
    rng = np.random.default_rng(19)
    rows = []
    for row in range(ROWS):
        apart = SHIFTS[row % len(SHIFTS)]
        small = np.ldexp(rng.uniform(-1, 1, LENGTH), rng.integers(-24, -12, LENGTH))
        large = np.ldexp(rng.uniform(1, 2, LENGTH // 2), rng.integers(-4, 4, LENGTH // 2)) * (
            rng.random(LENGTH // 2) < 0.2
        )
        large = large.reshape(-1, apart)
        pairs = np.stack([large, -large], axis=1).reshape(LENGTH)
        rows.append(np.where(pairs, pairs, small))
    return np.concatenate(rows).astype(get_format(dtype).dtype)


def by_layouts(names: list[str], variant: str, dtype: str) -> Asked:
    """Of whole arrays, rows, columns and segments, by every operation of these names."""
    x = numbers(dtype)

    def asked(unit: str) -> npt.NDArray[Any]:
        how = {"unit": unit, "variant": variant, "dtype": "float64"}
        found = []
        for name in names:
            whole, ragged = getattr(tcu, name), getattr(tcu, f"segment_{name}")
            found += [
                whole(x, **how), whole(x.reshape(ROWS, LENGTH), axis=1, **how),
                whole(x.reshape(LENGTH, ROWS), axis=0, **how), ragged(x, [*range(0, x.size, 1000), x.size], **how),
            ]  # fmt: skip
        return np.concatenate([np.ravel(each) for each in found])

    return asked


def products(function: Any, dtype: str, **how: Any) -> Asked:
    a = numbers(dtype)[: 16 * LENGTH].reshape(16, LENGTH)
    b = numbers(dtype)[-8 * LENGTH :].reshape(LENGTH, 8)
    return lambda unit: np.asarray(function(a, b, unit=unit, **how))


def cases() -> Iterator[tuple[Sequence[str], str, Callable[[str], Asked] | None]]:
    """(operations, variant or plan, what asks a unit for results of a dtype; None: they know of no unit)"""
    for variant in VARIANTS:
        yield PLANNED, _chosen(variant, DEFAULT_VARIANT), partial(by_layouts, PLANNED, variant)
    for variant in SCAN_VARIANTS:
        yield SCANNED, _chosen(variant, DEFAULT_SCAN), partial(by_layouts, SCANNED, variant)
    for operation in OPERATIONS:
        if operation not in OF_UNITS:
            yield (operation,), "", None
    yield [f"fft.{name}" for name in TRANSFORMS], "", None
    for plan in ("chunks", "chain"):
        chosen = _chosen(plan, MatmulOptions().plan)
        yield ("matmul",), chosen, partial(products, tcu.matmul, plan=plan)
    yield ("mma",), "", partial(products, tcu.mma)


def _chosen(name: str, default: str) -> str:
    return f"`{name}`" + (", the default" if name == default else "")


def _names(operations: Sequence[str]) -> str:
    ragged = [f"segment_{name}" for name in operations]
    return ", ".join(
        f"`{name}`" for name in [*operations, *ragged] if name in dir(tcu) or name.startswith("fft.")
    )


def answers(asked: Asked) -> dict[str, bytes]:
    """The bits of every unit that computes it."""
    found = {}
    for unit in CATALOGUE:
        try:
            found[unit] = asked(unit).tobytes()
        except (DtypeError, UnknownNameError):  # it has no such MMA
            continue
    return found


def cell(asked: Asked) -> str:
    found = answers(asked)
    if not found:
        return NONE
    return SAME if len(set(found.values())) == 1 else OWN


@cache
def table() -> str:
    """In Markdown: a row for each function and variant, a column for each dtype."""
    lines = [f"| function | variant or plan | {' | '.join(DTYPES)} |", "| --- " * (len(DTYPES) + 2) + "|"]
    for operations, variant, of in cases():
        cells = [SAME if of is None else cell(of(dtype)) for dtype in DTYPES]
        lines.append(f"| {_names(operations)} | {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def page() -> str:
    return f"{HEAD}\n{table()}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
