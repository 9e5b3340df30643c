"""Contract of tcu.torch.reproducible on a GPU: forward and backward, PyTorch's operators have the bits that they have on the CPU there.

What needs no GPU is in tests/test_reproducible.py.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from bits import same
from gpu_support import gpu_or_skip, unit_or_skip
from test_reproducible import FUNCTIONS, TRANSFORMS, drawn, functional, result_and_gradient, torch

import tcu.torch

pytestmark = pytest.mark.gpu


def plain(x: Any) -> Any:
    x = x.detach().cpu().resolve_conj()
    return (torch.view_as_real(x) if x.is_complex() else x).contiguous()


def check(function: Any, *arrays: Any) -> None:
    unit = unit_or_skip(gpu_or_skip())
    results = []
    for device in ("cpu", "cuda"):
        given = [each.detach().to(device) for each in arrays]
        with tcu.torch.reproducible(strict=True, unit=unit.name):
            results.append(result_and_gradient(function, *given))
    for found, wanted in zip(results[1], results[0], strict=True):
        same(plain(found), plain(wanted))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_the_bits_of_the_cpu(name: str, dtype: Any) -> None:
    check(FUNCTIONS[name], *drawn(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_losses_and_quotients_have_the_bits_of_the_cpu(dtype: Any, smoothing: float) -> None:
    def loss(x: Any, w: Any, b: Any) -> Any:
        target = torch.arange(32, device=x.device) % 10
        found = functional.cross_entropy(functional.linear(x / 7, w, b), target, label_smoothing=smoothing)
        return found.reshape(1)

    check(loss, *drawn(dtype))


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_have_the_bits_of_the_cpu(name: str) -> None:
    theirs, _ = TRANSFORMS[name]
    complex_in = name.startswith(("ir", "hfft", "ifft"))
    x = torch.randn(3, 10, 8, dtype=torch.complex64 if complex_in else torch.float32)
    check(partial(_first, theirs), x, x, x)


def _first(function: Any, x: Any, w: Any, b: Any) -> Any:
    return function(x)
