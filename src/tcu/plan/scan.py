"""The plan of a scan: prefixes inside groups one after another, of the groups' totals by radix-32 Sklansky networks.

All additions are in binary64, and each prefix is rounded once to the format of
the result.  The order depends on the length and the input's format alone:
neither on a unit, for there are no MMAs in it, nor on who executes it.  After
Sklansky, "Conditional-sum addition logic", IRE Trans. EC-9(2), 1960, whose
network has the least depth.

1. A *group* is 16 bytes of the input, V numbers.  Inside it the inclusive
   prefixes l_i = l_(i-1) + x_i come one after another; the last is the
   group's total.
2. The totals are cut in *runs* of 32, whose own totals are the next level's
   numbers, until one run holds everything.  In a run, with D(a, 1) = t_a and
   D(a, 2^(p+1)) = D(a, 2^p) + D(a + 2^p, 2^p), the exclusive prefix at
   position j is the sum of the aligned blocks that j's bits name, from the
   right: e_7 = D(0, 4) + (D(4, 2) + t_6); e_0 = 0.  The run's total is D(0, 32).
3. The *carry* of a group is c = (((e^K + e^(K-1)) + ...) + e^2) + e^1, each
   level's e at the group's position there.
4. The inclusive prefix is c + l_i; the exclusive one c + l_(i-1), and c for i = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from tcu.formats.format import Format, get_format

__all__ = ["RADIX", "ScanPlan", "group_of", "make_scan_plan"]

RADIX = 32
_GROUP_BYTES = 16


@dataclass(frozen=True)
class ScanPlan:
    """The order of every addition of a scan of n numbers."""

    n: int
    input: str
    """Name of the input's format."""
    group: int
    """V: numbers that are added one after another."""
    levels: int
    """K: networks one above the other; 0 where there is one group."""
    radix: int = RADIX
    """Totals in a run."""

    @property
    def depth(self) -> int:
        """The most additions that one element passes through on its way into one prefix.

        V - 1 in its group, then five in each network, and one to join each carry.
        """
        return max(min(self.group, self.n) - 1, 0) + (self.radix.bit_length() - 1 + 1) * self.levels

    def __str__(self) -> str:
        groups = f"{-(-self.n // self.group):,} group{'s' if self.n > self.group else ''} of {self.group}"
        networks = f"{self.levels} level{'' if self.levels == 1 else 's'} of radix {self.radix}"
        return f"scan of {self.n:,} {self.input}: {groups}, {networks}, depth {self.depth}, in binary64"


def make_scan_plan(n: int, input_format: str | Format) -> ScanPlan:
    """The plan for n numbers of a format of up to 64 bits."""
    fmt = get_format(input_format)
    group = group_of(fmt)
    levels, reach = 0, group
    while reach < n:
        levels, reach = levels + 1, reach * RADIX
    return ScanPlan(n, fmt.name, group, levels)


def group_of(input_format: Format) -> int:
    """V of a format."""
    return _GROUP_BYTES // input_format.dtype.itemsize
