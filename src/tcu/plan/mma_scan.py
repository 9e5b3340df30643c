"""Running sums by products with triangular matrices of ones: the plans of the variants of ``cumsum`` that use MMAs.

After Dakkak, Li, Xiong, Gelado and Hwu, "Accelerating reduction and scan using tensor core units", ICS 2019, and the
program that they published with it.  U has ones on and above the diagonal, L has ones below it, J has ones everywhere.

Warp: a *strip* is R tiles that follow one another.  S is the strip's sum before a tile, which enters as C.

- Scan_16: a tile is 16 numbers, and 16 strips are the rows of one matrix A: A·U + S.
- Scan_256: a tile is 256 numbers, a row of A is 16 of them.  A·U has the prefixes of each row; L·A has, in each
  column, the sums of the rows above, so that (L·A)·J has the sum of everything above, in every place of a row.  The
  result is (L·A)·J + A·U.
- Scan_256N: R such tiles, (L·A)·J + (A·U + S).
- Scan_256N, work-efficient, as tcu has it: (L·A)·J computes 16 equal columns from 16 columns of sums.  The rows' totals
  are in A·U already: its last column T.  L·T + S is what comes before each row, one addition outside of the unit joins
  it to A·U, and there are two products for each tile in place of three.

L·A and T are operands of the next MMA, so they are rounded to the format of the elements.  Scan_16 rounds nothing to it.

Block and grid: 16 strips are a *group*.  Their totals, rounded to the format of the elements, are a row of a matrix that
is multiplied by U, and so are the totals of 16 groups, and so on.  What comes before a strip at one level is the
prefix at the position before it, and +0 at the first.  The *carry* of a strip is c = ((e^K + e^(K-1)) + ...) + e^1, and
its results are c + l, both by additions in the accumulator's format.

In each of these products a number that is not finite meets zeros, and makes NaN of what it has no part in.  In
binary16 totals above 65,504 are such numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from tcu.errors import DtypeError, ParameterError, unknown_name
from tcu.formats.array import whole_number
from tcu.formats.format import Format, named_format
from tcu.plan.scan import ScanPlan, make_scan_plan
from tcu.plan.version import VERSIONS, said
from tcu.units.instruction import Unit
from tcu.units.lookup import find_instruction

__all__ = [
    "DEFAULT_SCAN", "SCAN_VARIANTS", "MmaScanPlan", "Product", "Sum", "TileStep", "make_mma_scan_plan", "scan_plan",
]  # fmt: skip

DEFAULT_SCAN = "binary64"
WIDTH = 16
"""Rows and columns of every matrix; strips of a group, and groups of the next one."""
_LONGEST_CHAIN = 1 << 10

Constant = Literal["U", "L", "J"]
"""Matrices of ones: on and above the diagonal, below it, everywhere."""


@dataclass(frozen=True)
class Product:
    """``result`` = left · right + addend, by one MMA.

    One factor is a constant.  Of the others, "A" is the tile, "T" the last column of AU, in all columns, "S" the sum of
    the strip before the tile, in all places (of Scan_16, of each row), "0" zeros; all other names are earlier results.  Those are
    rounded to the format of the elements where they are factors, never where they are addends.
    """

    result: str
    left: str
    right: str
    addend: str

    def __str__(self) -> str:
        added = "" if self.addend == "0" else f" + {self.addend}"
        return f"{self.result} = {self.left}·{self.right}{added}"


@dataclass(frozen=True)
class Sum:
    """``result`` = left + right, by additions outside of the unit, each rounded to nearest in the accumulator's format."""

    result: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.result} = {self.left} + {self.right}"


TileStep = Product | Sum


@dataclass(frozen=True)
class MmaScanPlan:
    """Every MMA and every addition of a scan of n numbers."""

    n: int
    input: str
    """Format of the elements, and of the factors of every MMA."""
    variant: str
    chain: int
    """R: tiles of a strip, one after another."""
    accumulator: str
    """Format of C and D, and of the additions outside of the unit."""
    steps: tuple[TileStep, ...]
    """Of a tile; the last result, R, is the tile's prefixes, and its last number the next S."""
    rows: int
    """Rows of the matrix A that a tile fills: 16, or 1 of Scan_16."""
    version: int = VERSIONS["triangular"]
    """Of the order of additions (tcu.plan.version)."""

    shape = (WIDTH, WIDTH, WIDTH)
    """The MMA, wmma m16n16k16."""

    @property
    def tile(self) -> int:
        """Numbers of a tile."""
        return self.rows * WIDTH

    @property
    def strip(self) -> int:
        """Numbers of a strip."""
        return self.chain * self.tile

    @property
    def strips(self) -> int:
        return -(-self.n // self.strip)

    @property
    def totals(self) -> tuple[int, ...]:
        """The numbers of each level, from the strips' totals on; empty where there is one strip."""
        found: list[int] = []
        count = self.strips
        while count > 1:
            found.append(count)
            count = -(-count // WIDTH)
        return tuple(found)

    @property
    def levels(self) -> int:
        """K: products of totals one above the other."""
        return len(self.totals)

    @property
    def products(self) -> int:
        """MMAs of a tile; of Scan_16 of 16 tiles, of as many strips."""
        return sum(isinstance(step, Product) for step in self.steps)

    @property
    def depth(self) -> int:
        """The most operations that one element passes through on its way into one prefix: MMAs, and additions outside."""
        inside = _depth(self.steps, "A") + (self.chain - 1) * _depth(self.steps, "S")
        return inside + (2 * self.levels if self.levels else 0)

    def mmas_of(self, rows: int) -> int:
        """MMAs of that many scans by this plan, which may share some: 16 strips or 16 groups are rows of one matrix.

        For each 256 numbers of a long line: those of a tile, or one of Scan_16, and 16 / (15 · strip) for all levels.
        """
        shared = WIDTH // self.rows
        of_strips = -(-rows * self.strips // shared) * self.chain * self.products
        return of_strips + sum(-(-rows * -(-count // WIDTH) // WIDTH) for count in self.totals)

    @property
    def mmas(self) -> int:
        return self.mmas_of(1)

    def __str__(self) -> str:
        strips = f"{self.strips:,} strip{'' if self.strips == 1 else 's'} of {self.chain} × {self.tile}"
        levels = f"{self.levels} level{'' if self.levels == 1 else 's'} of radix {WIDTH}"
        steps = ", ".join(str(step) for step in self.steps)
        return (
            f"{self.variant}{said(self.version)} of {self.n:,} {self.input}: {strips}, {levels}, depth {self.depth}, "
            f"{self.mmas:,} MMAs → {self.accumulator}; each tile {steps}"
        )


def _depth(steps: tuple[TileStep, ...], source: str) -> int:
    """The longest way from a value to the tile's results, in steps."""
    reached = {source: 0}
    for step in steps:
        given = (step.left, step.right, step.addend) if isinstance(step, Product) else (step.left, step.right)
        if "AU" in reached:
            reached["T"] = reached["AU"]
        ways = [reached[name] for name in given if name in reached]
        if ways:
            reached[step.result] = max(ways) + 1
    return reached["R"]


@dataclass(frozen=True)
class ScanVariant:
    name: str
    source: str
    summary: str
    steps: tuple[TileStep, ...] = ()
    """Of a tile; empty: no MMAs."""
    rows: int = WIDTH
    chain: int | None = None
    """Default R; None: there is nothing to chain."""
    takes: Callable[[Format], bool] = lambda fmt: fmt.bits == 16

    @property
    def uses_mma(self) -> bool:
        return bool(self.steps)


_PAPER = "Dakkak et al., ICS 2019"
_ABOVE = Product("LA", "L", "A", "0")
SCAN_VARIANTS: dict[str, ScanVariant] = {
    row.name: row
    for row in (
        ScanVariant(
            DEFAULT_SCAN, "tcu", "binary64 additions alone, by Sklansky's networks: the same bits on every unit",
            takes=lambda fmt: True,
        ),
        ScanVariant(
            "scan-16", f"{_PAPER}, Scan_16 and Scan_16N",
            "rows of 16 numbers by one product with a triangle of ones, up to R of a strip one after another",
            (Product("R", "A", "U", "S"),), 1, 16,
        ),
        ScanVariant(
            "scan-256", f"{_PAPER}, Scan_256", "256 numbers by three products",
            (Product("AU", "A", "U", "S"), _ABOVE, Product("R", "LA", "J", "AU")),
        ),
        ScanVariant(
            "scan-256n", f"{_PAPER}, Scan_256N", "three products for each 256 numbers, up to R times one after another",
            (Product("AU", "A", "U", "S"), _ABOVE, Product("R", "LA", "J", "AU")), chain=16,
        ),
        ScanVariant(
            "scan-256n-work-efficient", "tcu, after Scan_256N",
            "two products for each 256 numbers and an addition for each number, up to R times one after another",
            (Product("AU", "A", "U", "0"), Product("E", "L", "T", "S"), Sum("R", "E", "AU")), chain=16,
        ),
    )
}  # fmt: skip
"""The ways to scan: one row each."""


def scan_plan(
    n: int, fmt: Format, unit: Unit, *, variant: str = DEFAULT_SCAN, chain: int | None = None,
    accumulator: str | None = None,
) -> ScanPlan | MmaScanPlan:  # fmt: skip
    """The plan for n numbers of a format; see :func:`tcu.cumsum` for the parameters.

    Raises UnknownNameError, ParameterError and DtypeError.
    """
    if not isinstance(variant, str) or variant not in SCAN_VARIANTS:
        raise unknown_name("variant", variant, SCAN_VARIANTS)
    if SCAN_VARIANTS[variant].uses_mma:
        return make_mma_scan_plan(n, fmt, unit, variant, chain, accumulator)
    for name, given in (("chain (R)", chain), ("accumulator", accumulator)):
        if given is not None:
            raise ParameterError(
                f"{name} = {given!r}: {variant} scans have no MMAs; leave it out, or choose variant='scan-256n'"
            )
    return make_scan_plan(n, fmt)


def make_mma_scan_plan(
    n: int, fmt: Format, unit: Unit, variant: str, chain: int | None = None, accumulator: str | None = None
) -> MmaScanPlan:
    """The plan of a variant with MMAs, whose unit must have them; raises what :func:`scan_plan` raises."""
    row = SCAN_VARIANTS[variant]
    if not row.takes(fmt):
        raise DtypeError(
            f"{variant} scans float16 and bfloat16, x has {fmt.dtype}: round it with x.astype('float16'), or leave the "
            "variant out"
        )
    if row.chain is None and chain not in (None, 1):
        raise ParameterError(
            f"chain (R) = {chain!r}: {variant} chains no tiles; leave it out, or choose variant='scan-256n'"
        )
    links = whole_number((row.chain or 1) if chain is None else chain)
    if links is None or not 1 <= links <= _LONGEST_CHAIN:
        raise ParameterError(f"chain (R) = {chain!r}: choose a whole number from 1 to {_LONGEST_CHAIN}")
    wide = "binary32" if accumulator is None else named_format(accumulator).name
    try:
        find_instruction(unit, "mma", fmt.name, fmt.name, wide)
    except DtypeError as error:
        raise DtypeError(
            f"{unit.name} has no MMA {fmt.name} → {wide} to scan {fmt.dtype} by {variant}: choose another unit or "
            f"accumulator, or leave the variant out ({error})"
        ) from None
    # Of a row that one strip holds, no tile is idle.
    links = min(links, max(1, -(-n // (row.rows * WIDTH))))
    return MmaScanPlan(n, fmt.name, variant, links, wide, row.steps, row.rows)
