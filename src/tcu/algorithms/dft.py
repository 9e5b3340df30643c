"""Discrete Fourier transforms on the (m, ℓ)-TCU machine: Theorem 4 of Silvestri and Vella, section 4.3.

What NumPy's functions of these names take and give, by way of rows of complex
numbers; dft_levels.py transforms those.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from tcu.algorithms.complex_rows import ComplexProduct
from tcu.algorithms.constants import beside
from tcu.algorithms.dft_levels import ComplexDft, complex_product
from tcu.algorithms.fourier import LONGEST, half_circle
from tcu.algorithms.parameters import MachineLike, parameters
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.machine import Machine
from tcu.machine.ledger import told
from tcu.machine.shapes import empty, zeros

__all__ = ["Norm", "dft", "dft_bound", "dftn", "idft", "idftn", "irdft", "rdft"]

Norm = Literal["backward", "ortho", "forward"]


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
    x, axis, n = _resized(x, n, axis)
    transforms = ComplexDft(machine, product, parts)
    factor = _factor(norm, n, inverse=False)
    rows, batch = _rows(x, axis)
    with machine.section("rdft"):
        if n % 2:
            z = zeros((2, rows.shape[0], n), transforms.work, like=x)
            z[0] = rows
            z = transforms.transform(z)[:, :, : n // 2 + 1]
        else:
            z = np.stack([rows[:, 0::2], rows[:, 1::2]]).astype(transforms.work, copy=False)
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
    x, axis, half = _resized(x, n // 2 + 1, axis)
    transforms = ComplexDft(machine, product, parts)
    factor = _factor(norm, n, inverse=True)
    rows, batch = _rows(x, axis)
    with machine.section("irdft"):
        z = _planes(rows, transforms.work)
        z[1, :, 0] = 0
        if n % 2:
            mirrored = z[:, :, :0:-1]
            z = np.concatenate([z, np.stack([mirrored[0], -mirrored[1]])], axis=2)
            real = transforms.transform(z[::-1])[1]
        else:
            z[1, :, half - 1] = 0
            z = transforms.transform(_fold(machine, z, n)[::-1])[::-1]
            real = np.stack([z[0], z[1]], axis=-1).reshape(z.shape[1], n)
        if factor != 1:
            machine.step(real.size, "normalize")
            real = real * real.dtype.type(factor)
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
    x, axis, n = _resized(_numbers(machine, x), n, axis)
    transforms = ComplexDft(machine, product, parts)
    factor = _factor(norm, n, inverse=inverse)
    rows, batch = _rows(x, axis)
    with machine.section("idft" if inverse else "dft"):
        result = transforms.complex_at_once(rows, factor, inverse=inverse)
        if result is not None:
            return _moved(result.reshape(*batch, n), -1, axis)
        z = _planes(rows, transforms.work)
        # Real and imaginary parts exchanged, before and after, turn the transform into its inverse.
        z = transforms.transform(z[::-1])[::-1] if inverse else transforms.transform(z)
        return _complex(machine, z, batch, axis, factor)


def _unfold(machine: Machine, z: Any, n: int) -> Any:
    """The DFT of n real numbers from that of the complex numbers x[2j] + i x[2j + 1]."""
    near = np.concatenate([z, z[:, :, :1]], axis=2)
    far = near[:, :, ::-1]
    even = np.stack([near[0] + far[0], near[1] - far[1]])
    odd = np.stack([near[1] + far[1], far[0] - near[0]])
    t = beside(z, half_circle, n, 0.5, z.dtype.name, shape=(2, n // 2 + 1))
    machine.step(4 * near.size, "unfold")
    return even * z.dtype.type(0.5) + complex_product(machine, odd, t[:, None], "twiddle")


def _fold(machine: Machine, z: Any, n: int) -> Any:
    """Twice what :func:`_unfold` was given."""
    near, far = z[:, :, :-1], z[:, :, :0:-1]
    odd = np.stack([near[0] - far[0], near[1] + far[1]])
    t = beside(z, half_circle, n, 1.0, z.dtype.name, shape=(2, n // 2 + 1))[:, None, :-1]
    turned = complex_product(machine, odd, np.stack([t[0], -t[1]]), "twiddle")
    machine.step(3 * near.size, "fold")
    return np.stack([near[0] + far[0] - turned[1], near[1] - far[1] + turned[0]])


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


def _resized(x: Any, n: int | None, axis: int) -> tuple[Any, int, int]:
    """x with n numbers along the axis, the axis, and n."""
    axis = _axis(x, axis)
    have = x.shape[axis]
    n = _length(have if n is None else n)
    lead = (slice(None),) * axis
    if n < have:
        x = x[(*lead, slice(n))]
    elif n > have:
        longer = zeros((*x.shape[:axis], n, *x.shape[axis + 1 :]), x.dtype, like=x)
        longer[(*lead, slice(have))] = x
        x = longer
    return x, axis, n


def _rows(x: Any, axis: int) -> tuple[Any, tuple[int, ...]]:
    """(transforms, n), and the other dimensions."""
    x = _moved(x, axis, -1)
    batch = x.shape[:-1]
    return x.reshape(math.prod(batch), x.shape[-1]), batch


def _moved(x: Any, source: int, target: int) -> Any:
    """``np.moveaxis``, which takes its time where nothing moves."""
    return x if (source - target) % len(x.shape) == 0 else np.moveaxis(x, source, target)


def _planes(rows: Any, work: np.dtype[Any]) -> Any:
    z = zeros((2, *rows.shape), work, like=rows)
    z[0] = rows.real
    if np.iscomplexobj(rows):
        z[1] = rows.imag
    return z


def _complex(machine: Machine, z: Any, batch: tuple[int, ...], axis: int, factor: float) -> Any:
    if factor != 1:
        machine.step(z.size, "normalize")
        z = z * z.dtype.type(factor)
    result = empty(z.shape[1:], np.complex128 if z.dtype == np.float64 else np.complex64, like=z)
    result.real[...] = z[0]
    result.imag[...] = z[1]
    return np.moveaxis(result.reshape(*batch, z.shape[2]), -1, axis)


def _factor(norm: Norm, n: int, *, inverse: bool) -> float:
    if norm == "ortho":
        return 1 / math.sqrt(n)
    if norm not in ("backward", "forward"):
        raise ParameterError(f"norm={norm!r}: choose 'backward', 'ortho' or 'forward'")
    return 1 / n if inverse == (norm == "backward") else 1.0


def _axes(x: Any, s: Sequence[int] | None, axes: Sequence[int] | None) -> list[tuple[int | None, int]]:
    rank = len(np.shape(x))
    if axes is None:
        axes = range(rank) if s is None else range(-len(s), 0)
    lengths: Sequence[int | None] = [None] * len(axes) if s is None else s
    if len(lengths) != len(axes):
        raise ParameterError(f"s={s}, axes={axes}: give one length for each axis")
    # The last axis first, as NumPy does.
    return list(zip(lengths, axes, strict=True))[::-1]
