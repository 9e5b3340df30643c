"""Discrete Fourier transforms on the (m, ℓ)-TCU machine: Theorem 4 of Silvestri and Vella, section 4.3.

What NumPy's functions of these names take and give, by way of rows of complex
numbers; dft_levels.py transforms those.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from tcu.algorithms.complex_rows import ComplexProduct
from tcu.algorithms.dft_levels import ComplexDft
from tcu.algorithms.fourier import LONGEST, half_circle
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine import Machine
from tcu.machine.ledger import told
from tcu.machine.shapes import empty

__all__ = ["Norm", "dft", "dft_bound", "dftn", "idft", "idftn", "irdft", "rdft"]

Norm = Literal["backward", "ortho", "forward"] | None
"""Who divides by n; None is "backward", as in NumPy."""


def dft(
    machine: Machine,
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The discrete Fourier transform along one axis, of any length.

    Parameters
    ----------
    machine:
        Where it runs: its executor multiplies real numbers.
    x:
        Real or complex numbers, of NumPy or of a library that follows its
        protocols (CuPy).
    n, axis, norm:
        As for ``numpy.fft.fft``: the length (x is cut or padded by zeros),
        the axis, and who divides by n.
    product:
        How complex products are made of real ones: "four", "three", or
        "embedded", which has the unit add and takes half as long rows.
    parts:
        For units of 16-bit operands: split every number into 1, 2 or 3 of
        them.  :func:`~tcu.algorithms.dft_error.dft_error_bound` says what it
        gains.

    Returns
    -------
    complex128, or complex64 where the executor's results are narrower than
    binary64.  A transform with a NaN or an infinity in it is NaN throughout on
    units of narrow operands; no other transform of the batch is touched.

    Raises
    ------
    ShapeError:
        No such axis; nothing along it.
    DtypeError:
        x holds no numbers, or the executor multiplies integers only.
    ParameterError:
        n, norm, product or parts out of range; a unit too small for a DFT.
    """
    return _along_axis(machine, x, n, axis, norm, product, parts, inverse=False)


def idft(
    machine: Machine,
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The inverse of :func:`dft`, with its parameters, results and errors."""
    return _along_axis(machine, x, n, axis, norm, product, parts, inverse=True)


def rdft(
    machine: Machine,
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The first n // 2 + 1 numbers of the DFT of real numbers, as ``numpy.fft.rfft``.

    Of even n it is one complex transform of half the length.  Parameters,
    results and errors of :func:`dft`; DtypeError for complex numbers.
    """
    x = _numbers(machine, x)
    if np.iscomplexobj(x):
        raise DtypeError(f"x has dtype {x.dtype}: rdft takes real numbers; dft takes complex ones")
    axis, n = _axis(x, axis), _length_along(x, n, axis)
    transforms = ComplexDft(machine, product, parts)
    factor = _factor(norm, n, inverse=False)
    with machine.section("rdft"):
        rows, batch = _rows(machine, x, n, axis)
        if n % 2:
            z = transforms.transform(_planes(machine, rows, transforms.work))[:, :, : n // 2 + 1]
        else:
            z = empty((2, rows.shape[0], n // 2), transforms.work, like=rows)
            for plane in (0, 1):
                machine.cpu.put(z[plane], rows[:, plane::2], "planes")
            z = _unfold(machine, transforms.transform(z), n)
        return _complex(machine, z, batch, axis, factor)


def irdft(
    machine: Machine,
    x: Any,
    n: int | None = None,
    axis: int = -1,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """n real numbers from the first n // 2 + 1 of their DFT, as ``numpy.fft.irfft``.

    The inverse of :func:`rdft`; n is 2 (numbers - 1) unless given.  The
    imaginary parts of the first and, for even n, of the last number do not
    count, as in NumPy.  Parameters and errors of :func:`dft`.
    """
    x = _numbers(machine, x)
    axis = _axis(x, axis)
    if n is None:
        n = 2 * (x.shape[axis] - 1)
    n = _length(n)
    half = n // 2 + 1
    transforms = ComplexDft(machine, product, parts)
    factor = _factor(norm, n, inverse=True)
    cpu = machine.cpu
    with machine.section("irdft"):
        rows, batch = _rows(machine, x, half, axis)
        z = _planes(machine, rows, transforms.work)
        cpu.put(z[1, :, 0], 0, "planes")
        if n % 2:
            whole = empty((2, z.shape[1], n), z.dtype, like=z)
            cpu.put(whole[:, :, :half], z, "mirror")
            cpu.put(whole[0, :, half:], z[0, :, :0:-1], "mirror")
            cpu.each(np.negative, z[1, :, :0:-1], out=whole[1, :, half:], name="mirror")
            real = transforms.transform(whole[::-1])[1]
        else:
            cpu.put(z[1, :, half - 1], 0, "planes")
            z = transforms.transform(_fold(machine, z, n)[::-1])[::-1]
            real = empty((z.shape[1], n), z.dtype, like=z)
            for plane in (0, 1):
                cpu.put(real[:, plane::2], z[plane], "planes")
        if factor != 1:
            real = cpu.each(operator.mul, real, real.dtype.type(factor), name="normalize")
    return np.moveaxis(real.reshape(*batch, n), -1, axis)


def dftn(
    machine: Machine,
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The DFT along several axes, one after another, as ``numpy.fft.fftn``.

    s: the lengths; axes: all, or the last len(s), unless given.  Other
    parameters, results and errors of :func:`dft`; ParameterError where s and
    axes do not pair.
    """
    for n, axis in _axes(x, s, axes):
        x = dft(machine, x, n, axis, norm, product=product, parts=parts)
    return x


def idftn(
    machine: Machine,
    x: Any,
    s: Sequence[int] | None = None,
    axes: Sequence[int] | None = None,
    norm: Norm = "backward",
    *,
    product: ComplexProduct = "four",
    parts: int = 1,
) -> Any:
    """The inverse of :func:`dftn`, with its parameters, results and errors."""
    for n, axis in _axes(x, s, axes):
        x = idft(machine, x, n, axis, norm, product=product, parts=parts)
    return x


def dft_bound(machine: MachineLike, n: int) -> float:
    """(n + ℓ)·log_m n of Theorem 4; at least one level: n + ℓ where n is at most m."""
    m, latency = parameters(machine)
    if m == 1:
        raise ParameterError("m=1: log_m n has no value; take m=4 or more")
    return (n + latency) * max(1.0, math.log(max(n, 2)) / math.log(m))


def _along_axis(
    machine: Machine,
    x: Any,
    n: int | None,
    axis: int,
    norm: Norm,
    product: ComplexProduct,
    parts: int,
    *,
    inverse: bool,
) -> Any:
    x = _numbers(machine, x)
    axis, n = _axis(x, axis), _length_along(x, n, axis)
    transforms = ComplexDft(machine, product, parts)
    factor = _factor(norm, n, inverse=inverse)
    with machine.section("idft" if inverse else "dft"):
        rows, batch = _rows(machine, x, n, axis)
        result = transforms.complex_at_once(rows, factor, inverse=inverse)
        if result is not None:
            machine.charge_as(_steps, rows, product, parts, factor, inverse)
            return _moved(result.reshape(*batch, n), -1, axis)
        z = _transformed(machine, transforms, rows, inverse=inverse)
        return _complex(machine, z, batch, axis, factor)


def _transformed(machine: Machine, transforms: ComplexDft, rows: Any, *, inverse: bool) -> Any:
    """Planes of the transforms of rows."""
    z = _planes(machine, rows, transforms.work)
    # Real and imaginary parts exchanged, before and after, turn the transform into its inverse.
    return transforms.transform(z[::-1])[::-1] if inverse else transforms.transform(z)


def _steps(
    machine: Machine, rows: Any, product: ComplexProduct, parts: int, factor: float, inverse: bool
) -> None:
    """What an executor is charged that does transforms of complex numbers at once."""
    z = _transformed(machine, ComplexDft(machine, product, parts), rows, inverse=inverse)
    _complex(machine, z, rows.shape[:1], 1, factor)


def _unfold(machine: Machine, z: Any, n: int) -> Any:
    """The DFT of n real numbers from that of the complex numbers x[2j] + i x[2j + 1]."""
    cpu, each = machine.cpu, partial(machine.cpu.each, name="unfold")
    near = each(partial(np.concatenate, axis=2), [z, z[:, :, :1]])
    far = near[:, :, ::-1]
    even, odd = empty(near.shape, z.dtype, like=z), empty(near.shape, z.dtype, like=z)
    each(np.add, near[0], far[0], out=even[0])
    each(np.subtract, near[1], far[1], out=even[1])
    each(np.add, near[1], far[1], out=odd[0])
    each(np.subtract, far[0], near[0], out=odd[1])
    t = cpu.table(z, half_circle, n, 0.5, z.dtype.name, shape=(2, n // 2 + 1), name="twiddle factors")
    half = each(operator.mul, even, z.dtype.type(0.5))
    return each(operator.add, half, cpu.complex_product(odd, t[:, None], name="twiddle"))


def _fold(machine: Machine, z: Any, n: int) -> Any:
    """Twice what :func:`_unfold` was given."""
    cpu, each = machine.cpu, partial(machine.cpu.each, name="fold")
    near, far = z[:, :, :-1], z[:, :, :0:-1]
    odd, result = empty(near.shape, z.dtype, like=z), empty(near.shape, z.dtype, like=z)
    each(np.subtract, near[0], far[0], out=odd[0])
    each(np.add, near[1], far[1], out=odd[1])
    t = cpu.table(z, half_circle, n, 1.0, z.dtype.name, shape=(2, n // 2 + 1), name="twiddle factors")
    back = each(np.stack, [t[0], each(np.negative, t[1])])
    turned = cpu.complex_product(odd, back[:, None, :-1], name="twiddle")
    each(np.subtract, each(np.add, near[0], far[0]), turned[1], out=result[0])
    each(np.add, each(np.subtract, near[1], far[1]), turned[0], out=result[1])
    return result


def _numbers(machine: Machine, x: Any) -> Any:
    x = machine.array(x)
    if x.dtype.kind not in "fiubcV":
        raise DtypeError(f"x has dtype {x.dtype}: give real or complex numbers")
    return x


def _axis(x: Any, axis: int) -> int:
    try:
        index = operator.index(axis)
    except TypeError:
        raise ParameterError(f"axis={axis!r}: give an integer") from None
    if not -x.ndim <= index < x.ndim:
        raise ShapeError(f"axis={axis}: x has shape {x.shape}")
    return index % int(x.ndim)


def _length(n: Any) -> int:
    try:
        length = operator.index(n)
    except TypeError:
        raise ParameterError(f"n={n!r}: give the length of the transform, an integer") from None
    if not 1 <= length <= LONGEST:
        raise ShapeError(f"a DFT of length {told(length)}: give at least one number, and at most 2^64")
    return length


def _length_along(x: Any, n: int | None, axis: int) -> int:
    return _length(x.shape[axis] if n is None else n)


def _rows(machine: Machine, x: Any, n: int, axis: int) -> tuple[Any, tuple[int, ...]]:
    """(transforms, n): x cut or padded to n numbers along the axis; and the other dimensions."""
    x = _moved(x, axis, -1)[..., :n]
    batch = x.shape[:-1]
    if x.shape[-1] < n:
        x = machine.cpu.padded(x, (*batch, n))
    elif 0 < axis < len(batch):  # the other dimensions are no longer one after another
        return machine.cpu.arranged(x, (math.prod(batch), n), name="gather transforms"), batch
    return x.reshape(math.prod(batch), n), batch


def _moved(x: Any, source: int, target: int) -> Any:
    """``np.moveaxis``, which takes its time where nothing moves."""
    return x if (source - target) % len(x.shape) == 0 else np.moveaxis(x, source, target)


def _planes(machine: Machine, rows: Any, work: np.dtype[Any]) -> Any:
    z = empty((2, *rows.shape), work, like=rows)
    machine.cpu.put(z[0], rows.real, "planes")
    machine.cpu.put(z[1], rows.imag if np.iscomplexobj(rows) else 0, "planes")
    return z


def _complex(machine: Machine, z: Any, batch: tuple[int, ...], axis: int, factor: float) -> Any:
    if factor != 1:
        z = machine.cpu.each(operator.mul, z, z.dtype.type(factor), name="normalize")
    shape = (*batch[:axis], z.shape[2], *batch[axis:])
    result = empty(shape, np.complex128 if z.dtype == np.float64 else np.complex64, like=z)
    # Written where the axis is in the result, so that it need not be moved there.
    rows = _moved(result, axis, -1)
    machine.cpu.put(rows.real, z[0].reshape(rows.shape), "complex numbers")
    machine.cpu.put(rows.imag, z[1].reshape(rows.shape), "complex numbers")
    return result


def _factor(norm: Norm, n: int, *, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(n)
    if norm not in (None, "backward", "forward"):
        raise ParameterError(f"norm={norm!r}: choose 'backward', 'ortho' or 'forward'")
    return 1 / n if inverse == (norm != "forward") else 1.0


def _axes(x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int | None, int]]:
    rank = len(np.shape(x))
    for name, given in (("s", s), ("axes", axes)):
        if given is not None and not isinstance(given, Sequence | np.ndarray):
            raise ParameterError(
                f"{name}={given!r}: give one for each axis, such as ({given!r},), or leave it out"
            )
    if axes is None:
        axes = range(rank) if s is None else range(-len(s), 0)
    lengths: Sequence[int | None] = [None] * len(axes) if s is None else s
    if len(lengths) != len(axes):
        raise ParameterError(f"s={s}, axes={axes}: give one length for each axis")
    # The last axis first, as NumPy does.
    return list(zip(lengths, axes, strict=True))[::-1]
