"""Operands at the edges of an arithmetic: carries, floors, binades, single positions, and orders that follow the data.

Each was a hole once: a unit that is wrong there alone was taken for one that is right, however many random operands it
was asked.
"""

from __future__ import annotations

import numpy as np

from tcu.formats.format import Format
from tcu.probes.inputs import factors, just_over_two, ordinary
from tcu.probes.target import Codes, Operation, Question

__all__ = [
    "binade_edges", "c_alone", "c_beside_a_smallest_product", "cancelled_products", "carries", "differences_of_the_smallest", "one_deviates", "one_sign", "small_products_alone", "subnormal_factors", "ties_beside_c", "ties_of_sums", "ties_of_the_smallest", "zeros_by_place",
]  # fmt: skip

ROWS, COLUMNS = 16, 8


def carries(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """1 to k products of one sign with significands just below 2, and c: does their sum wrap, saturate or lose bits?"""
    x, z, k = operation.input, operation.output, operation.k
    lowest, highest = max(2 * x.emin, z.emin), min(2 * (x.emax - 1), z.emax - 3 - k.bit_length())
    left, right = factors(x, int(rng.integers(lowest, max(lowest, highest) + 1)))
    a, b = (_full(rng, operation, shape) for shape in ((rows, k), (k, columns)))
    # As many as the row says: the first ones, or any.
    count = np.resize(rng.permutation(k), rows)[:, None] + 1
    places = np.argsort(rng.random((rows, k)), axis=1) if rng.random() < 0.5 else np.arange(k)[None]
    sign = _signs(rng, (rows, 1))
    a = np.where(np.argsort(places, axis=1) < count, a, 0.0) * sign
    c = (2 - 2.0 ** -rng.integers(1, z.fraction_bits + 1, (rows, columns))) * 2.0 ** (
        left + right + rng.choice([-z.fraction_bits, -1, 0, 0, 0, 1, 2], (rows, columns))
    )
    c *= sign * rng.choice([0.0, -0.0, 1.0, 1.0, 1.0, -1.0], (rows, columns))
    return Question(
        operation.codes(a * 2.0**left), operation.codes(b * 2.0**right), operation.output_codes(c)
    )


def ties_of_the_smallest(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """Half of the smallest number, or half more, and a far smaller product that decides, if the unit still sees it.

    c is zero of either sign.  The small product has two subnormal factors where it must: how far the common exponent may sink.
    """
    x, z, k = operation.input, operation.output, operation.k
    low, high, tie = x.quantum_exponent, x.emax - 1, z.quantum_exponent - 1
    left = int(np.clip(tie // 2, low, high))
    a, b = np.zeros((rows, k)), np.zeros((k, columns))
    first, second = (0, min(1, k - 1)) if rng.random() < 0.5 else rng.permutation(max(k, 2))[:2] % k
    top = (tie - 2) // 2 + int(rng.integers(-2, 3))
    if second != first:
        a[:, second] = _signs(rng, (rows,)) * 2.0 ** np.clip(
            top - np.resize(rng.permutation(16), rows), low, high
        )
        b[second] = 2.0 ** np.clip(tie - 2 - top - 3 * np.resize(rng.permutation(8), columns), low, high)
    a[:, first] = _signs(rng, (rows,)) * 2.0**left
    # The tie itself, or one and a half of the smallest number, which lies between two others.
    b[first] = rng.choice([1.0, 1.0, 3.0], columns) * 2.0 ** int(np.clip(tie - left, low, high - 2))
    c = np.zeros((rows, columns)) * _signs(rng, (rows, columns))
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def binade_edges(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """One product just above a power of two, of any exponent that products have, beside nothing or a power of two."""
    x, z, k = operation.input, operation.output, operation.k
    pairs = just_over_two(x.fraction_bits)
    chosen = pairs[int(len(pairs) * rng.random() ** 3)]
    left, right = (rng.integers(x.emin, x.emax, size) for size in (rows, columns))
    if rng.random() < 0.5:  # exponents that a result can have
        right = np.clip(rng.integers(z.emin, z.emax + 1, columns) - left[0], x.emin, x.emax - 1)
    a, b = np.zeros((rows, k)), np.zeros((k, columns))
    place = rng.integers(0, k, rows)
    a[np.arange(rows), place] = _signs(rng, (rows,)) * chosen[0] * 2.0**left
    b[:] = chosen[1] * 2.0 ** right[None, :]
    exponent = left[:, None] + right[None, :] + 1 + rng.choice([0, 0, 1, -z.fraction_bits], (rows, columns))
    held = (exponent >= z.emin) & (exponent <= z.emax) & (rng.random((rows, columns)) < 0.6)
    c = np.where(held, 2.0 ** np.clip(exponent, z.emin, z.emax), 0.0) * _signs(rng, (rows, columns))
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def one_sign(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """Ordinary numbers whose products are all positive, or all negative, with c of their sign in half of the columns.

    A unit that chooses its order by the signs, or by whether c is zero, shows it here.
    """
    q = ordinary(operation, rng, rows, columns)
    bits = operation.input.storage_shift + operation.input.bits - 1
    positive = q.a.dtype.type((1 << bits) - 1)
    negative = np.arange(rows)[:, None] % 2 == 1
    a = np.where(negative, q.a | q.a.dtype.type(1 << bits), q.a & positive)
    if operation.input.specials == "negative zero":
        a[a == operation.input.nan_code] = 0
    sign = q.c.dtype.type(operation.output.sign_code)
    c = np.where(negative, q.c | sign, q.c & ~sign)
    return Question(
        a.astype(q.a.dtype), q.b & positive, np.where(np.arange(columns) % 2 == 1, 0, c).astype(q.c.dtype)
    )


def one_deviates(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """Equal products but one, which takes every position: larger, smaller, opposite, or absent."""
    x, z, k = operation.input, operation.output, operation.k
    depth = int(rng.integers(0, 34))
    left, right = factors(x, -depth if z.bits > 16 else -(depth % 14))
    a = np.full((rows, k), 2.0**left)
    place = np.resize(rng.permutation(k), rows)
    larger = min(x.emax - 1, left + int(rng.integers(1, 31)))
    other = rng.choice([0.0, -(2.0**left), 2.0**larger, -(2.0**larger), 2.0 ** max(x.emin, left - 3)], rows)
    a[np.arange(rows), place] = other
    fraction = 1 + rng.integers(0, 1 << x.fraction_bits, columns) / (1 << x.fraction_bits)
    b = np.tile(fraction * 2.0**right, (k, 1))
    c = rng.choice([0.0, 0.0, 1.0, -1.0, 0.5], (rows, columns)) * 2.0 ** rng.integers(-2, 3, (rows, columns))
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def subnormal_factors(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """The largest product has a subnormal factor, beside half of the result's last place and a far smaller product.

    Whether that is seen, and decides the rounding, is up to the exponent with which the subnormal factor counts.
    """
    x, y, z, k = operation.input, operation.right, operation.output, operation.k
    small, large = (x, y) if rng.random() < 0.5 else (y, x)
    exponents = [
        small.quantum_exponent + int(rng.integers(0, small.fraction_bits)),
        large.emax - 1 - int(rng.integers(0, 4)),
    ]
    left, right = exponents if small is x else exponents[::-1]
    top, tie = left + right, left + right - z.fraction_bits - 1
    middle, far = (int(np.clip(e // 2, y.quantum_exponent, y.emax - 1)) for e in (tie, top - 24))
    distance = np.resize(rng.permutation(np.arange(14, 36)), rows)
    of_a = [np.full(rows, left), np.full(rows, tie - middle), top - distance - far]
    of_b = [
        np.ones(columns),
        rng.choice([1.0, 1.0, 1.5], columns) * 2.0 ** (middle - right),
        np.full(columns, 2.0 ** (far - right)),
    ]
    a, b = np.zeros((rows, k)), np.zeros((k, columns))
    roles = rng.permutation(np.arange(k) % 3)  # every row has its own places, some of them in one block
    for role in range(min(k, 3)):
        places = np.flatnonzero(roles == role)
        a[np.arange(rows), rng.choice(places, rows)] = 2.0 ** np.clip(
            of_a[role], x.quantum_exponent, x.emax - 1
        )
        b[places] = of_b[role] * 2.0**right
    c = np.zeros((rows, columns)) * _signs(rng, (rows, columns))
    return Question(
        operation.codes(a * _signs(rng, a.shape)), operation.right_codes(b), operation.output_codes(c)
    )


def ties_of_sums(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """Products whose sum is a tie of the result, and a far smaller c or product, at every place below: is it still seen?

    Of formats of few bits no single product is a tie, and only all of them together show where the alignment cuts.
    """
    x, y, z, k = operation.input, operation.right, operation.output, operation.k
    small = int(rng.integers(0, k)) if k > 2 and rng.random() < 0.5 else None
    most, a, b = -1, np.zeros((rows, k)), np.zeros(k)
    for _ in range(6):
        left, right = _windows_of_a_tie(operation, rng, 16 * rows)
        if small is not None:
            left[:, small] = 0
        total = left @ right
        odd = np.abs(np.frexp(total)[0]) * 2.0 ** (z.fraction_bits + 2)
        tie = (odd % 2 == 1) & (np.abs(total) >= z.min_normal)
        if (count := int(np.count_nonzero(tie))) > most:
            most, a, b = count, left[np.argsort(~tie, kind="stable")[:rows]], right
        if most >= rows:
            break
    top = np.frexp(np.abs(a * b).max(axis=1))[1]
    c = np.zeros((rows, columns))
    if small is None:
        for i in range(rows):
            places = np.arange(max(z.quantum_exponent, top[i] - 44), max(z.quantum_exponent + 1, top[i] - 6))
            c[i] = 2.0 ** rng.choice(places, columns)
    else:
        b[small] = 2.0 ** max(y.emin, int(top.min()) // 2 - 12)
        a[:, small] = 2.0 ** np.clip(
            top - np.resize(rng.permutation(np.arange(6, 44)), rows) - np.frexp(b[small])[1],
            x.quantum_exponent,
            x.emax - 1,
        )
        a[:, small] *= _signs(rng, (rows,))
    return Question(
        operation.codes(a),
        operation.right_codes(b[:, None] * _signs(rng, (1, columns))),
        operation.output_codes(c * _signs(rng, (rows, columns))),
    )


def differences_of_the_smallest(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """c, or a product, about the smallest normal number, less a product about as large; all other products are zeros of one sign.

    Where the difference is flushed, or zero, what is its sign, and what becomes of it when a zero is added?
    """
    x, z, k = operation.input, operation.output, operation.k
    left, right = factors(x, z.emin)
    a, b = np.zeros((rows, k)), np.zeros((k, columns))
    b[:] = _signs(rng, (1, columns)) if rng.random() < 0.7 else _signs(rng, (k, columns))
    places = rng.permutation(k)[:2]
    fraction = np.resize([1.0, 1.25, 1.5, 1.75], rows)
    for place in places[: 1 + int(rng.random() < 0.5)]:
        a[:, place] = rng.permutation(fraction) * 2.0**left * _signs(rng, (rows,))
        b[place] = 2.0**right * _signs(rng, (columns,))
    c = (
        rng.choice([0.0, 1.0, 1.0, 1.25, 1.5, 1.75], (rows, columns))
        * z.min_normal
        * _signs(rng, (rows, columns))
    )
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(c))


def c_alone(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """c of any exponent, subnormal ones often, beside products of zero: how low may the common exponent sink, and what is flushed?"""
    x = operation.input
    a, b = np.zeros((rows, operation.k), x.code_dtype), np.zeros((operation.k, columns), x.code_dtype)
    return Question(a, b, _of_any_exponent(rng, operation.output, (rows, columns)))


def c_beside_a_smallest_product(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """The same beside a product of the smallest numbers, normal or not."""
    x, place = operation.input, int(rng.integers(0, operation.k))
    a, b = np.zeros((rows, operation.k)), np.zeros((operation.k, columns))
    a[:, place] = rng.choice([x.min_subnormal, x.min_normal], rows) * _signs(rng, (rows,))
    b[place] = rng.choice([x.min_subnormal, x.min_normal], columns) * _signs(rng, (columns,))
    c = _of_any_exponent(rng, operation.output, (rows, columns))
    return Question(operation.codes(a), operation.codes(b), c)


def small_products_alone(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """A product of any fractions, from below the smallest number to 1, often about the smallest normal one, and in half of the
    rows a smaller one; no c, for sums that it does not join.
    """
    x, z, k = operation.input, operation.output, operation.k
    low, high = x.quantum_exponent, x.emax - 1
    least = max(2 * low, z.quantum_exponent - 2)
    goal = int(rng.integers(least, max(least, 0) + 1))
    if rng.random() < 0.5:
        goal = max(least, z.emin + int(rng.integers(-3, 4)))
    left, right = (int(np.clip(each, low, high)) for each in (goal // 2, goal - goal // 2))
    first, second = (0, min(1, k - 1)) if rng.random() < 0.5 else rng.permutation(max(k, 2))[:2] % k
    a, b = np.zeros((rows, k)), np.zeros((k, columns))
    less = rng.integers(1, z.fraction_bits + 2, rows)
    smaller = np.clip(left - less, low, high)
    a[:, second] = _of_exponents(rng, x, smaller) * (rng.random(rows) < 0.5)
    a[:, first] = _of_exponents(rng, x, np.clip(left + rng.integers(-3, 4, rows), low, high))
    for place in (first, second):
        b[place] = _of_exponents(rng, x, np.clip(right + rng.integers(-1, 2, columns), low, high))
    return Question(operation.codes(a), operation.codes(b), operation.output_codes(np.zeros((rows, columns))))


def ties_beside_c(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """c, half of its last place, and a far smaller product at each of 24 places below, all of one sign in two thirds of the rows.

    A unit that adds c late cuts the sum of the products at a last bit far below the result's.  Whether the far product is
    above that bit decides how the tie is rounded.
    """
    x, y, z, k = operation.input, operation.right, operation.output, operation.k
    highest = min(x.emax + y.emax - 2, z.emax - z.fraction_bits - 2)
    lowest = min(max(x.emin + y.emin + 16, z.emin), highest)
    goal = int(rng.integers(lowest, highest + 1))
    right = int(np.clip(goal - goal // 2, y.emin, y.emax - 1))
    left = int(np.clip(goal - right, x.emin, x.emax - 1))
    a, b = np.zeros((rows, k)), np.zeros((k, columns))
    first, second = rng.permutation(max(k, 2))[:2] % k
    sign = _signs(rng, (rows, 1))
    if second != first:
        middle = int(np.clip(right - 6, y.emin, y.emax - 1))
        distance = np.resize(rng.permutation(np.arange(1, 25)), rows)
        far = np.clip(left + right - distance - middle, x.quantum_exponent, x.emax - 1)
        a[:, second] = rng.choice([1.0, 1.0, -1.0], rows) * sign[:, 0] * 2.0**far
        b[second] = 2.0**middle
    a[:, first], b[first] = sign[:, 0] * 2.0**left, 2.0**right
    last_place = left + right + 1
    c = sign * (2.0**z.fraction_bits + rng.integers(0, 3, (rows, columns))) * 2.0**last_place
    return Question(operation.codes(a), operation.right_codes(b), operation.output_codes(c))


def cancelled_products(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """Pairs of products that cancel each other, most above the largest number of the output, beside smaller ones and c.

    The sum is finite where no product of a pair is.  What the pair's exponent cuts of the others, or does not, is seen.
    """
    x, z, k = operation.input, operation.output, operation.k
    # First, so that they are the same in both formats; neighbours are often in one block.
    places = rng.permutation(k) if rng.random() < 0.5 else np.roll(np.arange(k), int(rng.integers(0, k)))
    pairs = min(k // 2, 1 if rng.random() < 0.5 else int(rng.integers(1, k + 1)))
    one, other, rest = np.split(places, [pairs, 2 * pairs])
    highest = 2 * (x.emax - 1)
    limit = min(z.emax - 2, highest)
    # About the limit, where the others are not all cut, above it, at the end, or anywhere.
    windows = (
        (limit, limit + 20),
        (limit, highest),
        (highest - 4, highest),
        (max(2 * x.emin, z.emin), highest),
    )
    low, high = windows[rng.integers(0, len(windows))]
    top = int(rng.integers(low, min(high, highest) + 1))
    left, right = factors(x, top)
    below = max(0, top - z.emax + 1 + rest.size.bit_length()) + rng.integers(
        0, int(rng.choice([3, 12, 40])), (rows, k)
    )
    below[:, places[: 2 * pairs]] = 0
    a = _of_exponents(rng, x, np.maximum(left - below, x.emin))
    b = _of_exponents(rng, x, np.full((k, columns), right))
    a[:, other], b[other] = -a[:, one], b[one]
    a[np.ix_(rng.random(rows) < 0.3, rest)] = 0
    c = _of_any_exponent(rng, z, (rows, columns))
    c[rng.random(c.shape) < 0.4] = 0
    return Question(operation.codes(a), operation.codes(b), c)


def zeros_by_place(
    operation: Operation, rng: np.random.Generator, rows: int = ROWS, columns: int = COLUMNS
) -> Question:
    """Every row of A, every column of B or both with zeros at places of its own, and nowhere else: a unit may leave such out."""
    x, z, k = operation.input, operation.output, operation.k
    side = rng.integers(0, 3)
    kept = [
        np.stack([_places(rng, k) for _ in range(count)]) | (side == full)
        for count, full in ((rows, 0), (columns, 1))
    ]
    if x.is_float:
        span = int(rng.choice([0, 3, 8, 14]))
        a, b = (
            operation.codes(_of_exponents(rng, x, np.clip(rng.integers(-span, 2, shape), x.emin, x.emax - 1)))
            for shape in ((rows, k), (k, columns))
        )
        c = np.ldexp(_signs(rng, (rows, columns)), rng.integers(-span, 2, (rows, columns)))
        added = operation.output_codes(np.where(rng.random(c.shape) < 0.5, c, 0.0))
    else:
        a, b = (
            rng.integers(1, 1 << x.bits, shape).astype(x.code_dtype) for shape in ((rows, k), (k, columns))
        )
        added = rng.integers(0, 1 << z.bits, (rows, columns)).astype(z.code_dtype)
    return Question(np.where(kept[0], a, a.dtype.type(0)), np.where(kept[1].T, b, b.dtype.type(0)), added)


def _places(rng: np.random.Generator, k: int) -> np.ndarray:
    """One place, in half of the cases; a half, a quarter ... of all, the same places of every few, any; or all others."""
    found, kind = np.zeros(k, bool), int(rng.choice([0, 0, 0, 1, 2, 2, 3]))
    if kind == 0:
        found[rng.integers(0, k)] = True
    elif kind == 1:
        length = max(1, k >> int(rng.integers(1, max(2, k.bit_length() - 1))))
        start = int(rng.integers(0, k)) // length * length
        found[start : start + length] = True
    elif kind == 2:
        every = rng.permutation(int(rng.choice([2, 4, 4, 8])))
        found[:] = np.resize(
            every < (every.size // 2 if rng.random() < 0.6 else rng.integers(1, every.size)), k
        )
    else:
        found[:] = rng.random(k) < rng.random()
    return found if rng.random() < 0.5 else ~found


def _of_exponents(rng: np.random.Generator, fmt: Format, exponents: np.ndarray) -> np.ndarray:
    fraction = 1 + rng.integers(0, 1 << fmt.fraction_bits, exponents.shape) / (1 << fmt.fraction_bits)
    return np.asarray(np.ldexp(fraction, exponents) * _signs(rng, exponents.shape))


def _of_any_exponent(rng: np.random.Generator, fmt: Format, shape: tuple[int, ...]) -> Codes:
    """Any fraction beside any exponent of a finite number, one in four that of subnormal numbers."""
    field = rng.integers(0, fmt.emax - fmt.emin + 2, shape).astype(np.uint64)
    field[rng.random(shape) < 0.25] = 0
    fraction = rng.integers(0, 1 << fmt.fraction_bits, shape, dtype=np.uint64)
    sign = rng.integers(0, 2, shape).astype(np.uint64) << np.uint64(fmt.bits - 1)
    return (sign | field << np.uint64(fmt.fraction_bits) | fraction).astype(fmt.code_dtype)


def _windows_of_a_tie(
    operation: Operation, rng: np.random.Generator, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and a column whose sums mostly have as many bits as a tie: shared out among fractions and windows of exponents."""
    x, y, z, k = operation.input, operation.right, operation.output, operation.k
    if rng.random() < 0.5 and k * x.max_finite * y.max_finite < z.max_finite:
        return _largest_beside_the_smallest(operation, rng, rows)
    bits = [int(rng.integers(0, fmt.fraction_bits + 1)) for fmt in (x, y)]
    spread = max(0, z.fraction_bits + 1 - sum(bits) - int(rng.integers(0, k.bit_length() + 1)))
    windows = [int(rng.integers(0, spread + 1))]
    windows.append(spread - windows[0])
    one_sign = rng.random() < 0.5
    found = []
    for fmt, shape, j, window in zip((x, y), ((rows, k), (k,)), bits, windows, strict=True):
        window = min(window, fmt.emax - 1 - fmt.emin)
        low = int(np.clip(rng.integers(-window, 2), fmt.emin, fmt.emax - 1 - window))
        fraction = 1 + rng.integers(0, 1 << j, shape) / (1 << j)
        values = fraction * 2.0 ** rng.integers(low, low + window + 1, shape)
        found.append(values if one_sign else values * _signs(rng, shape))
    found[0][rng.random((rows, k)) < 0.3 * rng.random()] = 0
    return found[0], found[1]


def _largest_beside_the_smallest(
    operation: Operation, rng: np.random.Generator, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Products in the highest binade, and one in the lowest: of e2m1 no other sums are long enough for a tie of binary16."""
    place, found = int(rng.integers(0, operation.k)), []
    for fmt, shape in ((operation.input, (rows, operation.k)), (operation.right, (operation.k,))):
        fraction = 1 + rng.integers(0, 1 << fmt.fraction_bits, shape) / (1 << fmt.fraction_bits)
        values = np.minimum(fraction * 2.0**fmt.emax, fmt.max_finite)
        odd = 1 + 2 * rng.integers(0, 1 << fmt.fraction_bits, shape)
        values[..., place] = (odd * fmt.min_subnormal)[..., place]
        found.append(values)
    return found[0], found[1]


def _full(rng: np.random.Generator, operation: Operation, shape: tuple[int, ...]) -> np.ndarray:
    """Significands within a few last places of 2."""
    most = min(4, 1 << operation.input.fraction_bits)
    return np.asarray(2 - rng.integers(1, most + 1, shape) * 2.0**-operation.input.fraction_bits)


def _signs(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    return rng.choice([-1.0, 1.0], shape)
