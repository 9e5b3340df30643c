"""``ntt`` and ``intt``: exact transforms modulo p = 2^64 - 2^32 + 1, for convolutions of whole numbers."""

from __future__ import annotations

from typing import Any

from tcu.engines.choice import load_cuda
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import lives_on_gpu
from tcu.integers.limbs import as_array, as_given, as_numpy
from tcu.model import ntt as model
from tcu.plan.ntt import P

__all__ = ["MODULUS", "intt", "ntt"]

MODULUS = P
"""The prime p = 2^64 - 2^32 + 1."""


def ntt(x: Any) -> Any:
    """The number-theoretic transform along the last axis, modulo p = 2^64 - 2^32 + 1.

    Number k of the result is the sum over i of x[i]·w^(i·k) modulo p, where w = 7^((p - 1)/n) is an n-th root of unity.  A
    product of two transforms is the transform of a cyclic convolution, whose sums are exact while they are below p.

    Parameters
    ----------
    x:
        Array of uint64 of NumPy, PyTorch, CuPy or JAX, on the host or in a GPU's memory; the last axis has a power of
        two of numbers, up to 2^32, and on a GPU up to 2^26.  A number of p or more counts as its remainder.

    Returns
    -------
    An array of x's kind and shape, of numbers below p; the same bits everywhere.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        Another dtype; no axis; another length.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> x = np.array([1, 2, 0, 0], np.uint64)
    >>> tcu.integers.ntt(x)
    array([                   3,      562949953421313, 18446744069414584320,
           18446181119461163010], dtype=uint64)
    >>> tcu.integers.intt(tcu.integers.ntt(x))
    array([1, 2, 0, 0], dtype=uint64)
    """
    return _transformed(x, False)


def intt(x: Any) -> Any:
    """What :func:`ntt` undoes: the sum over i of x[i]·w^(-i·k), divided by n modulo p.

    Parameters, results and errors are those of :func:`ntt`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> f = tcu.integers.ntt(np.array([1, 2, 0, 0], np.uint64)).astype(object)
    >>> square = (f * f % tcu.integers.MODULUS).astype(np.uint64)
    >>> tcu.integers.intt(square)  # (1 + 2·x)²
    array([1, 4, 4, 0], dtype=uint64)
    """
    return _transformed(x, True)


def _transformed(x: Any, back: bool) -> Any:
    x = as_array(x, "x")
    if str(x.dtype).rpartition(".")[2] != "uint64":
        raise DtypeError(f"x has dtype {str(x.dtype).rpartition('.')[2]}: transforms modulo p take uint64")
    if not len(x.shape):
        raise ShapeError("x has no axis: give numbers along the last one, a power of two of them")
    n = int(x.shape[-1])
    if n & (n - 1) or not 1 <= n <= 1 << 32:
        raise ParameterError(
            f"x has {n} numbers along its last axis: give a power of two, up to 2^32, with zeros behind x"
        )
    if lives_on_gpu(x):
        return load_cuda().transform_rows(x, back)
    array = as_numpy(x, "x")
    return as_given(model.transform(array.reshape(-1, n), back=back).reshape(array.shape), x)
