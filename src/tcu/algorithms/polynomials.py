"""A polynomial at many points on the (m, ℓ)-TCU machine: Theorem 7 of Silvestri and Vella, section 4.5.

The powers 0 ... √m - 1 of all points are one tall left matrix; the coefficients,
√m to a column, are right matrices.  What comes out is, for each point, a
polynomial in its √m-th power, whose terms are then added in pairs, pairs of
pairs, and so on.  No power higher than the polynomial's own degree is ever
made, so nothing overflows that x^degree does not.
"""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tcu.algorithms.integer_plan import digit_bits
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.format import get_format
from tcu.machine import Machine
from tcu.machine.shapes import ShapeArray, empty, zeros
from tcu.plan.polyval import polynomial_error_bound

__all__ = ["COLUMNS", "evaluate", "evaluate_error_bound", "polynomial_bound"]

COLUMNS = 256
"""Columns of products that exist at a time, so that memory grows with the points and not with the degree."""
_INT64_MODULUS = 1 << 31
"""Residues below 2^31 have products below 2^62."""


def evaluate(machine: Machine, coefficients: Any, points: Any, *, modulus: int | None = None) -> Any:
    """a_0 + a_1 x + ... + a_{n-1} x^{n-1} at every point x.

    Parameters
    ----------
    machine:
        Where it runs: of binary64, or for a modulus of integers.
    coefficients:
        (n,) real numbers, a_0 first; integers for a modulus.
    points:
        Real numbers of any shape; integers for a modulus.
    modulus:
        None: in binary64, with the error of :func:`evaluate_error_bound`.  An
        integer of at least 2: the exact value modulo it.

    Returns
    -------
    An array of the points' shape: float64, or integers in [0, modulus), as
    int64 below 2^31 and as Python integers above.

    Raises
    ------
    ShapeError:
        Coefficients that are no vector.
    DtypeError:
        Complex numbers; numbers other than integers for a modulus; a unit
        without binary64.
    ParameterError:
        A modulus below 2; a unit without integers for a modulus.
    """
    ring = _Reals(machine) if modulus is None else _Residues(machine, modulus)
    with machine.section("evaluate"):
        a, x = ring.array("coefficients", coefficients), ring.array("points", points)
        if a.ndim != 1:
            raise ShapeError(f"coefficients of shape {a.shape}: give a vector, the constant term first")
        a = machine.cpu.total(_trimmed, a, name="find the degree")
        if a.size == 0 or x.size == 0:
            return zeros(x.shape, ring.dtype, like=x)
        return _evaluate(machine, ring, a, x.reshape(x.size)).reshape(x.shape)


def _trimmed(a: Any) -> Any:
    """Without zeros of the highest powers, which could overflow for nothing."""
    return a[: int(np.max(np.nonzero(a)[0], initial=-1)) + 1] if isinstance(a, np.ndarray) else a


class _Ring(Protocol):
    """Numbers in which a polynomial is evaluated, each operation charged."""

    dtype: Any

    def array(self, label: str, values: Any) -> Any: ...
    def times(self, x: Any, y: Any, **out: Any) -> Any: ...
    def plus_times(self, x: Any, y: Any, z: Any, **out: Any) -> Any: ...
    def powers(self, x: Any, width: int) -> Any: ...
    def in_pairs(self, values: Any, base: Any) -> Any: ...
    def product(self, x: Any, a: Any) -> Any: ...


def _evaluate(machine: Machine, ring: _Ring, a: Any, x: Any) -> Any:
    side, n, count = machine.side, a.shape[0], x.shape[0]
    width = min(side, n)
    powers = ring.powers(x, width)
    if n <= side:
        return ring.product(powers, a[:, None])[:, 0]
    base = ring.times(powers[:, side - 1], x)  # x^√m
    blocks = n // side**2
    rest = a[blocks * side**2 :]
    total = empty((blocks + (rest.size > 0), count), ring.dtype, like=x)

    def evaluate_blocks(first: int, last: int) -> None:
        matrices = a[first * side**2 : last * side**2].reshape(last - first, side, side).swapaxes(1, 2)
        product = np.moveaxis(ring.product(powers, matrices), -1, 0)
        machine.cpu.put(total[first:last], ring.in_pairs(product, base), "keep sums")

    at_once = max(1, COLUMNS // side)
    full = blocks // at_once
    for i in machine.turns(full):
        evaluate_blocks(i * at_once, (i + 1) * at_once)
    if full * at_once < blocks:
        evaluate_blocks(full * at_once, blocks)
    if rest.size:
        columns = -(-rest.size // side)
        matrix = machine.cpu.padded(rest, (columns * side,))
        product = ring.product(powers, matrix.reshape(columns, side).T)
        machine.cpu.put(total[blocks], ring.in_pairs(product.T, base), "keep sums")
    if total.shape[0] == 1:
        return total[0]
    return ring.in_pairs(total, _power(ring, base, side))


def _doubled(machine: Machine, ring: _Ring, x: Any, width: int) -> Any:
    """(points, width): x^0 ... x^(width - 1), each by products of powers that sum up to it."""
    result = empty((x.shape[0], width), ring.dtype, like=x)
    machine.cpu.put(result[:, 0], 1, "powers")
    done, top = 1, x
    while done < width:
        size = min(done, width - done)
        ring.times(result[:, :size], top[:, None], out=result[:, done : done + size])
        done += size
        if done < width:
            top = ring.times(top, top)
    return result


def _power(ring: _Ring, x: Any, exponent: int) -> Any:
    """x^exponent by squaring."""
    result = x
    for bit in bin(exponent)[3:]:
        result = ring.times(result, result)
        if bit == "1":
            result = ring.times(result, x)
    return result


def _in_pairs(machine: Machine, ring: _Ring, values: Any, base: Any) -> Any:
    """The sum over i of values[i]·base^i, in pairs."""
    while (count := values.shape[0]) > 1:
        even, odd = values[0 : count - 1 : 2], values[1::2]
        paired = empty(values[: -(-count // 2)].shape, ring.dtype, like=values)
        ring.plus_times(even, odd, base, out=paired[: count // 2])
        if count % 2:
            machine.cpu.put(paired[count // 2], values[count - 1], "add in pairs")
        values = paired
        if values.shape[0] > 1:
            base = ring.times(base, base)
    return values[0]


def _steps_of_powers(machine: Machine, x: Any, width: int) -> None:
    _doubled(machine, _Reals(machine), x, width)


def _steps_of_pairs(machine: Machine, values: Any, base: Any) -> None:
    _in_pairs(machine, _Reals(machine), values, base)


class _Reals:
    dtype = np.dtype(np.float64)

    def __init__(self, machine: Machine) -> None:
        dtypes = machine.executor.dtypes
        if dtypes.result != np.float64 or dtypes.operand not in (None, np.dtype(np.float64)):
            raise DtypeError(
                f"{machine.executor!r} multiplies {dtypes.operand}: evaluate needs a unit of binary64, "
                "or a modulus and a unit of integers"
            )
        self._machine = machine

    def array(self, label: str, values: Any) -> Any:
        array = self._machine.array(values)
        if array.dtype.kind not in "fiubV":
            raise DtypeError(f"{label} of dtype {array.dtype}: give real numbers")
        return self._machine.stored(array, np.float64)

    def times(self, x: Any, y: Any, **out: Any) -> Any:
        return self._machine.cpu.each(np.multiply, x, y, name="powers", **out)

    def plus_times(self, x: Any, y: Any, z: Any, **out: Any) -> Any:
        cpu = self._machine.cpu
        product = cpu.each(np.multiply, y, z, name="add in pairs")
        return cpu.each(np.add, x, product, name="add in pairs", **out)

    def powers(self, x: Any, width: int) -> Any:
        found = self._machine.executor.powers(x, width)
        if found is None:
            return _doubled(self._machine, self, x, width)
        self._machine.charge_as(_steps_of_powers, x, width)
        return found

    def in_pairs(self, values: Any, base: Any) -> Any:
        found = self._machine.executor.add_in_pairs(values, base)
        if found is None:
            return _in_pairs(self._machine, self, values, base)
        self._machine.charge_as(_steps_of_pairs, values, base)
        return found

    def product(self, x: Any, a: Any) -> Any:
        return self._machine.tall_multiply(x, a, name="powers times coefficients")


class _Residues:
    def __init__(self, machine: Machine, modulus: int) -> None:
        if isinstance(modulus, bool) or not isinstance(modulus, int | np.integer) or modulus < 2:
            raise ParameterError(f"modulus={modulus!r}: give an integer of at least 2")
        if machine.executor.dtypes.integer_bits < 1:
            raise ParameterError(
                f"{machine.executor!r} takes no integers without rounding: take a unit of integers"
            )
        self._machine = machine
        self._q = int(modulus)
        self._bits = digit_bits(machine)
        self._digits = -(-(self._q - 1).bit_length() // self._bits)
        self.dtype = np.dtype(np.int64 if modulus <= _INT64_MODULUS else object)

    def array(self, label: str, values: Any) -> Any:
        array = self._machine.array(values)
        if not isinstance(array, ShapeArray) and (
            array.dtype.kind not in "iuO"
            or (array.dtype.kind == "O" and not all(isinstance(v, int) for v in array.flat))
        ):
            raise DtypeError(f"{label} of dtype {array.dtype}: give integers for a modulus")
        # Python's integers: uint64 has no place in int64, and NumPy's none for a modulus beyond it.
        wide = array.dtype == np.uint64 or array.dtype.kind == "O" or self.dtype == object
        array = self._machine.stored(array, object if wide else np.int64)
        return self._machine.stored(
            self._machine.cpu.each(operator.mod, array, self._q, name="residues"), self.dtype
        )

    def times(self, x: Any, y: Any, **out: Any) -> Any:
        cpu = self._machine.cpu
        return cpu.each(
            np.remainder, cpu.each(np.multiply, x, y, name="powers"), self._q, name="powers", **out
        )

    def plus_times(self, x: Any, y: Any, z: Any, **out: Any) -> Any:
        cpu, name = self._machine.cpu, "add in pairs"
        total = cpu.each(np.add, x, cpu.each(np.multiply, y, z, name=name), name=name)
        return cpu.each(np.remainder, total, self._q, name=name, **out)

    def powers(self, x: Any, width: int) -> Any:
        return _doubled(self._machine, self, x, width)

    def in_pairs(self, values: Any, base: Any) -> Any:
        return _in_pairs(self._machine, self, values, base)

    def product(self, x: Any, a: Any) -> Any:
        """Digit by digit: all digits of x below each other in one tall operand, one call for each of a."""
        machine, bits, digits = self._machine, self._bits, self._digits
        count = x.shape[0]
        stacked = self._digit(x, 0)
        if digits > 1:
            rest = [self._digit(x, d) for d in range(1, digits)]
            stacked = machine.cpu.each(np.concatenate, [stacked, *rest], name="cut digits")
        parts = [
            machine.tall_multiply(stacked, self._digit(a, e), name="powers times coefficients")
            for e in range(digits)
        ]
        each = partial(machine.cpu.each, name="join digits")
        total: Any = None
        for order in reversed(range(2 * digits - 1)):
            if total is not None:
                total = each(operator.mul, total, 1 << bits)
            for e in range(max(0, order - digits + 1), min(order, digits - 1) + 1):
                d = order - e
                part = machine.stored(parts[e][..., d * count : (d + 1) * count, :], self.dtype)
                total = part if total is None else each(operator.add, total, part)
            total = each(operator.mod, total, self._q)
        return total

    def _digit(self, x: Any, index: int) -> Any:
        if self._digits > 1:
            each = partial(self._machine.cpu.each, name="cut digits")
            shifted = each(operator.rshift, x, index * self._bits) if index else x
            x = each(operator.and_, shifted, (1 << self._bits) - 1)
        operand = self._machine.executor.dtypes.operand
        return self._machine.stored(x, np.int64 if operand is None or operand.kind not in "iu" else operand)


def evaluate_error_bound(
    machine: Machine, coefficients: npt.ArrayLike, points: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """A bound on |evaluate(...) - exact value| at every point, without a modulus.

    That of :func:`tcu.plan.polynomial_error_bound` with N = n + √m + 2⌈log₂(n / √m)⌉ + 4: at most n roundings for a power,
    √m for a sum of the unit, in whatever order, and two for each level of pairs.
    """
    a = _trimmed(np.asarray(coefficients, np.float64))
    n = max(a.size, 1)
    roundings = n + machine.side + 2 * math.ceil(math.log2(max(n / machine.side, 1))) + 4
    return polynomial_error_bound(a, np.asarray(points, np.float64), roundings, get_format("binary64"))


def polynomial_bound(machine: MachineLike, n: int, points: int) -> float:
    """pn / √m + p√m + n / m·ℓ of Theorem 7, for p points and n coefficients."""
    m, latency = parameters(machine)
    return points * n / math.sqrt(m) + points * math.sqrt(m) + n / m * latency
