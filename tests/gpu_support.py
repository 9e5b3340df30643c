"""Shared by the GPU tests: the GPU at hand, and the comparison of a kernel with the model."""

from __future__ import annotations

import importlib
import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from adversarial import MODES, codes

from tcu.formats import get_format
from tcu.gpu import Gpu, GpuError, Kernel, find_gpu
from tcu.model.mma import multiply_accumulate
from tcu.units import ExactInteger, FusedChain, Instruction, Unit, find_instruction

Executor = Callable[[Any, Any, Any, Instruction], npt.NDArray[Any]]

_SHARES = 16
shares = pytest.mark.parametrize("share", range(_SHARES))
"""Random cases in parts, each with numbers of its own: the model takes longest, and processes work beside each other."""


def cases_of(share: int, count: int) -> range:
    """Those of ``count`` random cases that a share takes."""
    return range(share, count, _SHARES)


@cache
def _search() -> Gpu | str:
    try:
        return find_gpu()
    except GpuError as error:
        return str(error)


def gpu_or_skip() -> Gpu:
    found = _search()
    if isinstance(found, str):
        pytest.skip(f"needs a GPU: {found}")
    return found


def unit_or_skip(gpu: Gpu) -> Unit:
    if not gpu.units:
        pytest.skip(f"the catalogue has no unit of compute capability {gpu.compute_capability}")
    return gpu.units[0]


def library_or_skip(name: str) -> Any:
    """An array library that may warn while it loads, which is its own business."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module(name)
        except ImportError:
            pytest.skip(f"{name} is not installed")


def on_gpu(torch: Any, x: Any) -> Any:
    """NumPy's numbers as a tensor without gaps."""
    return torch.from_numpy(np.ascontiguousarray(x)).cuda()


def instruction_of(kernel: Kernel, unit: Unit) -> Instruction:
    """The catalogue's row with the kernel's own k, which is what chooses the kernel."""
    row = find_instruction(unit, kernel.name, kernel.a, kernel.b, kernel.output)
    arithmetic = row.arithmetic
    if row.k != kernel.k and not isinstance(arithmetic, ExactInteger | FusedChain):
        arithmetic = replace(arithmetic, order=None)  # rows with an order have one k only
    return replace(row, shape=kernel.shape, arithmetic=arithmetic)


def modelled(
    a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any], kernel: Kernel, unit: Unit
) -> npt.NDArray[Any]:
    """The model's bits, as codes.

    An instruction of smaller k than the catalogue's row is that row with zeros
    in place of the missing products: they take no part.
    """
    row = find_instruction(unit, kernel.name, kernel.a, kernel.b, kernel.output)
    x, y, z = (get_format(name) for name in (kernel.a, kernel.b, kernel.output))
    a, b, d = a.view(x.dtype), b.view(y.dtype), c.view(z.dtype)
    if kernel.k >= row.k:
        row = replace(row, shape=kernel.shape)
        return multiply_accumulate(a, b, d, row).view(z.code_dtype)
    for start in range(0, a.shape[-1], kernel.k):
        piece = slice(start, start + kernel.k)
        d = multiply_accumulate(a[..., piece], b[..., piece, :], d, row)
    return d.view(z.code_dtype)


def as_given(array: npt.NDArray[Any], name: str) -> npt.NDArray[Any]:
    """Codes as they are, but integers in their own dtype."""
    fmt = get_format(name)
    return array if fmt.is_float else array.view(fmt.dtype)


def differences(kernel: Kernel, unit: Unit, execute: Executor, outputs: int, seed: int = 0) -> str:
    """What differs between the executor and the model on adversarial operands; empty if nothing.

    Every pair of modes for A and B, ragged M, N and K, batches.
    """
    rng = np.random.default_rng(seed)
    instruction = instruction_of(kernel, unit)
    m, n = 61, 67
    batch = -(-outputs // (m * n * len(MODES) ** 2))
    different, compared, first = 0, 0, ""
    for left in MODES:
        for right in MODES:
            k = int(rng.integers(1, 3 * kernel.k + 2))
            a = codes(rng, kernel.a, (batch, m, k), left)
            b = codes(rng, kernel.b, (batch, k, n), right)
            c = codes(rng, kernel.output, (batch, m, n), str(rng.choice(MODES)))
            expected = modelled(a, b, c, kernel, unit)
            got = execute(
                as_given(a, kernel.a), as_given(b, kernel.b), as_given(c, kernel.output), instruction
            ).view(expected.dtype)
            wrong = np.argwhere(got != expected)
            compared += expected.size
            different += len(wrong)
            if len(wrong) and not first:
                t, i, j = wrong[0]
                first = (
                    f"first, A {left}, B {right}, k = {k}, element {(int(t), int(i), int(j))}:\n"
                    f"  a = {_hexadecimal(a[t, i])}\n  b = {_hexadecimal(b[t, :, j])}\n"
                    f"  c = {int(c[t, i, j]):#x}\n  model {int(expected[t, i, j]):#x}\n"
                    f"  GPU   {int(got[t, i, j]):#x}"
                )
    if not different:
        return ""
    return f"{kernel} against {unit.name}: {different} of {compared} outputs differ\n{first}"


def _hexadecimal(row: npt.NDArray[Any]) -> str:
    return " ".join(f"{int(code):#x}" for code in row)


def compile_slowly(name: str) -> bytes:
    """Stands for the compiler in tests of the cache; runs in other processes too."""
    import time

    time.sleep(0.05)
    return name.encode() * 1000


def use_cache(arguments: tuple[str, str]) -> bytes:
    from pathlib import Path

    from tcu.gpu.cache import load_or_compile

    folder, key = arguments
    return load_or_compile(key, lambda: compile_slowly(key), Path(folder))
