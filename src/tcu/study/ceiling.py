"""Sums on a GPU against the ceiling of its memory: speed, the price of exactness, energy."""

from __future__ import annotations

from typing import Any

from tcu.study.sources import kernels_of
from tcu.study.study import Figure, Line, Rows, Shown, Source, Study, Table, Verdict, series_of

__all__ = ["CEILING"]

STORED, COMMAND = "gpu-sum.json", "python benchmarks/gpu_sum.py"
READ = "read alone"
OURS, EXACT = "tcu.sum", "tcu.fsum"
_LARGE = 1 << 28
"""Numbers, from which on an array is large."""
_SHOWN = (OURS, EXACT, "torch", "torch, dtype=float64", "torch.compile", "CuPy", "warp shuffle, atomic")


def _measured(document: Any) -> Rows:
    """One row for each sum that was timed cold: numbers alone."""
    return [
        {"dtype": row["dtype"], "n": row["n"], "who": row["participant"], "tb_per_s": row["events"]["tb_per_s"],
         "seconds": row["events"]["median"]}
        for row in document["figures"]["rows"]
        if row.get("cache") == "cold" and "tb_per_s" in row.get("events", {})
    ]  # fmt: skip


def _energy(document: Any) -> Rows:
    return [row for row in document["figures"]["energy"] if "joules_per_terabyte" in row]


def _speeds(rows: Rows, dtype: str) -> dict[str, dict[int, float]]:
    """Participant → n → TB/s; of the launch shapes that only read, the best at each size."""
    found: dict[str, dict[int, float]] = {}
    for row in rows:
        if row["dtype"] == dtype:
            name = READ if row["who"].startswith(READ) else row["who"]
            line = found.setdefault(name, {})
            line[row["n"]] = max(line.get(row["n"], 0.0), row["tb_per_s"])
    return found


def _dtypes(rows: Rows) -> list[str]:
    return list(dict.fromkeys(row["dtype"] for row in rows))


def _show_ceiling(rows: Rows) -> Shown:
    figures, shares = [], {}
    for dtype in _dtypes(rows):
        speeds = _speeds(rows, dtype)
        shown = [name for name in speeds if name in (READ, *_SHOWN) or name.startswith("CUB")]
        figures.append(Figure(
            f"Speed of one call over n, {dtype}", "n", "TB/s",
            [Line(name, list(speeds[name]), list(speeds[name].values()), name == READ, series=series_of(name))
             for name in shown], True,
            note="Numbers out of memory, not out of a cache; one call, its start included. Dashed: reading alone.",
        ))  # fmt: skip
        shares[dtype] = {
            n: speeds[OURS][n] / ceiling for n, ceiling in speeds[READ].items() if n in speeds[OURS]
        }
    figures.append(Figure(
        "tcu.sum's share of the memory ceiling", "n", "share of the speed of reading alone",
        [Line(dtype, list(share), list(share.values())) for dtype, share in shares.items()], True,
    ))  # fmt: skip
    largest = {dtype: share[max(share)] for dtype, share in shares.items()}
    return Shown(figures, [
        Verdict.of(
            "tcu", "Large arrays are summed as fast as they can be read.",
            "Share of the ceiling at the largest size: "
            + ", ".join(f"{dtype} {value:.1%}" for dtype, value in largest.items()) + ".",
            min(largest.values()) >= 0.98, "less than 98 % of the ceiling",
            check="98 % of the speed of reading alone, for every dtype",
            rows=[
                row for row in rows
                if row["n"] == max(shares[row["dtype"]]) and (row["who"] == OURS or row["who"].startswith(READ))
            ],
            fields=("tb_per_s",),
        ),
        _against(rows, "CUB"), _against(rows, "torch"),
    ])  # fmt: skip


def _against(rows: Rows, peer: str) -> Verdict:
    """At every large size, each of the peer's sums that took part there."""
    ratios: dict[str, tuple[float, str, int]] = {}
    absent, used = [], []
    for dtype in _dtypes(rows):
        speeds = _speeds(rows, dtype)
        names = [who for who in speeds if who.startswith(peer)]
        large = [n for n in speeds[OURS] if n >= _LARGE]
        used += [r for r in rows if r["dtype"] == dtype and r["n"] in large and r["who"] in (OURS, *names)]
        absent += [f"{who} ({dtype}, n = {n:,})" for n in large for who in names if n not in speeds[who]]
        found = [
            (speeds[OURS][n] / speeds[who][n], who, n) for n in large for who in names if n in speeds[who]
        ]
        if found:
            ratios[dtype] = min(found)
    name = {"torch": "PyTorch"}.get(peer, peer)
    missing = f" Not everywhere measured: {', '.join(absent)}." if absent else ""
    return Verdict.of(
        "tcu", f"On large arrays no sum of {name} is more than 1 % faster.",
        "Times the fastest, at its best size: "
        + ", ".join(f"{dtype} {ratio:.3f} ({who}, n = {n:,})" for dtype, (ratio, who, n) in ratios.items())
        + f".{missing}",
        bool(ratios) and min(ratio for ratio, _, _ in ratios.values()) >= 0.99, f"{name} reads faster there",
        check=f"from n = {_LARGE:,} on at least 0.99 times the speed of each that took part", rows=used,
        fields=("tb_per_s",),
    )  # fmt: skip


def _show_exactness(rows: Rows) -> Shown:
    lines, prices = [], {}
    for dtype in _dtypes(rows):
        speeds = _speeds(rows, dtype)
        ratio = {n: speeds[OURS][n] / speeds[EXACT][n] for n in speeds[EXACT] if n in speeds[OURS]}
        lines.append(Line(dtype, list(ratio), list(ratio.values())))
        prices[dtype] = ratio[max(ratio)] - 1
    figure = Figure("Time of tcu.fsum over that of tcu.sum", "n", "times as long", lines, True)
    speeds = _speeds(rows, "float32")
    n = max(speeds[EXACT])
    peers = {
        name: speeds[EXACT][n] / speeds[name][n]
        for name in ("CUB float→float gpu_to_gpu", "torch, dtype=float64") if n in speeds.get(name, {})
    }  # fmt: skip
    return Shown([figure], [
        Verdict.of(
            "tcu", "On large arrays the correctly rounded sum costs a few per cent.",
            "Over tcu.sum: " + ", ".join(f"{dtype} {price:+.1%}" for dtype, price in prices.items()) + ".",
            max(prices.values()) <= 0.05, "the price is above 5 %",
            check="at most 5 % over tcu.sum at the largest size, for every dtype",
            rows=[
                row for row in rows
                if row["who"] in (OURS, EXACT) and row["n"] == max(_speeds(rows, row["dtype"])[EXACT])
            ],
            fields=("tb_per_s",),
        ),
        Verdict.of(
            "tcu", "It is faster than what else promises reproducible or double-precision sums of float32.",
            "Speed over " + ", ".join(f"{name}: {ratio:.1f} times" for name, ratio in peers.items()) + ".",
            bool(peers) and min(peers.values()) > 1, "a peer is as fast",
            check="faster than each of them at the largest size",
            rows=[
                row for row in rows if (row["dtype"], row["n"]) == ("float32", n) and row["who"] in (EXACT, *peers)
            ],
            fields=("tb_per_s",),
        ),
    ])  # fmt: skip


def _show_energy(rows: Rows) -> Shown:
    rounds: dict[tuple[str, str], Rows] = {}
    for row in rows:
        rounds.setdefault((row["dtype"], row["participant"]), []).append(row)

    def mean(key: str, one: Rows) -> float:
        return float(sum(row[key] for row in one) / len(one))

    joules = {who: mean("joules_per_terabyte", one) for who, one in rounds.items()}
    table = Table(
        "Energy of sums of 2^30 numbers, one after another", ("dtype", "sum", "joules per TB read", "watts", "TB/s"),
        [
            [dtype, who, f"{joules[dtype, who]:.0f}", f"{mean('watts', one):.0f}",
             f"{mean('terabytes_per_second', one):.2f}"]
            for (dtype, who), one in rounds.items()
        ],
        "Total energy of the GPU by NVML, mean of two rounds.",
    )  # fmt: skip
    half = {who: value for (dtype, who), value in joules.items() if dtype == "float16"}
    watts = {who: mean("watts", one) for (dtype, who), one in rounds.items() if dtype == "float16"}
    cub = [who for who in half if who.startswith("CUB")]
    read = next((value for who, value in half.items() if who.startswith(READ)), None)
    power = {who: 1 - watts[OURS] / watts[who] for who in cub}
    energy = {who: 1 - half[OURS] / half[who] for who in cub}
    share = "" if read is None else f": reading alone takes {read / half[OURS]:.0%} of the energy of tcu.sum"
    return Shown([table], [
        Verdict.of(
            "paper 002, evaluation",
            "Reductions on tensor cores use up to 22 % less power than CUB's; here of whole arrays.",
            "tcu.sum against " + "; ".join(
                f"{who}: {_change(power[who])} power, {_change(energy[who])} energy" for who in cub
            ) + ".", max(power.values()) >= 0.2,
            f"the memory takes the power, whoever adds{share}; energy falls as far as the time does",
            check="20 % less power than a sum of CUB",
            rows=[
                row for row in rows if row["dtype"] == "float16" and row["participant"] in (OURS, *cub)
            ],
            fields=("watts",),
        )
    ])  # fmt: skip


def _change(saved: float) -> str:
    return f"{abs(saved):.0%} {'less' if saved >= 0 else 'more'}"


CEILING = (
    Study(
        "memory-ceiling", "Share of the memory ceiling across sizes", (),
        "Is the memory the limit, and how near do the sums come?",
        _show_ceiling, needs=("gpu",), stored=Source(STORED, _measured), command=COMMAND, sources=kernels_of("sums"),
    ),
    Study(
        "exactness-gpu", "The price of exactness on a GPU", (),
        "What does a correctly rounded sum cost where memory is the limit?",
        _show_exactness, needs=("gpu",), stored=Source(STORED, _measured), command=COMMAND, sources=kernels_of("sums"),
    ),
    Study(
        "energy", "Energy of a sum", ("002 power",),
        "Do tensor cores save energy?", _show_energy, needs=("gpu",), stored=Source(STORED, _energy), command=COMMAND, sources=kernels_of("sums"),
    ),
)  # fmt: skip
