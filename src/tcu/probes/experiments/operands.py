"""Operands that the experiments on aligned sums share: powers of two about the last bit that is kept.

Paper 003's small constant is moved to the target's own last bit, as the paper
does for the T4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction

from tcu.formats.scalar import Number, decode, encode
from tcu.probes.experiments.experiment import Dot
from tcu.probes.target import Target
from tcu.units.arithmetic import AlignedSum

__all__ = ["cut_count", "dots", "factors", "first_block", "first_cut", "growing", "result_bits"]


def factors(product: float, target: Target) -> tuple[float, float] | None:
    """Two factors of a signed product, normal numbers of their formats; the second is a power of two."""
    x, y = target.input, target.right
    mantissa, exponent = math.frexp(abs(product))
    if not math.ldexp(mantissa, x.precision).is_integer():
        return None
    exponent -= 1
    first = min(max(exponent // 2, x.emin), x.emax)
    second = exponent - first
    if not y.emin <= second <= y.emax:
        return None
    return math.copysign(math.ldexp(2 * mantissa, first), product), 2.0**second


def dots(
    target: Target,
    products: Sequence[float],
    c: float = 0.0,
    at: Sequence[int] | None = None,
    scales: Sequence[int] = (0, 4, 8, 12, 16),
) -> Iterator[Dot]:
    """The products, small multiples of powers of two, at the given k; nothing where the formats cannot hold them.

    All may be multiplied by one power of two, since 8-bit formats hold few small numbers.
    """
    places = list(range(len(products)) if at is None else at)
    if len(places) < len(products) or (places and max(places) >= target.k):
        return
    for scale in scales:
        pairs = [factors(math.ldexp(product, scale), target) for product in products]
        held = decode(encode(Number.of(math.ldexp(c, scale)), target.output), target.output)
        if None in pairs or held.kind != "finite" or held.value != Fraction(c) * 2**scale:
            continue
        a, b = [0.0] * (max(places, default=-1) + 1), [0.0] * (max(places, default=-1) + 1)
        for place, pair in zip(places, pairs, strict=False):
            assert pair is not None
            a[place], b[place] = pair
        yield Dot(tuple(a), tuple(b), math.ldexp(c, scale))
        return


def first_block(base: AlignedSum, target: Target) -> list[int]:
    """The k of the first block."""
    order = base.order or tuple(range(target.k))
    return list(order[: base.block])


def result_bits(base: AlignedSum, target: Target) -> int:
    """Fraction bits of a result."""
    return base.output_fraction_bits or target.output.fraction_bits


def first_cut(base: AlignedSum) -> float:
    """The largest power of two that is cut beside 1."""
    return 2.0 ** -(base.fraction_bits + 1)


def cut_count(base: AlignedSum, target: Target) -> int:
    """Addends just below the last kept bit that together would reach the result's last bit."""
    hidden = base.fraction_bits + 1 - result_bits(base, target)
    return min(max(4, 1 << max(hidden, 0)), len(first_block(base, target)))


def growing(base: AlignedSum, target: Target) -> tuple[float, list[float], list[int]] | None:
    """c just below 1, products at the last bit kept beside it, as many as show in the result, and their places.

    On the V100 these are the paper's 1 - 2^-24 and four times 2^-24.  Where the block has fewer places than that, the
    first product is a multiple of the others: 3u, u, u, u with u = 2^-25 for TF32 on the A100.
    """
    kept = min(base.fraction_bits, target.output.fraction_bits)
    reach, show = 2 ** (base.fraction_bits - kept), 2 ** (base.fraction_bits + 1 - kept)
    places = first_block(base, target)
    count = max(reach + show, min(4, len(places)))
    first = max(1, count - len(places) + 1)
    if first // 2 * 2 >= show:  # beside 1, what is kept of the first product would show, too
        return None
    small = first_cut(base)
    c = 1 - 2.0 ** -(kept + 1)
    return c, [first * small, *[small] * (min(count, len(places)) - 1)], places[:count]
