"""The arrays that GPU sums are measured on, and what their sums should be.

Random data is made on the GPU.  The reference up to HOST elements is tcu's
exact sum on the CPU of a host copy, checked against math.fsum on a prefix;
above, tcu's exact sum on the GPU, checked against PyTorch's binary64 sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

import tcu
from tcu.formats.format import dtype_of

DTYPES = ("float16", "bfloat16", "float32", "float64")
DISTRIBUTIONS = ("normal", "uniform")
HOST = 1 << 24
"""Largest array that is copied to the host to be summed exactly there."""
LIST = 1 << 20
"""Numbers that math.fsum is given."""
SEED = 2020
_PIECE = 1 << 28
_FIELDS = {"float16": (5, 10), "bfloat16": (8, 7), "float32": (8, 23), "float64": (11, 52)}
"""Bits of exponent and fraction."""


class DisagreementError(Exception):
    """Two exact sums differ, so nothing can be checked."""


def torch_dtype(dtype: str) -> torch.dtype:
    found: torch.dtype = getattr(torch, dtype)
    return found


def itemsize(dtype: str) -> int:
    return dtype_of(dtype).itemsize


def to_host(x: torch.Tensor) -> np.ndarray:
    """The same bits as a NumPy array."""
    dtype = str(x.dtype).removeprefix("torch.")
    if dtype == "bfloat16":
        x = x.view(torch.int16)
    found: np.ndarray = x.cpu().numpy()
    return found.view(dtype_of(dtype))


def random_array(distribution: str, n: int, dtype: str, device: str, trial: int = 0) -> torch.Tensor:
    """Normal(0, 1) or uniform over [0, 1); other numbers for each trial."""
    seed = SEED + DISTRIBUTIONS.index(distribution) + len(DISTRIBUTIONS) * trial
    generator = torch.Generator(device).manual_seed(seed)
    x = torch.empty(n, dtype=torch_dtype(dtype), device=device)
    for start in range(0, n, _PIECE):
        piece = x[start : start + _PIECE]
        piece.normal_(generator=generator) if distribution == "normal" else piece.uniform_(
            generator=generator
        )
    return x


def _from_fields(
    sign: torch.Tensor, exponent: torch.Tensor, fraction: torch.Tensor, dtype: str
) -> torch.Tensor:
    exponent_bits, fraction_bits = _FIELDS[dtype]
    code = (sign << (exponent_bits + fraction_bits)) | (exponent << fraction_bits) | fraction
    width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[itemsize(dtype)]
    return code.to(width).view(torch_dtype(dtype))  # to int16 and int32 the high bits are dropped


def _any_bits(n: int, dtype: str, device: str, lowest: int, highest: int) -> torch.Tensor:
    """Any sign and fraction, exponent fields from lowest to highest."""
    generator = torch.Generator(device).manual_seed(SEED)

    def draw(low: int, high: int) -> torch.Tensor:
        return torch.randint(low, high, (n,), generator=generator, device=device, dtype=torch.int64)

    return _from_fields(draw(0, 2), draw(lowest, highest + 1), draw(0, 1 << _FIELDS[dtype][1]), dtype)


def _highest(dtype: str) -> int:
    """The largest exponent field of which 2^27 numbers do not overflow binary32 or the format."""
    return (1 << _FIELDS[dtype][0]) - 2 - (0 if dtype == "float16" else 27)


def _spread(n: int, dtype: str, device: str) -> torch.Tensor:
    return _any_bits(n, dtype, device, 0, _highest(dtype))


def _one_huge(n: int, dtype: str, device: str) -> torch.Tensor:
    x = _any_bits(n, dtype, device, 0, 1)
    x[n // 3] = _any_bits(1, dtype, device, _highest(dtype), _highest(dtype))[0]
    return x


def _cancelling(n: int, dtype: str, device: str) -> torch.Tensor:
    """y, -y in another order, and a few tiny numbers, which alone are the sum."""
    tiny = _any_bits(max(1, n // 1000) + n % 2, dtype, device, 0, 2)
    y = random_array("normal", (n - tiny.numel()) // 2, dtype, device)
    other = -y[torch.randperm(y.numel(), device=device)]
    return torch.cat([y, tiny, other])


def _subnormal(n: int, dtype: str, device: str) -> torch.Tensor:
    return _any_bits(n, dtype, device, 0, 0)


HARD: dict[str, Callable[[int, str, str], torch.Tensor]] = {
    "exponents over the whole range": _spread,
    "one huge, the others tiny": _one_huge,
    "cancelling": _cancelling,
    "subnormal": _subnormal,
}
"""Arrays that defeat an exact sum which is fast because it expects exponents near one another."""


@dataclass(frozen=True)
class Reference:
    exact: float
    """The exact sum rounded to binary64."""
    mass: float
    """The sum of |x|, nearly."""
    source: str


def reference(x: torch.Tensor) -> Reference:
    n = x.numel()
    mass = float(torch.linalg.vector_norm(x, 1, dtype=torch.float64))
    if n <= HOST:
        host = to_host(x)
        check_against_math(host)
        return Reference(float(tcu.fsum(host, dtype=np.float64)), mass, "exact sum on the CPU")
    exact = float(tcu.fsum(x, dtype=np.float64))
    other = float(x.sum(dtype=torch.float64))
    if not abs(exact - other) <= n * 2.0**-53 * mass:
        raise DisagreementError(f"exact sum {exact!r} on the GPU, but {other!r} in binary64")
    return Reference(exact, mass, "exact sum on the GPU")


def check_against_math(host: np.ndarray) -> None:
    """tcu's exact sum on the CPU equals Python's on the first numbers."""
    head = host[:LIST]
    ours, python = float(tcu.fsum(head, dtype=np.float64)), math.fsum(head.tolist())
    if ours != python:
        raise DisagreementError(f"tcu.fsum {ours!r}, math.fsum {python!r}")
