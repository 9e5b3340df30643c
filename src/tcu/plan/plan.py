"""A sum's schedule as data: every MMA and every addition, in order.

Pure: no arrays, no device, no unit.  Whoever executes a plan (the model, a
GPU, the slow definition in the tests) makes the same additions in the same
order, so the bits agree.  A plan depends on the problem alone.

A step turns a vector of numbers into a shorter one.  The vector is padded
with +0 to whole groups, the groups are reduced independently.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from tcu.errors import ParameterError
from tcu.plan import stored
from tcu.plan.tree import TreeRegions, TreeStep
from tcu.plan.version import VERSIONS, said

__all__ = ["AddStep", "FmaStep", "Layout", "MmaStep", "Part", "Plan", "Step", "tile_order"]

Layout = Literal["rows", "columns", "fragment"]
"""Which element of a tile each dot product takes at each k.

"rows": the tile is the row-major operand A of A·1 (paper 001); "columns": the
row-major operand B of 1·B (paper 000); "fragment": operand A in the order in
which 16-byte loads fill the registers of a warp (PTX ISA, fragments of
mma.m16n8k16).
"""


@dataclass(frozen=True)
class MmaStep:
    """Chains of MMAs with a matrix of ones: R tiles in, ``dots`` partial sums out.

    A group is ``chain`` tiles of ``dots`` × k numbers.  Dot product d adds up,
    by ``chain`` MMAs in a row starting from C = 0, the k numbers of each tile
    that ``tile_order`` gives it.
    """

    shape: tuple[int, int, int]
    """(m, n, k) of the MMA."""
    operand: str
    """Format of the data operand; numbers of another format are rounded to it to nearest."""
    accumulator: str
    """Format of C and D."""
    dots: int
    """Different dot products in one MMA; the other rows or columns repeat them."""
    chain: int
    """R."""
    layout: Layout
    shared: int = 1
    """Groups that one MMA takes side by side, of one row or of several."""

    @property
    def k(self) -> int:
        return self.shape[2]

    @property
    def group(self) -> int:
        """Numbers in a group."""
        return self.chain * self.dots * self.k

    @property
    def results(self) -> int:
        return self.dots

    def mmas(self, length: int, rows: int = 1) -> int:
        """MMAs for a vector of that length, or for ``rows`` of them at once."""
        return -(-rows * -(-length // self.group) // self.shared) * self.chain

    def __str__(self) -> str:
        m, n, k = self.shape
        beside = f", {self.shared} groups side by side" if self.shared > 1 else ""
        return (
            f"{self.chain} chained m{m}n{n}k{k} MMAs {self.operand} → {self.accumulator}, "
            f"{self.layout}: {self.group} numbers → {self.results}{beside}"
        )


@dataclass(frozen=True)
class AddStep:
    """Additions outside the unit, each rounded to nearest in ``format``.

    The vector is seen as (groups, length, inner); the middle axis is reduced.
    "sequential": ((v0 + v1) + v2) + ...; "tree": v[i] += v[i + h] with h
    halving from ``length``/2 (a power of two, after padding), as a warp shuffle does;
    "any": atomic additions, in an order that no run need repeat.  The model adds in order then, and no bits are promised.
    """

    format: str
    order: Literal["sequential", "tree", "any"]
    length: int | None
    """None: the whole vector, sequentially or in any order."""
    inner: int = 1

    @property
    def width(self) -> int:
        """``length``, padded to the power of two that a tree needs."""
        assert self.length is not None
        return 1 << (self.length - 1).bit_length() if self.order == "tree" else self.length

    def depth(self, count: int) -> int:
        """Roundings that a number can go through, for a vector of that length."""
        if self.length is None:
            return max(count - 1, 0)
        return self.width.bit_length() - 1 if self.order == "tree" else self.length - 1

    @property
    def group(self) -> int:
        assert self.length is not None
        return self.length * self.inner

    @property
    def results(self) -> int:
        return self.inner

    def __str__(self) -> str:
        what = "all numbers" if self.length is None else f"{self.length} numbers"
        if self.order == "any":
            return f"atomic {self.format} additions of {what}, in any order"
        stride = f" at stride {self.inner}" if self.inner > 1 else ""
        return f"{self.order} {self.format} additions of {what}{stride}"


@dataclass(frozen=True)
class FmaStep:
    """The products of pairs, added up by fused multiply-adds, each rounded to nearest in ``format``.

    Always a plan's first step: its vector holds pairs (x, y), padded with
    (+0, +0).  The vector is seen as (groups, length, inner); along the middle
    axis, acc = x0·y0, then fma(x1, y1, acc), and so on.  The elements convert
    to ``format`` without rounding.
    """

    length: int
    inner: int
    format: str = "binary64"

    @property
    def group(self) -> int:
        """Pairs in a group."""
        return self.length * self.inner

    @property
    def results(self) -> int:
        return self.inner

    def __str__(self) -> str:
        return f"sequential {self.format} FMAs of {self.length} pairs at stride {self.inner}"


Step = MmaStep | AddStep | FmaStep | TreeStep | TreeRegions


@dataclass(frozen=True)
class Part:
    """The elements from ``start`` to ``stop`` and the steps that reduce them."""

    start: int
    stop: int
    steps: tuple[Step, ...]


@dataclass(frozen=True)
class Plan:
    """The parts' results, one after another, go through the ``final`` steps to one number."""

    n: int
    input: str
    """Format of the elements."""
    variant: str
    chain: int | None
    """R: MMAs in a row on one accumulator; None where the variant has none."""
    block: int
    """B: threads per block."""
    parts: tuple[Part, ...]
    final: tuple[Step, ...]
    result: str
    """Format of the last addition; the sum is rounded once more to the format asked for."""
    version: int = VERSIONS["sum"]
    """Of the order of additions (tcu.plan.version)."""

    def __hash__(self) -> int:
        # Of all steps it takes longer than a small sum; whatever differs in them alone is rare.
        return hash((self.n, self.input, self.variant, self.chain, self.block, self.result))

    @cached_property
    def mmas(self) -> int:
        return self.mmas_of(1)

    def mmas_of(self, rows: int) -> int:
        """MMAs of that many sums by this plan, which may share some."""
        return sum(step.mmas(length, rows) for step, length in self.lengths() if isinstance(step, MmaStep))

    @property
    def reproducible(self) -> bool:
        """Whether the order of all additions is told, so that the same numbers have the same sum."""
        return all(not isinstance(step, AddStep) or step.order != "any" for step in self.final)

    @property
    def levels(self) -> int:
        """Reducing steps one after another, in the longest part."""
        return max((len(part.steps) for part in self.parts), default=0) + len(self.final)

    def save(self, path: str | Path) -> None:
        """Write the plan as JSON, which :func:`tcu.load_plan` reads; raises DataFileError or ParameterError."""
        stored.write(self, path)

    def lengths(self) -> Iterator[tuple[Step, int]]:
        """Every step with the length of the vector that it reduces."""
        total = 0
        for part in self.parts:
            length = part.stop - part.start
            for step in part.steps:
                yield step, length
                length = output_length(step, length)
            total += length
        for step in self.final:
            yield step, total
            total = output_length(step, total)

    def __str__(self) -> str:
        lines = [f"{self.variant}{said(self.version)}: {self.n} {self.input} numbers, {self.mmas} MMAs"]
        for part in self.parts:
            lines.append(f"  elements {part.start} to {part.stop}")
            lines.extend(f"    {step}" for step in part.steps)
        lines.append("  then, together")
        lines.extend(f"    {step}" for step in self.final)
        return "\n".join(lines)


def output_length(step: Step, length: int) -> int:
    if isinstance(step, AddStep) and step.length is None:
        return min(length, 1)
    return -(-length // step.group) * step.results


@lru_cache(maxsize=256)
def tile_order(step: MmaStep) -> tuple[tuple[int, ...], ...]:
    """offset[i][d]: the number of the group that dot product d takes as its i-th factor.

    i runs over the ``chain`` · k factors in the order in which they enter the unit.
    """
    factors = [(r, k) for r in range(step.chain) for k in range(step.k)]
    return tuple(tuple(_offset(step, r, k, d) for d in range(step.dots)) for r, k in factors)


def _offset(step: MmaStep, r: int, k: int, d: int) -> int:
    tile = step.dots * step.k
    if step.layout == "rows":
        return r * tile + d * step.k + k
    if step.layout == "columns":
        return r * tile + k * step.dots + d
    if step.shape == (16, 8, 16):
        # Thread 4g + t holds eight numbers: rows g and g + 8, columns 2t, 2t + 1, 2t + 8, 2t + 9.
        return r * tile + 32 * (d % 8) + 8 * (k % 8 // 2) + 4 * (k // 8) + 2 * (d // 8) + k % 2
    raise ParameterError(f"no fragment order is known for m{step.shape[0]}n{step.shape[1]}k{step.k}")


def granularity(steps: tuple[Step, ...]) -> int:
    """Elements that the steps reduce independently of all others: the unit of streaming."""
    taken = given = 1
    for step in steps:
        times = math.lcm(given, step.group) // given
        taken, given = taken * times, given * times // step.group * step.results
    return taken
