"""``tcu.fft.convolve`` and ``correlate``: by transforms; of whole numbers exactly, where that is proved."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from tcu.errors import ParameterError, ShapeError
from tcu.formats.tensor import is_tensor
from tcu.ops.fft import complex_dtype, real_format
from tcu.plan.fft import convolution_length
from tcu.surfaces.fft import error_bound
from tcu.surfaces.fft_arrays import axis_of, conjugate, taken, tensors, transformed
from tcu.surfaces.one_library import (
    cast,
    dtype_name,
    ieee_of_arrays,
    is_whole,
    moved,
    namespace,
    of_one_library,
)

__all__ = ["convolve", "correlate"]

Mode = Literal["full", "same", "valid"]
_MODES = ("full", "same", "valid")
_LARGEST = 0.25
"""How far a whole number may be off before it is rounded: half of what would do."""


def convolve(x: Any, y: Any, mode: Mode = "full", axis: int = -1) -> Any:
    """Σ x[j]·y[k - j]: the discrete convolution along an axis, by transforms whose bits are the same everywhere.

    Whole numbers and truth values give the exact int64, which is checked: by
    transforms in binary64, whose error is proved to be below 1/4 before the result is rounded, or else
    there is an error.  The proof takes the lengths and the largest magnitudes
    alone: for two lines of n numbers it holds while n^1.5·max|x|·max|y| is
    below about 2^43.  Other numbers give what :func:`fft` makes of them: errors are small beside
    ‖x‖₂·‖y‖₁, and not beside each number.

    Parameters
    ----------
    x, y:
        Arrays of NumPy, PyTorch (with gradients) or on a GPU, both of one library; a line, or several that broadcast.  Numbers of 16 bits
        are computed in float32, which the result is then.  Whole numbers beside others count as float64, those of tensors
        as the others' format, as PyTorch promotes them.
    mode:
        As in ``numpy.convolve``: "full": all n + m - 1 numbers; "same": the middle max(n, m) of them; "valid": those to
        which all of the shorter one contributes.
    axis:
        Along which; a line beside an array with several axes lies along it.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        Formats that are not transformed; shapes that do not broadcast; nothing along
        the axis; whole numbers for which exactness is not proved, or whose magnitudes nobody sees, in a vmap or a graph.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.convolve([1, 2, 3], [0, 1, 5])
    array([ 0,  1,  7, 13, 15])
    >>> tcu.fft.convolve(np.array([1.0, 2.0]), np.array([4.0, 4.0]), mode="same")
    array([ 4., 12.])
    """
    return _run(x, y, mode, axis, mirrored=False)


def correlate(x: Any, y: Any, mode: Mode = "valid", axis: int = -1) -> Any:
    """Σ x[j + k]·conj(y[j]): the cross-correlation along an axis, by ``numpy.correlate``'s conventions.

    The convolution with the conjugate numbers of y in the other order; the parameters are those of :func:`convolve`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.correlate([1, 2, 3, 4], [1, 0, 2])
    array([ 7, 10])
    """
    return _run(x, y, mode, axis, mirrored=True)


@ieee_of_arrays
def _run(x: Any, y: Any, mode: Any, axis: Any, *, mirrored: bool) -> Any:
    if mode not in _MODES:
        raise ParameterError(f"mode={mode!r}: choose 'full', 'same' or 'valid'")
    x, y = of_one_library(x=x, y=y)
    xp = namespace(x)
    whole = is_whole(x) and is_whole(y)
    place = axis_of(axis, max(x.ndim, y.ndim))
    x, y = (
        moved(each, 0 if each.ndim == 1 else axis_of(axis, each.ndim, name), -1)
        for name, each in (("x", x), ("y", y))
    )
    if not (x.shape[-1] and y.shape[-1]):
        raise ShapeError(
            f"x has {x.shape[-1]} numbers along the axis, y {y.shape[-1]}: give at least one of each"
        )
    try:
        # In a graph lengths are symbols, of which NumPy's would make numbers.
        broadcast = xp.broadcast_shapes if is_tensor(x) else np.broadcast_shapes
        broadcast(tuple(x.shape[:-1]), tuple(y.shape[:-1]))
    except (ValueError, RuntimeError):
        raise ShapeError(
            f"x {tuple(x.shape)}, y {tuple(y.shape)}, the axis last: the other axes must broadcast"
        ) from None
    counts = x.shape[-1], y.shape[-1]
    n = _length(sum(counts) - 1)
    if whole:
        _check_exact(counts, (_magnitude(x, "x"), _magnitude(y, "y")), n)
        x, y = cast(x, "float64"), cast(y, "float64")
    x, y = _alike(*_taken(x, y))
    if mirrored:
        y = xp.flip(conjugate(y) if "complex" in str(y.dtype) else y, (-1,))
    full = _product(xp, x, y, n)
    if whole:
        full = cast(xp.round(full), "int64")
    start, length = _part(mode, *counts, mirrored)
    return moved(full[..., start : start + length], -1, place)


def _taken(x: Any, y: Any) -> tuple[Any, Any]:
    """Both in formats that are transformed; a tensor of whole numbers in the other's, as PyTorch promotes it."""
    if is_tensor(x) and is_whole(x) != is_whole(y):
        if is_whole(y):
            second, first = _taken(y, x)
            return first, second
        y = taken(y, wide=True)
        x = cast(x, real_format(np.dtype(dtype_name(y))).dtype.name)
    return taken(x, wide=True), taken(y, wide=True)


def _alike(x: Any, y: Any) -> tuple[Any, Any]:
    names = [dtype_name(each) for each in (x, y)]
    wide = any(name in ("float64", "complex128") for name in names)
    if any("complex" in name for name in names):
        name = "complex128" if wide else "complex64"
    else:
        name = "float64" if wide else "float32"
    known = ("float32", "float64", "complex64", "complex128")
    first, second = (
        cast(each, name) if given in known else each for each, given in zip((x, y), names, strict=True)
    )
    return first, second


def _length(least: int) -> int:
    """An even length of small factors: real numbers are transformed as half as many complex ones."""
    return 2 * convolution_length(-(-least // 2))


def _product(xp: Any, x: Any, y: Any, n: int) -> Any:
    """The convolution around a circle of n places.  Products are rounded one by one, and their sums."""
    if "complex" in str(x.dtype):
        a, b = (transformed(each, "forward", n, each.ndim - 1) for each in (x, y))
        z = _times(xp, a, b)
        return _joined(xp, transformed(z, "inverse", n, z.ndim - 2, "n", pairs=True))
    a, b = (transformed(each, "from_real", n, each.ndim - 1) for each in (x, y))
    z = _times(xp, a, b)
    return transformed(z, "to_real", n, z.ndim - 2, "n", pairs=True)


def _times(xp: Any, a: Any, b: Any) -> Any:
    return xp.stack((a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real), -1)


def _joined(xp: Any, pairs: Any) -> Any:
    if is_tensor(pairs):
        return xp.view_as_complex(pairs)
    return pairs.view(complex_dtype(real_format(pairs.dtype)))[..., 0]


def _part(mode: str, n: int, m: int, mirrored: bool) -> tuple[int, int]:
    """Where the numbers that a mode wants begin, and how many they are."""
    short, long = min(n, m), max(n, m)
    if mode == "full":
        return 0, n + m - 1
    if mode == "valid":
        return short - 1, long - short + 1
    return (n // 2 if mirrored and n < m else (short - 1) // 2), long


def _magnitude(x: Any, name: str) -> int:
    if not math.prod(x.shape):
        return 0
    return tensors().magnitude(x, name) if is_tensor(x) else max(int(x.max()), -int(x.min()))


def _check_exact(counts: tuple[int, int], largest: tuple[int, int], n: int) -> None:
    """Raises ParameterError unless a convolution of whole numbers is proved to be exact."""
    bound = _error(counts, largest, n)
    if not bound < _LARGEST:
        raise ParameterError(
            f"x has {counts[0]:,} whole numbers up to {largest[0]:,}, y {counts[1]:,} up to {largest[1]:,}: before it is "
            f"rounded the result may be off by {bound:.2g}, and exactness is proved below 1/4: cut the numbers into smaller "
            "ones, or give float64 for a result that is rounded"
        )


def _error(counts: tuple[int, int], largest: tuple[int, int], n: int) -> float:
    """A bound on the error of :func:`_product` of real numbers in binary64.

    With A and B the transforms, ‖A‖∞ ≤ ‖x‖₁ and ‖A‖₂ = √n·‖x‖₂, so that errors δA and δB, relative ones of ``e`` in the
    Euclidean norm, make A·B differ by √n·e·(‖x‖₂‖y‖₁ + ‖x‖₁‖y‖₂ + √n·e·‖x‖₂‖y‖₂) at most.  A product of complex numbers is
    off by √5 unit roundoffs (R. Brent, C. Percival, P. Zimmermann, 2007).  No number is off by more than the norm.
    """
    u = 2.0**-53
    e = math.sqrt(2) * error_bound(
        n, "float64", "from_real"
    )  # the numbers that come back, and their mirror images
    count, other = counts
    scale = float(largest[0]) * float(largest[1])
    first, second = count * math.sqrt(other) * scale, other * math.sqrt(count) * scale
    exact = min(first, second)
    off = e * (first + second + e * math.sqrt(float(n) * count * other) * scale)
    off += math.sqrt(5) * u * (exact + off)
    off += error_bound(n, "float64", "to_real") * (exact + off)
    return off * (1 + 2.0**-10)
