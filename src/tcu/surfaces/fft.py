"""``tcu.fft``: NumPy's functions of Fourier transforms, by plans, so that their bits are the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import is_dask, lives_on_gpu, whole_number
from tcu.formats.tensor import is_tensor
from tcu.model.fft import error_of
from tcu.model.ieee_environment import ieee
from tcu.ops.fft import KINDS, FftCall, Kind, plan_of, real_format
from tcu.surfaces.fft_arrays import axis_of, conjugate, divisor_of, length_of, taken, transformed
from tcu.surfaces.one_library import namespace

__all__ = [
    "error_bound", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

Norm = Literal["backward", "ortho", "forward"] | None
Axes = Sequence[int]
_SWAPPED = {"forward": "backward", "ortho": "ortho", "backward": "forward", None: "forward"}


def fft(x: Any, n: int | None = None, axis: int = -1, norm: Norm = None, *, pairs: bool = False) -> Any:
    """Σ x[j]·exp(-2πijk/n) for k from 0 to n - 1: the discrete Fourier transform, with the same bits everywhere.

    By a plan (:func:`tcu.plan.fft.fft_plan`) that says every addition,
    multiplication, FMA and rounding.  It depends on n and the format alone: so a
    transform has the same bits alone, in a batch, along any axis, on every
    CPU and on every GPU.  Any n is served: products of 2, 3, 5 and 7 fastest,
    others by a convolution with a chirp.

    Parameters
    ----------
    x:
        An array of complex64, complex128, float32 or float64, of NumPy,
        PyTorch (with gradients; also complex32), Dask, or on a GPU of anything with ``__dlpack__`` or
        ``__cuda_array_interface__``.  Whole numbers and truth values count as
        float64, in PyTorch as its default dtype.  float16 and bfloat16 are
        computed in float32; but float16 tensors give complex32, as ``pairs``.
    n:
        The length: the axis is cut to it, or padded with zeros.  None: as it is.
    axis:
        The axis that is transformed.
    norm:
        "backward" (None): as above; "ortho": times 1/√n; "forward": times 1/n.
        Results are multiplied last, and rounded once for that.
    pairs:
        Whether x is of real numbers (float16, float32, float64) whose last axis of two holds real and
        imaginary parts, as the result then does; ``axis`` counts the other axes.  Pairs of float16 are complex
        numbers of half precision: computed in float32 and, in long transforms, stored as
        float16 in between, scaled by powers of two so that nothing overflows there.  Those of an
        even number of 4096 to 2^26 are computed in float16, too, likewise scaled: with errors about 1e-3
        of the results' size, where float32 would leave 2e-4 to 4e-4.

    Returns
    -------
    An array of x's library: complex128 for float64 and complex128, else complex64; pairs for pairs.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        A format that is not transformed; pairs that are none; no such axis, n or norm.

    Source: the plan's levels are T. G. Stockham's, its butterflies I. J. Good's and
    E. Linzer and E. Feig's; prime lengths are L. I. Bluestein's.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.fft([1, 2, 3, 4])
    array([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    >>> x = np.random.default_rng(0).standard_normal((1000, 48))
    >>> bool((tcu.fft.fft(x)[7] == tcu.fft.fft(x[7])).all())
    True
    >>> tcu.fft.fft(np.array([[1, 0], [0, 1]], np.float16), pairs=True)
    array([[ 1.,  1.],
           [ 1., -1.]], dtype=float16)
    """
    return _complex(x, n, axis, norm, pairs, inverse=False)


def ifft(x: Any, n: int | None = None, axis: int = -1, norm: Norm = None, *, pairs: bool = False) -> Any:
    """The inverse of :func:`fft`: 1/n · Σ x[j]·exp(2πijk/n).

    The parameters are those of :func:`fft`; ``norm`` "backward" (None) multiplies by 1/n,
    "ortho" by 1/√n, "forward" by nothing.  The plan is the same, with
    real and imaginary parts exchanged.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.ifft([10, -2 + 2j, -2, -2 - 2j])
    array([1.+0.j, 2.+0.j, 3.+0.j, 4.+0.j])
    """
    return _complex(x, n, axis, norm, pairs, inverse=True)


def _complex(x: Any, n: Any, axis: Any, norm: Any, pairs: bool, *, inverse: bool) -> Any:
    x = taken(x, pairs=pairs)
    shape = x.shape[:-1] if pairs else x.shape
    place = axis_of(axis, len(shape))
    length = length_of(n, shape[place], place)
    divisor = divisor_of(norm, inverse=inverse)
    return transformed(x, "inverse" if inverse else "forward", length, place, divisor, pairs=pairs)


def rfft(x: Any, n: int | None = None, axis: int = -1, norm: Norm = None) -> Any:
    """The first n//2 + 1 numbers of :func:`fft` of real numbers, of which the others are the mirror image.

    An even n takes half the time of :func:`fft`: the plan is that of n/2 complex
    numbers, the even and the odd ones.  It makes twice the results, and twice the transforms of both, before it halves
    them: where a part of these is from 2^127 on (float64: 2^1023), half of what overflows, results are inf or NaN, which
    those of :func:`fft` may not be.  The parameters are those of :func:`fft`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.rfft([1, 2, 3, 4])
    array([10.+0.j, -2.+2.j, -2.+0.j])
    """
    x = taken(x, real="rfft")
    place = axis_of(axis, x.ndim)
    length = length_of(n, x.shape[place], place)
    return transformed(x, "from_real", length, place, divisor_of(norm, inverse=False))


def irfft(x: Any, n: int | None = None, axis: int = -1, norm: Norm = None) -> Any:
    """n real numbers from the first n//2 + 1 of their transform: the inverse of :func:`rfft`.

    The imaginary part of the first number counts as zero, and for even n that of the last.  ``n``: None means
    2·(m - 1) for m numbers along the axis, so give an odd n.  The other parameters are those of :func:`ifft`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.irfft([10, -2 + 2j, -2])
    array([1., 2., 3., 4.])
    >>> tcu.fft.irfft(tcu.fft.rfft([1, 2, 3]), 3)
    array([1., 2., 3.])
    """
    x = taken(x)
    place = axis_of(axis, x.ndim)
    length = length_of(n, 2 * (x.shape[place] - 1), place)
    return transformed(x, "to_real", length, place, divisor_of(norm, inverse=True))


def hfft(x: Any, n: int | None = None, axis: int = -1, norm: Norm = None) -> Any:
    """The transform, which is real, of n numbers whose second half mirrors the first: of n//2 + 1 of them.

    :func:`irfft` of the conjugate numbers, with the factors of :func:`fft`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.hfft([1, 2, 3])
    array([ 8., -2.,  0., -2.])
    """
    return irfft(conjugate(taken(x)), n, axis, _swapped(norm))


def ihfft(x: Any, n: int | None = None, axis: int = -1, norm: Norm = None) -> Any:
    """The inverse of :func:`hfft`: conjugate numbers of :func:`rfft`, with the factors of :func:`ifft`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.ihfft([8, -2, 0, -2])
    array([1.-0.j, 2.-0.j, 3.-0.j])
    """
    return conjugate(rfft(taken(x, real="ihfft"), n, axis, _swapped(norm)))


def _swapped(norm: Any) -> Any:
    return _SWAPPED.get(norm, norm) if norm is None or isinstance(norm, str) else norm


def fft2(x: Any, s: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: Norm = None) -> Any:
    """:func:`fft` along two axes, the last one first; the parameters are those of :func:`fftn`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.fft2([[1, 2], [3, 4]])
    array([[10.+0.j, -2.+0.j],
           [-4.+0.j,  0.+0.j]])
    """
    return fftn(x, s, axes, norm)


def ifft2(x: Any, s: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: Norm = None) -> Any:
    """:func:`ifft` along two axes, the last one first: the inverse of :func:`fft2`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.ifft2([[10, -2], [-4, 0]])
    array([[1.+0.j, 2.+0.j],
           [3.+0.j, 4.+0.j]])
    """
    return ifftn(x, s, axes, norm)


def rfft2(x: Any, s: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: Norm = None) -> Any:
    """:func:`rfft` along the last of two axes, then :func:`fft` along the first.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.rfft2(np.ones((2, 4)))
    array([[8.+0.j, 0.+0.j, 0.+0.j],
           [0.+0.j, 0.+0.j, 0.+0.j]])
    """
    return rfftn(taken(x, real="rfft2"), s, axes, norm)


def irfft2(x: Any, s: Sequence[int] | None = None, axes: Axes = (-2, -1), norm: Norm = None) -> Any:
    """The inverse of :func:`rfft2`: :func:`ifft` along the first of two axes, then :func:`irfft` along the last.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.irfft2(tcu.fft.rfft2(np.ones((2, 4))))
    array([[1., 1., 1., 1.],
           [1., 1., 1., 1.]])
    """
    return irfftn(x, s, axes, norm)


def fftn(x: Any, s: Sequence[int] | None = None, axes: Axes | None = None, norm: Norm = None) -> Any:
    """:func:`fft` along several axes one after another, the last one first.

    Each has the bits of :func:`fft` of what the ones before it gave.

    Parameters
    ----------
    x, norm:
        As in :func:`fft`.
    s:
        The length along each of ``axes``; -1: as it is.
    axes:
        None: all axes, or the last ``len(s)``.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        What :func:`fft` raises; as many lengths as there are axes must be given.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> bool((tcu.fft.fftn(x, axes=(0, 2)) == tcu.fft.fft(tcu.fft.fft(x, axis=2), axis=0)).all())
    True
    """
    return _each(x, s, axes, norm, inverse=False)


def ifftn(x: Any, s: Sequence[int] | None = None, axes: Axes | None = None, norm: Norm = None) -> Any:
    """:func:`ifft` along several axes one after another, the last one first: the inverse of :func:`fftn`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.ifftn([[10, -2], [-4, 0]])
    array([[1.+0.j, 2.+0.j],
           [3.+0.j, 4.+0.j]])
    """
    return _each(x, s, axes, norm, inverse=True)


def _each(x: Any, s: Any, axes: Any, norm: Any, *, inverse: bool) -> Any:
    x = taken(x)
    for n, axis in reversed(_lengths(x.shape, s, axes)):
        x = _complex(x, n, axis, norm, False, inverse=inverse)
    return x


def rfftn(x: Any, s: Sequence[int] | None = None, axes: Axes | None = None, norm: Norm = None) -> Any:
    """:func:`rfft` along the last of several axes, then :func:`fft` along the others, the last one first.

    The parameters are those of :func:`fftn`, of real numbers.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.arange(24.0).reshape(2, 3, 4)
    >>> tcu.fft.rfftn(x).shape
    (2, 3, 3)
    """
    x = taken(x, real="rfftn")
    *first, (n, axis) = _at_least_one(_lengths(x.shape, s, axes))
    x = rfft(x, n, axis, norm)
    for n, axis in reversed(first):
        x = _complex(x, n, axis, norm, False, inverse=False)
    return x


def irfftn(x: Any, s: Sequence[int] | None = None, axes: Axes | None = None, norm: Norm = None) -> Any:
    """The inverse of :func:`rfftn`: :func:`ifft` along all axes but the last, the first one first, and :func:`irfft` along that.

    The parameters are those of :func:`fftn`; the last length is that of the real numbers, by default 2·(m - 1) for m there.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.ones((2, 3, 4))
    >>> tcu.fft.irfftn(tcu.fft.rfftn(x)).shape
    (2, 3, 4)
    """
    x = taken(x)
    *first, (n, axis) = _at_least_one(_lengths(x.shape, s, axes, real=True))
    for each, at in first:
        x = _complex(x, each, at, norm, False, inverse=True)
    return irfft(x, n, axis, norm)


def _lengths(shape: Sequence[int], s: Any, axes: Any, *, real: bool = False) -> list[tuple[int, int]]:
    """(length, axis from 0 on) of each transform; ``real``: the last one makes real numbers of half as many."""
    ndim = len(shape)
    lengths = None if s is None else _listed(s, "s")
    if axes is not None:
        places = [axis_of(each, ndim) for each in _listed(axes, "axes")]
    elif lengths is None:
        places = list(range(ndim))
    elif len(lengths) <= ndim:
        places = list(range(ndim - len(lengths), ndim))
    else:
        raise ShapeError(f"s has {len(lengths)} lengths, x {ndim} axes: give at most one for each axis")
    if lengths is None:
        lengths = [None] * len(places)
    if len(lengths) != len(places):
        raise ShapeError(f"s has {len(lengths)} lengths, axes {len(places)}: give a length for each axis")
    lengths = [shape[at] if each == -1 else each for each, at in zip(lengths, places, strict=True)]
    found = []
    for number, (n, axis) in enumerate(zip(lengths, places, strict=True)):
        last = real and number + 1 == len(places)
        found.append((length_of(n, 2 * (shape[axis] - 1) if last else shape[axis], axis, "s"), axis))
    return found


def _listed(given: Any, name: str) -> list[Any]:
    try:
        return list(given)
    except TypeError:
        raise ParameterError(f"{name}={given!r}: give a list of whole numbers, one for each axis") from None


def _at_least_one(found: list[tuple[int, int]]) -> list[tuple[int, int]]:
    if not found:
        raise ParameterError("axes is empty: name the axis of the real numbers")
    return found


def fftshift(x: Any, axes: int | Axes | None = None) -> Any:
    """The numbers of a transform in the order of their frequencies: that of frequency 0 goes to the middle.

    ``axes``: along which; None: all.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.fftshift(tcu.fft.fftfreq(5, 1 / 5))
    array([-2., -1.,  0.,  1.,  2.])
    """
    return _rolled(x, axes, lambda n: n // 2)


def ifftshift(x: Any, axes: int | Axes | None = None) -> Any:
    """The inverse of :func:`fftshift`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.ifftshift([-2, -1, 0, 1, 2])
    array([ 0,  1,  2, -2, -1])
    """
    return _rolled(x, axes, lambda n: -(n // 2))


def _rolled(x: Any, axes: Any, by: Any) -> Any:
    if not (is_tensor(x) or is_dask(x) or lives_on_gpu(x)):
        x = np.asarray(x)
    if axes is None:
        axes = range(x.ndim)
    elif whole_number(axes) is not None:
        axes = (axes,)
    places = tuple(axis_of(each, x.ndim) for each in _listed(axes, "axes"))
    return namespace(x).roll(x, tuple(by(x.shape[each]) for each in places), places) if places else x


@ieee
def fftfreq(n: int, d: float = 1.0) -> npt.NDArray[np.float64]:
    """The frequency of each number of a transform of n samples that are ``d`` apart, in cycles per unit of d.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.fftfreq(4, 0.5)
    array([ 0. ,  0.5, -1. , -0.5])
    """
    length, step = _step(n, d)
    number = np.arange(length)
    number[(length + 1) // 2 :] -= length
    return step * number


@ieee
def rfftfreq(n: int, d: float = 1.0) -> npt.NDArray[np.float64]:
    """The same of the n//2 + 1 numbers of :func:`rfft`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.fft.rfftfreq(4, 0.5)
    array([0. , 0.5, 1. ])
    """
    length, step = _step(n, d)
    return step * np.arange(length // 2 + 1)


def _step(n: Any, d: Any) -> tuple[int, np.float64]:
    """(the length, how far frequencies are apart)"""
    length = length_of(n, 0, 0)
    try:
        if d != 0:
            return length, np.float64(1 / (length * d))
    except (TypeError, ValueError):
        pass
    raise ParameterError(f"d={d!r}: give a number other than 0, how far samples are apart")


def error_bound(
    n: int,
    dtype: npt.DTypeLike | Any,
    kind: Kind = "forward",
) -> float:
    """A proved bound on the relative error of a transform, in the Euclidean norm.

    ‖computed - exact‖₂ ≤ bound · ‖exact‖₂, over all n numbers of a transform: an error of a number is small beside the
    largest numbers, and not beside that number.  Of "from_real" the left side is of the n//2 + 1 numbers that
    come back, the right side of all n.

    Proved from the plan (:func:`tcu.model.fft.error_of`), where nothing overflows or underflows; the factor of a ``norm`` and the rounding of
    the result to its format are part of it.  A part of a float16 result whose magnitude is
    below 2^-14 may be off by 2^-25 besides.  Along several axes, errors add up.

    Parameters
    ----------
    n:
        The length of the transform.
    dtype:
        Of the numbers, real or complex: float16 (of pairs, and PyTorch's complex32), float32, complex64, float64 or complex128.
    kind:
        "forward": :func:`fft`; "inverse": :func:`ifft`; "from_real": :func:`rfft`; "to_real": :func:`irfft`.

    Raises
    ------
    DtypeError, ParameterError:
        A dtype that has no transforms; no such n or kind.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.random.default_rng(0).standard_normal(1024)
    >>> error = np.linalg.norm(tcu.fft.fft(x.astype(np.float32)) - tcu.fft.fft(x.astype(np.float32).astype(float)))
    >>> bool(error < tcu.fft.error_bound(1024, "complex64") * np.linalg.norm(tcu.fft.fft(x)))
    True
    >>> tcu.fft.error_bound(1 << 20, "complex128") < 2e-14
    True
    """
    if kind not in KINDS:
        raise ParameterError(f"kind={kind!r}: choose one of {', '.join(KINDS)}")
    length = length_of(n, 0, 0)
    real = real_format(_dtype_of(dtype))
    plan = plan_of(FftCall(None, kind, length, 0), real)
    u = 2.0**-53 if plan.work == "binary64" else 2.0**-24
    total = error_of(plan)
    # Real numbers are folded into complex ones, or unfolded, by FMAs with twiddle factors: 5√2 + 1 roundings at most.
    own = [10 * u] if kind in ("from_real", "to_real") else []
    own.append(3 * u)  # a factor, and the product by it
    if real.name == "binary16":
        own.append(2.0**-11)
    for each in own:
        total += each + total * each
    return total * (1 + 2.0**-10)


def _dtype_of(given: Any) -> np.dtype[Any]:
    """Of NumPy, whose parts are as wide; raises DtypeError for what names none."""
    name = str(given).removeprefix("torch.") if type(given).__module__ == "torch" else given
    try:
        if name is not None:
            return np.dtype("float16" if str(name) == "complex32" else name)
    except TypeError:
        pass
    raise DtypeError(f"dtype={given!r}: give float16, float32, complex64, float64 or complex128")
