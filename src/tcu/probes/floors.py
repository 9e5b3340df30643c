"""The floors of the common exponent that a search tries, and in which order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format
from tcu.probes.target import Target
from tcu.units.arithmetic import AlignedSum
from tcu.units.catalogue import CATALOGUE

__all__ = ["Cut", "cut_of_a_product", "cut_of_c", "floors"]

_Values = npt.NDArray[np.float64]
_Truths = npt.NDArray[np.bool_]

_SLACK = 30
"""Places below the smallest product of normal numbers to which a floor may lie and still be met, or nearly."""


def floors(a: Format, b: Format, output: Format, scale: Format | None = None) -> list[int | None]:
    """Those of the catalogue's units, the newest first; none; then every one that products of the formats reach."""
    known = [
        row.arithmetic.exponent_floor
        for unit in reversed(CATALOGUE.values())
        for row in unit.instructions
        if isinstance(row.arithmetic, AlignedSum) and row.output == output.name
    ]
    lowest = a.emin + b.emin - _SLACK + (0 if scale is None else 2 * scale.emin)
    return list(dict.fromkeys([*known, None, *range(0, max(lowest, -300), -1)]))


@dataclass(frozen=True)
class Cut:
    """Down to which place a target keeps a term that is alone in its sum: its lowest bit, as far as the floor decides."""

    place: int
    lost: bool
    """Whether the next place is lost; else no term of the kind shows more."""
    least: int
    """Exponent of the smallest terms: a lower floor is as none."""

    def floor(self, fraction_bits: int) -> tuple[int, bool]:
        """The floor of sums that keep so many bits; or the highest that it may be, and False."""
        floor = self.place + fraction_bits
        return max(floor, self.least) if self.lost else floor, self.lost and floor > self.least


def cut_of_c(target: Target) -> Cut:
    """Of c beside products of zero, by normal numbers, which are never flushed."""
    z = target.output
    places = np.arange(0, z.quantum_exponent - 1, -1)
    exponents = np.maximum(places, z.emin)
    share = 1 + np.ldexp(1.0 * (places < exponents), places - exponents)
    a = np.zeros((2, target.k), target.input.code_dtype)
    b = np.zeros((target.k, places.size), target.right.code_dtype)
    c = target.output_codes(np.stack([share, np.ldexp(share, exponents)]))
    large, small = target(a, b, c) == c
    return _cut(places, large, small, z.emin)


def cut_of_a_product(target: Target) -> Cut:
    """Of a product of normal factors beside zeros."""
    x, y, z = target.input, target.right, target.output
    least = max(x.emin + y.emin, z.emin)
    places = np.arange(0, least - min(x.fraction_bits + y.fraction_bits, z.fraction_bits) - 1, -1)
    exponents = np.maximum(places, least)
    left = np.minimum(exponents - places, x.fraction_bits)
    right = exponents - places - left
    first, second = (1 + np.ldexp(1.0 * (bits > 0), -bits) for bits in (left, right))
    low = np.clip(exponents // 2, x.emin, np.minimum(0, exponents - y.emin))  # so that both are normal
    small = _exact(target, np.ldexp(first, low), np.ldexp(second, exponents - low))
    return _cut(places, _exact(target, first, second), small, least)


def _exact(target: Target, first: _Values, second: _Values) -> _Truths:
    """Which products come back as they are; asked 16 at a time, for the target multiplies all pairs."""
    found = []
    for start in range(0, first.size, 16):
        left, right = first[start : start + 16], second[start : start + 16]
        a, b = np.zeros((left.size, target.k)), np.zeros((target.k, right.size))
        a[:, 0], b[0] = left, right
        c = target.output_codes(np.zeros((left.size, right.size)))
        answer = target(target.codes(a), target.right_codes(b), c).diagonal()
        found.append(answer == target.output_codes(left * right))
    return np.concatenate(found)


def _cut(places: npt.NDArray[np.int_], large: _Truths, small: _Truths, least: int) -> Cut:
    """Up to the first place that is lost, or whose term does not even come back where its exponent is 0, above all floors."""
    ends = np.flatnonzero(~(large & small))
    end = int(ends[0]) if ends.size else places.size
    return Cut(int(places[0]) + 1 - end, bool(ends.size and large[end]), least)
