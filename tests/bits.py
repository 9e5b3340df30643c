"""Results as their bits, on whatever device they are: every test of bits compares with these."""

from __future__ import annotations

import hashlib
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["codes", "digest", "one_nan", "same"]


def codes(x: Any) -> npt.NDArray[Any]:
    """The codes of an array, a NumPy number or a PyTorch tensor, in its shape, in the host's memory.

    Of complex numbers those of both parts, along a last axis.
    """
    if isinstance(x, np.ndarray | np.generic):
        host = np.asarray(x, order="C")
        if host.dtype.kind == "c":
            host = host.reshape(*host.shape, 1).view(f"f{host.itemsize // 2}")
    else:
        torch = sys.modules["torch"]
        x = torch.view_as_real(x.detach().resolve_conj()) if x.is_complex() else x
        raw = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
        host = x.detach().contiguous().view(raw).cpu().numpy()
    return host.view(f"u{host.itemsize}")


def same(found: Any, expected: Any, *what: Any) -> None:
    """Raises what differs, if anything does: the shape, the dtype, or the first of the elements; ``what`` it was."""
    there, wanted = ((tuple(x.shape), str(x.dtype).removeprefix("torch.")) for x in (found, expected))
    assert there == wanted, (*what, there, wanted)
    found, expected = codes(found), codes(expected)
    if not np.array_equal(found, expected):
        wrong = np.argwhere(found != expected)
        at = tuple(wrong[0].tolist())
        raise AssertionError(
            f"{what}: at {at} {found[at]:#x}, expected {expected[at]:#x}; {len(wrong)} of {found.size} differ"
        )


def one_nan(result: Any) -> npt.NDArray[Any]:
    """In the host's memory, complex numbers as pairs; a NaN is one, whatever its bits."""
    if not isinstance(result, np.ndarray):
        torch = sys.modules["torch"]
        result = (torch.view_as_real(result.resolve_conj()) if result.is_complex() else result).cpu().numpy()
    host = np.asarray(result)
    if host.dtype.kind == "c":
        host = np.stack([host.real, host.imag], -1)
    return np.where(np.isnan(host), np.array(np.nan, host.dtype), host)


def digest(result: Any) -> str:
    """Of the dtype, the shape and the bits of what an array or a number is to NumPy."""
    array = np.asarray(result)
    return hashlib.sha256(repr((array.dtype, array.shape)).encode() + array.tobytes()).hexdigest()
