"""A polynomial at many points on the (m, ℓ)-TCU machine: Theorem 7 of Silvestri and Vella, section 4.5.

The powers 0 ... √m - 1 of all points are one tall left matrix; the coefficients,
√m to a column, are right matrices.  What comes out is, for each point, a
polynomial in its √m-th power, whose terms are then added in pairs, pairs of
pairs, and so on.  No power higher than the polynomial's own degree is ever
made, so nothing overflows that x^degree does not.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tcu.algorithms.integer_plan import digit_bits
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine import Machine
from tcu.machine.shapes import ShapeArray, empty, zeros

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
    a, x = ring.array("coefficients", coefficients), ring.array("points", points)
    if a.ndim != 1:
        raise ShapeError(f"coefficients of shape {a.shape}: give a vector, the constant term first")
    if isinstance(a, np.ndarray):
        a = _trimmed(a)
    if a.size == 0 or x.size == 0:
        return zeros(x.shape, ring.dtype, like=x)
    with machine.section("evaluate"):
        return _evaluate(machine, ring, a, x.reshape(x.size)).reshape(x.shape)


def _trimmed(a: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Without zeros of the highest powers, which could overflow for nothing."""
    return a[: int(np.max(np.nonzero(a)[0], initial=-1)) + 1]


class _Ring(Protocol):
    dtype: Any
    work: int
    """CPU operations of a product, and of a product and a sum."""

    def array(self, label: str, values: Any) -> Any: ...
    def times(self, x: Any, y: Any) -> Any: ...
    def plus_times(self, x: Any, y: Any, z: Any) -> Any: ...
    def powers(self, x: Any, width: int) -> Any: ...
    def in_pairs(self, values: Any, base: Any) -> Any: ...
    def product(self, x: Any, a: Any) -> Any: ...


def _evaluate(machine: Machine, ring: _Ring, a: Any, x: Any) -> Any:
    side, n, count = machine.side, a.shape[0], x.shape[0]
    width = min(side, n)
    powers = _powers(machine, ring, x, width)
    if n <= side:
        return ring.product(powers, a[:, None])[:, 0]
    base = ring.times(powers[:, side - 1], x)  # x^√m
    machine.step(count * ring.work, "powers")
    blocks = n // side**2
    rest = a[blocks * side**2 :]
    total = empty((blocks + (rest.size > 0), count), ring.dtype, like=x)

    def evaluate_blocks(first: int, last: int) -> None:
        matrices = a[first * side**2 : last * side**2].reshape(last - first, side, side).swapaxes(1, 2)
        product = np.moveaxis(ring.product(powers, matrices), -1, 0)
        total[first:last] = _paired(machine, ring, product, base)

    at_once = max(1, COLUMNS // side)
    full = blocks // at_once
    for i in machine.turns(full):
        evaluate_blocks(i * at_once, (i + 1) * at_once)
    if full * at_once < blocks:
        evaluate_blocks(full * at_once, blocks)
    if rest.size:
        columns = -(-rest.size // side)
        matrix = zeros(columns * side, a.dtype, like=a)
        matrix[: rest.size] = rest
        product = ring.product(powers, matrix.reshape(columns, side).T)
        total[blocks] = _paired(machine, ring, product.T, base)
    if total.shape[0] == 1:
        return total[0]
    return _paired(machine, ring, total, _power(machine, ring, base, side))


def _powers(machine: Machine, ring: _Ring, x: Any, width: int) -> Any:
    """(points, width): x^0 ... x^(width - 1), each by products of powers that sum up to it."""
    done = 1
    while done < width:
        size = min(done, width - done)
        done += size
        machine.step(x.shape[0] * size * ring.work, "powers")
        if done < width:
            machine.step(x.shape[0] * ring.work, "powers")
    return ring.powers(x, width)


def _doubled(ring: _Ring, x: Any, width: int) -> Any:
    result = empty((x.shape[0], width), ring.dtype, like=x)
    result[:, 0] = 1
    done, top = 1, x
    while done < width:
        size = min(done, width - done)
        result[:, done : done + size] = ring.times(result[:, :size], top[:, None])
        done += size
        if done < width:
            top = ring.times(top, top)
    return result


def _power(machine: Machine, ring: _Ring, x: Any, exponent: int) -> Any:
    """x^exponent by squaring."""
    result = x
    for bit in bin(exponent)[3:]:
        result = ring.times(result, result)
        if bit == "1":
            result = ring.times(result, x)
    machine.step(x.shape[0] * ring.work * (exponent.bit_length() + exponent.bit_count() - 2), "powers")
    return result


def _paired(machine: Machine, ring: _Ring, values: Any, base: Any) -> Any:
    """The sum over i of values[i]·base^i, in pairs."""
    count, size = values.shape[0], values.size // values.shape[0]
    while count > 1:
        machine.step(count // 2 * size * ring.work, "add in pairs")
        count -= count // 2
        if count > 1:
            machine.step(base.size * ring.work, "powers")
    return ring.in_pairs(values, base)


def _in_pairs(ring: _Ring, values: Any, base: Any) -> Any:
    while (count := values.shape[0]) > 1:
        even, odd = values[0 : count - 1 : 2], values[1::2]
        paired = ring.plus_times(even, odd, base)
        values = np.concatenate([paired, values[-1:]]) if count % 2 else paired
        if values.shape[0] > 1:
            base = ring.times(base, base)
    return values[0]


class _Reals:
    dtype = np.dtype(np.float64)
    work = 2

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
        return array.astype(np.float64, copy=False)

    def times(self, x: Any, y: Any) -> Any:
        return x * y

    def plus_times(self, x: Any, y: Any, z: Any) -> Any:
        return x + y * z

    def powers(self, x: Any, width: int) -> Any:
        found = self._machine.executor.powers(x, width)
        return _doubled(self, x, width) if found is None else found

    def in_pairs(self, values: Any, base: Any) -> Any:
        found = self._machine.executor.add_in_pairs(values, base)
        return _in_pairs(self, values, base) if found is None else found

    def product(self, x: Any, a: Any) -> Any:
        return self._machine.tall_multiply(x, a, name="powers times coefficients")


class _Residues:
    work = 3

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
        if isinstance(array, ShapeArray):
            return array.astype(self.dtype)
        if array.dtype.kind not in "iuO" or (
            array.dtype.kind == "O" and not all(isinstance(v, int) for v in array.flat)
        ):
            raise DtypeError(f"{label} of dtype {array.dtype}: give integers for a modulus")
        if array.dtype == np.uint64 or array.dtype.kind == "O" or self.dtype == object:
            # Python's integers: uint64 has no place in int64, and NumPy's none for a modulus beyond it.
            array = array.astype(object)
        else:
            array = array.astype(np.int64)
        return (array % self._q).astype(self.dtype)

    def times(self, x: Any, y: Any) -> Any:
        return x * y % self._q

    def plus_times(self, x: Any, y: Any, z: Any) -> Any:
        return (x + y * z) % self._q

    def powers(self, x: Any, width: int) -> Any:
        return _doubled(self, x, width)

    def in_pairs(self, values: Any, base: Any) -> Any:
        return _in_pairs(self, values, base)

    def product(self, x: Any, a: Any) -> Any:
        """Digit by digit: all digits of x below each other in one tall operand, one call for each of a."""
        machine, bits, digits = self._machine, self._bits, self._digits
        count = x.shape[0]
        stacked = np.concatenate([self._digit(x, d) for d in range(digits)])
        parts = [
            machine.tall_multiply(stacked, self._digit(a, e), name="powers times coefficients")
            for e in range(digits)
        ]
        total: Any = None
        for order in reversed(range(2 * digits - 1)):
            total = 0 if total is None else total * (1 << bits)
            for e in range(max(0, order - digits + 1), min(order, digits - 1) + 1):
                d = order - e
                total = total + parts[e][..., d * count : (d + 1) * count, :].astype(self.dtype)
            total = total % self._q
        machine.step(total.size * (digits * digits + 2 * (2 * digits - 1)), "join digits")
        return total

    def _digit(self, x: Any, index: int) -> Any:
        digit = (x >> (index * self._bits)) & ((1 << self._bits) - 1)
        self._machine.step(2 * x.size * (self._digits > 1), "cut digits")
        operand = self._machine.executor.dtypes.operand
        return digit.astype(np.int64 if operand is None or operand.kind not in "iu" else operand)


def evaluate_error_bound(
    machine: Machine, coefficients: npt.ArrayLike, points: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """A bound on |evaluate(...) - exact value| at every point, without a modulus.

    γ_N · Σ|a_i||x|^i with γ_N = N·2^-53 / (1 - N·2^-53) and N = n + √m +
    2⌈log₂(n / √m)⌉ + 4: at most n roundings for a power, √m for a sum of the
    unit, in whatever order, and two for each level of pairs; and what
    underflow loses.  inf where an overflow cannot be excluded.

    N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., lemma 3.1.
    """
    a = _trimmed(np.abs(np.asarray(coefficients, np.float64)))
    x = np.abs(np.asarray(points, np.float64))
    n = max(a.size, 1)
    roundings = n + machine.side + 2 * math.ceil(math.log2(max(n / machine.side, 1))) + 4
    u = 2.0**-53
    gamma = roundings * u / (1 - roundings * u)
    with np.errstate(over="ignore", invalid="ignore"):
        mass = np.zeros(x.shape)
        for coefficient in a[::-1]:
            mass = mass * x + coefficient
        # Each operation may lose half of 2^-1074, which later powers of |x| > 1 enlarge.
        tiny = 2.0**-1074 * n * (float(a.sum()) + 2 * np.maximum(x, 1) ** (n - 1))
        bound = (gamma * mass + tiny) * (1 + 4 * n * u)
    return np.where(np.isfinite(bound), bound, np.inf)


def polynomial_bound(machine: MachineLike, n: int, points: int) -> float:
    """pn / √m + p√m + n / m·ℓ of Theorem 7, for p points and n coefficients."""
    m, latency = parameters(machine)
    return points * n / math.sqrt(m) + points * math.sqrt(m) + n / m * latency
