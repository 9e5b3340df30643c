"""The plan of a scan: prefixes inside groups one after another, of the groups' totals by Sklansky's networks.

All additions are in binary64, and each prefix is rounded once to the format of
the result.  The order depends on the length and the input's format alone:
neither on a unit, for there are no MMAs in it, nor on who executes it.  After
Sklansky, "Conditional-sum addition logic", IRE Trans. EC-9(2), 1960, whose
network has the least depth.

1. A *group* is 32 bytes of the input, V numbers.  Inside it the inclusive
   prefixes l_i = l_(i-1) + x_i come one after another; the last is the
   group's total.
2. The totals are cut in *runs*, of 32 on level 1, of 16 on level 2 and of 32
   on all others, whose own totals are the next level's numbers, until one run
   holds everything.  In a run of R, with D(a, 1) = t_a and
   D(a, 2^(p+1)) = D(a, 2^p) + D(a + 2^p, 2^p), the exclusive prefix at
   position j is the sum of the aligned blocks that j's bits name, from the
   right: e_7 = D(0, 4) + (D(4, 2) + t_6); e_0 = 0.  The run's total is D(0, R).
3. The *carry* of a group is c = (((e^K + e^(K-1)) + ...) + e^2) + e^1, each
   level's e at the group's position there.
4. The inclusive prefix is c + l_i; the exclusive one c + l_(i-1), and c for i = 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcu.formats.format import Format, get_format
from tcu.plan.version import VERSIONS, said

__all__ = ["ScanPlan", "group_of", "make_scan_plan", "radix"]

# What suits a GPU, where level 1 is a warp and level 2 a block: measured on an H200, groups of 32 bytes halve
# the work of the warps' networks against 16, and a chunk of 16 lines, which is 16 KiB, leaves room for twelve of
# them in a multiprocessor's shared memory.
_GROUP_BYTES = 32
_RADICES = (32, 16, 32)
"""Of level 1 and of those above it; the last stands for all higher ones too."""


@dataclass(frozen=True)
class ScanPlan:
    """The order of every addition of a scan of n numbers."""

    n: int
    input: str
    """Name of the input's format."""
    group: int
    """V: numbers that are added one after another."""
    radices: tuple[int, ...]
    """Totals in a run, from level 1 on; empty where there is one group."""
    version: int = VERSIONS["scan"]
    """Of the order of additions (tcu.plan.version)."""

    @property
    def levels(self) -> int:
        """K: networks one above the other."""
        return len(self.radices)

    @property
    def depth(self) -> int:
        """The most additions that one element passes through on its way into one prefix.

        V - 1 in its group, then log2(R) in each network, and one to join each carry.
        """
        return max(min(self.group, self.n) - 1, 0) + sum(each.bit_length() for each in self.radices)

    def __str__(self) -> str:
        groups = f"{-(-self.n // self.group):,} group{'s' if self.n > self.group else ''} of {self.group}"
        networks = f"{self.levels} level{'' if self.levels == 1 else 's'}"
        if self.radices:
            networks += f" of radix {' × '.join(str(each) for each in self.radices)}"
        scan = f"scan of {self.n:,} {self.input}{said(self.version)}"
        return f"{scan}: {groups}, {networks}, depth {self.depth}, in binary64"


def make_scan_plan(n: int, input_format: str | Format) -> ScanPlan:
    """The plan for n numbers of a format of up to 64 bits."""
    fmt = get_format(input_format)
    group = group_of(fmt)
    radices: list[int] = []
    while group * math.prod(radices) < n:
        radices.append(radix(len(radices) + 1))
    return ScanPlan(n, fmt.name, group, tuple(radices))


def radix(level: int) -> int:
    """Totals in a run of a level, counted from 1."""
    return _RADICES[min(level, len(_RADICES)) - 1]


def group_of(input_format: Format) -> int:
    """V of a format."""
    return _GROUP_BYTES // input_format.dtype.itemsize
