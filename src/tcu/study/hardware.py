"""A GPU against the catalogue: the bits of every instruction, and what inference finds without looking."""

from __future__ import annotations

from typing import Any

from tcu.study.study import Rows, Shown, Source, Study, Table, Verdict

__all__ = ["HARDWARE"]


def _rows(document: Any) -> Rows:
    figures = document["figures"]
    return [{"gpu": figures["gpu"], **row} for row in figures["rows"]]


def _show(rows: Rows) -> Shown:
    table = Table(
        f"{rows[0]['gpu']}: every instruction",
        ("instruction", "adversarial outputs", "different from the model", "inferred from the answers alone"),
        [[r["instruction"], f"{r['outputs']:,}", f"{r['different']:,}", r["inferred"]] for r in rows],
    )
    different = sum(row["different"] for row in rows)
    identified = sum(row["identified"] for row in rows)
    return Shown([table], [
        Verdict.of(
            "tcu", "The model on the CPU and the GPU return the same bits.",
            f"{sum(row['outputs'] for row in rows):,} adversarial outputs of {len(rows)} instructions, {different} "
            "different.", different == 0,
        ),
        Verdict.of(
            "tcu", "What an instruction computes can be inferred from its answers alone.",
            f"{identified} of {len(rows)} instructions identified, bit for bit.", identified == len(rows),
        ),
    ])  # fmt: skip


HARDWARE = Study(
    "hardware", "Model and hardware, bit for bit", (),
    "Does a GPU compute what the catalogue says?",
    _show, needs=("gpu",), stored=Source("gpu-units.json", _rows), command="python benchmarks/gpu_units.py",
)  # fmt: skip
