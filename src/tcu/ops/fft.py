"""What a Fourier transform is asked for: along one axis, in one of four ways."""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, get_args

import numpy as np

from tcu.errors import DtypeError
from tcu.formats.format import Format, format_of
from tcu.plan.fft import FftPlan, Storage, fft_plan

__all__ = [
    "DIVISORS", "KINDS", "Divisor", "FftCall", "Kind", "complex_dtype", "inverse_of", "plan_of", "real_format", "result_shape",
]  # fmt: skip

Kind = Literal["forward", "inverse", "from_real", "to_real"]
"""Σ x[j]·exp(∓2πijk/n) of complex or real numbers; the first n//2 + 1 numbers of it, of real ones; and n real numbers from these."""
KINDS: tuple[Kind, ...] = get_args(Kind)
Divisor = Literal["1", "n", "√n"]
"""Of a transform's results; a graph's operator keeps it as such, as a number would fix n."""
DIVISORS: tuple[Divisor, ...] = get_args(Divisor)


class FftCall(NamedTuple):
    x: Any
    """A plain array, of "to_real" of complex numbers; a number may be a pair of real ones, its parts, along a last axis
    (``pairs``)."""
    kind: Kind
    n: int
    """The length of the transform.  Along the axis, x is cut, or padded with zeros, to n numbers, or of "to_real" to n//2 + 1."""
    axis: int
    """From 0 on; pairs have none."""
    factor: float = 1.0
    """That every result is multiplied by, rounded, last."""
    pairs: bool = False

    @property
    def taken(self) -> int:
        """Numbers along the axis that a transform takes."""
        return self.n // 2 + 1 if self.kind == "to_real" else self.n

    @property
    def made(self) -> int:
        """Numbers along the axis of the result."""
        return self.n // 2 + 1 if self.kind == "from_real" else self.n

    @property
    def in_pairs(self) -> bool:
        """Whether the result is pairs: where complex numbers came or would come as such."""
        return self.kind != "to_real" and (
            self.pairs or str(self.x.dtype).removeprefix("torch.") == "float16"
        )


def inverse_of(divisor: Divisor, n: int) -> float:
    """What results of transforms of n numbers are multiplied by."""
    return 1.0 if divisor == "1" else 1 / n if divisor == "n" else 1 / math.sqrt(n)


def real_format(dtype: np.dtype[Any]) -> Format:
    """Of real and imaginary parts.  Raises DtypeError where these are not binary16, binary32 or binary64."""
    kind = {"complex64": "float32", "complex128": "float64"}.get(dtype.name, dtype.name)
    if kind not in ("float16", "float32", "float64"):
        raise DtypeError(
            f"x has dtype {dtype}: give complex64, complex128, float32 or float64, or pairs of float16"
        )
    return format_of(np.dtype(kind))


def complex_dtype(real: Format) -> np.dtype[Any]:
    """Of NumPy's complex numbers for such parts: of binary16 those of binary32."""
    return np.dtype(np.complex128 if real.name == "binary64" else np.complex64)


def plan_of(call: FftCall, real: Format) -> FftPlan:
    """Of the complex transforms that a call comes down to: of n numbers, or of n/2 of an even number of real ones."""
    if call.kind in ("forward", "inverse"):
        return fft_plan(call.n, _storage(real.name))
    return fft_plan(
        call.n if call.n % 2 else call.n // 2, "binary64" if real.name == "binary64" else "binary32"
    )


def _storage(name: str) -> Storage:
    return "binary16" if name == "binary16" else "binary64" if name == "binary64" else "binary32"


def result_shape(call: FftCall, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Without the pairs' axis; ``shape``: of x, likewise."""
    return (*shape[: call.axis], call.made, *shape[call.axis + 1 :])
