"""What is asked of sums of segments and of scans, as a table, and whether the measured points hold it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gpu_first_call import PARTS
from gpu_segment_cases import FIRST, MIDDLE, NORMS, is_power
from gpu_segment_data import MEANS, POWER_LAW, RAGGED
from gpu_segment_peers import COPY

from tcu.study.gpu.peers import READ

Point = dict[str, Any]
Ratio = Callable[[Point], float | None]

FIRST_CALL = 1.0
"""Seconds that the first call of a process may take with nothing compiled before."""


def speeds(point: Point) -> dict[str, float]:
    return {name: row["tb_per_s"] for name, row in point["participants"].items() if "tb_per_s" in row}


def ours(point: Point) -> float | None:
    return next((rate for name, rate in speeds(point).items() if name.startswith("tcu.")), None)


def ceiling(point: Point) -> float | None:
    return speeds(point).get(READ) or speeds(point).get(COPY)


def best_peer(point: Point) -> tuple[str, float] | None:
    """Name and speed of the fastest that is neither tcu nor a ceiling."""
    found = {name: rate for name, rate in speeds(point).items() if name not in (READ, COPY)}
    peers = [(name, rate) for name, rate in found.items() if not name.startswith("tcu.")]
    return max(peers, key=lambda one: one[1], default=None)


def fastest_named(point: Point, prefix: str) -> float | None:
    return max((rate for name, rate in speeds(point).items() if name.startswith(prefix)), default=None)


def _over(other: float | None, point: Point) -> float | None:
    mine = ours(point)
    return mine / other if mine is not None and other else None


def over_ceiling(point: Point) -> float | None:
    return _over(ceiling(point), point)


def over_best(point: Point) -> float | None:
    best = best_peer(point)
    return _over(best[1] if best else None, point)


def over_named(prefix: str) -> Ratio:
    return lambda point: _over(fastest_named(point, prefix), point)


@dataclass(frozen=True)
class Claim:
    part: str
    text: str
    ratio: Ratio
    at_least: float
    layouts: tuple[str, ...] | None = None
    lengths: Callable[[float], bool] = lambda length: True
    pair: tuple[str, str] | None = None
    """dtype and result; None: each pair that was measured, a line for each."""


def among(*lengths: int) -> Callable[[float], bool]:
    return lambda length: length in lengths


def at_least(length: int) -> Callable[[float], bool]:
    return lambda given: given >= length


def below(length: int) -> Callable[[float], bool]:
    return lambda given: given < length


ALONG = (FIRST, MIDDLE)
HALF, WIDENED, FLOAT = ("float16", "float16"), ("float16", "float32"), ("float32", "float32")
LONG, SHORT = among(1 << 29), among(1 << 24)
TIE = 0.97
"""Of the fastest peer's speed."""
LONG_SEGMENTS = tuple(f"geometric, mean {mean}" for mean in MEANS if mean >= 64)
SHORT_SEGMENTS = tuple(f"geometric, mean {mean}" for mean in MEANS if mean < 64)
CLAIMS = (
    Claim("rows", "rows / ceiling", over_ceiling, 0.93, ("rows",), lambda n: n not in (3, 17)),
    Claim("rows", "rows of 3 and 17 / ceiling", over_ceiling, 0.88, ("rows",), among(3, 17)),
    Claim("rows", "other axes / ceiling", over_ceiling, 0.93, ALONG),
    Claim("exactrows", "rows from 64 on / ceiling", over_ceiling, 0.80, ("rows",), at_least(64)),
    Claim("exactrows", "rows below 64 / ceiling", over_ceiling, 0.60, ("rows",), below(64)),
    Claim("exactrows", "other axes from 64 on / ceiling", over_ceiling, 0.80, ALONG, at_least(64)),
    Claim("exactrows", "other axes below 64 / ceiling", over_ceiling, 0.60, ALONG, below(64)),
    *(Claim("segments", f"{case} / ceiling", over_ceiling, least, cases)
      for case, least, cases in (("mean 4", 0.70, ("geometric, mean 4",)), ("mean 8", 0.80, ("geometric, mean 8",)),
                                 ("from mean 64 on", 0.90, LONG_SEGMENTS), (POWER_LAW, 0.88, (POWER_LAW,)))),
    *(Claim(part, f"{case} / ceiling", over_ceiling, least, cases)
      for part, leasts in (("exactsegments", (0.50, 0.70)), ("segmentscans", (0.60, 0.80)))
      for case, least, cases in zip(("below mean 64", "from mean 64 on, power law"), leasts,
                                    (SHORT_SEGMENTS, (*LONG_SEGMENTS, POWER_LAW)), strict=True)),
    Claim("norms", "norm and dot / ceiling", over_ceiling, 0.97),
    *(Claim("scans", "2^29 / ceiling", over_ceiling, 0.88, lengths=LONG, pair=pair) for pair in (HALF, WIDENED, FLOAT)),
    Claim("scans", "2^29 / CUB", over_named("CUB"), 2.2, lengths=LONG, pair=HALF),
    Claim("scans", "2^29 / CUB", over_named("CUB"), 1.2, lengths=LONG, pair=FLOAT),
    Claim("scans", "2^24 / CUB", over_named("CUB"), 1.3, lengths=SHORT),
    Claim("rowscans", "rows / ceiling", over_ceiling, 0.90),
    Claim("columnscans", "other axes / ceiling", over_ceiling, 0.85),
    *(Claim(part, "best peer", over_best, TIE) for part in ("rows", "exactrows", "segments", "norms", "rowscans", "columnscans")),
)  # fmt: skip


def evaluate(part: str, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Each claim on this part with its worst ratio, "holds", "FAILS" or "not measured"."""
    points = figures["points"]
    found = []
    for claim in (one for one in CLAIMS if one.part == part):
        pairs = [claim.pair] if claim.pair else list(dict.fromkeys((p["dtype"], p["result"]) for p in points))
        found += [_line(claim, pair, points) for pair in pairs]
    return found + _correct(points) + _first_call(figures.get("first_calls", []))


def _line(claim: Claim, pair: tuple[str, str], points: list[Point]) -> dict[str, Any]:
    chosen = [
        point for point in points
        if (point["dtype"], point["result"]) == pair and claim.lengths(point["length"])
        and (claim.layouts is None or point["layout"] in claim.layouts)
    ]  # fmt: skip
    ratios = [(ratio, name_of(point)) for point in chosen if (ratio := claim.ratio(point)) is not None]
    line = {
        "claim": claim.text, "pair": "→".join(pair), "at_least": claim.at_least, "points": len(chosen),
        "measured": len(ratios),
    }  # fmt: skip
    if not ratios:
        return line | {"state": "not measured"}
    worst, where = min(ratios)
    failing = {name: ratio for ratio, name in sorted(ratios) if ratio < claim.at_least}
    return line | {
        "worst": None if worst == math.inf else worst, "at": where, "failing": failing,
        "state": "FAILS" if failing else "holds",
    }  # fmt: skip


def name_of(point: Point) -> str:
    """The case in words that are unique within a part and pair of dtypes."""
    if point["layout"] in ALONG:
        return f"{point['layout']} of {tuple(point['shape'])}"
    if point["layout"] in RAGGED:
        return str(point["layout"])
    length = point["length"]
    if point["layout"] in NORMS:
        return f"{point['layout']} of 2^{math.log2(length):g}"
    return f"2^{int(math.log2(length))}" if is_power(length) else f"{length:,}"


def _correct(points: list[Point]) -> list[dict[str, Any]]:
    found = []
    for pair in dict.fromkeys((point["dtype"], point["result"]) for point in points):
        chosen = [point for point in points if (point["dtype"], point["result"]) == pair]
        results = [
            (row, name_of(point))
            for point in chosen
            for name, row in point["participants"].items()
            if name.startswith("tcu.") and "share_of_bound" in row
        ]
        line = {
            "claim": "tcu's error / its bound", "pair": "→".join(pair), "at_most": 1.0, "points": len(chosen),
            "measured": len(results),
        }  # fmt: skip
        if not results:
            found.append(line | {"state": "not measured"})
            continue
        worst, where = max((row["share_of_bound"], where) for row, where in results)
        failing = {where: row["share_of_bound"] for row, where in results if row["state"] == "WRONG"}
        state = "FAILS" if failing else "holds"
        found.append(line | {"worst": worst, "at": where, "failing": failing, "state": state})
    return found


def _first_call(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
    cold = [row for row in calls if row["of"] == "tcu" and row["cache"] == "cold"]
    if not cold:
        return []
    taken = [(row[PARTS[1]], f"rows of {row['length']}") for row in cold if PARTS[1] in row]
    line = {
        "claim": f"seconds of a first {cold[0]['call']}", "pair": "cold cache", "at_most": FIRST_CALL,
        "points": len(cold), "measured": len(taken),
    }  # fmt: skip
    if not taken:
        return [line | {"state": "not measured", "why": cold[0].get("missing")}]
    worst, where = max(taken)
    failing = {name: seconds for seconds, name in taken if seconds > FIRST_CALL}
    return [
        line | {"worst": worst, "at": where, "failing": failing, "state": "FAILS" if failing else "holds"}
    ]
