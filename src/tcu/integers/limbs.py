"""Functions of numbers as arrays of limbs: the last axis has a number's limbs, the lowest first, and the others are a batch.

Arrays of NumPy, PyTorch, CuPy or JAX, of uint32 or uint64; all of one call are of one dtype and one library.  The result is
of their kind, and where they are: what lies in a GPU's memory is computed there, in launches that nobody waits for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tcu.engines.choice import load_cuda
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, ShapeError
from tcu.formats.array import check_in_memory, lives_on_gpu, numpy_array, whole_number
from tcu.formats.tensor import check_data, check_dense, is_tensor, plain_view, tensor_of
from tcu.integers import rows
from tcu.integers.operands import integers_of, number_of, row_of

__all__ = [
    "as_array", "as_given", "as_numpy", "from_limbs", "multiply_limbs", "multiply_mod_limbs", "operands", "powmod_limbs", "square_limbs", "to_limbs",
]  # fmt: skip

_DTYPES = ("uint32", "uint64")


def to_limbs(numbers: Any, length: int | None = None, *, dtype: Any = np.uint64) -> Any:
    """Integers of 0 or more as a NumPy array of limbs.

    Parameters
    ----------
    numbers:
        A Python integer, or an array or list of integers.
    length:
        Limbs of each number; None: as many as the longest needs.
    dtype:
        uint32 or uint64.

    Raises
    ------
    ParameterError, DtypeError:
        A negative number, or one that ``length`` limbs do not hold; another dtype.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.integers.to_limbs([1, 2**32 + 5], dtype=np.uint32)
    array([[1, 0],
           [5, 1]], dtype=uint32)
    """
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = None
    if kind is None or kind.name not in _DTYPES:
        given = repr(dtype) if kind is None else kind.name
        raise DtypeError(f"dtype={given}: limbs are uint32 or uint64, as NumPy has them")
    array = integers_of("numbers", numbers)
    if any(number < 0 for number in array.flat):
        raise ParameterError("numbers holds a negative one, and limbs have no sign: give its magnitude")
    bits = max((number.bit_length() for number in array.flat), default=0)
    needed = max(1, -(-bits // (8 * kind.itemsize)))
    count = needed if length is None else whole_number(length)
    if count is None:
        raise ParameterError(
            f"length={length!r}: give a whole number, or None for as many limbs as are needed"
        )
    if count < needed:
        raise ParameterError(
            f"length={length!r}: the longest number has {bits} bits and takes {needed} limbs"
        )
    result = np.empty((*array.shape, count), kind)
    for place in np.ndindex(array.shape):
        result[place] = row_of(array[place], count, kind)
    return result


def from_limbs(x: Any) -> Any:
    """The integers that limbs make: an int of one line of them, else an array of Python integers.

    Of an array in a GPU's memory, copy it to the host first.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.integers.from_limbs(np.array([5, 1], np.uint32))
    4294967301
    """
    (x,) = operands(x=x)
    if lives_on_gpu(x):
        raise ParameterError("x is in a GPU's memory: copy it to the host first, with x.cpu() or x.get()")
    x = as_numpy(x, "x")
    if x.ndim == 1:
        return number_of(x)
    result = np.empty(x.shape[:-1], object)
    for place in np.ndindex(result.shape):
        result[place] = number_of(x[place])
    return result


def multiply_limbs(a: Any, b: Any) -> Any:
    """Products of numbers in limbs: (..., la) and (..., lb) give (..., la + lb), and leading axes broadcast.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        Other dtypes than uint32 and uint64, or two of them; an array without an axis; leading axes that do not
        broadcast; arrays of two libraries.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> a = np.array([2**32 - 1, 7], np.uint32)
    >>> tcu.integers.multiply_limbs(a, np.array([2], np.uint32))
    array([4294967294,         15,          0], dtype=uint32)
    """
    a, b = operands(a=a, b=b)
    if lives_on_gpu(a):
        return load_cuda().multiply_limbs(a, b)
    if b is a:
        return as_given(rows.multiply(*2 * (as_numpy(a, "a"),)), a)
    return as_given(rows.multiply(as_numpy(a, "a"), as_numpy(b, "b")), a)


def square_limbs(a: Any) -> Any:
    """Squares of numbers in limbs, of twice as many; errors are those of :func:`multiply_limbs`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> tcu.integers.square_limbs(np.array([[2**32 - 1], [3]], np.uint32))
    array([[         1, 4294967294],
           [         9,          0]], dtype=uint32)
    """
    return multiply_limbs(a, a)


def multiply_mod_limbs(a: Any, b: Any, m: Any, *, check: bool = True) -> Any:
    """a·b modulo m, of as many limbs as m has.

    On a GPU moduli are odd and have at most 8,192 bits, and factors have no more limbs than the moduli.

    Parameters
    ----------
    a, b, m:
        Numbers in limbs, whose leading axes broadcast.
    check:
        False: moduli are not looked at; on a GPU, looking means waiting.  The result modulo an even number is 0 there.

    Raises
    ------
    DtypeError, ShapeError, ParameterError:
        Those of :func:`multiply_limbs`; on a GPU an even modulus, and numbers that are too long.
    InvalidOperationError:
        In the host's memory a modulus of 0.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> a, m = np.array([[5], [6]], np.uint64), np.array([7], np.uint64)
    >>> tcu.integers.multiply_mod_limbs(a, a, m)
    array([[4],
           [1]], dtype=uint64)
    """
    a, b, m = operands(a=a, b=b, m=m)
    if lives_on_gpu(a):
        return load_cuda().modular(a, b, m, powers=False, check=check)
    return as_given(rows.multiply_mod(*_moduli(a=a, b=b, m=m)), a)


def powmod_limbs(a: Any, n: Any, m: Any, *, check: bool = True) -> Any:
    """a to the n-th modulo m, of as many limbs as m has; n is limbs, too, as many as it needs.

    Parameters, limits and errors are those of :func:`multiply_mod_limbs`.

    Examples
    --------
    >>> import numpy as np, tcu
    >>> a, n, m = (np.array([x], np.uint64) for x in (3, 10**18, 10**9 + 7))
    >>> tcu.integers.powmod_limbs(a, n, m) == pow(3, 10**18, 10**9 + 7)
    array([ True])
    """
    a, n, m = operands(a=a, n=n, m=m)
    if lives_on_gpu(a):
        return load_cuda().modular(a, n, m, powers=True, check=check)
    return as_given(rows.powmod(*_moduli(a=a, n=n, m=m)), a)


def operands(**given: Any) -> tuple[Any, ...]:
    """Arrays of limbs of one library, on one device, whose leading axes broadcast; anything NumPy reads becomes its array."""
    found = {}
    for label, x in given.items():
        found[label] = as_array(x, label)
    kinds = {label: (type(x).__module__.partition(".")[0], lives_on_gpu(x)) for label, x in found.items()}
    names = " and ".join([", ".join([*found][:-1]), [*found][-1]]) if len(found) > 1 else ""
    if len(set(kinds.values())) > 1:
        raise ParameterError(
            f"{names} are arrays of two libraries, or in the host's memory and a GPU's: give all of one"
        )
    dtypes = {label: str(x.dtype).rpartition(".")[2] for label, x in found.items()}
    for label, x in found.items():
        if dtypes[label] not in _DTYPES:
            raise DtypeError(f"{label} has dtype {dtypes[label]}: limbs are uint32 or uint64")
        if not len(x.shape) or not x.shape[-1]:
            what = "limbs" if len(x.shape) else "axis"
            raise ShapeError(
                f"{label} has no {what}: give limbs along the last one, the lowest first, and one for a 0"
            )
    if len(set(dtypes.values())) > 1:
        raise DtypeError(
            f"{names} have limbs of {' and '.join(sorted(set(dtypes.values())))}: give one dtype"
        )
    shapes = {label: tuple(x.shape) for label, x in found.items()}
    try:
        np.broadcast_shapes(*(shape[:-1] for shape in shapes.values()))
    except ValueError:
        listed = ", ".join(f"{label} {shape}" for label, shape in shapes.items())
        raise ShapeError(f"{listed}: axes before the limbs do not broadcast") from None
    return tuple(found.values())


def as_array(x: Any, label: str) -> Any:
    """A tensor or an array on a GPU as it is; anything else as NumPy reads it, in the machine's order of bytes."""
    check_in_memory(x, label)
    if is_tensor(x) or lives_on_gpu(x):
        return x
    array = numpy_array(x, label)
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _moduli(**given: Any) -> tuple[Any, ...]:
    """NumPy's arrays of what is given, the moduli last.  Raises InvalidOperationError."""
    arrays = tuple(as_numpy(x, label) for label, x in given.items())
    if not arrays[-1].any(-1).all():
        raise InvalidOperationError(
            "m holds a modulus of 0, of which there are no remainders: give 1 or more"
        )
    return arrays


def as_numpy(x: Any, label: str) -> Any:
    """An array in the host's memory as NumPy's."""
    if not is_tensor(x):
        return x
    check_data(x, label)
    check_dense(x, label, "multiply")
    return plain_view(x, label)


def as_given(result: Any, like: Any) -> Any:
    """A result as an array of the library of what was given."""
    return tensor_of(result) if is_tensor(like) else result
