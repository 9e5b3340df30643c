"""Exact sums of products: exact products, added up exactly."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.formats.format import Format, get_format
from tcu.model import compiled
from tcu.model.pairs import Pairs
from tcu.ops.exact import Tally, count_specials, exact_sum, tally

__all__ = ["PRODUCT_SCALE", "sum_of_products", "tally_of_pairs"]

PRODUCT_SCALE = -2 * 1074
"""Every product of two numbers of the four formats is an integer multiple of 2 to this power."""


def tally_of_pairs(pairs: Pairs) -> Tally:
    """The exact sum of all products, in units of 2^-2148."""
    return tally(pairs.n, lambda start, stop: sum_of_products(*pairs.read(start, stop), pairs.format))


def sum_of_products(x: npt.NDArray[Any], y: npt.NDArray[Any], fmt: Format) -> Tally:
    """The sum of one piece in units of 2^-2148."""
    with np.errstate(all="ignore"):
        if fmt.name == "binary64":
            return _sum_of_wide_products(x, y)
        products = x.astype(np.float64) * y.astype(np.float64)  # exact: at most 48 bits, from 2^-298 up
    part = exact_sum(products, get_format("binary64"))
    return part._replace(integer=part.integer << 1074)


def _sum_of_wide_products(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> Tally:
    kernels = compiled.load("kernels")

    ways = np.zeros((2, 1 << 12, 4), np.int64)
    special = kernels.add_products_to_bins(x.view(np.int64), y.view(np.int64), ways)
    bins = ways.sum(axis=0)
    integer = 0
    for field in np.flatnonzero(bins.any(axis=1)).tolist():
        digits = enumerate(bins[field].tolist())
        integer += sum(digit << 27 * place for place, digit in digits) << (field - 2)
    if not special:
        return Tally(integer)
    at = ~(np.isfinite(x) & np.isfinite(y))
    return Tally(integer).plus(count_specials(x[at] * y[at]))
