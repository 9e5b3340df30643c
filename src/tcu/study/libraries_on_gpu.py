"""What PyTorch's products and sums on a GPU really add, over a grid of shapes and formats."""

from __future__ import annotations

from typing import Any

from tcu.study.libraries import parts, words_of
from tcu.study.study import Row, Rows, Shown, Source, Study, Verdict
from tcu.units.arithmetic import AlignedSum
from tcu.units.catalogue import CATALOGUE

__all__ = ["LIBRARIES_ON_GPU"]

_SHARE = 0.9
"""Of the products that must be reproduced."""
_PROMOTED = 128
"""Of K, after which a product of 8-bit numbers adds its sums to binary32 outside of the unit."""
_TENSOR_CORES = ("float16", "bfloat16", "tf32", "e4m3", "e4m3 fast")


def _rows(document: Any) -> Rows:
    version = document["versions"]
    return [
        {
            "gpu": document["machine"]["gpu"],
            "version": version.get(row["target"].partition(".")[0], ""),
            **row,
        }
        for row in document["figures"]["rows"]
    ]


def _show(rows: Rows) -> Shown:
    known = [row for row in rows if "missing" not in row]
    judged = (
        _most_products(rows),
        _sums(known),
        _units_blocks(known),
        _splits(known),
        _fast_accumulation(known),
    )
    return Shown(parts(rows), [verdict for verdict in judged if verdict is not None])


def _most_products(rows: Rows) -> Verdict:
    """What was not decided is not reproduced."""
    own = [row for row in rows if row["kind"] == "matmul"]
    right = [row for row in own if row.get("reproduced")]
    told = "; ".join(
        f"{words_of(row)}: {row.get('missing') or row['conclusion']}" for row in own if row not in right
    )
    return Verdict.of(
        "tcu", f"Of PyTorch's products on a GPU at least {_SHARE:.0%} follow a plan that returns every bit of a million results.",
        f"{len(right)} of {len(own)} shapes and formats, {sum(row['compared'] for row in right):,} results, "
        f"{sum(row['different'] for row in right):,} different." + (f" Not: {told}." if told else ""),
        len(right) >= _SHARE * len(own), "too many were refused, or not decided in their time",
        check=f"{_SHARE:.0%} of all points are reproduced", rows=own, fields=("reproduced",),
    )  # fmt: skip


def _sums(rows: Rows) -> Verdict | None:
    own = [row for row in rows if row["kind"] != "matmul"]
    wrong = [row for row in own if not row["reproduced"]]
    return Verdict.of(
        "tcu", "Sums and running sums of PyTorch and CuPy on a GPU follow one plan, too.",
        f"{len(own) - len(wrong)} of {len(own)} functions and lengths.", not wrong,
        "; ".join(f"{row['target']} of {words_of(row)}: {row['conclusion']}" for row in wrong),
        check="no sum is refused", rows=own, fields=("reproduced",),
    ) if own else None  # fmt: skip


def _units_blocks(rows: Rows) -> Verdict | None:
    own = [row for row in _products(rows) if row["dtype"] in _TENSOR_CORES]
    unit = next((each for name, each in CATALOGUE.items() if own and name in own[0]["gpu"]), None)
    if unit is None:
        return None
    known = {
        f"{row.a} → {row.output}, F = {row.arithmetic.fraction_bits}, {row.arithmetic.rounding}"
        for row in unit.instructions if isinstance(row.arithmetic, AlignedSum)
    }  # fmt: skip
    strange = [row for row in own if not _blocks(row) or not _blocks(row) <= known]
    kinds = sorted({each for row in own for each in row["operations"] if each.startswith("blocks")})
    return Verdict.of(
        "tcu", "The arithmetic at the nodes, found from answers alone, is that of the GPU's unit in the catalogue.",
        f"{len(own) - len(strange)} of {len(own)} products: {'; '.join(kinds)}.", not strange,
        "; ".join(f"{words_of(row)}: {', '.join(row['operations'])}" for row in strange),
        check=f"operand, result, F and rounding of every block are those of an instruction of {unit.name}", rows=own,
        fields=("operations",),
    )  # fmt: skip


def _blocks(row: Row) -> set[str]:
    """Formats, F and rounding of its blocks, whose lengths are those of the chains that answers show."""
    found = (each.partition(": ") for each in row["operations"])
    return {what.removesuffix(" onto the first") for kind, _, what in found if kind.startswith("blocks")}


def _splits(rows: Rows) -> Verdict | None:
    own = [row for row in _products(rows) if row["dtype"] in _TENSOR_CORES]
    several = [row for row in own if row["chains"] > 1]
    told = "; ".join(f"{words_of(row)}: {row['chains']}" for row in several)
    return Verdict.of(
        "tcu", "One format's products are a single chain for some shapes and several chains, added up, for others.",
        f"{len(several)} of {len(own)} have several chains: {told or 'none'}.",
        0 < len(several) < len(own), "all are cut alike",
        check="some products have one chain, and some several", rows=own, fields=("chains",),
    ) if own else None  # fmt: skip


def _fast_accumulation(rows: Rows) -> Verdict | None:
    own = [row for row in _products(rows) if row["dtype"].startswith("e4m3")]
    plain, fast = ([row for row in own if ("fast" in row["dtype"]) == is_fast] for is_fast in (False, True))
    if not plain or not fast:
        return None
    return Verdict.of(
        "tcu", f"Products of E4M3 leave the unit's narrow sums after {_PROMOTED} of K, and with fast accumulation never.",
        f"Longest chains: {max(row['longest'] for row in plain)} in {len(plain)} products, all of K in "
        f"{sum(row['longest'] == row['shape'][2] for row in fast)} of {len(fast)} with fast accumulation.",
        all(row["longest"] == min(row["shape"][2], _PROMOTED) for row in plain)
        and all(row["longest"] == row["shape"][2] for row in fast),
        "this library adds them up elsewhere",
        check=f"no chain is longer than {_PROMOTED} without fast accumulation, and with it every one is as long as K", rows=own,
        fields=("longest",),
    )  # fmt: skip


def _products(rows: Rows) -> list[Row]:
    return [row for row in rows if row["kind"] == "matmul" and row["reproduced"]]


LIBRARIES_ON_GPU = Study(
    "libraries-gpu", "What libraries on a GPU really add", (),
    "Who is added with whom, and in which arithmetic, in PyTorch's products, sums and running sums on a GPU?",
    _show, needs=("gpu", "torch"), stored=Source("gpu-libraries.json", _rows), command="python benchmarks/gpu_libraries.py",
    sources=("model", "probes"),
)  # fmt: skip
