"""From what paper_002_measure.py wrote to the table that variant="paper-002" goes by."""

from __future__ import annotations

import json
from pathlib import Path

from tcu.calibration.paper_002 import choose as chosen
from tcu.calibration.paper_002 import written
from tcu.plan.segmented import ALGORITHMS

TABLE = Path(__file__).parents[1] / "src" / "tcu" / "plan" / "paper_002.json"


def choose(source: Path) -> Path:
    """The table, of the fastest algorithm at every size of segments."""
    document = json.loads(source.read_text())
    seconds: dict[int, dict[str, float]] = {}
    for row in document["figures"]["rows"]:
        if row["who"] in ALGORITHMS:
            seconds.setdefault(row["segment"], {})[row["who"]] = row["median"]
    machine = document["machine"]
    found = f"{document['command']} on {machine.get('gpu', machine['processor'])}, {document['date']}"
    TABLE.write_text(written(found, chosen(seconds)))
    return TABLE
