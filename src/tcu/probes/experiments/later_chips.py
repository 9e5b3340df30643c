"""What chips after paper 003 made uncertain: place of c, blocks, emulation by narrower units, output bits, floor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tcu.probes.experiments.experiment import LATER, Dot, Experiment, Hypothesis, parameter_hypotheses
from tcu.probes.experiments.operands import cut_count, dots, factors, first_block, first_cut, result_bits
from tcu.probes.search import interleaved
from tcu.probes.target import Target
from tcu.units.arithmetic import MAX_CARRY_BITS, AlignedSum

__all__ = ["LATER_EXPERIMENTS"]


# Late addition


def _place_of_c(base: AlignedSum, target: Target) -> list[Hypothesis]:
    return parameter_hypotheses(
        base, "late_c",
        aligned=(False, "aligned", "c is aligned and added together with the products."),
        late=(True, "late", "c is added after the products, by an addition of its own."),
    )  # fmt: skip


def _place_of_c_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    places, count = first_block(base, target), cut_count(base, target)
    yield from dots(target, [first_cut(base)] * count, 1.0, places[:count])
    half = target.output.unit_roundoff
    yield from dots(target, [half, half / 2], 1.0, places[:2])


# Blocks


def _block_sizes(base: AlignedSum, target: Target) -> list[Hypothesis]:
    own = min(base.block, target.k)
    return [
        Hypothesis(
            f"{size} at a time", replace(base, block=base.block if size == own else size), size,
            f"{size} product{'s' * (size > 1)} at a time {'are' if size > 1 else 'is'} aligned and added.",
        )
        for size in sorted({min(size, target.k) for size in (1, 2, 4, 8, 16, 32, base.block)})
    ]  # fmt: skip


def _block_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """A large pair that cancels, in places further and further apart, and a small addend beside it."""
    small = 2.0 ** -(base.fraction_bits + 2)
    order = base.order or tuple(range(target.k))
    for last in (1, 2, 3, 4, 8, 16, target.k - 1):
        if 2 <= last < target.k:
            yield from dots(target, [1.0, -1.0, small], 0.0, [order[0], order[1], order[last]])
    half = 2.0 ** -(result_bits(base, target) + 1)
    yield from dots(target, [1.0, half, half], 0.0, order[:3])


def _orders(base: AlignedSum, target: Target) -> list[Hypothesis]:
    hypotheses = [
        Hypothesis("ascending k", replace(base, order=None), "ascending", "Blocks follow in order of k.")
    ]
    for period in (2, 4, 8):
        if target.k % period == 0 and target.k > period:
            half = f"k mod {period} in {{{', '.join(map(str, range(period // 2)))}}}"
            first = replace(base, order=interleaved(target.k, period))
            text = f"The products with {half} are added first."
            hypotheses.append(Hypothesis(f"{half} first", first, f"k mod {period}", text))
    return hypotheses


def _order_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """None of its own: the search finds operands on which the orders differ."""
    return iter(())


# Products


def _normalised_products(base: AlignedSum, target: Target) -> list[Hypothesis]:
    return parameter_hypotheses(
        base, "normalized_products",
        not_normalised=(False, False, "A product counts with the sum of its factors' exponents."),
        normalised=(True, True, "A product in [2, 4) counts with its own exponent."),
    )  # fmt: skip


def _normalised_product_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """(2 - u)² - (2 - u)² and an addend at the last bit of a sum aligned at 1, but not of one aligned at 2."""
    top = 2 - 2.0**-target.input.fraction_bits
    last = factors(2.0**-base.fraction_bits, target)
    if last and len(first_block(base, target)) >= 3 and base.order is None:
        yield Dot((top, -top, last[0]), (top, top, last[1]))
    yield Dot((top,), (top,), -1.0)


# Carries


def _most(base: AlignedSum, target: Target) -> float:
    """Bound on a block's sum in units of its common exponent: products just below 4, and c just below 2."""
    own = len(first_block(base, target)) * (2 - target.input.unit_roundoff) * (2 - target.right.unit_roundoff)
    return (own + (0 if base.late_c else 2)) / (2 if base.normalized_products else 1)


def _carry_bits(base: AlignedSum, target: Target) -> list[Hypothesis]:
    most = _most(base, target)
    whole = "No sum of a block is too large: it has as many bits for carries as that takes."
    return [
        Hypothesis("all", replace(base, carry_bits=None), "all", whole),
        *(
            Hypothesis(f"{bits} bits", replace(base, carry_bits=bits), bits, f"A sum has {bits} bits for carries, and wraps around beyond.")
            for bits in range(1, MAX_CARRY_BITS + 1) if 2 ** (bits + 1) < most
        ),
    ]  # fmt: skip


def _carry_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """1 to all products of a block, significands just below 2, and c."""
    x, y = (2 - 2.0**-fmt.fraction_bits for fmt in (target.input, target.right))
    c = 0.0 if base.late_c else 2 - 2.0**-target.output.fraction_bits
    places = first_block(base, target)
    for count in range(1, len(places) + 1):
        a = [0.0] * (max(places) + 1)
        for place in places[:count]:
            a[place] = x
        yield Dot(tuple(a), (y,) * len(a), c)


# Results


def _output_bits(base: AlignedSum, target: Target) -> list[Hypothesis]:
    z, own = target.output, result_bits(base, target)
    full = z.fraction_bits

    def hypothesis(bits: int) -> Hypothesis:
        text = f"Results keep {bits} of the {full} fraction bits of {z.name}."
        if bits == full:
            text = f"Results have all {full} fraction bits of {z.name}."
        kept = replace(base, output_fraction_bits=None if bits == full else bits)
        return Hypothesis(f"{bits} bits", kept, bits, text)

    return [hypothesis(bits) for bits in sorted({max(1, own - 1), own, min(own + 1, full), full})]


def _output_bit_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    own = result_bits(base, target)
    places = first_block(base, target)
    for bits in (own, own + 1):
        yield from dots(target, [1.0, 2.0**-bits], 0.0, places[:2])
        yield from dots(target, [2.0**-bits], 1.0, places[:1])


def _floors(base: AlignedSum, target: Target) -> list[Hypothesis]:
    usual = (None, -126, -132, -133, -134) if target.output.bits > 16 else (None, -14, -19, -20, -21, -22)

    def hypothesis(floor: int | None) -> Hypothesis:
        text = f"The common exponent does not sink below {floor}."
        if floor is None:
            text = "The common exponent sinks as far as the products do."
        value = "none" if floor is None else floor
        return Hypothesis(str(value), replace(base, exponent_floor=floor), value, text)

    return [hypothesis(floor) for floor in dict.fromkeys([base.exponent_floor, *usual])]


def _floor_dots(base: AlignedSum, target: Target) -> Iterator[Dot]:
    """A result next to the smallest number, and an addend that decides its rounding if the floor lets it live."""
    if base.exponent_floor is None:
        return
    q = target.output.min_subnormal
    places = first_block(base, target)
    for sunk in (0, 1):
        tiny = 2.0 ** (base.exponent_floor - base.fraction_bits - sunk)
        yield from dots(target, [2 * q, -tiny], 0.0, places[:2], [0])
        yield from dots(target, [q, q / 2, -tiny], 0.0, places[:3], [0])


LATER_EXPERIMENTS: tuple[Experiment, ...] = (
    Experiment(
        "place of c", LATER, "Is c aligned with the products, or added after them?", _place_of_c, _place_of_c_dots,
    ),
    Experiment("block size", LATER, "How many products are aligned together?", _block_sizes, _block_dots),
    Experiment("order of blocks", LATER, "Which products come first?", _orders, _order_dots),
    Experiment(
        "normalised products", LATER, "Is a product in [2, 4) normalised before the alignment?",
        _normalised_products, _normalised_product_dots,
    ),
    Experiment(
        "carry bits", LATER, "How large may the sum of a block be?", _carry_bits, _carry_dots, search=False,
    ),
    Experiment(
        "output fraction bits", LATER, "How many fraction bits does a result have?", _output_bits, _output_bit_dots,
    ),
    Experiment("exponent floor", LATER, "How far can the common exponent sink?", _floors, _floor_dots),
)  # fmt: skip
