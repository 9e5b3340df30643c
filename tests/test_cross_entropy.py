"""Contract: each loss depends on its row and its target alone, their sum has no order, and PyTorch gives about the same.

NumPy's arrays and tensors have the same bits; gradients are those of PyTorch's own function within its rounding, and have no
neighbours either.  Derivatives of both modes and second ones are there, under every transformation.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bits import same

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

OPTIONS: list[dict[str, Any]] = [
    {}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.1}, {"label_smoothing": 1.0, "reduction": "none"},
    {"ignore_index": 3}, {"z_loss": 1e-3}, {"z_loss": 1e-3, "label_smoothing": 0.2, "ignore_index": 0, "reduction": "sum"},
]  # fmt: skip


def drawn(dtype: str = "float32", rows: int = 40, classes: int = 11) -> tuple[Any, Any]:
    rng = np.random.default_rng(2)
    return (4 * rng.standard_normal((rows, classes))).astype(dtype), rng.integers(0, classes, rows)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_tensors_have_the_bits_of_arrays_and_pytorch_about_the_same(
    dtype: str, options: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x, target = drawn(dtype)
    found = tcu.cross_entropy(x, target, **options)
    assert found.dtype == (np.float64 if dtype == "float64" else np.float32)
    tensor, classes = torch.from_numpy(x).requires_grad_(), torch.from_numpy(target)
    mine = tcu.cross_entropy(tensor, classes, **options)
    same(mine.detach().numpy(), np.asarray(found))
    other = torch.from_numpy(x).double().requires_grad_()
    theirs = torch.nn.functional.cross_entropy(
        other, classes, **{name: each for name, each in options.items() if name != "z_loss"}
    )
    if "z_loss" in options:
        extra = (
            options["z_loss"] * other.logsumexp(1).square() * (classes != options.get("ignore_index", -100))
        )
        kind = options.get("reduction", "mean")
        theirs = theirs + (extra if kind == "none" else extra.sum() if kind == "sum" else extra.mean())
    tolerance = 1e-12 if dtype == "float64" else 2e-6
    torch.testing.assert_close(mine.double(), theirs, rtol=tolerance, atol=tolerance)
    mine.sum().backward()
    theirs.sum().backward()
    tolerance = {"float16": 1e-3, "float32": 1e-6, "float64": 1e-12}[dtype]
    torch.testing.assert_close(tensor.grad.double(), other.grad, rtol=tolerance, atol=tolerance)


def test_rows_depend_on_themselves_alone_and_sums_have_no_order() -> None:
    x, target = drawn(rows=300, classes=1000)
    each = tcu.cross_entropy(x, target, reduction="none")
    order = np.random.default_rng(3).permutation(300)
    same(tcu.cross_entropy(x[order], target[order], reduction="none"), each[order])
    for row in (0, 299):
        same(tcu.cross_entropy(x[row], target[row], reduction="none"), each[row])
    for reduction in ("sum", "mean"):
        whole = tcu.cross_entropy(x, target, reduction=reduction)
        assert tcu.cross_entropy(x[order], target[order], reduction=reduction) == whole
        assert tcu.cross_entropy(x.T, target, axis=0, reduction=reduction) == whole
    shaped = tcu.cross_entropy(x.reshape(3, 100, 1000), target.reshape(3, 100), reduction="none")
    same(shaped.reshape(-1), each)


def test_small_losses_keep_their_bits() -> None:
    """log-sum-exp less the target's number would leave none of them."""
    x = np.array([[50, 30, 20]], np.float32)
    assert abs(tcu.cross_entropy(x, np.array([0])) / np.log1p(np.exp(-20.0) + np.exp(-30.0)) - 1) < 1e-3


def test_rows_of_nothing() -> None:
    x, target = drawn()
    assert np.isnan(tcu.cross_entropy(x[:0], target[:0]))
    assert np.isnan(tcu.cross_entropy(x, np.full(40, -100)))
    assert tcu.cross_entropy(x, np.full(40, -100), reduction="sum") == 0
    assert not tcu.cross_entropy(x, np.full(40, -100), reduction="none").any()


def test_what_is_refused() -> None:
    x, target = drawn()
    with pytest.raises(ShapeError, match=r"target has shape \(39,\): give one class for each row, \(40,\)"):
        tcu.cross_entropy(x, target[1:])
    with pytest.raises(DtypeError, match="target has dtype float64: give whole numbers, the classes' places"):
        tcu.cross_entropy(x, target * 1.0)
    for wrong in (11, -1):
        with pytest.raises(
            ParameterError, match="a target is none of the 11 classes, from 0, and not ignore_index=-100"
        ):
            tcu.cross_entropy(x, np.where(target == target[5], wrong, target))
    with pytest.raises(ParameterError, match=r"label_smoothing=1\.5: choose 0 to 1"):
        tcu.cross_entropy(x, target, label_smoothing=1.5)
    with pytest.raises(DtypeError, match="x has dtype int"):
        tcu.cross_entropy(x.astype(int), target)
    with pytest.raises(ParameterError, match=r"z_loss=-1: give a number from 0 up, such as 1e-4"):
        tcu.cross_entropy(x, target, z_loss=-1)
    with pytest.raises(ParameterError, match="reduction='all': choose 'mean', 'sum' or 'none'"):
        tcu.cross_entropy(x, target, reduction="all")  # type: ignore[arg-type]
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    with pytest.raises(
        ParameterError, match="cross_entropy takes two arrays in the host's memory, or two tensors"
    ):
        tcu.cross_entropy(torch.from_numpy(x), target)
    with pytest.raises(ParameterError, match="x is on cpu, target on meta: move both to one device"):
        tcu.cross_entropy(torch.from_numpy(x), torch.from_numpy(target).to("meta"))


OPTIONS_REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"ignore_index": 1.5}, r"ignore_index=1\.5: give a whole number of 64 bits with a sign, such as -100"),
    ({"ignore_index": None}, r"ignore_index=None: give a whole number"),
    ({"ignore_index": True}, r"ignore_index=True: give a whole number"),
    ({"ignore_index": 1 << 63}, r"ignore_index=9223372036854775808: give a whole number of 64 bits with a sign"),
    ({"label_smoothing": "a"}, r"label_smoothing='a': choose 0 to 1"),
    ({"z_loss": None}, r"z_loss=None: give a number from 0 up, such as 1e-4"),
    ({"axis": None}, r"axis=None: give a whole number, the axis whose rows are mapped"),
    ({"axis": (0,)}, r"axis=\(0,\): give a whole number, the axis whose rows are mapped"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "message"), OPTIONS_REFUSED, ids=str)
def test_options_of_another_kind_are_refused_of_arrays_and_tensors(
    given: dict[str, Any], message: str
) -> None:
    x, target = drawn()
    with pytest.raises(ParameterError, match=message):
        tcu.cross_entropy(x, target, **given)
    torch = torch_or_skip()
    with pytest.raises(ParameterError, match=message):
        tcu.cross_entropy(torch.from_numpy(x), torch.from_numpy(target), **given)


@pytest.mark.parametrize("ignored", [-100, -1])
def test_a_target_of_64_bits_without_a_sign_is_no_negative_one(ignored: int) -> None:
    x, target = drawn()
    wide = target.astype(np.uint64)
    same(tcu.cross_entropy(x, wide), tcu.cross_entropy(x, target))
    wide[7] = (1 << 64) + ignored
    message = f"a target is none of the 11 classes, from 0, and not ignore_index={ignored}"
    with pytest.raises(ParameterError, match=message):
        tcu.cross_entropy(x, wide, ignore_index=ignored)
    torch = torch_or_skip()
    with pytest.raises(ParameterError, match=message):
        tcu.cross_entropy(torch.from_numpy(x), torch.from_numpy(wide), ignore_index=ignored)
    assert wide[7] == (1 << 64) + ignored


def torch_or_skip() -> Any:
    return pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)


@pytest.mark.slow(2)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_derivatives_in_both_modes_and_second_ones(options: dict[str, Any]) -> None:
    torch = torch_or_skip()
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 3, options.get("ignore_index", -100), 6, 2])

    def loss(x: Any) -> Any:
        return tcu.cross_entropy(x, target, **options)

    assert torch.autograd.gradcheck(loss, x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(loss, x)


def test_gradients_of_rows_have_no_neighbours() -> None:
    torch = torch_or_skip()
    x, target = (torch.from_numpy(each) for each in drawn(rows=50, classes=300))

    def gradient(x: Any, target: Any, axis: int = 1) -> Any:
        x = x.detach().bfloat16().requires_grad_()
        losses = tcu.cross_entropy(x, target, axis=axis, reduction="none", label_smoothing=0.1, z_loss=1e-4)
        return torch.autograd.grad(losses.sum(), x)[0]

    whole = gradient(x, target)
    for rows in (slice(3, 4), slice(7, 40)):
        same(gradient(x[rows], target[rows]), whole[rows])
    same(gradient(x.T, target, 0).T.contiguous(), whole)


def test_transformations_and_graphs_have_the_same_bits() -> None:
    """Also where programs are to be deterministic, which PyTorch's own operators on a GPU refuse."""
    torch = torch_or_skip()
    x, target = (torch.from_numpy(each) for each in drawn(rows=12))
    options: dict[str, Any] = {"label_smoothing": 0.1, "z_loss": 1e-3}

    def loss(x: Any, target: Any) -> Any:
        return tcu.cross_entropy(x, target, **options)

    def gradient(function: Any) -> Any:
        given = x.clone().requires_grad_()
        return torch.autograd.grad(function(given, target), given)[0]

    wanted = gradient(loss)
    same(torch.func.grad(loss)(x, target), wanted)
    batches, classes = x.reshape(3, 4, -1), target.reshape(3, 4)
    for where in ((0, 0), (0, None)):
        inner = classes if where[1] == 0 else classes[0]
        found = torch.vmap(torch.func.grad(loss), where)(batches, inner)
        for i in range(3):
            same(found[i], torch.func.grad(loss)(batches[i], classes[i] if where[1] == 0 else inner))
    hessian = torch.func.hessian(loss)(x[:2].double(), target[:2])
    other = torch.autograd.functional.hessian(lambda x: loss(x, target[:2]), x[:2].double())
    torch.testing.assert_close(hessian, other)
    torch.use_deterministic_algorithms(True)
    try:
        same(gradient(loss), wanted)
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.slow
def test_graphs_of_pytorch() -> None:
    torch = torch_or_skip()
    x, target = (torch.from_numpy(each) for each in drawn(rows=12))

    class Loss(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any, target: Any) -> Any:
            return tcu.cross_entropy(x, target, label_smoothing=0.1)

    wanted = tcu.cross_entropy(x, target, label_smoothing=0.1)
    same(torch.export.export(Loss(), (x, target)).module()(x, target), wanted)
    compiled = torch.compile(Loss(), fullgraph=True, backend="aot_eager")
    given = [x.clone().requires_grad_() for _ in range(2)]
    same(compiled(given[0], target).detach(), wanted)
    gradients = [
        torch.autograd.grad(function(each, target), each)[0]
        for function, each in zip((compiled, Loss()), given, strict=True)
    ]
    same(*gradients)
    losses, parts = torch.ops.tcu.cross_entropy(x, target, 1, 0.1, 0.1, -100)
    options = 1, 0.1, 0.1, -100
    torch.library.opcheck(torch.ops.tcu.cross_entropy.default, (x, target, *options))
    torch.library.opcheck(
        torch.ops.tcu.cross_entropy_gradient.default, (losses, x.requires_grad_(), target, parts, *options)
    )


def test_rows_that_do_not_count_have_no_gradient() -> None:
    torch = torch_or_skip()
    x = torch.full((3, 5), float("nan"), requires_grad=True)
    losses = tcu.cross_entropy(x, torch.full((3,), 7), ignore_index=7, reduction="none", label_smoothing=0.1)
    assert not losses.any()
    assert not torch.autograd.grad(losses.sum(), x)[0].any()


def test_smoothing_of_classes_that_cannot_be() -> None:
    """A class of -inf has a loss of inf, which its share of the smoothing keeps; without smoothing nobody sees it."""
    x = np.array([[1, -np.inf, 0]], np.float32)
    assert np.isinf(tcu.cross_entropy(x, np.array([0]), label_smoothing=0.1))
    assert np.isfinite(tcu.cross_entropy(x, np.array([0])))
    large = np.array([[1e30, -1e30, 0]], np.float32)
    found = tcu.cross_entropy(large, np.array([0]), label_smoothing=1.0)
    assert abs(float(found) / 1e30 - 1) < 1e-6


def test_classes_of_every_width() -> None:
    torch = torch_or_skip()
    x, target = drawn(classes=200)
    target[3] = 156  # -100 in 8 bits
    wanted = tcu.cross_entropy(x, target)
    for kind in (np.uint8, np.int16, np.int32):
        assert tcu.cross_entropy(x, target.astype(kind)) == wanted
        found = tcu.cross_entropy(torch.from_numpy(x), torch.from_numpy(target.astype(kind)))
        same(found.numpy(), np.asarray(wanted))
