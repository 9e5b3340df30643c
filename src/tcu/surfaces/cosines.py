"""``tcu.fft``'s cosine and sine transforms: each by one real transform of the same length.

J. Makhoul, A fast cosine transform in one and two dimensions, 1980.  Products by twiddle factors are written out in real
numbers, each rounded on its own: libraries multiply complex numbers with FMAs on one machine, and without on another.
"""

from __future__ import annotations

import operator
from typing import Any, Literal

import numpy as np

from tcu.errors import DtypeError, ParameterError
from tcu.formats.array import is_dask
from tcu.formats.tensor import is_tensor
from tcu.ops.fft import FftCall, plan_of, real_format
from tcu.surfaces.cosine_tables import tables
from tcu.surfaces.fft_arrays import (
    axis_of,
    check_norm,
    dask_arrays,
    length_of,
    taken,
    tensors,
    transformed,
)
from tcu.surfaces.one_library import ieee_of_arrays, moved, namespace

__all__ = ["dct", "dst", "idct", "idst"]

Norm = Literal["backward", "ortho", "forward"] | None


def dct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: Norm = None) -> Any:
    """The discrete cosine transform of real numbers, of type 2 or 3, by SciPy's conventions.

    Type 2 is 2·Σ x[j]·cos(πk(2j + 1)/2n), type 3 x[0] + 2·Σ x[j]·cos(πj(2k + 1)/2n), j from 1.  By one transform
    of n real numbers (:func:`rfft`, :func:`irfft`), so the bits depend on n and the format alone.

    Parameters
    ----------
    x:
        As in :func:`rfft`; numbers of 16 bits are computed in float32, which the result is then.
    type:
        2 or 3.
    n, axis:
        As in :func:`fft`.
    norm:
        "ortho" makes the transform orthogonal: type 3 is then the inverse of type 2.  "forward" divides by 2n.

    Raises
    ------
    DtypeError, ParameterError:
        What :func:`rfft` raises; no such type.

    Source: J. Makhoul, 1980.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.dct([1.0, 2.0, 4.0, 3.0]).round(6)
    array([20.      , -5.226252, -2.828427,  2.164784])
    >>> tcu.fft.dct(tcu.fft.dct([3.0, 4.0], norm="ortho"), type=3, norm="ortho")
    array([3., 4.])
    """
    return _run(x, type, n, axis, norm, sine=False, inverse=False)


def idct(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: Norm = None) -> Any:
    """The inverse of :func:`dct` of the same type and norm.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.idct([12.0, 0.0, 0.0])
    array([2., 2., 2.])
    """
    return _run(x, type, n, axis, norm, sine=False, inverse=True)


def dst(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: Norm = None) -> Any:
    """The discrete sine transform of real numbers, of type 2 or 3, by SciPy's conventions.

    Type 2 is 2·Σ x[j]·sin(π(k + 1)(2j + 1)/2n), type 3 (-1)^k·x[n - 1] + 2·Σ x[j]·sin(π(j + 1)(2k + 1)/2n), j up to n - 2.
    The parameters are those of :func:`dct`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.dst([1.0, 1.0])
    array([2.82842712, 0.        ])
    """
    return _run(x, type, n, axis, norm, sine=True, inverse=False)


def idst(x: Any, type: int = 2, n: int | None = None, axis: int = -1, norm: Norm = None) -> Any:
    """The inverse of :func:`dst` of the same type and norm.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> np.round(tcu.fft.idst(tcu.fft.dst([1.0, 2.0, 3.0])), 12)
    array([1., 2., 3.])
    """
    return _run(x, type, n, axis, norm, sine=True, inverse=True)


def _run(x: Any, type: Any, n: Any, axis: Any, norm: Any, *, sine: bool, inverse: bool) -> Any:
    if type not in (2, 3):
        raise ParameterError(f"type={type!r}: choose 2 or 3")
    check_norm(norm)
    x = taken(x, wide=True)
    if "complex" in str(x.dtype):
        raise DtypeError(f"x has dtype {x.dtype}: transform x.real and x.imag one after the other")
    place = axis_of(axis, x.ndim)
    length = operator.index(length_of(n, x.shape[place], place))  # there are tables of no graph's symbol
    # The inverse of type 2 is type 3 over 2n, and the other way round.
    kind = type if not inverse else 5 - type
    over = inverse == (norm != "forward")
    scale = "ortho" if norm == "ortho" else "over" if over else "none"
    if is_dask(x):
        plan_of(FftCall(None, "from_real", length, place), real_format(x.dtype))  # as the tables would, later
        return dask_arrays().mapped(
            _along, x, place, length, x.dtype, n=length, place=place, kind=kind, scale=scale, sine=sine
        )
    return _along(x, length, place, kind, scale, sine)


@ieee_of_arrays
def _along(x: Any, n: int, place: int, kind: int, scale: str, sine: bool) -> Any:
    xp = namespace(x)
    signs, weights, cosines, sines = _beside(x, n, kind, scale)
    x = _fitted(xp, moved(x, place, -1), n)
    if kind == 2:
        # The sine transform is that of numbers with signs in turns, in the other order.
        y = _second(xp, x * signs if sine else x, n, cosines, sines) * weights
        y = xp.flip(y, (-1,)) if sine else y
    else:
        y = _third(xp, (xp.flip(x, (-1,)) if sine else x) * weights, n, cosines, sines)
        y = y * signs if sine else y
    return moved(y, -1, place)


def _fitted(xp: Any, x: Any, n: int) -> Any:
    """Cut to n numbers of the last axis, or padded with zeros."""
    there = x.shape[-1]
    if there >= n:
        return x[..., :n]
    zero = xp.zeros_like(x[..., :1] if there else x.sum(-1, keepdims=True))
    return xp.concatenate((x, xp.broadcast_to(zero, (*x.shape[:-1], n - there))), -1)


def _beside(x: Any, n: int, kind: int, scale: str) -> Any:
    """The tables, as arrays of x's library and device."""
    if is_tensor(x):
        return tensors().cosine_tables(n, kind, scale, x.dtype, x.device)
    found = tables(n, kind, scale, np.dtype(x.dtype).name)
    return found if isinstance(x, np.ndarray) else [namespace(x).asarray(each) for each in found]


def _second(xp: Any, x: Any, n: int, c: Any, s: Any) -> Any:
    """Half of type 2: the numbers at even places, then those at odd ones from the end, are transformed."""
    v = xp.concatenate((x[..., ::2], xp.flip(x[..., 1::2], (-1,))), -1)
    z = transformed(v, "from_real", n, v.ndim - 1)
    re, im = z.real, z.imag
    first = re * c + im * s
    last = re * s - im * c
    return xp.concatenate((first, xp.flip(last[..., 1 : (n + 1) // 2], (-1,))), -1)


def _third(xp: Any, x: Any, n: int, c: Any, s: Any) -> Any:
    """Type 3, by the inverse of all that."""
    half = n // 2
    near, far = x[..., : half + 1], xp.flip(x[..., n - half :], (-1,))
    # Number n, the mirror image of the first, counts as zero.
    far = xp.concatenate((xp.zeros_like(x[..., :1]), far), -1)
    z = xp.stack((near * c + far * s, near * s - far * c), -1)
    v = transformed(z, "to_real", n, z.ndim - 2, pairs=True)
    even, odd = v[..., : n - half], xp.flip(v[..., n - half :], (-1,))
    if n % 2:
        return xp.concatenate(
            (xp.stack((even[..., :half], odd), -1).reshape((*x.shape[:-1], 2 * half)), even[..., half:]), -1
        )
    return xp.stack((even, odd), -1).reshape(x.shape)
