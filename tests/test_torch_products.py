"""Contract of ``tcu.matmul`` on PyTorch's tensors: the bits that NumPy arrays have, tensors of any strides, gradients by
products of the same kind, torch.func, torch.compile and torch.export, ``tcu.torch.linear``, and an error for what cannot
be.  None of it needs a GPU.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest
from bits import codes, same

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError

# PyTorch warns about itself: of torch.jit.script in forward mode, of what torch.compile imports.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

from tcu.formats.tensor import operand_view  # noqa: E402
from tcu.torch import linear  # noqa: E402

DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "uint8", "int8")
SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (1, 6, 4, 5)), ((7, 2, 3, 4), (2, 4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((0, 4), (4, 5)),
    ((3, 0), (0, 5)), ((1, 3, 4), (5, 4, 2)),
]  # fmt: skip


def numbers(*shape: int, dtype: str = "float64", seed: int = 1) -> Any:
    values = torch.from_numpy(np.random.default_rng(seed).standard_normal(shape) * 3)
    return values.to(getattr(torch, dtype))


A, B = numbers(6, 3, 4), numbers(6, 4, 5, seed=2)
BIAS = numbers(6, 5, seed=3)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("plan", ["chunks", "chain"])
def test_tensors_have_the_bits_of_arrays(dtype: str, plan: Any) -> None:
    a, b = numbers(2, 30, 300, dtype=dtype), numbers(300, 17, dtype=dtype)
    found = tcu.matmul(a, b, plan=plan)
    assert isinstance(found, torch.Tensor)
    expected = tcu.matmul(operand_view(a, "a"), operand_view(b, "b"), plan=plan)
    assert np.array_equal(codes(found), codes(expected))
    turned = tcu.matmul(a.mT.contiguous().mT, b.t().contiguous().t(), plan=plan)
    same(turned, found)
    same(torch.ops.tcu.matmul(a, b, None, None, None, plan), found)
    same(
        tcu.matmul(a[:, ::2, 10:], b[10:, ::3]),
        tcu.matmul(a[:, ::2, 10:].contiguous(), b[10:, ::3].contiguous()),
    )


def test_a_negated_view_and_numbers_for_scales() -> None:
    z = torch.complex(numbers(3, 4, dtype="float32"), numbers(3, 4, dtype="float32", seed=2))
    same(tcu.matmul(z.conj().imag, B[0].float()), tcu.matmul((-z.imag).contiguous(), B[0].float()))
    scaled = tcu.matmul(A[0], B[0], scale_a=2, scale_b=0.1, bias=BIAS[0])
    same(scaled, tcu.matmul(A[0], B[0]) * 2 * torch.tensor(0.1, dtype=torch.float64) + BIAS[0])


@pytest.mark.parametrize(("a", "b"), SHAPES)
@pytest.mark.parametrize("with_bias", [False, True])
def test_values_and_gradients_are_those_of_pytorch(a: Any, b: Any, with_bias: bool) -> None:
    x, y = numbers(*a).requires_grad_(), numbers(*b, seed=2).requires_grad_()
    bias = numbers(b[-1] if len(b) > 1 else 1, seed=3).requires_grad_() if with_bias else None
    inputs = [x, y] if bias is None else [x, y, bias]
    found, expected = tcu.matmul(x, y, bias=bias), torch.matmul(x, y)
    if bias is not None:
        expected = expected + (bias if len(b) > 1 else bias[0])
    assert found.shape == expected.shape
    torch.testing.assert_close(found, expected)
    given = torch.from_numpy(np.random.default_rng(4).standard_normal(tuple(found.shape)))
    for ours, theirs in zip(
        *(torch.autograd.grad(each, inputs, given) for each in (found, expected)), strict=True
    ):
        assert ours.shape == theirs.shape
        torch.testing.assert_close(ours, theirs)


def test_integers_with_a_bias_become_float32() -> None:
    x, bias = torch.full((2, 3), 3, dtype=torch.int8), torch.tensor([0.75, -0.5])
    y = torch.ones(3, 2, dtype=torch.int8)
    plain = tcu.matmul(x, y, bias=bias)
    assert plain.dtype == torch.float32
    assert plain.tolist() == [[9.75, 8.5]] * 2
    same(plain, torch.compile(lambda a: tcu.matmul(a, y, bias=bias), backend="aot_eager")(x))


def test_gradients_are_products_of_the_same_kind() -> None:
    x, w = (
        numbers(2, 9, 300, dtype="bfloat16").requires_grad_(),
        numbers(40, 300, dtype="bfloat16", seed=2).requires_grad_(),
    )
    y = tcu.matmul(x, w.t(), unit="A100", plan="chain")
    given = numbers(2, 9, 40, dtype="float32", seed=3)
    of_x, of_w = torch.autograd.grad(y, [x, w], given)
    g, options = given.to(torch.bfloat16), {"unit": "A100", "plan": "chain", "dtype": torch.bfloat16}
    same(of_x, tcu.matmul(g, w.detach(), **options))
    rows = tcu.matmul(x.detach().reshape(18, 300).t(), g.reshape(18, 40), **options)
    same(of_w, rows.t())


def test_gradients_pass_the_checks_of_pytorch() -> None:
    x, y, bias, scale = (
        A[:2].clone().requires_grad_(),
        B[0].clone().requires_grad_(),
        BIAS[0].clone().requires_grad_(),
        BIAS[1, :3],
    )

    def product(a: Any, b: Any, c: Any) -> Any:
        return tcu.matmul(a, b, bias=c, scale_a=scale, scale_b=0.5)

    assert torch.autograd.gradcheck(product, (x, y, bias))
    assert torch.autograd.gradgradcheck(lambda a, b: tcu.matmul(a, b), (x, y))


@pytest.mark.parametrize(
    ("in_dims", "a", "b"),
    [
        ((0, 0), A, B), ((0, None), A, B[0]), ((None, 1), A[0], B.movedim(0, 1)), ((0, 0), A[:, 0], B),
        ((0, 0), A, B[:, :, 0]), ((0, 0), A[:, 0], B[:, :, 0]), ((0, None), A, B), ((None, 0), A, B),
        ((0, 0), A[:, None].expand(6, 2, 3, 4), B), ((None, 0), A[0, 0], B), ((0, None), A, B[0, :, 0]),
    ],
)  # fmt: skip
def test_vmap_is_one_product(in_dims: Any, a: Any, b: Any) -> None:
    found = torch.func.vmap(tcu.matmul, in_dims)(a, b)
    torch.testing.assert_close(found, torch.func.vmap(torch.matmul, in_dims)(a, b))


@pytest.mark.parametrize(("a", "b"), [each for each in SHAPES if 0 not in sum(each, ())])
def test_gradients_come_in_batches(a: Any, b: Any) -> None:
    inputs = numbers(*a), numbers(*b, seed=2)
    found, expected = (
        torch.autograd.functional.jacobian(function, inputs, vectorize=vectorize)
        for function, vectorize in ((tcu.matmul, True), (torch.matmul, False))
    )
    torch.testing.assert_close(found, expected)


def test_a_linear_layer_s_gradients_come_in_batches() -> None:
    found, expected = (
        torch.autograd.functional.jacobian(
            function, (A[:2], BIAS[:, :4], BIAS[0, 0].expand(6)), vectorize=vectorize
        )
        for function, vectorize in ((linear, True), (torch.nn.functional.linear, False))
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    "number", [np.float16(0.5), np.float32(0.5), np.float64(0.5), np.int8(2), np.int64(2)]
)
def test_numbers_of_numpy_are_numbers(number: Any) -> None:
    same(
        tcu.matmul(A[0], B[0], scale_a=number, scale_b=number, bias=number),
        tcu.matmul(A[0], B[0], scale_a=number.item(), scale_b=number.item(), bias=number.item()),
    )


def test_torch_func() -> None:
    func = torch.func
    torch.testing.assert_close(
        func.vmap(lambda a, b, c: tcu.matmul(a, b, bias=c))(A, B, BIAS), A @ B + BIAS[:, None]
    )
    primals, tangents = (A, B, BIAS[0]), (A * 2 + 1, B - 1, BIAS[1])
    ours = func.jvp(lambda a, b, c: tcu.matmul(a, b, bias=c), primals, tangents)
    theirs = func.jvp(lambda a, b, c: a @ b + c, primals, tangents)
    torch.testing.assert_close(ours, theirs)
    for transform in (func.grad, func.hessian):
        torch.testing.assert_close(
            transform(lambda a: tcu.matmul(a, B[0]).square().sum())(A[0]),
            transform(lambda a: (a @ B[0]).square().sum())(A[0]),
        )


@pytest.mark.parametrize(
    "arguments",
    [
        (A.clone().requires_grad_(), B, None, None, BIAS[0].clone().requires_grad_()),
        (numbers(3, 4, dtype="float16"), numbers(4, dtype="float16")),
        (numbers(3, 4, dtype="float32"), numbers(4, 5, dtype="float32"), torch.tensor(2.0), None, None, "chain", "cut", None, "A100", torch.float16),
        (torch.ones(3, 4, dtype=torch.uint8), torch.ones(4, 4, dtype=torch.int8)),
    ],
)  # fmt: skip
def test_the_operator_passes_the_checks_of_pytorch(arguments: Any) -> None:
    torch.library.opcheck(torch.ops.tcu.matmul, arguments)


def test_meta_tensors_tell_shapes() -> None:
    a, b = (torch.empty(shape, device="meta", dtype=torch.float16) for shape in ((5, 3, 4), (4, 7)))
    result = torch.ops.tcu.matmul(a, b, dtype=torch.bfloat16)
    assert (tuple(result.shape), result.dtype, result.device.type) == ((5, 3, 7), torch.bfloat16, "meta")
    with pytest.raises(ParameterError, match="a is on the meta device and holds no numbers"):
        tcu.matmul(a, b)


# A linear layer.

X, WEIGHT, ADDED = (
    numbers(*shape, dtype="bfloat16", seed=n).requires_grad_()
    for n, shape in enumerate([(5, 7, 300), (20, 300), (20,)])
)


def test_a_linear_layer_is_that_of_pytorch_in_its_dtype() -> None:
    y = linear(X, WEIGHT, ADDED)
    expected = torch.nn.functional.linear(X.double(), WEIGHT.double(), ADDED.double())
    assert y.dtype == torch.bfloat16
    torch.testing.assert_close(y, expected.to(torch.bfloat16))
    given, inputs = numbers(5, 7, 20, dtype="bfloat16", seed=4), [X, WEIGHT, ADDED]
    for ours, theirs in zip(
        torch.autograd.grad(y, inputs, given),
        torch.autograd.grad(expected, inputs, given.double()),
        strict=True,
    ):
        assert ours.dtype == torch.bfloat16
        torch.testing.assert_close(ours, theirs, rtol=2e-2, atol=0.5)
    same(linear(X[3, 2], WEIGHT, ADDED).detach(), y[3, 2].detach())
    assert linear(X, WEIGHT, dtype=torch.float32).dtype == torch.float32


def test_a_linear_layer_is_compiled_and_exported() -> None:
    def layer(x: Any, w: Any, c: Any) -> Any:
        return linear(x * 2, w, c, unit="A100").relu()

    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    found, expected = compiled(X, WEIGHT, ADDED), layer(X, WEIGHT, ADDED)
    same(found.detach(), expected.detach())
    for ours, theirs in zip(
        *(torch.autograd.grad(each.sum(), [X, WEIGHT, ADDED]) for each in (found, expected)), strict=True
    ):
        same(ours, theirs)
    scaled = torch.compile(
        lambda a, b: tcu.matmul(a, b, dtype=np.float16, scale_a=2.0), fullgraph=True, backend="aot_eager"
    )
    x, w = X.detach(), WEIGHT.detach().t()
    same(scaled(x, w), tcu.matmul(x, w, dtype="float16", scale_a=2))

    class Layer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(WEIGHT.detach())

        def forward(self, x: Any) -> Any:
            return linear(x, self.weight)

    program = torch.export.export(Layer(), (X.detach(),), dynamic_shapes=({0: torch.export.Dim("n")},))
    same(program.module()(X[:3]).detach(), linear(X[:3], WEIGHT).detach())


# Outputs and errors.


def test_out_takes_the_result() -> None:
    x, y = numbers(3, 4, dtype="float16"), numbers(4, 5, dtype="float16")
    out = torch.empty(5, 3, dtype=torch.bfloat16).t()
    version = out._version
    assert tcu.matmul(x, y, out=out) is out
    assert out._version > version
    same(out, tcu.matmul(x, y, dtype=torch.bfloat16))
    with torch.no_grad():
        tcu.matmul(x.requires_grad_(), y, out=out)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tcu.matmul(A, B.numpy()), ParameterError, "b is a ndarray beside tensors: make it one, with torch.as_tensor"),
        (lambda: tcu.matmul(A.numpy(), B), ParameterError, "a is a ndarray beside tensors"),
        (lambda: tcu.matmul(A, B, bias=BIAS[0].numpy()), ParameterError, "bias is a ndarray beside tensors"),
        (lambda: tcu.matmul(A, B, bias=BIAS[0].to("meta")), ParameterError, "a is on cpu, bias on meta: move both to one device"),
        (lambda: tcu.matmul(A, B, bias=np.bool_(True)), ParameterError, "bias is a bool beside tensors: make it one, with torch.as_tensor"),
        (lambda: linear(A.numpy(), B.numpy()), ParameterError, r"^x is a ndarray: make it a tensor, with torch\.as_tensor, or call tcu\.matmul\(x, weight\.T\)$"),
        (lambda: linear(5, WEIGHT), ParameterError, "x is a int: make it a tensor"),
        (lambda: linear(A, [1.0]), ParameterError, "weight is a list: make it a tensor"),
        (lambda: linear(A, B), ShapeError, r"^weight has shape \(6, 4, 5\): give \(N, K\), or call tcu\.matmul\(x, weight\.mT\)$"),
        (lambda: tcu.matmul(A, A), ShapeError, "a needs as many columns as b has rows"),
        (lambda: tcu.matmul(A, B.float()), DtypeError, "does not compute binary64 · tf32"),
        (lambda: tcu.matmul(A.to_sparse(), B), DtypeError, "a is a torch.sparse_coo tensor: make it dense"),
        (lambda: tcu.matmul(A.cfloat(), B.cfloat()), DtypeError, "no tensor-core format has dtype"),
        (lambda: tcu.matmul(A, B, out=torch.empty(3, 5, dtype=torch.float64)), ParameterError, r"out has shape \(3, 5\)"),
        (lambda: tcu.matmul(A, B, out=torch.empty(6, 3, 5), dtype="float64"), ParameterError, "out has dtype float32, the result float64"),
        (lambda: tcu.matmul(X, WEIGHT.t(), out=torch.empty(5, 7, 20)), ParameterError, "no gradient goes through out"),
        (lambda: tcu.matmul(A, B, scale_a=torch.tensor(2.0, requires_grad=True)), ParameterError, "scale_a wants a gradient, which scales do not have"),
        (lambda: tcu.matmul(A.to(torch.float8_e5m2).requires_grad_(), B.to(torch.float8_e5m2)), ParameterError, "a wants a gradient in torch.float8_e5m2, which has too few digits"),
        (lambda: tcu.matmul(X, WEIGHT.t(), unit=tcu.Unit("mine", "on paper", "none", "-", ())), ParameterError, "which the catalogue does not have"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_empty_batches_under_vmap() -> None:
    x, bias, weights = torch.zeros(0, 3, 2), torch.zeros(0, 3), torch.zeros(1, 2, 5)
    assert torch.vmap(lambda z, c: tcu.matmul(z, z.t(), bias=c))(x, bias).shape == (0, 3, 3)
    assert torch.vmap(lambda z: tcu.segment_matmul(z, weights, [0, 3]))(x).shape == (0, 3, 5)
    assert torch.vmap(lambda z: tcu.index_sum(z, torch.tensor([0, 1, 0]), 4))(x).shape == (0, 4, 2)
    assert torch.vmap(lambda z, w: tcu.rms_norm(z, weight=w))(x, torch.zeros(0, 2)).shape == (0, 3, 2)


@pytest.mark.parametrize("where", [(0, 0), (0, None), (None, 0)])
def test_losses_of_empty_batches_under_vmap(where: tuple[int | None, int | None]) -> None:
    x, classes = torch.zeros(3, 5), torch.zeros(3, dtype=torch.int64)
    given = [
        each if at is None else each.expand(0, *each.shape)
        for each, at in zip((x, classes), where, strict=True)
    ]
    for reduction, shape in (("mean", (0,)), ("sum", (0,)), ("none", (0, 3))):
        function = functools.partial(tcu.cross_entropy, reduction=reduction)
        assert torch.vmap(function, where)(*given).shape == shape
    assert torch.vmap(torch.func.grad(tcu.cross_entropy), where)(*given).shape == (0, 3, 5)


def test_a_bias_of_one_number_beside_vectors_has_a_derivative_forward() -> None:
    x, bias = torch.ones(3), torch.ones(1)
    value, tangent = torch.func.jvp(lambda c: tcu.matmul(x, x, bias=c), (bias,), (2 * bias,))
    assert (value.shape, value.item(), tangent.shape, tangent.item()) == ((), 4, (), 2)
