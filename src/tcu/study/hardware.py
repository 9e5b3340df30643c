"""A GPU against the catalogue: the bits of every instruction, and what inference finds without looking."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from tcu.formats import get_format
from tcu.gpu import KERNELS, Gpu, Kernel, find_gpu, multiply_accumulate
from tcu.model.mma import multiply_accumulate as modelled
from tcu.probes import infer
from tcu.probes.inputs import adversarial
from tcu.probes.target import as_target
from tcu.study.sources import kernels_of
from tcu.study.study import Point, Row, Rows, Shown, Source, Study, Table, Verdict
from tcu.units import find_instruction

__all__ = ["HARDWARE", "compare"]


def _rows(document: Any) -> Rows:
    figures = document["figures"]
    return [{"gpu": figures["gpu"], **row} for row in figures["rows"]]


def _points(quick: bool) -> list[Point]:
    """Every kernel of every GPU: one that this GPU lacks has no rows."""
    outputs = 1 << 16 if quick else 1_000_000
    return [
        {"signature": kernel.signature, "mnemonic": kernel.mnemonic, "outputs": outputs} for kernel in KERNELS
    ]


def _measure(point: Point) -> Rows:
    gpu = find_gpu()
    kernel = next((one for one in gpu.kernels if one.mnemonic == point["mnemonic"]), None)
    if kernel is None:
        return []
    found = compare(gpu, kernel, point["outputs"])
    return [] if found is None else [{"gpu": gpu.name, **found}]


def compare(gpu: Gpu, kernel: Kernel, outputs: int) -> Row | None:
    """Adversarial outputs of a kernel compared with the model bit for bit, then its arithmetic inferred.

    The inference sees answers alone, and is tested on fresh inputs.  None for
    a kernel that computes only a part of an instruction of the catalogue.
    """
    row = find_instruction(gpu.unit, kernel.name, kernel.a, kernel.b, kernel.output)
    if row.k != kernel.k or kernel.a != kernel.b:
        return None
    target = as_target("gpu", instruction=kernel.name, input=kernel.a, output=kernel.output, k=kernel.k)
    rng, different, tried = np.random.default_rng(0), 0, 0
    x, z = get_format(kernel.a).dtype, get_format(kernel.output).dtype
    while tried < outputs:
        q = adversarial(target, rng, 256, 256)
        got = np.asarray(multiply_accumulate(q.a.view(x), q.b.view(x), q.c.view(z), row))
        expected = modelled(q.a.view(x), q.b.view(x), q.c.view(z), row)
        different += int(np.count_nonzero(got.view(q.c.dtype) != expected.view(q.c.dtype)))
        tried += q.c.size
    start = time.perf_counter()
    found = infer(target)
    return {
        "instruction": kernel.signature, "mnemonic": kernel.mnemonic, "outputs": tried, "different": different,
        "inferred": found.conclusion, "identified": found.identified, "seconds": round(time.perf_counter() - start, 2),
        "inference_tried": found.tried, "inference_different": found.different,
    }  # fmt: skip


def _show(rows: Rows) -> Shown:
    table = Table(
        f"{rows[0]['gpu']}: every instruction",
        ("instruction", "adversarial outputs", "different from the model", "inferred from the answers alone"),
        [[r["instruction"], f"{r['outputs']:,}", f"{r['different']:,}", r["inferred"]] for r in rows],
    )
    different = sum(row["different"] for row in rows)
    identified = sum(row["identified"] for row in rows)
    wrong = sum(row.get("inference_different", 0) for row in rows)
    tried = sum(row.get("inference_tried", 0) for row in rows)
    return Shown([table], [
        Verdict.of(
            "tcu", "The model on the CPU and the GPU return the same bits.",
            f"{sum(row['outputs'] for row in rows):,} adversarial outputs of {len(rows)} instructions, {different} "
            "different.", different == 0 and all(row["outputs"] for row in rows), "the hardware returned other bits",
            check="of every instruction outputs were compared, and none differs", rows=rows,
            fields=("outputs", "different"),
        ),
        Verdict.of(
            "tcu", "What an instruction computes can be inferred from its answers alone.",
            f"{identified} of {len(rows)} instructions identified, bit for bit, by {tried:,} fresh answers.",
            identified == len(rows) and wrong == 0,
            "some were not identified, or what was inferred failed on fresh inputs",
            check="every instruction is identified, and no fresh answer contradicts", rows=rows,
            fields=("identified", "inference_different"),
        ),
    ])  # fmt: skip


HARDWARE = Study(
    "hardware", "Model and hardware, bit for bit", (),
    "Does a GPU compute what the catalogue says?",
    _show, _points, _measure, (20, 120), ("gpu",), 0, Source("gpu-units.json", _rows),
    sources=("model", *kernels_of("mma")),
)  # fmt: skip
