"""Dense products on the (m, ℓ)-TCU machine: Theorems 1 and 2 of Silvestri and Vella, section 4.1."""

from __future__ import annotations

import math
import operator
from functools import partial
from typing import Any

import numpy as np

from tcu.algorithms.parameters import MachineLike, parameters
from tcu.algorithms.schemes import STRASSEN, BilinearScheme, find_scheme
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine import Machine
from tcu.machine.executors.executor import is_integer
from tcu.machine.shapes import empty, zeros

__all__ = ["matmul", "matmul_bound", "matmul_lower_bound", "strassen_like", "strassen_like_bound"]

_WORD = 63


def matmul(machine: Machine, a: Any, b: Any) -> Any:
    """A·B with one operand resident in the unit, block by block, and the other pumped past it (Theorem 2).

    A's columns are cut into strips of √m and B into √m × √m blocks; each
    block meets its whole strip in one tall call.  Where A is the smaller
    operand it is the resident one, through (AB)ᵀ = BᵀAᵀ.

    Parameters
    ----------
    machine:
        Where it runs; its ledger records the calls.
    a, b:
        (rows, inner) and (inner, columns), of real or complex numbers or of
        integers; of any library that follows NumPy's protocols.

    Returns
    -------
    (rows, columns), in the executor's result dtype.  Integers are exact:
    int64, or Python's integers as objects where 63 bits do not suffice.
    Complex operands take four real products.

    Raises
    ------
    ShapeError:
        Operands that are not matrices, or do not fit each other.
    ParameterError:
        Integers, of the operands or the result, that exceed the machine's words.
    """
    a, b = _operands(machine, a, b)
    if np.iscomplexobj(a) or np.iscomplexobj(b):
        return _complex_product(machine, a, b, matmul)
    (rows, inner), columns = a.shape, b.shape[1]
    if 0 in (rows, inner, columns):
        return _empty(machine, a, b)
    as_given = _tall_cost(machine, rows, inner, columns)
    if _tall_cost(machine, columns, inner, rows) < as_given:
        return _tall(machine, b.T, a.T).T
    return _tall(machine, a, b)


def _tall_cost(machine: Machine, rows: int, inner: int, columns: int) -> float:
    side = machine.side
    calls = -(-rows // side) if machine.weak else 1
    each = max(rows, side) * side + calls * machine.latency
    return -(-inner // side) * -(-columns // side) * each


def _tall(machine: Machine, a: Any, b: Any) -> Any:
    side, (rows, inner), columns = machine.side, a.shape, b.shape[1]
    cpu, blocks = machine.cpu, -(-columns // side)
    wide = _needs_objects(machine, a, b, 1)

    def product(start: int) -> Any:
        strip, resident = a[:, start : start + side], b[..., start : start + side, :]
        part = machine.tall_multiply(strip, resident, name="strip times block")
        summed = is_integer(part) and inner > side
        return machine.stored(part, object if wide else np.int64) if summed else part

    with machine.section("matmul"):
        if blocks > 1:
            b = cpu.padded(b, (inner, blocks * side)).reshape(inner, blocks, side).swapaxes(0, 1)
        total = product(0)
        for i in machine.turns(-(-inner // side) - 1):
            total = cpu.each(operator.add, total, product((i + 1) * side), name="add strips")
        if blocks > 1:
            total = cpu.arranged(total.swapaxes(0, 1), (rows, blocks * side), name="join blocks")
            total = total[:, :columns]
    if wide:
        machine.check_words("the product", total)
    return total


def strassen_like(
    machine: Machine,
    a: Any,
    b: Any,
    scheme: str | BilinearScheme = STRASSEN,
    *,
    levels: int | None = None,
) -> Any:
    """A·B by a Strassen-like scheme, down to blocks that fit the unit (Theorem 1).

    The matrices are cut into cubes of the shortest side, which the scheme
    multiplies; it is applied until blocks have at most √m rows and columns.
    All blocks of one depth are computed together, which takes
    (p_0 / n_0)^depth times the operands' memory.

    Parameters
    ----------
    machine:
        Where it runs; its ledger records the calls.
    a, b:
        As for :func:`matmul`.
    scheme:
        "strassen", "standard", "laderman", or a
        :class:`~tcu.algorithms.schemes.BilinearScheme`.
    levels:
        Stop after so many levels, and multiply the blocks that remain as
        :func:`matmul` does.  None: until they fit the unit.

    Raises
    ------
    ShapeError, ParameterError:
        As :func:`matmul`; ParameterError also for a negative ``levels``.
    UnknownNameError:
        No scheme has that name.
    """
    scheme = find_scheme(scheme)
    a, b = _operands(machine, a, b)
    if levels is not None and (isinstance(levels, bool) or not isinstance(levels, int) or levels < 0):
        raise ParameterError(f"levels={levels!r}: give an integer of at least 0, or None for as many as fit")
    if np.iscomplexobj(a) or np.iscomplexobj(b):
        return _complex_product(machine, a, b, lambda m, x, y: strassen_like(m, x, y, scheme, levels=levels))
    sizes = (a.shape[0], a.shape[1], b.shape[1])
    if 0 in sizes:
        return _empty(machine, a, b)
    depth = _depth(machine.side, min(sizes), scheme)
    depth = depth if levels is None else min(levels, depth)
    # The largest cube that the depth makes out of leaves no larger than needed.
    unit = [base**depth for base in scheme.shape]
    cube = [-(-max(min(sizes), machine.side if depth == 0 else 1) // base) * base for base in unit]
    grid = [-(-size // length) for size, length in zip(sizes, cube, strict=True)]
    wide = _needs_objects(machine, a, b, scheme.growth**depth)
    a, b = (_widened(machine, x, wide) for x in (a, b))
    cpu = machine.cpu

    def cube_product(x: Any, y: Any, k: int) -> Any:
        left, right = x[:, k], y[k]
        if grid[2] > 1:
            left = cpu.each(partial(np.repeat, axis=0), left, grid[2], name="repeat cubes")
        if grid[0] > 1:
            right = cpu.each(np.tile, right, (grid[0], 1, 1), name="repeat cubes")
        return _recurse(machine, left, right, scheme, depth, wide)

    with machine.section(f"{scheme.name} product"):
        x = _cut(machine, a, (grid[0], grid[1]), (cube[0], cube[1]))
        y = _cut(machine, b, (grid[1], grid[2]), (cube[1], cube[2]))
        total = cube_product(x, y, 0)
        for k in machine.turns(grid[1] - 1):
            total = cpu.each(operator.add, total, cube_product(x, y, k + 1), name="add cubes")
        total = total.reshape(grid[0], grid[2], cube[0], cube[2]).swapaxes(1, 2)
        whole = (grid[0] * cube[0], grid[2] * cube[2])
        total = total.reshape(whole) if grid[2] == 1 else cpu.arranged(total, whole, name="join cubes")
        total = total[: sizes[0], : sizes[2]]
    if wide:
        machine.check_words("the product", total)
    return total


def _depth(side: int, size: int, scheme: BilinearScheme) -> int:
    """How often the scheme is applied until blocks of ``size`` fit the unit."""
    depth = 0
    while any(-(-size // base**depth) > side for base in scheme.shape):
        if all(base == 1 for base in scheme.shape if -(-size // base**depth) > side):
            break  # a scheme such as ⟨2, 1, 1⟩ never cuts the other sides
        depth += 1
    return depth


def _recurse(machine: Machine, a: Any, b: Any, scheme: BilinearScheme, depth: int, wide: bool) -> Any:
    """Products of batches (count, R, K) and (count, K, C)."""
    if depth == 0:
        return _leaves(machine, a, b, wide)
    r, s, t = scheme.shape
    left = _combined(machine, _split(a, r, s), scheme.u, "combine blocks of A")
    right = _combined(machine, _split(b, s, t), scheme.v, "combine blocks of B")
    products = _recurse(machine, left, right, scheme, depth - 1, wide)
    count = a.shape[0]
    parts = [products[i * count : (i + 1) * count] for i in range(scheme.products)]
    result = empty((count, a.shape[1], b.shape[2]), products.dtype, like=products)
    _sums(machine, parts, zip(*scheme.w, strict=True), _split(result, r, t), "combine products")
    return result


def _leaves(machine: Machine, a: Any, b: Any, wide: bool) -> Any:
    side = machine.side
    if max(a.shape[1:]) <= side and b.shape[2] <= side:
        part = machine.multiply(a, b, name="block times block")
        return machine.stored(part, object if wide else np.int64) if is_integer(part) else part
    result: Any = None
    for i in machine.turns(a.shape[0]):
        part = _tall(machine, a[i], b[i])
        if result is None:
            result = empty((a.shape[0], *part.shape), part.dtype, like=part)
        machine.cpu.put(result[i], part, "join products")
    return result


def _split(x: Any, rows: int, columns: int) -> list[Any]:
    """The blocks of each matrix of a batch, row by row."""
    height, width = x.shape[1] // rows, x.shape[2] // columns
    return [
        x[:, i * height : (i + 1) * height, j * width : (j + 1) * width]
        for i in range(rows)
        for j in range(columns)
    ]


def _combined(machine: Machine, blocks: list[Any], weights: Any, name: str) -> Any:
    """The weighted sums one behind the other."""
    count, height, width = blocks[0].shape
    result = empty((len(weights) * count, height, width), blocks[0].dtype, like=blocks[0])
    slots = [result[i * count : (i + 1) * count] for i in range(len(weights))]
    _sums(machine, blocks, weights, slots, name)
    return result


def _sums(machine: Machine, terms: list[Any], weights: Any, slots: list[Any], name: str) -> None:
    """One weighted sum of the terms for each row of weights, its last operation written into the row's slot."""
    cpu = machine.cpu
    for row, slot in zip(weights, slots, strict=True):
        # A term of weight 1 comes first, where there is one: it needs no operation of its own.
        pairs = sorted((p for p in zip(row, terms, strict=True) if p[0]), key=lambda pair: pair[0] != 1)
        if not pairs or (len(pairs) == 1 and pairs[0][0] == 1):
            cpu.put(slot, pairs[0][1] if pairs else 0, name)
            continue
        total: Any = None
        for i, (weight, term) in enumerate(pairs):
            out = {"out": slot} if i + 1 == len(pairs) else {}
            if total is None and weight == 1:
                total = term
            elif total is None:
                total = cpu.each(np.multiply, weight, term, name=name, **out)
            elif abs(weight) == 1:
                total = cpu.each(np.add if weight == 1 else np.subtract, total, term, name=name, **out)
            else:
                term = cpu.each(np.multiply, weight, term, name=name)
                total = cpu.each(np.add, total, term, name=name, **out)


def _cut(machine: Machine, x: Any, grid: tuple[int, int], block: tuple[int, int]) -> Any:
    """(grid rows, grid columns, block rows, block columns), padded by zeros."""
    x = machine.cpu.padded(x, (grid[0] * block[0], grid[1] * block[1]))
    return x.reshape(grid[0], block[0], grid[1], block[1]).swapaxes(1, 2)


def _operands(machine: Machine, a: Any, b: Any) -> tuple[Any, Any]:
    a, b = machine.array(a), machine.array(b)
    for label, x in (("a", a), ("b", b)):
        if x.ndim != 2:
            raise ShapeError(f"{label} has shape {x.shape}: give a matrix, {label}[None, :] for a row")
        if x.dtype.kind not in "fiubOVc":
            raise DtypeError(f"{label} has dtype {x.dtype}: give real or complex numbers, or integers")
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"a {a.shape}, b {b.shape}: a needs as many columns as b has rows")
    return a, b


def _empty(machine: Machine, a: Any, b: Any) -> Any:
    """The product where one of the sizes is 0."""
    dtype = np.int64 if is_integer(a) and is_integer(b) else machine.executor.dtypes.result
    return zeros((a.shape[0], b.shape[1]), dtype, like=a)


def _complex_product(machine: Machine, a: Any, b: Any, product: Any) -> Any:
    """Four real products and two sums (section 4.3); two where one operand is real."""
    name = "add real and imaginary parts"
    each = partial(machine.cpu.each, name=name)
    if not np.iscomplexobj(a):
        real, imaginary = product(machine, a, b.real), product(machine, a, b.imag)
    elif not np.iscomplexobj(b):
        real, imaginary = product(machine, a.real, b), product(machine, a.imag, b)
    else:
        real = each(operator.sub, product(machine, a.real, b.real), product(machine, a.imag, b.imag))
        imaginary = each(operator.add, product(machine, a.real, b.imag), product(machine, a.imag, b.real))
    return each(operator.add, real, each(operator.mul, 1j, imaginary))


def _needs_objects(machine: Machine, a: Any, b: Any, growth: int) -> bool:
    """Whether sums of these integers, grown by the scheme, may exceed int64."""
    if not (is_integer(a) and is_integer(b) and machine.executor.computes):
        return False
    bits = sum((machine.magnitude(x) * growth).bit_length() for x in (a, b)) + a.shape[1].bit_length()
    # The products are summed with weights that grow as those of the operands do.
    return bool(bits + growth.bit_length() > _WORD)


def _widened(machine: Machine, x: Any, wide: bool) -> Any:
    """Integers, and floats of 8 or 16 bits, in a dtype in which blocks can be added."""
    if is_integer(x) or x.dtype.kind == "b":
        return machine.stored(x, object if wide else np.int64)
    return x if x.dtype.itemsize >= 4 else machine.stored(x, np.float32)


def matmul_bound(machine: MachineLike, rows: int, inner: int, columns: int) -> float:
    """n^{3/2} / √m + (n / m)·ℓ of Theorem 2, for any shape: rows·inner·columns / √m + inner·columns / m·ℓ.

    The resident operand is the smaller one.
    """
    m, latency = parameters(machine)
    return rows * inner * columns / math.sqrt(m) + inner * min(rows, columns) / m * latency


def matmul_lower_bound(machine: MachineLike, rows: int, inner: int, columns: int) -> float:
    """What any program of semiring operations costs at least (Theorem 2, second part), with its constants.

    A call of n rows makes at most n·m of the rows·inner·columns elementary
    products in n·√m time, and each call holds at most m entries of the
    operand that is resident, all of which must be at some time.
    """
    return matmul_bound(machine, rows, inner, columns)


def strassen_like_bound(
    machine: MachineLike, rows: int, inner: int, columns: int, scheme: str | BilinearScheme = STRASSEN
) -> float:
    """(n / m)^ω_0 · (m + ℓ) of Theorem 1; for any shape, n is that of the cubes of the shortest side."""
    m, latency = parameters(machine)
    shortest = min(rows, inner, columns)
    cubes = rows * inner * columns / shortest**3
    return float(cubes * (shortest**2 / m) ** find_scheme(scheme).exponent * (m + latency))
