"""Paper 000's single-pass and split with their atomics, as benchmarks/gpu_atomic.py timed them: rows like a sweep's."""

from __future__ import annotations

import json

from tcu.study.stored import stored_folder
from tcu.study.study import Rows

__all__ = ["FILE", "atomic_rows"]

FILE = "gpu-atomic.json"


def atomic_rows(variant: str) -> tuple[Rows, str]:
    """The rows of ``variant`` with atomics, and on what GPU and when they were measured; no rows outside a clone."""
    folder = stored_folder()
    if folder is None or not (folder / FILE).is_file():
        return [], ""
    document = json.loads((folder / FILE).read_text(encoding="utf-8"))
    rows = [
        {**row, "variant": f"{variant}-atomic", "seconds": row["seconds"]["atomic"]}
        for row in document["figures"]["rows"] if row["variant"] == variant
    ]  # fmt: skip
    return rows, f"{document['machine']['gpu']}, {document['date']}, {FILE}"
