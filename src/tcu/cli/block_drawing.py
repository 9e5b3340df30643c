"""One aligned sum as lines of text: terms, cut bits, integer sum, rounding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from rich.text import Text

from tcu.cli.bits import GAP, Columns, Magnitude, columns_for
from tcu.cli.dot import Block, Problem, Trace
from tcu.cli.numbers import show, show_code, show_number
from tcu.formats.format import get_format
from tcu.formats.scalar import Number, decode
from tcu.model.definition import Term
from tcu.units import AlignedSum

__all__ = ["block_lines", "last_place", "listing", "term_names"]

_VALUE = 20
_MAX_NAMES = 4


def listing(names: Sequence[str]) -> str:
    """The names as English lists them: x, y and z."""
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def term_names(block: Block) -> list[str]:
    """Of the terms that the user gave; the padding has none."""
    addend = "c" if block.addend == "c" else "sum so far"
    return [addend, *(block.groups or (f"a{k}·b{k}" for k in block.products))]


def last_place(block: Block, trace: Trace) -> int:
    """The exponent of the last bit that the rounding of the block's sum keeps."""
    assert block.sum.unit_exponent is not None
    if not block.sum.total:
        return block.sum.unit_exponent
    output, arithmetic = get_format(trace.instruction.output), trace.instruction.arithmetic
    kept = output.fraction_bits
    if isinstance(arithmetic, AlignedSum) and arithmetic.output_fraction_bits is not None:
        kept = min(kept, arithmetic.output_fraction_bits)
    leading = Magnitude(abs(block.sum.total), block.sum.unit_exponent).high
    return max(leading, output.emin) - kept


def block_lines(block: Block, problem: Problem, trace: Trace, width: int) -> list[Text]:
    """The drawing, in lines of at most ``width`` characters, and notes, which may wrap."""
    if block.sum.common_exponent is None:
        return _without_alignment(block, problem, trace)
    picture = _Picture.of(block, trace, width)
    lines = [_common(picture, trace), Text(), *picture.lines()]
    notes = [_zero_terms(block, trace), _exponents(picture, trace)]
    if len(picture.columns.cut) > 1:
        notes.append(f"{GAP} stands for columns of zeros.")
    if picture.columns.more:
        notes.append(f"The last {GAP} stands for further bits that are cut.")
    return lines + [Text(note, style="dim") for note in notes if note]


@dataclass(frozen=True)
class _Picture:
    """A block with everything that its lines are made of."""

    block: Block
    terms: list[tuple[str, Term]]
    """Those that are not zero."""
    total: Magnitude
    result: Number
    last: int
    columns: Columns
    widths: tuple[int, int, int]
    rounding: str

    @classmethod
    def of(cls, block: Block, trace: Trace, width: int) -> _Picture:
        common, unit = block.sum.common_exponent, block.sum.unit_exponent
        assert common is not None
        assert unit is not None
        output, arithmetic = get_format(trace.instruction.output), trace.aligned
        names = term_names(block)
        terms = [
            (name, term)
            for name, term in zip(names, block.sum.terms[: len(names)], strict=True)
            if term.significand or term.cancelled
        ]
        total = Magnitude(abs(block.sum.total), unit)
        result = decode(block.sum.result, output)
        values = [show(term.exact, _VALUE, hexadecimal=True) for _, term in terms]
        values += [
            "value",
            show(_sum_value(block), _VALUE, hexadecimal=True),
            show_number(result, _VALUE, hexadecimal=True),
        ]
        widths = (
            max(map(len, ["term", *(name for name, _ in terms)])),
            max(map(len, values)),
            max(map(len, ["exp", *(str(term.exponent) for _, term in terms)])),
        )
        sums = [total] if result.kind != "finite" else [total, _magnitude(result)]
        magnitudes = [Magnitude(term.significand, term.lowest) for _, term in terms if term.significand]
        columns = columns_for(common, unit, sums, magnitudes, width - sum(widths) - 6)
        return cls(
            block, terms, total, result, last_place(block, trace), columns, widths, arithmetic.rounding
        )

    def lines(self) -> list[Text]:
        lines = [self._line("term", "value", "exp", self.columns.axis(), "dim")]
        for name, term in self.terms:
            bits = self.columns.row(Magnitude(term.significand, term.lowest), negative=term.negative)
            lines.append(
                self._line(name, show(term.exact, _VALUE, hexadecimal=True), str(term.exponent), bits)
            )
        lines.append(self._line("", "", "", Text(" " + "─" * (self.columns.kept_width - 1), "dim")))
        bits = self.columns.row(self.total, negative=self.block.sum.total < 0, last=self.last)
        lines.append(self._line("sum", show(_sum_value(self.block), _VALUE, hexadecimal=True), "", bits))
        if self.result.kind == "finite":
            last = max(self.last, self.columns.unit)
            bits = self.columns.result(_magnitude(self.result), negative=self.result.negative, last=last)
        else:
            bits = Text(" overflow", "red")
        lines.append(
            self._line(
                self.rounding, show_number(self.result, _VALUE, hexadecimal=True), "", bits, "bold green"
            )
        )
        return lines

    def _line(self, name: str, value: str, exponent: str, bits: Text, style: str = "") -> Text:
        first, second, third = self.widths
        text = Text(no_wrap=True)
        text.append(f"{name:<{first}}  {value:<{second}}  {exponent:>{third}}  ", style)
        return text.append_text(bits)


def _magnitude(number: Number) -> Magnitude:
    return Magnitude(number.significand, number.exponent)


def _sum_value(block: Block) -> Fraction:
    assert block.sum.unit_exponent is not None
    return block.sum.total * Fraction(2) ** block.sum.unit_exponent


def _common(picture: _Picture, trace: Trace) -> Text:
    """Which exponent the terms are aligned to, and why."""
    arithmetic = trace.aligned
    common = picture.block.sum.common_exponent
    largest = max(term.exponent for _, term in picture.terms)
    holders = [name for name, term in picture.terms if term.exponent == largest]
    who = listing(holders) if len(holders) <= _MAX_NAMES else f"{len(holders)} terms"
    text = Text.assemble("Largest exponent ", (f"{largest}", "bold"), f" ({who})")
    if common != largest:
        text.append(f"; the unit aligns to no less than {common}")
    text.append(
        f": kept are {arithmetic.fraction_bits} bits after the point, down to 2^{picture.columns.unit}."
    )
    return text


def _exponents(picture: _Picture, trace: Trace) -> str:
    """Why a product's exponent is not that of its leading bit."""
    if picture.block.groups:
        return "exp of a group is the sum of its scales' exponents, also where its products cancel."
    products = [term for name, term in picture.terms if "·" in name]
    if all(term.exponent == Magnitude(term.significand, term.lowest).high for term in products):
        return ""
    fmt = get_format(trace.instruction.a)
    scaled = ", and of their scales' exponents" if trace.instruction.scale else ""
    return (
        "exp of a product is the sum of its factors' exponents, "
        f"where a subnormal of {fmt.name} counts as {fmt.emin}{scaled}."
    )


def _zero_terms(block: Block, trace: Trace) -> str:
    arithmetic = trace.aligned
    names = term_names(block)
    zero = [
        name
        for name, term in zip(names, block.sum.terms[: len(names)], strict=True)
        if not term.significand
        and not term.cancelled
        and name != "sum so far"
        and not (arithmetic.late_c and name == names[0])
    ]
    if len(zero) > _MAX_NAMES:
        zero = [f"{len(zero)} of the terms"]
    what = "group" if block.groups else "product"
    unused = arithmetic.block - len(block.groups or block.products)
    if unused:
        zero.append(f"{unused} unused {what}{'' if unused == 1 else 's'}")
    if not zero:
        return ""
    verb = "is zero and takes" if len(zero) == 1 and not zero[0].endswith("s") else "are zero and take"
    return f"{listing(zero)} {verb} no part."


def _without_alignment(block: Block, problem: Problem, trace: Trace) -> list[Text]:
    """A block of zeros, or one with inf or NaN."""
    output = get_format(trace.instruction.output)
    result = show_code(block.sum.result, output)
    if block.sum.terms:
        return [Text(f"Every term is zero: the sum is {result}, whatever their signs.")]
    scales = (*problem.scale_a, *problem.scale_b)
    lines = [Text(f"{each.name} = NaN") for each in scales if each.number.kind == "nan"]
    addend = problem.c.number if block.addend == "c" else decode(block.addend_code, output)
    if addend.kind != "finite":
        lines.append(Text(f"{term_names(block)[0]} = {show_number(addend)}"))
    for k in block.products:
        x, y = problem.a[k].number, problem.b[k].number
        if x.kind != "finite" or y.kind != "finite":
            product = show_number(Number.of(float(x) * float(y)))
            lines.append(Text(f"a{k}·b{k} = {show_number(x)} · {show_number(y)} = {product}"))
    rule = "inf in a sum gives inf."
    if decode(block.sum.result, output).kind == "nan":
        rule = "NaN, inf·0 and inf - inf give NaN, always with the same bits."
    return [*lines, Text(f"Nothing is aligned: {rule}")]
