"""The algorithms of paper 002: sums of segments by MMAs with a matrix of ones, as steps of a plan.

A warp loads 256 numbers as the matrix A, whose columns are 16 numbers each
that follow one another, and P·A adds up the columns (P: ones).

- Reduction_16: each column belongs to a segment of its own, or to a piece of
  one.  Longer segments go on in the accumulator: C = P·A + C, up to R times.
- Reduction_256: all columns belong to one segment; V = P·A, then V·Pᵀ adds up
  the 16 sums.
- Reduction_256N: R such tiles after another, V = P·A + V, and V·Pᵀ once, at
  the end: the work-efficient form.  The work-inefficient one (the paper's
  figure 4) has two MMAs for each tile: V = P·A + 0, Q = V·Pᵀ + Q.

V is the operand of the second MMA, so the 16 sums are rounded to the format
of the elements; Reduction_16 never rounds to it.  Up to 256 numbers, the
forms of 256 and 256N are one and the same list of steps.

"paper-002" is, at every length, the algorithm that paper_002.json names, with
that algorithm's bits: the fastest on an H200, within 2 %.  The table is the same for all units and machines, since
another choice would be another result, except among the three forms that
share their steps; ``benchmarks/paper_002.py`` measures and writes it anew.  How a GPU goes through the steps (rows of a block, loads in
flight) changes no bits.

The paper's figures end with the warp.  What exceeds its chain is added up outside of
the unit, in binary64: a third MMA would take the partial sums in 16 bits.
"""

from __future__ import annotations

import json
from functools import cache
from importlib import resources
from typing import Any

from tcu.plan.plan import AddStep, MmaStep, granularity

__all__ = ["ALGORITHMS", "SEGMENTED", "best_algorithm", "block_steps", "choices", "warp_steps"]

ALGORITHMS = ("reduction-16", "reduction-256", "reduction-256n", "reduction-256n-work-inefficient")
SEGMENTED = (*ALGORITHMS, "paper-002")
"""The variants of paper 002; the last stands for one of the others, by the length."""

_COLUMN, _TILE = 16, 256
_CHUNK = 1 << 14
"""Numbers of one block, at least: as many as a block of short-chain adds up."""


def warp_steps(
    algorithm: str, n: int, shape: tuple[int, int, int], operand: str, accumulator: str, chain: int
) -> tuple[MmaStep, ...]:
    """What a warp does with up to R = ``chain`` links of n numbers; shorter segments have fewer links."""
    if algorithm == "reduction-16":
        links = min(chain, -(-n // _COLUMN))
        return (MmaStep(shape, operand, accumulator, 1, links, "rows", shared=_TILE // _COLUMN),)
    links = 1 if algorithm == "reduction-256" else min(chain, -(-n // _TILE))
    columns, tiles = (1, links) if algorithm.endswith("work-inefficient") else (links, 1)
    return (
        MmaStep(shape, operand, accumulator, _TILE // _COLUMN, columns, "rows"),
        MmaStep(shape, operand, accumulator, 1, tiles, "rows"),
    )


def block_steps(n: int, steps: tuple[MmaStep, ...], warps: int, most_chunks: int) -> tuple[AddStep, ...]:
    """How a block adds up what its warps leave of n numbers; none where one of them leaves the sum.

    In turns, if there is more than the warps take at once; longer turns where
    there would be more than ``most_chunks`` blocks.
    """
    group = granularity(steps)
    groups = -(-n // group)
    if groups == 1:
        return ()
    together = warps * steps[0].shared
    turns = max(1, _CHUNK // (together * group))
    while groups > most_chunks * turns * together:
        turns *= 2
    return (
        AddStep("binary64", "sequential", min(turns, -(-groups // together)), together),
        AddStep("binary64", "tree", steps[0].shared),
        AddStep("binary64", "tree", warps),
    )


def best_algorithm(n: int) -> str:
    """What "paper-002" stands for, for segments of n numbers: the row of paper_002.json that n falls in."""
    return next(name for most, name in choices() if most is None or n <= most)


@cache
def choices() -> tuple[tuple[int | None, str], ...]:
    """(the longest segment, algorithm) in ascending order; None: any length."""
    text = resources.files("tcu.plan").joinpath("paper_002.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return tuple((row["up_to"], row["algorithm"]) for row in document["choice"])
