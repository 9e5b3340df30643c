"""Paper 000's figures 3, 5, 6 and 11, timed on a GPU: sums over R, B and the share of warp shuffles."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tcu.study import gpu
from tcu.study.atomics import atomic_rows
from tcu.study.data import spread
from tcu.study.sources import kernels_of
from tcu.study.study import Figure, Line, Need, Point, Row, Rows, Shown, Study, Verdict

__all__ = ["MEASURED", "NEEDS", "SEED", "SWEEPS", "errors_of", "not_on_titan", "sizes_of", "timed"]

NEEDS: tuple[Need, ...] = ("gpu", "torch", "nvcc")
SEED = 2020
MEASURED = kernels_of("sums", "variants")
_SIZES = (1 << 20, 1 << 26)
_CHAINS, _BLOCKS = tuple(range(1, 9)), (32, 64, 128, 256, 512, 1024)
_FRACTIONS = tuple(step / 10 for step in range(11))


def _options(variant: str, quick: bool) -> list[Point]:
    """What a row of turns compares."""
    if variant == "split-atomic":
        return [{"variant": variant, "fraction": fraction} for fraction in _FRACTIONS]
    chains, blocks = ((1, 4, 5), (32, 128, 256)) if quick else (_CHAINS, _BLOCKS)
    return [{"variant": variant, "chain": chain, "block": block} for block in blocks for chain in chains]


def _points_of(variant: str) -> Callable[[bool], list[Point]]:
    def points(quick: bool) -> list[Point]:
        return [{"n": n, "options": _options(variant, quick)} for n in (_SIZES[:1] if quick else _SIZES)]

    return points


def _measure(point: Point) -> Rows:
    found: Rows = gpu.load().reductions.sweep(point["n"], point["options"])
    return found


def timed(rows: Rows) -> Rows:
    """Without those that this GPU or the variant did not take."""
    return [row for row in rows if "seconds" in row]


def errors_of(row: Row, name: str) -> list[float | None]:
    """Percent errors of each array drawn; in results from before, of the only one."""
    errors = row["percent_error"][name]
    return errors if isinstance(errors, list) else [errors]


def sizes_of(rows: Rows) -> list[int]:
    return list(dict.fromkeys(row["n"] for row in rows))


def not_on_titan(figures: str, statement: str, here: str) -> Verdict:
    """The paper's second GPU."""
    return Verdict(
        f"paper 000, appendix B, {figures}", statement, f"This GPU: {here}.", "not measured",
        "the paper's TITAN RTX is not at hand; the errors on Turing are modelled in another study",
    )  # fmt: skip


# R and B


def _sweep(rows: Rows) -> list[Figure]:
    figures = []
    for n in sizes_of(rows):
        own = [row for row in timed(rows) if row["n"] == n]
        blocks = list(dict.fromkeys(row["block"] for row in own))
        lines = {
            b: sorted((row for row in own if row["block"] == b), key=lambda row: row["chain"]) for b in blocks
        }
        for name, key in (("time", "seconds"), ("error", "percent_error")):
            figures.append(Figure(
                f"{name.capitalize()} over R and B, n = {n:,}", "R",
                "time in µs" if key == "seconds" else "error in percent",
                _alike([
                    Line(f"B = {b}", [row["chain"] for row in line],
                         [row["seconds"] * 1e6 if key == "seconds" else spread(errors_of(row, "normal"))[0] or None
                          for row in line])
                    for b, line in lines.items()
                ]),
                log_y=True, note=_drawn(rows),
            ))  # fmt: skip
    return figures


def _drawn(rows: Rows) -> str:
    draws = min((len(errors_of(row, "normal")) for row in timed(rows)), default=0)
    return f"Normal numbers in binary16; errors: {f'medians of {draws} arrays' if draws > 1 else 'of one array'}."


def _alike(lines: list[Line]) -> list[Line]:
    """Lines that coincide are one, with all their names."""
    found: dict[tuple[Any, ...], list[Line]] = {}
    for line in lines:
        found.setdefault((*line.x, *line.y), []).append(line)
    return [
        Line(
            ", ".join([same[0].name, *(line.name.removeprefix("B = ") for line in same[1:])]),
            same[0].x,
            same[0].y,
        )
        for same in found.values()
    ]


def _fastest(rows: Rows, n: int, **fixed: int) -> dict[str, Any]:
    own = [
        row for row in timed(rows) if row["n"] == n and all(row[key] == value for key, value in fixed.items())
    ]
    return min(own, key=lambda row: float(row["seconds"]))


def _configuration(row: dict[str, Any]) -> str:
    return f"B = {row['block']}, R = {row['chain']} ({row['seconds'] * 1e6:.1f} µs)"


def _is_papers(rows: Rows) -> bool:
    """Whether blocks added by atomics, as the papers' do; results of tcu's own forms are kept from earlier."""
    return all(row["variant"].endswith("atomic") for row in rows)


def _show_sweep(figure: str, best: tuple[int, int], variant: str) -> Any:
    stores_blocks = variant == "single-pass"

    def show(rows: Rows) -> Shown:
        small, large = min(sizes_of(rows)), max(sizes_of(rows))
        figures = _sweep(rows)
        if stores_blocks:
            figures.append(_over_blocks(rows, large))
        verdicts = _judged(rows, figure, best, variant)
        if stores_blocks and not _is_papers(rows):
            atomic, source = atomic_rows(variant)
            theirs = (
                [v.measured for v in _judged(atomic, figure, best, variant)]
                if atomic
                else [""] * len(verdicts)
            )
            verdicts = [
                _unless_in_order(verdict, rows, large, told and f" With atomics ({source}): {told}")
                for verdict, told in zip(verdicts, theirs, strict=True)
            ]
        titan = not_on_titan(
            "figure 11",
            f"R and B of {variant}, configured for a TITAN RTX.",
            _configuration(_fastest(rows, small)),
        )
        return Shown(figures, [*verdicts, titan])

    return show


def _judged(rows: Rows, figure: str, best: tuple[int, int], variant: str) -> list[Verdict]:
    block, chain = best
    stores_blocks = variant == "single-pass"
    small, large = min(sizes_of(rows)), max(sizes_of(rows))
    found, theirs = _fastest(rows, small), _fastest(rows, small, block=block, chain=chain)
    gap = theirs["seconds"] / found["seconds"]
    at_large = _fastest(rows, large)
    data = at_large["seconds"] * small / large
    small_blocks = {
        b: min(_fastest(rows, large, block=b, chain=r)["seconds"] for r in (4, 5)) / at_large["seconds"]
        for b in (32, 128)
    }
    whole = {n: [row for row in timed(rows) if row["n"] == n] for n in (small, large)}
    return [
        Verdict.of(
            f"paper 000, figure {figure}, section 5.{1 + stores_blocks}",
            f"At about a million numbers {variant} is fastest with B = {block}, R = {chain}.",
            f"At n = {small:,} with {_configuration(found)}; the paper's choice takes {gap:.2f} times as long.",
            gap <= 1.1,
            f"at the speed of n = {large:,} these numbers take {data * 1e6:.1f} µs, {data / found['seconds']:.0%} of "
            "the call: the rest is its start and its end, which weigh otherwise than on the paper's V100",
            check="the paper's choice takes at most 1.1 times as long as the fastest", rows=whole[small],
            fields=("seconds",),
        ),
        _sawtooth(rows, figure, small, for_large=stores_blocks),
        Verdict.of(
            f"paper 000, figure {figure}, abstract",
            "Small blocks of 32 or 128 threads reach the best performance too, with chains of R = 4 or 5.",
            f"At n = {large:,} they take {small_blocks[32]:.2f} (B = 32) and {small_blocks[128]:.2f} (B = 128) "
            f"times as long as the best, {_configuration(at_large)}.",
            min(small_blocks.values()) <= 1.1,
            _many_blocks(rows, large),
            check="one of them takes at most 1.1 times as long as the fastest", rows=whole[large], fields=("seconds",),
        ),
        _large_blocks(rows, figure, small, levels=not stores_blocks),
        _chains(rows, figure, large),
        _other_block(rows, block, small, large),
    ]  # fmt: skip


_IN_ORDER = 0.99
"""Correlation of the time with the number of blocks, from which on it is the time of adding their results in order."""


def _unless_in_order(verdict: Verdict, rows: Rows, n: int, theirs: str) -> Verdict:
    """Nothing is said of the paper's single-pass where the times are those of what it does not do.

    ``theirs``: what other rows say of the paper's.
    """
    slope, correlation = _against_blocks(rows, n)
    if correlation < _IN_ORDER:
        return verdict
    why = (
        f"the times follow the number of blocks ({slope * 1e9:.1f} ns each, correlation {correlation:.3f}): they are those of "
        "adding the blocks' results in order, as tcu did; the paper's blocks add by atomics, which these rows do not have"
    )
    check = (
        f"the time does not follow the number of blocks (correlation below {_IN_ORDER}); and {verdict.check}"
    )
    everywhere = [row for row in timed(rows) if row["n"] == n]
    return replace(
        verdict, measured=verdict.measured + theirs, outcome="not measured", why=why, check=check,
        rows=[*verdict.rows, *(row for row in everywhere if row not in verdict.rows)],
    )  # fmt: skip


def _chains(rows: Rows, figure: str, n: int) -> Verdict:
    best, one = _fastest(rows, n), _fastest(rows, n, chain=1)
    return Verdict.of(
        f"paper 000, figure {figure}, section 7",
        "Chains pay: the best R is above 1.",
        f"R = {best['chain']} is best at n = {n:,}; R = 1 takes {one['seconds'] / best['seconds']:.2f} times as long at its "
        "best B.",
        best["chain"] > 1, "R = 1 is the fastest",
        check="the fastest configuration has R above 1", rows=[row for row in timed(rows) if row["n"] == n],
        fields=("seconds",),
    )  # fmt: skip


def _blocks_of(row: dict[str, Any]) -> int:
    """A warp of a block reduces R · 256 numbers."""
    n, block, chain = (int(row[name]) for name in ("n", "block", "chain"))
    return math.ceil(n / (block // 32 * chain * 256))


def _over_blocks(rows: Rows, n: int) -> Figure:
    own = sorted((row for row in timed(rows) if row["n"] == n), key=_blocks_of)
    return Figure(
        f"The same times over the number of blocks, n = {n:,}", "blocks", "time in µs",
        [
            Line(f"B = {b}", [_blocks_of(row) for row in own if row["block"] == b],
                 [row["seconds"] * 1e6 for row in own if row["block"] == b])
            for b in dict.fromkeys(row["block"] for row in sorted(own, key=lambda row: int(row["block"])))
        ],
        True, True, "Where all configurations lie on one curve, what a block costs at the end is the time.",
    )  # fmt: skip


def _against_blocks(rows: Rows, n: int) -> tuple[float, float]:
    """Seconds a block, and how well the times follow the number of blocks."""
    own = [row for row in timed(rows) if row["n"] == n]
    blocks = np.array([_blocks_of(row) for row in own], float)
    seconds = np.array([row["seconds"] for row in own])
    return float(np.polyfit(blocks, seconds, 1)[0]), float(np.corrcoef(blocks, seconds)[0, 1])


def _many_blocks(rows: Rows, n: int) -> str:
    own = [row for row in timed(rows) if row["n"] == n]
    slope, correlation = _against_blocks(rows, n)
    adds = (
        "whose atomic additions meet at one place in memory"
        if _is_papers(own)
        else "which tcu adds in order, one after another, where the paper adds them by atomics in any order"
    )
    return (
        f"against the number of blocks the time has a slope of {slope * 1e9:.1f} ns for each (correlation {correlation:.3f} "
        f"over {len(own)} configurations), {adds}"
    )


def _rises(rows: Rows, n: int, block: int) -> float:
    """By how much the time goes up again along R, all rises together."""
    own = sorted(
        (int(r["chain"]), float(r["seconds"])) for r in timed(rows) if (r["n"], r["block"]) == (n, block)
    )
    return sum(max(0.0, b / a - 1) for (_, a), (_, b) in itertools.pairwise(own))


def _sawtooth(rows: Rows, figure: str, n: int, *, for_large: bool) -> Verdict:
    blocks = sorted({row["block"] for row in rows if row["n"] == n})
    rises = {b: _rises(rows, n, b) for b in blocks}
    small, large = blocks[0], blocks[-1]
    text = f"The rises along R add up to {rises[small]:.0%} of the time for B = {small}, {rises[large]:.0%} for B = {large}."
    if for_large:
        return Verdict.of(
            f"paper 000, figure {figure}, section 5.2",
            "Time over R is an irregular sawtooth, more pronounced for large blocks than for small ones.",
            text, rises[large] > max(0.02, rises[small]), "the times do not rise and fall so on this GPU",
            check="the rises of the largest blocks are more than 2 %, and more than those of the smallest",
            rows=[row for row in timed(rows) if row["n"] == n and row["block"] in (small, large)], fields=("seconds",),
        )  # fmt: skip
    return Verdict.of(
        f"paper 000, figure {figure}, section 5.1", "Time over R is an irregular sawtooth.",
        text, min(rises.values()) > 0.02, "the times do not rise and fall so on this GPU",
        check="the rises are more than 2 % for every B", rows=[row for row in timed(rows) if row["n"] == n],
        fields=("seconds",),
    )  # fmt: skip


def _large_blocks(rows: Rows, figure: str, n: int, *, levels: bool) -> Verdict:
    """The abstract's other half; ``levels``: the recurrence, whose R sets the number of its levels."""
    large = max(row["block"] for row in rows if row["n"] == n)
    best, one = _fastest(rows, n, block=large), _fastest(rows, n, block=large, chain=1)
    depth = {chain: math.ceil(math.log(n, 256 * chain) - 1e-9) for chain in (1, best["chain"])}
    why = (
        f"R = 1 needs {depth[1]} levels, each a kernel, R = {best['chain']} needs {depth[best['chain']]}"
        if levels
        else f"R = 1 makes {_blocks_of(one):,} blocks, R = {best['chain']} makes {_blocks_of(best):,}, whose numbers are "
        "all added to one"
    )
    return Verdict.of(
        f"paper 000, figure {figure}, abstract", "Large blocks work best with R = 1.",
        f"With B = {large} R = {best['chain']} is best at n = {n:,} ({best['seconds'] * 1e6:.1f} µs); R = 1 takes "
        f"{one['seconds'] / best['seconds']:.2f} times as long.",
        one["seconds"] <= 1.02 * best["seconds"], why,
        check="for the largest B R = 1 takes at most 1.02 times as long as the best R",
        rows=[row for row in timed(rows) if (row["n"], row["block"]) == (n, large)], fields=("seconds",),
    )  # fmt: skip


def _other_block(rows: Rows, block: int, *sizes: int) -> Verdict:
    told, most = [], 1.0
    for n in dict.fromkeys(sizes):
        best, theirs = _fastest(rows, n), _fastest(rows, n, block=block)
        ratio = theirs["seconds"] / best["seconds"]
        most = max(most, ratio)
        told.append(
            f"at n = {n:,} B = {best['block']} is best, B = {block} takes {ratio:.2f} times as long at its best R"
        )
    text = "; ".join(told)
    return Verdict.of(
        "paper 000, appendix B, section 7", f"Another GPU works best with another block size than the V100's B = {block}.",
        f"{text[:1].upper()}{text[1:]}.", most > 1.05,
        f"B hardly matters here, by {most - 1:.0%} at most once R is chosen",
        check=f"at one of the sizes B = {block} takes more than 1.05 times as long as the best B", rows=timed(rows),
        fields=("seconds",),
    )  # fmt: skip


# The split


def _show_split(rows: Rows) -> Shown:
    figures = []
    for n in sizes_of(rows):
        own = _by_share(rows, n)
        figures.append(Figure(
            f"Time over the share of warp shuffles, n = {n:,}", "share of the numbers that warp shuffles add",
            "time in µs", [Line("split", [1 - row["fraction"] for row in own], [row["seconds"] * 1e6 for row in own])],
            note="0: tensor cores alone. Normal numbers in binary16.",
        ))  # fmt: skip
    place = "paper 000, figure 6, section 5.3, section 7"
    statement = "Giving part of the numbers to ordinary cores was hoped to use both at once; it does not pay."
    others: list[Verdict] = []
    if not _is_papers(timed(rows)):
        atomic, source = atomic_rows("split")
        theirs = f" With atomics ({source}): {_shares(atomic)[0]}" if atomic else ""
        others.append(Verdict(
            place, statement, f"Only a split whose blocks are added in order is in these rows, below.{theirs}", "not measured",
            "the paper's blocks add by atomics: tcu.sum has that form, split-atomic, which these rows do not have",
        ))  # fmt: skip
        place = "tcu, after paper 000"
        statement = "With the blocks' results added in order, giving part of the numbers to ordinary cores does not pay."
    told, best, gain = _shares(rows)
    return Shown(figures, [
        *others,
        Verdict.of(
            place, statement, told, best == 0, f"with that share the sum takes {gain:.2f} times as long as with none",
            check="at every n the fastest share is none", rows=timed(rows), fields=("seconds",),
        ),
        not_on_titan("figure 11", "The share of warp shuffles, configured for a TITAN RTX.", "none at all"),
    ])  # fmt: skip


def _by_share(rows: Rows, n: int) -> Rows:
    """The rows of a size by their shares of warp shuffles, none first."""
    return sorted((row for row in timed(rows) if row["n"] == n), key=lambda row: 1 - row["fraction"])


def _shares(rows: Rows) -> tuple[str, float, float]:
    """In words; the largest of the fastest shares; and how long it takes, with none as 1."""
    slopes, best, gains = {}, {}, {}
    for n in sizes_of(rows):
        own = _by_share(rows, n)
        fastest = min(own, key=lambda row: float(row["seconds"]))
        slopes[n] = own[-1]["seconds"] / own[0]["seconds"]
        best[n] = 1 - fastest["fraction"]
        gains[n] = fastest["seconds"] / own[0]["seconds"]
    told = (
        "The fastest share of warp shuffles is "
        + ", ".join(f"{share:.0%} at n = {n:,}" for n, share in best.items())
        + f"; all of them take {', '.join(f'{ratio:.1f}' for ratio in slopes.values())} times as long as none."
    )
    return told, max(best.values()), min(gains.values())


SWEEPS = (
    Study(
        "recurrence", "The recurrence over R and B", ("000 figure 3", "000 figure 11"),
        "Which chain length and block size make the recurrence fastest?",
        _show_sweep("3", (32, 5), "the recurrence"), _points_of("recurrence"), _measure, (5, 40), NEEDS, SEED, sources=MEASURED,
    ),
    Study(
        "single-pass", "Single-pass over R and B", ("000 figure 5", "000 figure 11"),
        "Which chain length and block size make single-pass fastest?",
        _show_sweep("5", (128, 4), "single-pass"), _points_of("single-pass-atomic"), _measure, (5, 40), NEEDS, SEED, sources=MEASURED,
    ),
    Study(
        "split", "Tensor cores and ordinary cores at once", ("000 figure 6", "000 figure 11"),
        "Does it pay to give part of the numbers to warp shuffles?",
        _show_split, _points_of("split-atomic"), _measure, (4, 8), NEEDS, SEED, sources=MEASURED,
    ),
)  # fmt: skip
