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
import operator
from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import numpy as np

from tcu.algorithms.digits import carried, from_digits, to_digits
from tcu.algorithms.integer_plan import Algorithm, Plan, carried_bound, plan_of
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.errors import ParameterError
from tcu.integers.operands import broadcast, integers_of
from tcu.machine import Machine
from tcu.machine.shapes import ShapeArray, empty

__all__ = [
    "Algorithm",
    "integer_multiply",
    "karatsuba_bound",
    "karatsuba_bound_of_calls",
    "schoolbook_bound",
]

_ENTRIES = 1 << 22
"""Of products of digits at a time, where right matrices are small: enough for a GPU, few enough for a cache."""


def integer_multiply(machine: Machine, a: Any, b: Any, *, algorithm: Algorithm = "auto") -> Any:
    """a·b of integers of any size and sign, exactly, through products of matrices.

    Parameters
    ----------
    machine:
        Where it runs.  On one that only counts, ``machine.shape(n, bool)`` stands for an integer of n bits, and a
        shape comes back.
    a, b:
        Python integers, or arrays (lists, NumPy arrays of integers or of
        Python integers as objects), which broadcast.
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
    if algorithm not in get_args(Algorithm):
        raise ParameterError(f"algorithm={algorithm!r}: choose one of {', '.join(get_args(Algorithm))}")
    if isinstance(a, ShapeArray) or isinstance(b, ShapeArray):
        return _counted(machine, ShapeArray.of(a), ShapeArray.of(b), algorithm)
    x, y = broadcast(a=integers_of("a", a), b=integers_of("b", b))
    left, right = [abs(n) for n in x.flat], [abs(n) for n in y.flat]
    longest = [max(1, *(n.bit_length() for n in numbers), 1) for numbers in (left, right)]
    if longest[0] < longest[1]:
        left, right, longest = right, left, longest[::-1]
    plan = plan_of(machine, longest[0], longest[1], algorithm)
    products = _run(
        machine,
        lambda: machine.place(to_digits(left, plan.longer, plan.bits)),
        lambda: machine.place(to_digits(right, plan.shorter, plan.bits)),
        plan,
    )
    if isinstance(products, ShapeArray):
        return products
    signs = [-1 if (p < 0) != (q < 0) else 1 for p, q in zip(x.flat, y.flat, strict=True)]
    result = np.empty(x.shape, object)
    result.flat[:] = [sign * product for sign, product in zip(signs, products, strict=True)]
    return result if x.shape else result.item()


def _counted(machine: Machine, a: ShapeArray, b: ShapeArray, algorithm: Algorithm) -> ShapeArray:
    if machine.executor.computes:
        raise ParameterError(f"{machine!r} computes: give integers, or take executor='count' for shapes")
    longer, shorter = sorted((max(1, a.size), max(1, b.size)), reverse=True)
    plan = plan_of(machine, longer, shorter, algorithm)
    first, second = (partial(ShapeArray, (1, length), np.int64) for length in (plan.longer, plan.shorter))
    _run(machine, first, second, plan)
    return ShapeArray(a.size + b.size, bool)


def _run(machine: Machine, first: Callable[[], Any], second: Callable[[], Any], plan: Plan) -> Any:
    """The products of integers of which ``first`` and ``second`` cut the digits: (batch, digits) of each."""
    cpu = machine.cpu
    with machine.section("Karatsuba product" if plan.depth else "schoolbook product"):
        # A shift and a mask for each digit.
        a, b = (cpu.each(cut, name="cut digits", work=2) for cut in (first, second))
        if machine.word_bits > 64 and machine.executor.computes:
            a, b = machine.stored(a, object), machine.stored(b, object)
        elif plan.depth:  # whose sums are longer than digits
            a, b = machine.stored(a, np.int64), machine.stored(b, np.int64)
        result = _pieces(machine, a, b, plan) if plan.depth else _schoolbook(machine, a, b)
        # For each digit what is carried into it is added; a shift and a mask part it from what is carried on.
        return cpu.total(_numbers, result, plan.bits, name="carry", work=3)


def _numbers(digits: Any, bits: int) -> Any:
    if isinstance(digits, ShapeArray):
        return digits
    return from_digits(digits if type(digits) is np.ndarray else digits.get(), bits)


def _pieces(machine: Machine, a: Any, b: Any, plan: Plan) -> Any:
    """Karatsuba's recursion on pieces of a that are as long as b."""
    batch, size = b.shape
    bound = (1 << plan.bits) - 1
    if plan.pieces > 1:
        a = a.reshape(batch * plan.pieces, size)
        b = machine.cpu.each(partial(np.repeat, axis=0), b, plan.pieces, name="repeat for pieces")
    parts, _ = _karatsuba(machine, a, b, plan, plan.depth, (bound, bound))
    if plan.pieces > 1:
        parts = _joined(machine, parts.reshape(batch, plan.pieces, parts.shape[1]), size)
    return parts


def _joined(machine: Machine, parts: Any, size: int) -> Any:
    """Products of consecutive pieces, each ``size`` digits further up than the one before."""
    batch, pieces, length = parts.shape
    result = machine.cpu.zeros(
        (batch, (pieces - 1) * size + length), parts.dtype, like=parts, name="join pieces"
    )
    for i in machine.turns(pieces):
        place = result[:, i * size : i * size + length]
        machine.cpu.update(operator.iadd, place, parts[:, i], name="join pieces")
    return result


def _schoolbook(machine: Machine, a: Any, b: Any) -> Any:
    """Coefficients of the products of (batch, na) and (batch, nb) digits, by Theorem 5.

    Row i of the left matrix is the window a[i - √m + 1 ... i]; column j of the
    right ones is the j-th √m digits of b, reversed: their product belongs to
    digit i + j·√m.
    """
    side, cpu = machine.side, machine.cpu
    (batch, na), nb = a.shape, b.shape[1]
    columns = -(-nb // side)
    rows = na + side - 1
    strips = -(-rows // side)
    operand = _operand_dtype(machine, a)
    padded = cpu.padded(machine.stored(a, operand), (batch, na + 2 * (side - 1)), at=(0, side - 1))
    # They overlap, so the unit has no strides for them: gathered once, though the host gets by with a view.
    windows = partial(np.lib.stride_tricks.sliding_window_view, axis=1)
    windows = cpu.each(windows, padded, side, name="gather windows")[:, None]
    right = cpu.padded(machine.stored(b, operand), (batch, columns * side)).reshape(batch, columns, side)
    result = cpu.zeros((batch, columns + strips, side), _sum_dtype(a), like=a, name="add columns")
    together = _ENTRIES // max(1, batch * rows * side) if machine.executor.computes else columns
    first = 0
    while first < columns:
        # Full right matrices, as many as may be at a time; then the one that is not full.
        blocks = max(1, min(together, (columns - first) // side))
        width = min(side, columns - first)
        last = first + blocks * width
        matrices = right[:, first:last].reshape(batch, blocks, width, side)[..., ::-1].swapaxes(2, 3)
        product = machine.tall_multiply(windows, matrices, name="windows times digits")
        if machine.executor.add_antidiagonals(result, product, first):
            machine.charge_as(_add_columns, result, product, first)
        else:
            _add_columns(machine, result, product, first)
        first = last
    return result.reshape(batch, (columns + strips) * side)


def _add_columns(machine: Machine, result: Any, product: Any, first: int) -> None:
    """Adds column j of block g of (batch, blocks, rows, columns) to ``result`` from strip first + g·columns + j on."""
    cpu = machine.cpu
    batch, blocks, rows, columns = product.shape
    side = result.shape[2]
    strips = -(-rows // side)
    upright = empty((blocks, columns, batch, strips * side), result.dtype, like=result)
    cpu.put(upright[..., :rows], product.transpose(1, 3, 0, 2), "set columns upright")
    cpu.put(upright[..., rows:], 0, "set columns upright")
    upright = upright.reshape(blocks * columns, batch, strips, side)
    for j in machine.turns(blocks * columns):
        place = result[:, first + j : first + j + strips]
        cpu.update(operator.iadd, place, upright[j], name="add columns")


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
    cpu = machine.cpu
    batch, size = a.shape
    half = -(-size // 2)
    with machine.section("Karatsuba"):
        left, top_a = _thirds(machine, a, half, bounds[0], plan)
        right, top_b = _thirds(machine, b, half, bounds[1], plan)
        width = max(left.shape[2], right.shape[2])
        left, right = (cpu.padded(x, (3, batch, width)).reshape(3 * batch, width) for x in (left, right))
        parts, bound = _karatsuba(machine, left, right, plan, depth - 1, (top_a, top_b))
        # Three products meet in a digit: one as it is, and the middle one, of which two are subtracted.
        while 5 * bound >= plan.coefficients:
            parts, bound = carried(machine, parts, plan.bits), carried_bound(bound, plan.bits)
        low, high, middle = parts[:batch], parts[batch : 2 * batch], parts[2 * batch :]
        length = parts.shape[1]
        name = "put products together"
        result = empty((batch, 2 * half + length), parts.dtype, like=parts)
        cpu.put(result[:, :length], low, name)
        cpu.put(result[:, length:], 0, name)
        cpu.update(operator.iadd, result[:, 2 * half :], high, name=name)
        inner = cpu.each(operator.sub, cpu.each(operator.sub, middle, low, name=name), high, name=name)
        cpu.update(operator.iadd, result[:, half : half + length], inner, name=name)
    return result, 5 * bound


def _thirds(machine: Machine, x: Any, half: int, bound: int, plan: Plan) -> tuple[Any, int]:
    """(3, batch, digits): low half, high half, their sum; and the largest digit."""
    cpu, batch = machine.cpu, x.shape[0]
    low, high = x[:, :half], cpu.padded(x[:, half:], (batch, half), name="add halves")
    total, top = cpu.each(operator.add, low, high, name="add halves"), 2 * bound
    if top > plan.limit:
        total, top = carried(machine, total, plan.bits), carried_bound(top, plan.bits)
    result = empty((3, *total.shape), x.dtype, like=x)
    for third, part in zip(result, (low, high, total), strict=True):
        cpu.put(third[:, : part.shape[1]], part, "take halves")
        cpu.put(third[:, part.shape[1] :], 0, "take halves")
    return result, max(top, bound)


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
