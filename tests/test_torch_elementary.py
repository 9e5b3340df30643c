"""Contract: square roots of tensors, and quotients by one number, are rounded once, with derivatives; the reproducible mode has these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
import tcu.torch  # noqa: E402  after PyTorch was found
from tcu.surfaces.torch.elementary import quotient, square_root  # noqa: E402


def numbers(dtype: Any, count: int = 1 << 18) -> Any:
    return torch.exp2(torch.linspace(-20, 14, count, dtype=torch.float64)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_roots_are_numpy_s(dtype: Any) -> None:
    x = numbers(dtype)
    assert np.array_equal(square_root(x).numpy(), np.sqrt(x.numpy()))
    for each in (x[::3], x[5], x[:0], x.reshape(4, -1).t()):
        assert np.array_equal(square_root(each).numpy(), np.sqrt(each.numpy()))
    special = torch.tensor([0.0, -0.0, torch.inf, torch.nan, -1.0], dtype=dtype)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(square_root(special).numpy(), np.sqrt(special.numpy()))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_every_root_of_16_bits_is_rounded_once(dtype: Any) -> None:
    x = torch.arange(1 << 15, dtype=torch.int32).to(torch.int16).view(dtype)
    x = x[torch.isfinite(x)]
    wanted = torch.from_numpy(np.sqrt(x.double().numpy())).to(dtype)
    assert torch.equal(square_root(x), wanted)


def test_the_reproducible_mode_has_them() -> None:
    x = numbers(torch.float32)
    roots = np.sqrt(x.numpy())
    with tcu.torch.reproducible(strict=True):
        assert np.array_equal(x.sqrt().numpy(), roots)
        assert np.array_equal(x.clone().sqrt_().numpy(), roots)
        assert np.array_equal(x.rsqrt().numpy(), np.float32(1) / roots)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_derivatives() -> None:
    x = torch.linspace(0.1, 3, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(square_root, (x,), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(square_root, (x,), check_fwd_over_rev=True)
    assert torch.equal(
        torch.func.vmap(square_root)(x.detach().reshape(7, 1)).reshape(-1), square_root(x.detach())
    )
    hessian = torch.func.hessian(lambda x: square_root(x).sum())(x.detach())
    torch.testing.assert_close(hessian.diagonal(), -0.25 * x.detach() ** -1.5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_quotients_are_numpy_s(dtype: Any) -> None:
    x = numbers(dtype)
    for divisor in (7, 24, 1000.0, 0.3):
        assert np.array_equal(quotient(x, divisor).numpy(), x.numpy() / x.numpy().dtype.type(divisor))


def test_quotients_of_narrow_formats_keep_the_divisor() -> None:
    """Which those formats do not have."""
    x = torch.linspace(-3, 3, 1001).to(torch.bfloat16)
    assert torch.equal(quotient(x, 4097), (x.double() / 4097).to(torch.bfloat16))
