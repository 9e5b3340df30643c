"""From what paper_002_measure.py wrote to the table that variant="paper-002" goes by."""

from __future__ import annotations

import json
from pathlib import Path

from tcu.plan.segmented import ALGORITHMS

TABLE = Path(__file__).parents[1] / "src" / "tcu" / "plan" / "paper_002.json"
TIE = 0.02
"""Algorithms as near to the fastest count as equal: the first of them is taken, which rounds least."""


def choose(source: Path) -> Path:
    """The table, of the fastest algorithm at every size of segments."""
    document = json.loads(source.read_text())
    seconds: dict[int, dict[str, float]] = {}
    for row in document["figures"]["rows"]:
        if row["who"] in ALGORITHMS:
            seconds.setdefault(row["segment"], {})[row["who"]] = row["median"]
    picked = []
    for length, times in sorted(seconds.items()):
        limit = min(times.values()) * (1 + TIE)
        picked.append((length, next(name for name in ALGORITHMS if times[name] <= limit)))
    ends = [
        (length, name)
        for (length, name), (_, following) in zip(picked, [*picked[1:], (0, "")], strict=True)
        if name != following
    ]
    choice = [{"up_to": length, "algorithm": name} for length, name in ends]
    choice[-1]["up_to"] = None
    machine = document["machine"]
    found = f"{document['command']} on {machine.get('gpu', machine['processor'])}, {document['date']}"
    lines = ",\n".join(f"  {json.dumps(row)}" for row in choice)
    TABLE.write_text(f'{{\n "source": {json.dumps(found)},\n "choice": [\n{lines}\n ]\n}}\n')
    return TABLE
