"""The questions that hardware vectors and every inference ask: kinds of operands, each named for what it decides.

Hostile values from :mod:`tcu.probes.inputs`, targeted probes and special
values.  Every question has its own stream of random numbers, so it is the
same whatever else is collected.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tcu.formats.format import Format
from tcu.probes import edge_inputs, inputs, scale_inputs
from tcu.probes.scale_inputs import with_scales
from tcu.probes.target import Codes, Operation, Question, operation_of
from tcu.units.instruction import Instruction

__all__ = [
    "COLUMNS",
    "REPEATED",
    "ROWS",
    "Maker",
    "in_both_formats",
    "kinds_of",
    "makers",
    "nan_that_meets",
    "questions",
]

ROWS, COLUMNS = 16, 8
_WITH_SCALES = (scale_inputs.any_scales, scale_inputs.cancelled_groups, scale_inputs.sunken_groups)
_OF_BOTH = (edge_inputs.subnormal_factors, edge_inputs.ties_beside_c, edge_inputs.ties_of_sums, *_WITH_SCALES)
"""Kinds that know both formats."""
Maker = Callable[[Operation, np.random.Generator], Question]


def in_both_formats(
    make: Callable[..., Question], operation: Operation, rng: np.random.Generator, *shape: int
) -> Question:
    """A question of an operation whose B may have a format of its own: the same one in either, A of the one and B of the other.

    Where the operation has scales, the question does.
    """
    if operation.scale is not None and make not in _WITH_SCALES:
        plain = Operation(operation.input, operation.output, operation.k, second=operation.second)
        return with_scales(operation, rng, in_both_formats(make, plain, rng, *shape))
    if operation.second is None or make in _OF_BOTH:
        return make(operation, rng, *shape)
    seed = int(rng.integers(1 << 62))
    of_a, of_b = (
        make(Operation(fmt, operation.output, operation.k), np.random.default_rng(seed), *shape)
        for fmt in (operation.input, operation.right)
    )
    return replace(of_a, b=of_b.b)


def questions(row: Instruction, outputs: int, seed: int) -> list[tuple[str, Question]]:
    """At least ``outputs`` results of every kind that applies to the instruction; all zeros once."""
    count = -(-outputs // (ROWS * COLUMNS))
    operation = operation_of(row)
    asked = []
    for kind, make in makers(operation).items():
        rng = np.random.default_rng([seed, zlib.crc32(f"{row.signature} k{row.k} {kind}".encode())])
        times = 1 if kind == "all zeros" else count
        asked += [(kind, in_both_formats(make, operation, rng)) for _ in range(times)]
    return asked


def kinds_of(row: Instruction) -> tuple[str, ...]:
    """The names of the kinds that apply to the instruction, in the order of the files."""
    return tuple(makers(operation_of(row)))


def makers(operation: Operation) -> dict[str, Maker]:
    """Every kind that applies, by name."""
    if not operation.input.is_float:
        return _INTEGER
    return _FLOAT if operation.scale is None else _FLOAT | _SCALED


# Building blocks: words of a format, as they lie in memory


def _words(code: Codes, fmt: Format) -> Codes:
    return (code.astype(np.uint64) << np.uint64(fmt.storage_shift)).astype(fmt.code_dtype)


def _shapes(operation: Operation) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
    return (ROWS, operation.k), (operation.k, COLUMNS), (ROWS, COLUMNS)


def _signs(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Codes:
    return rng.integers(0, 2, shape).astype(np.uint64) << np.uint64(fmt.bits - 1)


def _choice(rng: np.random.Generator, fmt: Format, codes: list[int], shape: tuple[int, ...]) -> Codes:
    return _words(rng.choice(np.array(codes, np.uint64), shape), fmt)


def _zeros(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Codes:
    """Zeros of either sign, where the format has both."""
    if fmt.specials == "negative zero":
        return np.zeros(shape, fmt.code_dtype)
    return _words(_signs(rng, fmt, shape), fmt)


def _normals(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...], low: int, high: int) -> Codes:
    """Normal numbers of any sign and fraction with exponents from low to high, as far as the format goes."""
    low = int(np.clip(low, fmt.emin, fmt.emax - 1))
    high = int(np.clip(high, low, fmt.emax - 1))
    field = (rng.integers(low, high + 1, shape) + fmt.bias).astype(np.uint64)
    fraction = rng.integers(0, 1 << fmt.fraction_bits, shape, dtype=np.uint64)
    fraction[rng.random(shape) < 0.4] = 0
    return _words(_signs(rng, fmt, shape) | field << np.uint64(fmt.fraction_bits) | fraction, fmt)


def _subnormals(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Codes:
    fraction = rng.integers(1, 1 << fmt.fraction_bits, shape, dtype=np.uint64)
    return _words(_signs(rng, fmt, shape) | fraction, fmt)


def _powers(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...], low: int, high: int) -> Codes:
    """Powers of two, subnormal ones included."""
    low = int(np.clip(low, fmt.quantum_exponent, fmt.emax - 1))
    exponent = rng.integers(low, int(np.clip(high, low, fmt.emax - 1)) + 1, shape)
    normal = (np.maximum(exponent, fmt.emin) + fmt.bias).astype(np.uint64) << np.uint64(fmt.fraction_bits)
    place = np.clip(exponent - fmt.quantum_exponent, 0, fmt.fraction_bits - 1).astype(np.uint64)
    code = np.where(exponent < fmt.emin, np.uint64(1) << place, normal)
    return _words(_signs(rng, fmt, shape) | code, fmt)


def _nans(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Codes:
    """NaN of either sign, quiet and signalling, with any payload that the format has."""
    code = np.full(shape, fmt.nan_code, np.uint64)
    if fmt.has_infinity:
        payload = rng.integers(1, 1 << fmt.fraction_bits, shape, dtype=np.uint64)
        code = np.uint64(fmt.infinity_code) | payload
    return _words(_signs(rng, fmt, shape) | code, fmt)


def _infinities(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Codes:
    """Infinities of either sign; the largest numbers where the format has none."""
    code = fmt.infinity_code if fmt.has_infinity else fmt.max_finite_code
    return _words(_signs(rng, fmt, shape) | np.uint64(code), fmt)


def _sprinkled(rng: np.random.Generator, fmt: Format, words: Codes, share: float) -> Codes:
    """The words with inf or NaN in place of a share of them."""
    special = np.where(
        rng.random(words.shape) < 0.5, _infinities(rng, fmt, words.shape), _nans(rng, fmt, words.shape)
    )
    return np.asarray(np.where(rng.random(words.shape) < share, special, words))


# Hostile values


def _hostile(*modes: str) -> Maker:
    """Modes of :func:`tcu.probes.inputs.adversarial`, in turn in the rows of A, the columns of B and C."""

    def make(operation: Operation, rng: np.random.Generator) -> Question:
        shape_a, shape_b, shape_c = _shapes(operation)
        a = _woven(rng, operation.input, shape_a, modes, np.arange(ROWS)[:, None])
        b = _woven(rng, operation.input, shape_b, modes, np.arange(COLUMNS)[None, :])
        c = _woven(rng, operation.output, shape_c, modes, rng.integers(0, len(modes), shape_c))
        if modes == ("bits",):
            a, b = _with_low_bits(rng, operation.input, a), _with_low_bits(rng, operation.input, b)
        return Question(a, b, c)

    return make


def _woven(
    rng: np.random.Generator, fmt: Format, shape: tuple[int, ...], modes: tuple[str, ...], turn: Codes
) -> Codes:
    words = [inputs.codes(rng, fmt, shape, mode) for mode in modes]
    return np.asarray(np.choose(turn % len(modes), words))


def _with_low_bits(rng: np.random.Generator, fmt: Format, words: Codes) -> Codes:
    """Of TF32, also the bits of the word that the unit drops."""
    low = rng.integers(0, 1 << fmt.storage_shift, words.shape, dtype=np.uint64)
    return np.asarray(words | low.astype(words.dtype))


# Targeted probes


def _zero_times_large(operation: Operation, rng: np.random.Generator) -> Question:
    """Does a product of zero with a large factor raise the common exponent?"""
    x, z = operation.input, operation.output
    shape_a, shape_b, shape_c = _shapes(operation)
    left = rng.random(operation.k) < 0.5
    large_a, large_b = (_normals(rng, x, shape, x.emax - 4, x.emax - 1) for shape in (shape_a, shape_b))
    a = np.where(left[None, :], _zeros(rng, x, shape_a), large_a)
    b = np.where(left[:, None], large_b, _zeros(rng, x, shape_b))
    a[:, 0], b[0] = _normals(rng, x, (ROWS,), -4, 0), _normals(rng, x, (COLUMNS,), -4, 0)
    return Question(a, b, _normals(rng, z, shape_c, -12, 0))


def _tiny_products(operation: Operation, rng: np.random.Generator) -> Question:
    """Products about the smallest numbers of the output, and nothing else."""
    x, z = operation.input, operation.output
    shape_a, shape_b, shape_c = _shapes(operation)
    left, right = inputs.factors(x, int(rng.integers(z.quantum_exponent - 2, z.emin + 2)))
    a = _normals(rng, x, shape_a, left - 3, left + 3)
    b = _normals(rng, x, shape_b, right - 3, right + 3)
    return Question(a, b, np.zeros(shape_c, z.code_dtype))


def _tiny_products_and_c(operation: Operation, rng: np.random.Generator) -> Question:
    q = _tiny_products(operation, rng)
    z, shape = operation.output, q.c.shape
    small = _normals(rng, z, shape, z.emin, z.emin + 4)
    return Question(q.a, q.b, np.where(rng.random(shape) < 0.6, _subnormals(rng, z, shape), small))


def _powers_near_the_limit(operation: Operation, rng: np.random.Generator) -> Question:
    """Single bits about the last place of the subnormal results: cut, rounded or kept?"""
    x, z = operation.input, operation.output
    shape_a, shape_b, shape_c = _shapes(operation)
    goal = z.quantum_exponent
    left = int(np.clip(goal // 2, x.quantum_exponent, x.emax - 1))
    right = int(np.clip(goal - left, x.quantum_exponent, x.emax - 1))
    c = _powers(rng, z, shape_c, goal, goal + 4)
    c[rng.random(shape_c) < 0.3] = 0
    return Question(
        _powers(rng, x, shape_a, left - 2, left + 2), _powers(rng, x, shape_b, right - 2, right + 2), c
    )


def _bits_below_the_limit(operation: Operation, rng: np.random.Generator) -> Question:
    """One or one and a half of the smallest number, less 2^-1 to 2^-40 of it: down to which bit is that seen?

    Without c, whose subnormals would raise the common exponent.  This shows
    where products are cut when all of them are tiny.
    """
    del rng
    x, z = operation.input, operation.output
    goal, low, high = z.quantum_exponent, x.quantum_exponent, x.emax - 1
    a, b = np.zeros((ROWS, operation.k)), np.zeros((operation.k, COLUMNS))
    left = int(np.clip(goal // 2, low, high))
    a[:, 0] = 2.0**left
    b[0] = np.where(np.arange(COLUMNS) % 2, 1.5, 1.0) * 2.0 ** int(np.clip(goal - left, low + 1, high))
    if operation.k > 1:
        below = goal - 1 - 8 * (np.arange(COLUMNS) // 2)
        top = int(np.clip(below[-1] // 2, low + ROWS - 1, high))
        a[:, 1] = -(2.0 ** (top - np.arange(ROWS)))
        b[1] = 2.0 ** np.clip(below - top, low, high)
    return Question(operation.codes(a), operation.codes(b), np.zeros((ROWS, COLUMNS), z.code_dtype))


def _below_the_smallest_normal(operation: Operation, rng: np.random.Generator) -> Question:
    """The smallest normal number less a few eighths of its last place: is that flushed before or after it is rounded?"""
    x, z = operation.input, operation.output
    a, b = np.zeros((ROWS, operation.k)), np.zeros((operation.k, COLUMNS))
    left, right = inputs.factors(x, z.quantum_exponent - 3)
    sign, p = 1 - 2 * rng.integers(0, 2, (ROWS, 1)), int(rng.integers(0, operation.k))
    a[:, p] = -sign[:, 0] * np.arange(ROWS) * 2.0**left
    b[p] = 2.0 ** (right + rng.integers(0, 2, COLUMNS))
    return Question(
        operation.codes(a),
        operation.codes(b),
        operation.output_codes(np.broadcast_to(sign * z.min_normal, (ROWS, COLUMNS))),
    )


def _subnormal_inputs(operation: Operation, rng: np.random.Generator) -> Question:
    """Subnormal a; b subnormal in half of the columns; c zero, subnormal or small."""
    x, z = operation.input, operation.output
    shape_a, shape_b, shape_c = _shapes(operation)
    narrow = np.arange(COLUMNS)[None, :] < COLUMNS // 2
    b = np.where(narrow, _subnormals(rng, x, shape_b), _normals(rng, x, shape_b, -2, 6))
    third = rng.integers(0, 3, shape_c)
    c = np.where(third == 1, _subnormals(rng, z, shape_c), _normals(rng, z, shape_c, z.emin, x.emin))
    return Question(_subnormals(rng, x, shape_a), b, np.where(third == 0, np.zeros_like(c), c))


def _signed_zeros(operation: Operation, rng: np.random.Generator) -> Question:
    """Sums that are zero: which sign do they have?"""
    x, z = operation.input, operation.output
    shape_a, shape_b, shape_c = _shapes(operation)
    a, b = _zeros(rng, x, shape_a), _zeros(rng, x, shape_b)
    if operation.k > 1:  # half of the rows cancel 1 - 1
        one = x.bias << x.fraction_bits
        a[: ROWS // 2, 0] = a[: ROWS // 2, 1] = _choice(rng, x, [one, one | x.sign_code], (ROWS // 2,))
        b[0] = _words(np.full(COLUMNS, one, np.uint64), x)
        b[1] = _words(np.full(COLUMNS, one | x.sign_code, np.uint64), x)
    return Question(a, b, _zeros(rng, z, shape_c))


# Special values


def _special_c(operation: Operation, rng: np.random.Generator) -> Question:
    q = inputs.ordinary(operation, rng, ROWS, COLUMNS)
    return Question(q.a, q.b, _sprinkled(rng, operation.output, q.c, 0.7))


def _special_a(operation: Operation, rng: np.random.Generator) -> Question:
    q = inputs.ordinary(operation, rng, ROWS, COLUMNS)
    return Question(_sprinkled(rng, operation.input, q.a, 1 / operation.k), q.b, q.c)


def _special_all(operation: Operation, rng: np.random.Generator) -> Question:
    q, share = inputs.ordinary(operation, rng, ROWS, COLUMNS), 0.7 / operation.k
    a, b = (_sprinkled(rng, operation.input, words, share) for words in (q.a, q.b))
    return Question(a, b, _sprinkled(rng, operation.output, q.c, 0.3))


def _all_zeros(operation: Operation, rng: np.random.Generator) -> Question:
    del rng
    dtypes = operation.input.code_dtype, operation.input.code_dtype, operation.output.code_dtype
    a, b, c = (np.zeros(shape, dtype) for shape, dtype in zip(_shapes(operation), dtypes, strict=True))
    return Question(a, b, c)


def _infinity_times_zero(operation: Operation, rng: np.random.Generator) -> Question:
    q = inputs.ordinary(operation, rng, ROWS, COLUMNS)
    x, p = operation.input, int(rng.integers(0, operation.k))
    q.a[:, p] = np.where(rng.random(ROWS) < 0.5, _infinities(rng, x, (ROWS,)), _zeros(rng, x, (ROWS,)))
    q.b[p] = np.where(rng.random(COLUMNS) < 0.5, _infinities(rng, x, (COLUMNS,)), _zeros(rng, x, (COLUMNS,)))
    return q


def _infinity_minus_infinity(operation: Operation, rng: np.random.Generator) -> Question:
    """Infinite products of either sign, and c against them."""
    q = inputs.ordinary(operation, rng, ROWS, COLUMNS)
    x, z = operation.input, operation.output
    for p in rng.permutation(operation.k)[:2]:
        half = rng.random(ROWS) < 0.5
        q.a[half, p] = _infinities(rng, x, (ROWS,))[half]
    c = np.where(rng.random(q.c.shape) < 0.5, _infinities(rng, z, q.c.shape), q.c)
    return Question(q.a, q.b, c)


def nan_that_meets(operation: Operation, rng: np.random.Generator) -> Question:
    """NaN, inf and zero in one product, and NaN or inf in c: which operand's NaN comes back, and is it quieted?"""
    q = inputs.ordinary(operation, rng, ROWS, COLUMNS)
    x, z, p = operation.input, operation.output, int(rng.integers(0, operation.k))
    words_a, words_b = (
        np.choose(
            rng.integers(0, 4, size),
            [
                _nans(rng, x, (size,)), _nans(rng, x, (size,)), _infinities(rng, x, (size,)),
                _zeros(rng, x, (size,)),
            ],
        )
        for size in (ROWS, COLUMNS)
    )  # fmt: skip
    keep_a, keep_b = rng.random(ROWS) < 0.3, rng.random(COLUMNS) < 0.3
    q.a[:, p], q.b[p] = np.where(keep_a, q.a[:, p], words_a), np.where(keep_b, q.b[p], words_b)
    third = rng.integers(0, 3, q.c.shape)
    c = np.choose(third, [q.c, _nans(rng, z, q.c.shape), _infinities(rng, z, q.c.shape)])
    return Question(q.a, q.b, c)


def _nan_pairs(operation: Operation, rng: np.random.Generator) -> Question:
    """NaN of different payloads in two or three of a, b and c: which one is returned?"""
    q = inputs.ordinary(operation, rng, ROWS, COLUMNS)
    x, z, last = operation.input, operation.output, min(operation.k, 4)
    with_a, with_b = np.arange(ROWS // 2), np.arange(COLUMNS // 2)
    q.a[with_a, rng.integers(0, last, len(with_a))] = _nans(rng, x, with_a.shape)
    q.b[rng.integers(0, last, len(with_b)), with_b] = _nans(rng, x, with_b.shape)
    c = np.where(rng.random(q.c.shape) < 0.5, _nans(rng, z, q.c.shape), q.c)
    return Question(q.a, q.b, c)


# Integers


def _integer_extremes(operation: Operation, rng: np.random.Generator) -> Question:
    """The ends of the ranges, with c where 32 bits wrap."""
    shape_a, shape_b, shape_c = _shapes(operation)
    ends = [0, 1, 0x7F, 0x80, 0xFF]
    a, b = (_choice(rng, operation.input, ends, shape) for shape in (shape_a, shape_b))
    c = _choice(rng, operation.output, [0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF], shape_c)
    return Question(a, b, c)


def _saturation(operation: Operation, rng: np.random.Generator) -> Question:
    """Rows and columns of one extreme each, and c within a few products of either end: does a sum wrap or stop there?"""
    shape_a, shape_b, shape_c = _shapes(operation)
    ends = [0x7F, 0x80, 0xFF]
    a, b = _choice(rng, operation.input, ends, (ROWS, 1)), _choice(rng, operation.input, ends, (1, COLUMNS))
    near = rng.integers(0, 4 << 16, shape_c)
    c = np.where(rng.random(shape_c) < 0.5, 0x7FFFFFFF - near, 0x80000000 + near)
    filled = np.broadcast_to(a, shape_a).copy()
    filled[rng.random(shape_a) < 0.1] = 0
    return Question(filled, np.broadcast_to(b, shape_b).copy(), _words(c, operation.output))


_WOVEN = (("bits",), ("binade", "window"), ("wide", "powers"), ("zero", "overflow"))
"""Two modes share a matrix, so that a file stays small."""
_FLOAT: dict[str, Maker] = {
    "ordinary": lambda operation, rng: inputs.ordinary(operation, rng, ROWS, COLUMNS),
    "pair": lambda operation, rng: inputs.pair(operation, rng, ROWS, COLUMNS),
    "near zero": lambda operation, rng: inputs.near_zero(operation, rng, ROWS, COLUMNS),
    **{f"adversarial {' and '.join(modes)}": _hostile(*modes) for modes in _WOVEN},
    "zero times large": _zero_times_large,
    "tiny products": _tiny_products,
    "tiny products and c": _tiny_products_and_c,
    "powers near the limit": _powers_near_the_limit,
    "bits below the limit": _bits_below_the_limit,
    "below the smallest normal": _below_the_smallest_normal,
    "subnormal inputs": _subnormal_inputs,
    "signed zeros": _signed_zeros,
    "special c": _special_c,
    "special a": _special_a,
    "special all": _special_all,
    "all zeros": _all_zeros,
    **{make.__name__.replace("_", " "): make for make, _ in inputs.DECIDING},
    "carries": edge_inputs.carries,
    "ties of the smallest": edge_inputs.ties_of_the_smallest,
    "binade edges": edge_inputs.binade_edges,
    "one sign": edge_inputs.one_sign,
    "one deviates": edge_inputs.one_deviates,
    "subnormal factors": edge_inputs.subnormal_factors,
    "ties of sums": edge_inputs.ties_of_sums,
    "differences of the smallest": edge_inputs.differences_of_the_smallest,
    "c alone": edge_inputs.c_alone,
    "c beside a smallest product": edge_inputs.c_beside_a_smallest_product,
    "small products alone": edge_inputs.small_products_alone,
    "ties beside c": edge_inputs.ties_beside_c,
    "cancelled products": edge_inputs.cancelled_products,
    "zeros by place": edge_inputs.zeros_by_place,
    "inf times zero": _infinity_times_zero,
    "inf minus inf": _infinity_minus_infinity,
    "NaN pairs": _nan_pairs,
    "NaN that meet": nan_that_meets,
}
REPEATED = {make.__name__.replace("_", " "): count for make, count in inputs.DECIDING} | {
    "carries": 8, "ties of the smallest": 6, "binade edges": 12,
    "one sign": 12, "one deviates": 12, "subnormal factors": 48, "ties of sums": 16, "differences of the smallest": 12,
    "c alone": 8, "c beside a smallest product": 4, "small products alone": 16, "ties beside c": 32,
    "cancelled products": 48, "zeros by place": 64,
    "NaN that meet": 4, "saturation": 4,
    "any scales": 8, "cancelled groups": 24, "sunken groups": 24,
}  # fmt: skip
"""How many questions of a kind tell all that they can, where one or two do not: such operands tell apart what random ones
tell apart once in a million dot products, or never.  Of E5M2 by E4M3 into binary16, one question in seven of subnormal
factors tells; 16 of them missed it once, and so did 16 of ties beside c, of which one in four tells of a late sum's bit."""
_SCALED: dict[str, Maker] = {make.__name__.replace("_", " "): make for make in _WITH_SCALES}
_INTEGER: dict[str, Maker] = {
    "adversarial bits": _hostile("bits"),
    "extremes": _integer_extremes,
    "saturation": _saturation,
    "all zeros": _all_zeros,
    "zeros by place": edge_inputs.zeros_by_place,
}
