"""Products of long integers on the (m, ℓ)-TCU machine: Theorems 5 and 6 of Silvestri and Vella, section 4.4.

Theorem 5 is the schoolbook's algorithm: integers are polynomials in 2^w whose
coefficients are digits of w bits.  All windows of √m digits of one factor are
the rows of a tall left matrix; the digits of the other, √m at a time, are the
columns of right matrices.  Theorem 6 is Karatsuba's recursion on top, here
breadth first: all subproblems of one depth are one batch of digits.

No overflow is possible.  Digits are so short that √m products of two of them
are below what the unit and a word hold, and the sums of the recursion are
carried before they are not: ``digit_bits`` and ``Plan`` bound them in integers.
"""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np

from tcu.algorithms.digits import carried, from_digits, to_digits
from tcu.algorithms.integer_plan import Algorithm, Plan, carried_bound, plan_of
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine import Machine
from tcu.machine.shapes import ShapeArray, zeros

__all__ = [
    "Algorithm",
    "integer_multiply",
    "karatsuba_bound",
    "karatsuba_bound_of_calls",
    "multiply",
    "schoolbook_bound",
]

_ENTRIES = 1 << 22
"""Of products of digits at a time, where right matrices are small: enough for a GPU, few enough for a cache."""
_DEFAULT = (4096, 4096)
"""m and latency of the machine behind :func:`multiply`: measured the fastest for 10^4 to 10^7 bits with NumPy's BLAS."""


def multiply(a: Any, b: Any, *, machine: Machine | None = None, algorithm: Algorithm = "auto") -> Any:
    """a·b of integers of any size and sign, exactly, through products of matrices.

    Parameters
    ----------
    a, b:
        Python integers, or arrays (lists, NumPy arrays of integers or of
        Python integers as objects), which broadcast.
    machine:
        Where it runs; None: an ideal machine of its own.
    algorithm:
        "schoolbook" (Theorem 5), "karatsuba" (Theorem 6), or "auto", the
        cheaper one on that machine, to the depth that is the cheapest.

    Returns
    -------
    An int, or an array of Python integers (dtype object).

    Raises
    ------
    DtypeError:
        Anything but integers.
    ShapeError:
        Arrays that do not broadcast.
    ParameterError:
        No such algorithm; a unit or words too narrow for digits of one bit
        (of two for Karatsuba).
    """
    return integer_multiply(Machine(*_DEFAULT) if machine is None else machine, a, b, algorithm=algorithm)


def integer_multiply(machine: Machine, a: Any, b: Any, *, algorithm: Algorithm = "auto") -> Any:
    """:func:`multiply` with the machine first, as all algorithms have it.

    On a machine that only counts, ``machine.shape(n, bool)`` stands for an
    integer of n bits, and a shape comes back.
    """
    if algorithm not in get_args(Algorithm):
        raise ParameterError(f"algorithm={algorithm!r}: choose one of {', '.join(get_args(Algorithm))}")
    if isinstance(a, ShapeArray) or isinstance(b, ShapeArray):
        return _counted(machine, ShapeArray.of(a), ShapeArray.of(b), algorithm)
    x, y = _integers("a", a), _integers("b", b)
    try:
        x, y = np.broadcast_arrays(x, y)
    except ValueError:
        raise ShapeError(f"a {x.shape}, b {y.shape}: the arrays do not broadcast") from None
    left, right = [abs(n) for n in x.flat], [abs(n) for n in y.flat]
    longest = [max(1, *(n.bit_length() for n in numbers), 1) for numbers in (left, right)]
    if longest[0] < longest[1]:
        left, right, longest = right, left, longest[::-1]
    plan = plan_of(machine, longest[0], longest[1], algorithm)
    factors = (to_digits(left, plan.longer, plan.bits), to_digits(right, plan.shorter, plan.bits))
    first, second = (machine.place(x) for x in factors)
    digits = _run(machine, first, second, plan)
    if isinstance(digits, ShapeArray):
        return digits
    products = from_digits(digits if isinstance(digits, np.ndarray) else digits.get(), plan.bits)
    signs = [-1 if (p < 0) != (q < 0) else 1 for p, q in zip(x.flat, y.flat, strict=True)]
    result = np.empty(x.shape, object)
    result.flat[:] = [sign * product for sign, product in zip(signs, products, strict=True)]
    return result if x.shape else result.item()


def _integers(label: str, value: Any) -> Any:
    """The value as an array of Python integers."""
    array = value if isinstance(value, np.ndarray) else _objects(value)
    if array.dtype.kind in "iu":
        return array.astype(object)
    for number in array.flat:
        if isinstance(number, bool | np.bool_) or not isinstance(number, int | np.integer):
            raise DtypeError(f"{label} holds {number!r}, a {type(number).__name__}: give integers")
    result = np.empty(array.shape, object)
    result.flat[:] = [int(number) for number in array.flat]
    return result


def _objects(value: Any) -> Any:
    try:
        return np.array(value, object)
    except ValueError:
        raise ShapeError(
            "a list of lists of different lengths is no array: give rows of one length"
        ) from None


def _counted(machine: Machine, a: ShapeArray, b: ShapeArray, algorithm: Algorithm) -> ShapeArray:
    if machine.executor.computes:
        raise ParameterError(f"{machine!r} computes: give integers, or take executor='count' for shapes")
    longer, shorter = sorted((max(1, a.size), max(1, b.size)), reverse=True)
    plan = plan_of(machine, longer, shorter, algorithm)
    _run(machine, ShapeArray((1, plan.longer), np.int64), ShapeArray((1, plan.shorter), np.int64), plan)
    return ShapeArray(a.size + b.size, bool)


def _run(machine: Machine, a: Any, b: Any, plan: Plan) -> Any:
    """(batch, digits): what :func:`from_digits` makes the products of."""
    if machine.word_bits > 64 and machine.executor.computes:
        a, b = a.astype(object), b.astype(object)
    elif plan.depth:  # whose sums are longer than digits
        a, b = a.astype(np.int64), b.astype(np.int64)
    bound = (1 << plan.bits) - 1
    if not plan.depth:
        with machine.section("schoolbook product"):
            result = _schoolbook(machine, a, b)
            machine.step(3 * result.size, "carry")
            return result
    batch, size = b.shape
    with machine.section("Karatsuba product"):
        left = a.reshape(batch * plan.pieces, size)
        right = np.repeat(b, plan.pieces, axis=0)
        parts, _ = _karatsuba(machine, left, right, plan, plan.depth, (bound, bound))
        if plan.pieces > 1:
            parts = _joined(machine, parts.reshape(batch, plan.pieces, parts.shape[1]), size)
        machine.step(3 * parts.size, "carry")
        return parts


def _joined(machine: Machine, parts: Any, size: int) -> Any:
    """Products of consecutive pieces, each ``size`` digits further up than the one before."""
    batch, pieces, length = parts.shape
    result = zeros((batch, (pieces - 1) * size + length), parts.dtype, like=parts)
    for i in machine.turns(pieces):
        result[:, i * size : i * size + length] += parts[:, i]
    machine.step(parts.size, "join pieces")
    return result


def _schoolbook(machine: Machine, a: Any, b: Any) -> Any:
    """Coefficients of the products of (batch, na) and (batch, nb) digits, by Theorem 5.

    Row i of the left matrix is the window a[i - √m + 1 ... i]; column j of the
    right ones is the j-th √m digits of b, reversed: their product belongs to
    digit i + j·√m.
    """
    side = machine.side
    (batch, na), nb = a.shape, b.shape[1]
    columns = -(-nb // side)
    rows = na + side - 1
    strips = -(-rows // side)
    padded = zeros((batch, na + 2 * (side - 1)), _operand_dtype(machine, a), like=a)
    padded[:, side - 1 : side - 1 + na] = a
    windows = np.lib.stride_tricks.sliding_window_view(padded, side, axis=1)[:, None]
    right = zeros((batch, columns * side), padded.dtype, like=b)
    right[:, :nb] = b
    right = right.reshape(batch, columns, side)
    result = zeros((batch, columns + strips, side), _sum_dtype(a), like=a)
    together = _ENTRIES // max(1, batch * rows * side) if machine.executor.computes else columns
    first = 0
    while first < columns:
        # Full right matrices, as many as may be at a time; then the one that is not full.
        blocks = max(1, min(together, (columns - first) // side))
        width = min(side, columns - first)
        last = first + blocks * width
        matrices = right[:, first:last].reshape(batch, blocks, width, side)[..., ::-1].swapaxes(2, 3)
        product = machine.tall_multiply(windows, matrices, name="windows times digits")
        machine.step(batch * rows * (last - first), "add columns")
        if not machine.executor.add_antidiagonals(result, product, first):
            _add_columns(result, product, first)
        first = last
    return result.reshape(batch, (columns + strips) * side)


def _add_columns(result: Any, product: Any, first: int) -> None:
    """Adds column j of block g of (batch, blocks, rows, columns) to ``result`` from strip first + g·columns + j on."""
    if isinstance(product, ShapeArray):
        return
    batch, blocks, rows, columns = product.shape
    side = result.shape[2]
    strips = -(-rows // side)
    upright = zeros((blocks, columns, batch, strips * side), result.dtype, like=result)
    upright[..., :rows] = product.transpose(1, 3, 0, 2)
    upright = upright.reshape(blocks * columns, batch, strips, side)
    for j in range(blocks * columns):
        result[:, first + j : first + j + strips] += upright[j]


def _operand_dtype(machine: Machine, digits: Any) -> Any:
    """What the unit takes, where digits are that already: windows of them need no pass over memory of their own.

    That they fit, and that their sums are exact, is what the plan is made for.
    """
    operand = machine.executor.dtypes.operand
    if operand is None or (operand.kind == "f" and digits.dtype == object):
        return digits.dtype
    return operand if operand.kind in "iuf" else digits.dtype


def _sum_dtype(digits: Any) -> Any:
    return object if digits.dtype == object else np.int64


def _karatsuba(
    machine: Machine, a: Any, b: Any, plan: Plan, depth: int, bounds: tuple[int, int]
) -> tuple[Any, int]:
    """Digits of the products of (batch, size) digits, not carried, and a bound on their magnitude.

    bounds: of the digits of a and of b.
    """
    if depth == 0:
        return _schoolbook(machine, a, b), a.shape[1] * bounds[0] * bounds[1]
    batch, size = a.shape
    half = -(-size // 2)
    with machine.section("Karatsuba"):
        left, top_a = _thirds(machine, a, half, bounds[0], plan)
        right, top_b = _thirds(machine, b, half, bounds[1], plan)
        width = max(left.shape[2], right.shape[2])
        left, right = (_widened(x, width).reshape(3 * batch, width) for x in (left, right))
        parts, bound = _karatsuba(machine, left, right, plan, depth - 1, (top_a, top_b))
        # Three products meet in a digit: one as it is, and the middle one, of which two are subtracted.
        while 5 * bound >= plan.coefficients:
            machine.step(3 * parts.size, "carry")
            parts, bound = carried(parts, plan.bits), carried_bound(bound, plan.bits)
        low, high, middle = parts[:batch], parts[batch : 2 * batch], parts[2 * batch :]
        length = parts.shape[1]
        result = zeros((batch, 2 * half + length), parts.dtype, like=parts)
        result[:, :length] = low
        result[:, 2 * half :] += high
        result[:, half : half + length] += middle - low - high
        machine.step(5 * low.size, "put products together")
    return result, 5 * bound


def _thirds(machine: Machine, x: Any, half: int, bound: int, plan: Plan) -> tuple[Any, int]:
    """(3, batch, digits): low half, high half, their sum; and the largest digit."""
    batch, size = x.shape
    low, high = x[:, :half], _widened(x[:, half:], half)
    machine.step(batch * (size - half), "add halves")
    total, top = low + high, 2 * bound
    if top > plan.limit:
        machine.step(3 * total.size, "carry")
        total, top = carried(total, plan.bits), carried_bound(top, plan.bits)
    width = total.shape[-1]
    return np.stack([_widened(low, width), _widened(high, width), total]), max(top, bound)


def _widened(x: Any, width: int) -> Any:
    if x.shape[-1] == width:
        return x
    result = zeros((*x.shape[:-1], width), x.dtype, like=x)
    result[..., : x.shape[-1]] = x
    return result


def schoolbook_bound(machine: MachineLike, bits: int, word_bits: int = 64) -> float:
    """n² / (κ²√m) + n / (κm)·ℓ of Theorem 5, for n = ``bits``.  ``word_bits`` is that of a machine given."""
    m, latency = parameters(machine)
    words = bits / _word_bits(machine, word_bits)
    return words**2 / math.sqrt(m) + words / m * latency


def karatsuba_bound(machine: MachineLike, bits: int, word_bits: int = 64) -> float:
    """(n / (κ√m))^(log₂ 3) · (√m + ℓ / √m) of Theorem 6, for n = ``bits``.

    The proof charges √m + ℓ / √m for a product of κ√m bits, which is less
    than the m + ℓ of a single tensor call: Theorem 5 needs n ≥ κm, where its
    right matrices are full.  :func:`karatsuba_bound_of_calls` ends the
    recursion there.
    """
    m, latency = parameters(machine)
    words = bits / _word_bits(machine, word_bits)
    side = math.sqrt(m)
    return float((words / side) ** math.log2(3) * (side + latency / side))


def karatsuba_bound_of_calls(machine: MachineLike, bits: int, word_bits: int = 64) -> float:
    """(n / (κm))^(log₂ 3) · (m^{3/2} + ℓ): Theorem 6 with its recursion ended at full right matrices.

    Against :func:`karatsuba_bound`, m^0.21 times as much for the products, and
    m^-0.29 times the latency.
    """
    m, latency = parameters(machine)
    words = bits / _word_bits(machine, word_bits)
    return float((words / m) ** math.log2(3) * (m**1.5 + latency))


def _word_bits(machine: MachineLike, word_bits: int) -> int:
    return machine.word_bits if isinstance(machine, Machine) else word_bits
