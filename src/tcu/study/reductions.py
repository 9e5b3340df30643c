"""Paper 000's figures 3, 5, 6, 7 and 8 and appendix B, timed on a GPU."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from tcu.study.study import Figure, Line, Need, Point, Rows, Shown, Study, Table, Verdict

__all__ = ["REDUCTIONS"]

CLASSIC = "warp shuffle, atomic"
"""The reduction that the paper's speedups are over."""
SINGLE, RECURRENCE, SPLIT = (
    "tcu.sum single-pass R=4 B=128", "tcu.sum recurrence R=5 B=32", "tcu.sum split R=1 B=512",
)  # fmt: skip
CUB_HALF, CUB_FLOAT = "CUB half→half", "CUB float→float"
_V100 = "this GPU is not the paper's V100: "
_TIMED = "the paper's TITAN RTX is not at hand; the errors on Turing are modelled in another study"


_SIZES = (1 << 20, 1 << 26)
_COMPARED = (*(1 << power for power in range(16, 29, 2)), 400_000_000)
_CHAINS, _BLOCKS = tuple(range(1, 9)), (32, 64, 128, 256, 512, 1024)
_FRACTIONS = tuple(step / 10 for step in range(11))


def _options(variant: str, quick: bool) -> list[Point]:
    """What a row of turns compares."""
    if variant == "split":
        return [{"variant": variant, "fraction": fraction} for fraction in _FRACTIONS]
    chains, blocks = ((1, 4, 5), (32, 128, 256)) if quick else (_CHAINS, _BLOCKS)
    return [{"variant": variant, "chain": chain, "block": block} for block in blocks for chain in chains]


def _points_of(*variants: str) -> Callable[[bool], list[Point]]:
    def points(quick: bool) -> list[Point]:
        sizes = _SIZES[:1] if quick else _SIZES
        return [{"n": n, "options": _options(variant, quick)} for variant in variants for n in sizes]

    return points


def _sweep_on_gpu(point: Point) -> Rows:
    from tcu.study.gpu.reductions import sweep

    return sweep(point["n"], point["options"])


def _points_over_n(quick: bool) -> list[Point]:
    return [{"n": n} for n in (_COMPARED[:3] if quick else _COMPARED)]


def _compare_on_gpu(point: Point) -> Rows:
    from tcu.study.gpu.reductions import compare

    return compare(point["n"])


def _timed(rows: Rows) -> Rows:
    return [row for row in rows if "seconds" in row]


def _sizes(rows: Rows) -> list[int]:
    return list(dict.fromkeys(row["n"] for row in rows))


# R and B


def _sweep(rows: Rows) -> list[Figure]:
    figures = []
    for n in _sizes(rows):
        own = [row for row in _timed(rows) if row["n"] == n]
        blocks = list(dict.fromkeys(row["block"] for row in own))
        lines = {
            b: sorted((row for row in own if row["block"] == b), key=lambda row: row["chain"]) for b in blocks
        }
        for name, key in (("time", "seconds"), ("error", "percent_error")):
            figures.append(Figure(
                f"{name.capitalize()} over R and B, n = {n:,}", "R",
                "time in µs" if key == "seconds" else "error in percent",
                [
                    Line(f"B = {b}", [row["chain"] for row in line],
                         [row["seconds"] * 1e6 if key == "seconds" else row["percent_error"]["normal"] or None
                          for row in line])
                    for b, line in lines.items()
                ],
                log_y=True, note="Normal numbers in binary16.",
            ))  # fmt: skip
    return figures


def _fastest(rows: Rows, n: int, **fixed: int) -> dict[str, Any]:
    own = [
        row
        for row in _timed(rows)
        if row["n"] == n and all(row[key] == value for key, value in fixed.items())
    ]
    return min(own, key=lambda row: float(row["seconds"]))


def _configuration(row: dict[str, Any]) -> str:
    return f"B = {row['block']}, R = {row['chain']} ({row['seconds'] * 1e6:.1f} µs)"


def _show_sweep(figure: str, best: tuple[int, int], variant: str) -> Any:
    block, chain = best

    def show(rows: Rows) -> Shown:
        small, large = min(_sizes(rows)), max(_sizes(rows))
        found, theirs = _fastest(rows, small), _fastest(rows, small, block=block, chain=chain)
        gap = theirs["seconds"] / found["seconds"]
        at_large = _fastest(rows, large)
        one = _fastest(rows, large, chain=1)
        small_blocks = {
            b: min(_fastest(rows, large, block=b, chain=r)["seconds"] for r in (4, 5)) / at_large["seconds"]
            for b in (32, 128)
        }
        return Shown(_sweep(rows), [
            Verdict.of(
                f"paper 000, figure {figure}",
                f"At about a million numbers {variant} is fastest with B = {block}, R = {chain}.",
                f"Here with {_configuration(found)}; the paper's choice takes {gap:.2f} times as long.",
                gap <= 1.1, _V100 + "a call this short is the start of its kernels, and few blocks fill an H200",
            ),
            Verdict.of(
                f"paper 000, abstract and figure {figure}",
                "Small blocks of 32 or 128 threads reach the best performance too, with chains of R = 4 or 5.",
                f"At n = {large:,} they take {small_blocks[32]:.2f} (B = 32) and {small_blocks[128]:.2f} (B = 128) "
                f"times as long as the best, {_configuration(at_large)}.",
                min(small_blocks.values()) <= 1.1,
                _V100 + "every block stores a result that the last one adds up in order, and small blocks store too many",
            ),
            Verdict.of(
                f"paper 000, figure {figure} and section 7",
                "Chains pay: the best R is above 1.",
                f"R = {at_large['chain']} is best at n = {large:,}; R = 1 takes "
                f"{one['seconds'] / at_large['seconds']:.2f} times as long at its best B.",
                at_large["chain"] > 1,
            ),
            Verdict.of(
                "paper 000, section 7 and appendix B", "Another GPU works best with another block size.",
                f"At n = {small:,} this GPU prefers B = {found['block']}, the paper's V100 B = {block}.",
                found["block"] != block,
            ),
            _titan("11", f"R and B of {variant}, configured for a TITAN RTX.", _configuration(found)),
        ])  # fmt: skip

    return show


# The split


def _show_split(rows: Rows) -> Shown:
    figures, slopes = [], {}
    for n in _sizes(rows):
        own = sorted((row for row in _timed(rows) if row["n"] == n), key=lambda row: 1 - row["fraction"])
        shares, times = [1 - row["fraction"] for row in own], [row["seconds"] * 1e6 for row in own]
        figures.append(Figure(
            f"Time over the share of warp shuffles, n = {n:,}", "share of the numbers that warp shuffles add",
            "time in µs", [Line("split", shares, times)], note="0: tensor cores alone. Normal numbers in binary16.",
        ))  # fmt: skip
        slopes[n] = times[-1] / times[0]
    largest = max(slopes)
    monotone = all(
        a <= 1.02 * b for f in figures for y in [f.lines[0].y] for a, b in itertools.pairwise(y) if a and b
    )
    return Shown(figures, [
        Verdict.of(
            "paper 000, figure 6 and 7",
            "Giving part of the numbers to ordinary cores was hoped to use both at once; it does not pay.",
            f"Every share of warp shuffles slows the sum down; all of them take {slopes[largest]:.1f} times as long "
            f"as none at n = {largest:,}.",
            monotone,
        ),
        _titan("11", "The share of warp shuffles, configured for a TITAN RTX.", "none at all"),
    ])  # fmt: skip


def _titan(figures: str, statement: str, here: str) -> Verdict:
    return Verdict(
        f"paper 000, appendix B, figure {figures}", statement, f"This GPU: {here}.", "not measured", _TIMED
    )


# Over n


def _show_over_n(rows: Rows) -> Shown:
    present = _timed(rows)
    classic = {row["n"]: row["seconds"] for row in present if row["who"] == CLASSIC}
    lines = {
        who: [row for row in present if row["who"] == who]
        for who in dict.fromkeys(row["who"] for row in present)
    }

    def figure(title: str, y: str, value: Any, log_y: bool = True) -> Figure:
        drawn = [
            Line(who, [row["n"] for row in own], [value(row) for row in own]) for who, own in lines.items()
        ]
        return Figure(title, "n", y, drawn, True, log_y)

    figures = [
        figure("Run time", "time in µs", lambda row: row["seconds"] * 1e6),
        figure("Speedup over the classic warp shuffle", "speedup",
               lambda row: classic[row["n"]] / row["seconds"] if row["n"] in classic else None),
        figure("Billions of numbers per second (BEPS)", "10⁹ numbers per second", lambda row: row["n"] / row["seconds"] * 1e-9),
        *(
            figure(f"Error, {name} numbers", "error in percent", lambda row, name=name: row["percent_error"][name] or None)
            for name in ("normal", "uniform")
        ),
    ]  # fmt: skip
    missing = [[row["who"], f"{row['n']:,}", row["missing"]] for row in rows if "missing" in row]
    absent = [Table("Who is missing", ("sum", "n", "why"), missing)] if missing else []
    return Shown([*figures, *absent], [*_speeds(present, classic), *_appendix(present, classic)])


def _seconds(rows: Rows, who: str, n: int) -> float | None:
    return next((float(row["seconds"]) for row in rows if (row["who"], row["n"]) == (who, n)), None)


def _speeds(rows: Rows, classic: dict[int, float]) -> list[Verdict]:
    n = max(row["n"] for row in rows)
    times = {
        who: _seconds(rows, who, n) for who in (SINGLE, RECURRENCE, SPLIT, CUB_HALF, CUB_FLOAT, "tcu.sum")
    }
    verdicts = []
    over = _speedups(times, classic.get(n))
    if over:
        single, recurrence, split = (over.get(who, 0.0) for who in (SINGLE, RECURRENCE, SPLIT))
        own = over.get("tcu.sum", 0.0)
        verdicts += [
            Verdict.of(
                "paper 000, 5.4 and figure 7",
                "Single-pass is fastest, about 4.5 times the classic reduction (3.2 in theory); the recurrence a "
                "little above 4, the split almost 1.5.",
                f"At n = {n:,}: single-pass {single:.1f}, recurrence {recurrence:.1f}, split {split:.1f}; tcu's "
                f"default {own:.1f}.",
                single > recurrence > split and single >= 3.2,
                "tcu adds the blocks' results in a fixed order in place of atomics, so that the sum comes back bit for "
                "bit, and with B = 128 there are many of them; the recurrence has none to add",
            )
        ]
    cub, wide, own_time, single_time = times[CUB_HALF], times[CUB_FLOAT], times["tcu.sum"], times[SINGLE]
    if cub and wide and own_time and single_time:
        verdicts += [
            Verdict.of(
                "paper 000, section 6 and figure 8",
                "Single-pass is slightly faster than CUB in binary16 and twice as fast as CUB in binary32: about "
                "420 against 400 and 200 BEPS.",
                f"At n = {n:,}: single-pass {_beps(n, single_time)}, CUB half {_beps(n, cub)}, CUB float "
                f"{_beps(n, wide)} BEPS; tcu's default {_beps(n, own_time)}, {cub / own_time:.2f} and "
                f"{wide / own_time:.2f} times CUB's speed.",
                single_time < cub and wide / single_time >= 1.9,
                "an H200 reads much faster than a V100 did, and the many small blocks of the paper's configuration "
                "do not keep up; tcu's own variant does",
            ),
        ]
    half = [row for row in rows if row["who"] == CUB_HALF]
    verdicts.append(Verdict.of(
        "paper 000, section 6 and figure 8", "CUB's sum in binary16 overflows on uniform numbers, single-pass does not.",
        f"CUB half→half overflows at {sum(row['percent_error']['uniform'] is None for row in half)} of {len(half)} "
        f"sizes, single-pass at {sum(r['percent_error']['uniform'] is None for r in rows if r['who'] == SINGLE)}.",
        any(row["percent_error"]["uniform"] is None for row in half)
        and all(r["percent_error"]["uniform"] is not None for r in rows if r["who"] == SINGLE),
    ))  # fmt: skip
    return verdicts


def _speedups(times: dict[str, float | None], classic: float | None) -> dict[str, float]:
    return {} if classic is None else {who: classic / seconds for who, seconds in times.items() if seconds}


def _beps(n: int, seconds: float) -> str:
    return f"{n / seconds * 1e-9:,.0f}"


def _appendix(rows: Rows, classic: dict[int, float]) -> list[Verdict]:
    n = max(row["n"] for row in rows)
    over = _speedups({who: _seconds(rows, who, n) for who in (SINGLE, RECURRENCE)}, classic.get(n))
    text = ", ".join(f"{who.removeprefix('tcu.sum ')}: {value:.1f} times" for who, value in over.items())
    return [
        _titan(
            "9 and 10", "On a TITAN RTX the speedups over the classic reduction are greater than on a V100.",
            text or "no classic reduction to compare with",
        )
    ]  # fmt: skip


_NEEDS: tuple[Need, ...] = ("gpu", "torch", "nvcc")

REDUCTIONS = (
    Study(
        "recurrence", "The recurrence over R and B", ("000 figure 3", "000 figure 11"),
        "Which chain length and block size make the recurrence fastest?",
        _show_sweep("3", (32, 5), "the recurrence"), _points_of("recurrence"), _sweep_on_gpu, (3, 15), _NEEDS, 2020,
    ),
    Study(
        "single-pass", "Single-pass over R and B", ("000 figure 5", "000 figure 11"),
        "Which chain length and block size make single-pass fastest?",
        _show_sweep("5", (128, 4), "single-pass"), _points_of("single-pass"), _sweep_on_gpu, (3, 15), _NEEDS, 2020,
    ),
    Study(
        "split", "Tensor cores and ordinary cores at once", ("000 figure 6", "000 figure 11"),
        "Does it pay to give part of the numbers to warp shuffles?",
        _show_split, _points_of("split"), _sweep_on_gpu, (3, 5), _NEEDS, 2020,
    ),
    Study(
        "variants", "All variants and CUB over n", ("000 figure 7", "000 figure 8", "000 figure 9", "000 figure 10"),
        "How fast is each variant beside the classic reduction and CUB?",
        _show_over_n, _points_over_n, _compare_on_gpu, (60, 90), _NEEDS, 2020,
    ),
)  # fmt: skip
