"""The ratios that matter, from the rows of gpu_sum.py: speed, energy and the host's time."""

from __future__ import annotations

import math
from typing import Any

from tcu.study.gpu.peers import READ, cub_name

Rows = list[dict[str, Any]]


def _speeds(rows: Rows, dtype: str, cache: str, method: str) -> dict[str, dict[int, float]]:
    """TB/s by participant and n; the shapes of the reading kernel joined to the best."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        timing = row.get(method, {})
        if (row["dtype"], row.get("cache")) == (dtype, cache) and "tb_per_s" in timing:
            name = READ if row["participant"].startswith(READ) else row["participant"]
            sizes = found.setdefault(name, {})
            sizes[row["n"]] = max(sizes.get(row["n"], 0.0), timing["tb_per_s"])
    return found


def _fastest(speeds: dict[str, dict[int, float]], names: list[str]) -> dict[int, float]:
    present = [speeds[name] for name in names if name in speeds]
    return {n: max(one.get(n, 0.0) for one in present) for n in sorted({n for one in present for n in one})}


def speed_claims(rows: Rows, method: str) -> list[dict[str, Any]]:
    out = []
    for dtype in dict.fromkeys(row["dtype"] for row in rows):
        wide = "float32" if dtype in ("float16", "bfloat16") else dtype
        levels = ["not_guaranteed", "run_to_run"]
        cub = [cub_name(dtype, wide), *(cub_name(dtype, wide, level) for level in levels)]
        against = {
            READ: [READ], cub_name(dtype, wide): cub[:1], "the fastest CUB": cub,
            cub_name(dtype, wide, "gpu_to_gpu"): [cub_name(dtype, wide, "gpu_to_gpu")],
            "torch": ["torch"], "torch, dtype=float64": ["torch, dtype=float64"],
            "torch.compile": ["torch.compile"], "CuPy": ["CuPy"], "warp shuffle, atomic": ["warp shuffle, atomic"],
        }  # fmt: skip
        for cache in ("cold", "in L2"):
            speeds = _speeds(rows, dtype, cache, method)
            for ours, others in (("tcu.sum", against), ("tcu.fsum", {"tcu.sum": ["tcu.sum"], **against})):
                for label, names in others.items():
                    theirs = _fastest(speeds, names)
                    ratios = {
                        n: rate / theirs[n]
                        for n, rate in speeds.get(ours, {}).items()
                        if theirs.get(n) and names != [ours]
                    }
                    if ratios:
                        out.append({
                            "what": "speed", "method": method, "dtype": dtype, "cache": cache,
                            "of": ours, "over": label, "by_n": ratios,
                        })  # fmt: skip
    return out


def energy_claims(rows: Rows) -> list[dict[str, Any]]:
    """Joules per terabyte, the mean of the rounds, over each other participant's."""
    rounds: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        if "joules_per_terabyte" in row:
            rounds.setdefault((row["dtype"], row["participant"]), []).append(row["joules_per_terabyte"])
    mean = {key: math.fsum(values) / len(values) for key, values in rounds.items()}
    return [
        {"what": "energy", "dtype": dtype, "of": ours, "over": name, "ratio": mean[dtype, ours] / joules}
        for (dtype, name), joules in mean.items()
        for ours in ("tcu.sum", "tcu.fsum")
        if (dtype, ours) in mean and name != ours
    ]


def host_claims(host: dict[str, Any]) -> list[dict[str, Any]]:
    pairs = (
        ("tcu.sum of a tensor", "torch"), ("tcu.fsum of a tensor", "torch"), ("tcu.sum of a CuPy array", "CuPy"),
    )  # fmt: skip
    return [
        {
            "what": "host time",
            "of": ours,
            "over": other,
            "ratio": host[ours]["median"] / host[other]["median"],
        }
        for ours, other in pairs
        if "median" in host.get(ours, {}) and "median" in host.get(other, {})
    ]


def claims(figures: dict[str, Any]) -> list[dict[str, Any]]:
    rows = figures["rows"]
    return [
        *speed_claims(rows, "events"),
        *speed_claims(rows, "graph"),
        *speed_claims(rows, "uniform"),
        *energy_claims(figures["energy"]),
        *host_claims(figures["host"]),
    ]
