"""Contract: rows over the root of their mean square, and rows of mean 0 and variance 1, depend on the row alone.

Errors are a few units in the last place of the largest result, against rational sums, also where PyTorch's squares overflow or
its deviations cancel; bits have nothing to do with order, batch, layout and threads; what is not finite has what PyTorch says.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import ml_dtypes
import mpmath
import numpy as np
import pytest
from bits import same

import tcu
from tcu.errors import ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

names = pytest.mark.parametrize("name", ["rms_norm", "layer_norm"])


def exact(x: Any, centred: bool, eps: float) -> list[Any]:
    """Of one row, to 200 bits."""
    numbers = [Fraction(each) for each in x.astype(np.float64).tolist()]
    mean = sum(numbers) / len(numbers) if centred else Fraction(0)
    square = sum((each - mean) ** 2 for each in numbers) / len(numbers) + Fraction(eps)
    with mpmath.workprec(200):
        root = mpmath.sqrt(mpmath.mpf(square.numerator) / square.denominator)
        return [mpmath.mpf((each - mean).numerator) / (each - mean).denominator / root for each in numbers]


@names
@pytest.mark.parametrize("eps", [0.0, 1e-5])
@pytest.mark.parametrize(
    ("dtype", "scale", "shift", "units"),
    [
        ("float32", 1, 0, 2), ("float32", 1, 100, 2), ("float32", 1e-3, 1e4, 2), ("float32", 1e-30, 0, 2),
        ("float32", 1e30, 0, 2), ("float32", 1e-42, 0, 3), ("float64", 1, 0, 2), ("float64", 1e250, 0, 2),
        ("float64", 1e-200, 0, 2), ("float64", 1e-310, 0, 2), ("float64", 1, 100, 100), ("float16", 1, 0, 2**13),
        ("bfloat16", 1, 3, 2**16),
    ],
)  # fmt: skip
def test_errors(name: str, eps: float, dtype: str, scale: float, shift: float, units: float) -> None:
    """In units of 2^-24 (2^-53) of the largest result, beyond the result's own rounding."""
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    x = (scale * np.random.default_rng(3).standard_normal(257) + shift).astype(kind)
    found = getattr(tcu, name)(x, eps=eps)
    assert found.dtype == kind
    wanted = exact(x, name == "layer_norm", eps)
    largest = max(map(abs, wanted))
    smallest = 2.0 ** (-1074 if dtype == "float64" else -149)
    unit = mpmath.mpf(2) ** (-53 if dtype == "float64" else -24)
    for each, value in zip(found.astype(np.float64).tolist(), wanted, strict=True):
        assert abs(each - value) <= units * unit * largest + smallest


@names
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_row_depends_on_its_numbers_alone(name: str, dtype: str) -> None:
    rng, function = np.random.default_rng(8), getattr(tcu, name)
    x = (4 * rng.standard_normal((70, 1300)) + 1).astype(dtype)
    found = function(x)
    for row in (0, 33, 69):
        same(function(x[row]), found[row])
    same(function(x.T, 0), found.T)
    same(function(x[::-2, None])[:, 0], found[::-2])
    order = rng.permutation(1300)
    same(function(np.asfortranarray(x)[:, order]), found[:, order])
    same(function(-x), -found)
    if dtype != "float16":
        same(function(x * 2.0**20, eps=0).astype(dtype), function(x, eps=0))
    with pytest.MonkeyPatch.context() as patch:
        for threads in ("1", "3"):
            patch.setenv("TCU_NUM_THREADS", threads)
            same(function(x), found)


def test_long_rows_fill_several_words() -> None:
    for dtype in (np.float32, np.float64):
        x = np.ones(1 << 20, dtype)
        x[::2] = -1
        same(tcu.layer_norm(x, eps=0), x)
        same(tcu.rms_norm(x, eps=0), x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_pytorch_gives_about_the_same(dtype: str) -> None:
    """With its own eps, and where rows are not finite."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    kind, nan, inf = getattr(torch, dtype), float("nan"), float("inf")
    rows = [
        [1, nan, 2],
        [inf, 1, -2],
        [inf, -inf, 0],
        [nan, inf, 1],
        [0, 0, 0],
        [-3, -3, -3],
        [0.1, -0.2, 0.5],
    ]
    x = torch.tensor(rows, dtype=kind)
    tolerance = {"rtol": 4 * torch.finfo(kind).eps, "atol": 4 * torch.finfo(kind).eps, "equal_nan": True}
    functional = torch.nn.functional
    torch.testing.assert_close(tcu.rms_norm(x), functional.rms_norm(x, (3,)), **tolerance)
    torch.testing.assert_close(tcu.layer_norm(x), functional.layer_norm(x, (3,)), **tolerance)
    assert tcu.rms_norm(x[:, :0]).shape == (7, 0)
    assert tcu.layer_norm(x[:0]).shape == (0, 3)


@names
def test_gradients(name: str) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    function = getattr(tcu, name)
    x = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    for axis in (1, -1):
        if axis == 1 or name == "rms_norm":  # of two numbers, standard ones are 1 and -1
            assert torch.autograd.gradcheck(
                lambda x, a=axis: function(x, a, eps=0.1), x, check_forward_ad=True
            )
            assert torch.autograd.gradgradcheck(lambda x, a=axis: function(x, a, eps=0.1), x)
    theirs = getattr(torch.nn.functional, name)
    y = torch.randn(4, 70, requires_grad=True)
    mine = torch.autograd.grad(function(y).pow(3).sum(), y)[0]
    torch.testing.assert_close(mine, torch.autograd.grad(theirs(y, (70,)).pow(3).sum(), y)[0])
    assert torch.equal(torch.vmap(lambda x: function(x, 0, eps=1e-3))(y), function(y, 1, eps=1e-3))
    compiled = torch.compile(lambda x: function(2 * x), backend="eager", fullgraph=True)
    assert torch.equal(compiled(y), function(2 * y))
    torch.library.opcheck(getattr(torch.ops.tcu, name).default, (y, -1, 1e-3))


def test_what_eps_may_be() -> None:
    x = np.ones(3)
    with pytest.raises(ParameterError, match=r"eps=-1: give a number from 0 up, such as 1e-6"):
        tcu.rms_norm(x, eps=-1)
    with pytest.raises(ParameterError, match=r"eps='a': give a finite number"):
        tcu.layer_norm(x, eps="a")
