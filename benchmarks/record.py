"""What every benchmark writes down: the figures with machine, versions, date and command."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tcu.study.provenance import provenance

RESULTS = Path(__file__).parent / "results"


def save(name: str, figures: Any, versions: Mapping[str, str] | None = None) -> Path:
    """Write benchmarks/results/NAME.json, with the versions of further libraries that took part."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    script = Path(sys.argv[0]).resolve()
    where = (
        script.relative_to(Path(__file__).parents[1])
        if script.is_relative_to(Path(__file__).parents[1])
        else script.name
    )
    command = " ".join(["python", str(where), *sys.argv[1:]])
    document = {**provenance(command, versions), "figures": figures}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path
