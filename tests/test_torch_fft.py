"""Contract of tcu.fft's functions of PyTorch's tensors: NumPy's bits on the CPU, torch.fft's shapes and dtypes, any strides and
views; gradients of both modes and second ones; vmap, torch.compile, torch.export and fake tensors; and an error that names
the next step for what cannot be.  On a
GPU tensors have the same bits.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import numpy as np
import pytest
from bits import same
from torch_support import compiled

from tcu import fft
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownNameError

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
from torch.autograd import gradcheck, gradgradcheck  # noqa: E402

import tcu.torch  # noqa: E402

ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
SEVERAL = ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn")
OF_REAL = ("rfft", "ihfft", "rfft2", "rfftn")
pytestmark = pytest.mark.filterwarnings(
    "ignore:ComplexHalf support is experimental:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning",
    "ignore::DeprecationWarning", "ignore::FutureWarning",
)  # fmt: skip
RNG = np.random.default_rng(3)


def drawn(shape: tuple[int, ...], dtype: Any) -> Any:
    x = torch.from_numpy(RNG.standard_normal((*shape, 2)))
    return torch.view_as_complex(x).to(dtype) if dtype.is_complex else (3 * x[..., 0]).to(dtype)


def plain(x: Any) -> Any:
    """As NumPy has it: without a conjugation that is yet to be done."""
    return x.resolve_conj().numpy()


@pytest.mark.parametrize("name", [*ONE, *SEVERAL, "dct", "idct", "dst", "idst"])
def test_tensors_have_the_bits_of_arrays(name: str) -> None:
    real = name in OF_REAL or name[-3:] in ("dct", "dst")
    for dtype in (torch.float32, torch.float64, torch.complex64, torch.complex128)[: 2 if real else 4]:
        x = drawn((3, 6, 4), dtype)
        function = getattr(fft, name)
        same(plain(function(x)), function(x.numpy()), name, dtype)
        for axis in (0, 1) if name in ONE else ():
            for n in (None, 5, 8):
                same(plain(function(x, n, axis)), function(x.numpy(), n, axis), name, n, axis)


@pytest.mark.parametrize(
    "dtype",
    ["float32", "float64", "complex64", "complex128", "int32", "bool", "bfloat16", "float16", "complex32"],
)
@pytest.mark.parametrize("name", ONE)
def test_shapes_and_dtypes_are_torch_s(name: str, dtype: str) -> None:
    kind = getattr(torch, dtype)
    if name in OF_REAL and kind.is_complex:
        return
    x = drawn((3, 6, 4), kind)
    wide = x.to(torch.complex128) if kind.is_complex else x.to(torch.float64)
    for n, axis in itertools.product((None, 3, 8), (0, -1)):
        found = getattr(fft, name)(x, n, axis, norm="ortho")
        right = getattr(torch.fft, name)(wide, n, axis, norm="ortho")
        assert found.shape == right.shape
        narrow = dtype in ("float16", "complex32")
        parts = {
            "float16": torch.float16,
            "complex32": torch.float16,
            "float64": torch.float64,
            "complex128": torch.float64,
        }
        part = parts.get(dtype, torch.float32)
        assert (found.real.dtype if found.is_complex() else found.dtype) == part
        assert found.is_complex() == right.is_complex()
        off = (found.to(right.dtype) - right).abs().max()
        assert off <= right.abs().max() * (2e-3 if narrow else 1e-5), (n, axis)


@pytest.fixture
def default_dtype() -> Any:
    before = torch.get_default_dtype()
    yield torch.set_default_dtype
    torch.set_default_dtype(before)


def test_whole_numbers_become_the_default_dtype(default_dtype: Any) -> None:
    assert fft.fft(torch.arange(4)).dtype == torch.complex64
    default_dtype(torch.float64)
    assert fft.fft(torch.arange(4)).dtype == torch.complex128


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16])
def test_a_default_dtype_of_16_bits_is_no_obstacle(narrow: Any, default_dtype: Any) -> None:
    default_dtype(narrow)
    spectrum = fft.fft(torch.arange(4))
    assert spectrum.dtype == (torch.complex32 if narrow == torch.float16 else torch.complex64)
    assert spectrum.to(torch.complex64).tolist() == [6, -2 + 2j, -2, -2 - 2j]
    same(fft.dct(torch.arange(8)), fft.dct(torch.arange(8, dtype=torch.float32)))
    ones = torch.ones(300, dtype=torch.float32)
    for function in (fft.convolve, fft.correlate):
        same(function(torch.arange(300), ones, "full"), function(torch.arange(300).float(), ones, "full"))
        same(function(ones, torch.arange(300), "full"), function(ones, torch.arange(300).float(), "full"))
    found = fft.convolve(torch.arange(4), torch.ones(2, dtype=torch.complex64))
    same(found, fft.convolve(torch.arange(4).float(), torch.ones(2, dtype=torch.complex64)))


@pytest.mark.parametrize("name", ["fft", "irfft", "hfft"])
def test_strides_and_views_leave_no_trace(name: str) -> None:
    function = getattr(fft, name)
    x = drawn((6, 10), torch.complex64)
    right = function(x)
    wide = torch.stack([x, 2 * x], -1)
    same(function(wide[..., 0]), right, "strided")
    same(function(x.T.contiguous().T), right, "transposed")
    same(function(x.conj().conj_physical()), right)
    same(function(x.conj()), function(x.conj().resolve_conj()), "conjugate")
    same(function(torch.imag(x.conj())), function(-x.imag.clone()), "negative")
    same(function(x[1:2].expand(4, 10)), right[1:2].expand(4, -1).contiguous(), "expanded")
    same(function(x.T, axis=0), right.T.contiguous(), "axis")


def test_complex32_is_pairs_of_float16() -> None:
    pairs = torch.from_numpy(RNG.standard_normal((4, 30, 2)).astype(np.float16))
    for function in (fft.fft, fft.ifft):
        found = function(torch.view_as_complex(pairs))
        assert found.dtype == torch.complex32
        same(torch.view_as_real(found), function(pairs, axis=-1, pairs=True), function.__name__)
        same(function(pairs, axis=-1, pairs=True).numpy(), function(pairs.numpy(), axis=-1, pairs=True))
    same(
        fft.rfft(pairs[..., 0]), torch.view_as_complex(torch.ops.tcu.fft(pairs[..., 0], "from_real", 30, 1.0))
    )
    assert fft.rfft(pairs[..., 0]).dtype == torch.complex32
    assert fft.irfft(torch.view_as_complex(pairs)).dtype == torch.float16


def test_convolutions_have_the_bits_of_arrays() -> None:
    x, y = drawn((3, 20), torch.float32), drawn((7,), torch.float32)
    for mode in ("full", "same", "valid"):
        same(fft.convolve(x, y, mode).numpy(), fft.convolve(x.numpy(), y.numpy(), mode))
        same(fft.correlate(x, y, mode).numpy(), fft.correlate(x.numpy(), y.numpy(), mode))
    z = drawn((5,), torch.complex128)
    same(fft.convolve(x, z).numpy(), fft.convolve(x.numpy(), z.numpy()))
    whole = fft.convolve(torch.arange(9), torch.arange(4, dtype=torch.int8))
    assert whole.dtype == torch.int64
    assert whole.tolist() == np.convolve(np.arange(9), np.arange(4)).tolist()


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_whole_numbers_take_the_format_of_those_beside_them(name: str, default_dtype: Any) -> None:
    function, large = getattr(fft, name), torch.tensor([(1 << 24) + 1])
    for default in (torch.float32, torch.float64):
        default_dtype(default)
        for dtype in ("bfloat16", "float16", "float32", "float64", "complex32", "complex64", "complex128"):
            one = torch.ones(1).to(getattr(torch, dtype))
            wide = dtype in ("float64", "complex128")
            for found in (function(large, one), function(one, large)):
                assert str(found.dtype)[6:] == ("complex" if one.is_complex() else "float") + str(
                    (64 if wide else 32) * (1 + one.is_complex())
                )
                assert found.real.item() == large.item() - (not wide)


def test_unsigned_numbers_are_convolved_exactly() -> None:
    for dtype in (torch.uint8, torch.uint16, torch.uint32, torch.uint64):
        x, y = torch.tensor([3, 2, 5]).to(dtype), torch.tensor([200, 1]).to(dtype)
        found = fft.convolve(x, y)
        assert (found.dtype, found.tolist()) == (torch.int64, [600, 403, 1002, 5])
    with pytest.raises(
        ParameterError, match="x has 1 whole numbers up to 9,223,372,036,854,775,808, y 2 up to 200"
    ):
        fft.convolve(torch.tensor([1 << 63], dtype=torch.uint64), y)


def test_what_is_too_long_is_said_in_words() -> None:
    for function in (fft.fft, fft.dct, fft.idst):
        with pytest.raises(ParameterError, match=r"a transform of .* numbers: give at most 2\^31"):
            function(torch.ones(4), n=1 << 62)


def test_complex32_is_convolved_in_float32() -> None:
    z = drawn((9,), torch.complex32)
    same(fft.convolve(z, z), fft.convolve(z.to(torch.complex64), z.to(torch.complex64)))
    same(fft.correlate(z, torch.ones(3)), fft.correlate(z.to(torch.complex64), torch.ones(3)))


# Derivatives


@pytest.mark.some(14)
@pytest.mark.parametrize("n", [None, 3, 7, 8])
@pytest.mark.parametrize("name", ONE)
def test_gradients_of_both_modes_and_second_ones_are_right(name: str, n: int | None) -> None:
    for dtype in (torch.float64, torch.complex128)[: 1 if name in OF_REAL else 2]:
        x = drawn((2, 5), dtype).requires_grad_()

        def function(x: Any) -> Any:
            return getattr(fft, name)(x, n, -1, "ortho")

        assert gradcheck(
            function, (x,), check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True
        )
        assert gradgradcheck(function, (x,))


@pytest.mark.slow(2)
@pytest.mark.parametrize("type", [2, 3])
@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
def test_gradients_of_cosine_transforms_are_right(name: str, type: int) -> None:
    x = drawn((2, 3, 5), torch.float64).requires_grad_()
    assert gradcheck(lambda x: getattr(fft, name)(x, type, 4, 1, "ortho"), (x,), check_forward_ad=True)
    assert gradgradcheck(lambda x: getattr(fft, name)(x, type), (x,))


def test_gradients_of_convolutions_are_right() -> None:
    x, y = drawn((2, 5), torch.float64).requires_grad_(), drawn((3,), torch.float64).requires_grad_()
    assert gradcheck(lambda x, y: fft.convolve(x, y), (x, y), check_forward_ad=True)
    z = drawn((3,), torch.complex128).requires_grad_()
    assert gradcheck(lambda x, z: fft.correlate(x, z, "full"), (x, z))


def test_a_gradient_is_a_transform_with_its_bits() -> None:
    x = drawn((4, 30), torch.complex64).requires_grad_()
    g = drawn((4, 30), torch.complex64)
    fft.fft(x).backward(g)
    same(x.grad, fft.ifft(g, norm="forward"))
    w = drawn((4, 30), torch.float32).requires_grad_()
    fft.irfft(fft.rfft(w), 30).sum().backward()
    assert torch.allclose(w.grad, torch.ones_like(w), atol=1e-5)
    half = drawn((4, 30), torch.float16).requires_grad_()
    fft.fft(half).real.sum().backward()
    assert half.grad.dtype == torch.float16


# Transformations


FUNCTIONS: list[tuple[Any, Any]] = [
    (lambda x: fft.rfft(x), torch.float32), (lambda x: fft.fft(x, norm="ortho"), torch.complex64), (lambda x: fft.fft(x), torch.float64),
    (lambda x: fft.irfft(x, 5, 0), torch.complex64), (lambda x: fft.fft2(x), torch.complex64), (lambda x: fft.hfft(x), torch.complex64),
    (lambda x: fft.fftshift(fft.fft(x)), torch.complex64), (lambda x: fft.dct(x), torch.float32), (lambda x: fft.dst(x, 3), torch.float64),
    (lambda x: fft.convolve(x, x[0]), torch.float32), (lambda x: fft.fft(x.reshape(3, 5, 2), axis=0, pairs=True), torch.float16),
]  # fmt: skip


@pytest.mark.some(7)
@pytest.mark.parametrize(("function", "dtype"), FUNCTIONS)
def test_compiled_functions_have_the_same_bits(function: Any, dtype: Any) -> None:
    x = drawn((3, 10), dtype)
    same(compiled(function)(x), function(x))


def test_a_compiled_loss_has_the_gradient_of_the_loss() -> None:
    def loss(x: Any) -> Any:
        return fft.rfft(x).abs().square().sum()

    x, y = drawn((3, 10), torch.float32).requires_grad_(), None
    loss(x).backward()
    y, x.grad = x.grad, None
    compiled(loss)(x).backward()
    assert torch.allclose(x.grad, y)


def test_lengths_may_be_symbols() -> None:
    torch._dynamo.reset()
    function = torch.compile(
        lambda x: fft.irfft(fft.rfft(x), x.shape[-1]), fullgraph=True, backend="aot_eager", dynamic=True
    )
    for n in (8, 10, 12, 13):
        x = drawn((2, n), torch.float32)
        same(function(x), fft.irfft(fft.rfft(x), n))


@pytest.mark.parametrize("name", ["dct", "idst"])
def test_a_length_that_is_a_symbol_becomes_a_number_for_cosine_tables(name: str) -> None:
    function = getattr(fft, name)
    torch._dynamo.reset()
    traced = torch.compile(lambda x: function(x), fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (6, 7, 12):
        x = drawn((n,), torch.float32)
        same(traced(x), function(x))


@pytest.mark.parametrize("function", [fft.convolve, fft.correlate, fft.dct], ids=lambda f: f.__name__)
def test_an_exported_program_takes_any_batch(function: Any) -> None:
    others = () if function is fft.dct else (torch.tensor([1.0, -2.0, 3.0]),)

    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return function(x, *others)

    batches = ({0: torch.export.Dim("batch", min=1, max=64)},)
    program = torch.export.export(Module(), (drawn((4, 24), torch.float32),), dynamic_shapes=batches).module()
    for rows in (1, 7):
        x = drawn((rows, 24), torch.float32)
        same(program(x), function(x, *others))


def exported(function: Any) -> Any:
    """A program for rows of 4 numbers and more."""

    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return function(x)

    lengths = ({1: torch.export.Dim("n", min=4, max=100)},)
    return torch.export.export(Module(), (drawn((3, 8), torch.float32),), dynamic_shapes=lengths).module()


OF_ANY_LENGTH: list[Any] = [
    fft.fft, fft.ifft, fft.rfft, fft.irfft, fft.hfft, fft.ihfft, lambda x: fft.fft(x, norm="ortho"),
    lambda x: fft.irfft(fft.rfft(x), x.shape[-1]), lambda x: fft.irfft2(fft.rfft2(x)), lambda x: fft.fftshift(fft.fft(x)),
]  # fmt: skip


@pytest.mark.slow(3)
@pytest.mark.parametrize("function", OF_ANY_LENGTH)
def test_an_exported_program_takes_any_length(function: Any) -> None:
    program = exported(function)
    for n in (8, 12, 5):
        x = drawn((3, n), torch.float32)
        same(program(x), function(x))


@pytest.mark.parametrize("function", [fft.dct, lambda x: fft.convolve(x, x)])
def test_an_exported_program_has_a_length_of_cosine_transforms_and_convolutions(function: Any) -> None:
    with pytest.raises(torch._dynamo.exc.UserError, match="specialized it to be a constant"):
        exported(function)


def test_an_exported_program_has_the_same_bits() -> None:
    class Module(torch.nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return fft.dct(fft.ifft(fft.fft(x)).real)

    x = drawn((3, 10), torch.complex64)
    same(torch.export.export(Module(), (x,)).module()(x), Module()(x))


@pytest.mark.parametrize("name", [*ONE, *SEVERAL, "dct", "idct", "dst", "idst", "convolve", "correlate"])
def test_vmap_of_an_empty_batch_is_an_empty_batch(name: str) -> None:
    real = name in OF_REAL or name[-3:] in ("dct", "dst")
    for dtype in (torch.float32, torch.complex64)[: 1 if real else 2]:
        shape = (3, 4) if name in SEVERAL else (4,)
        given = [drawn((2, *shape), dtype)] * (2 if name in ("convolve", "correlate") else 1)
        function, empty = torch.vmap(getattr(fft, name)), [each[:0] for each in given]
        assert function(*empty).shape == (0, *function(*given).shape[1:])
        slopes = torch.vmap(torch.func.grad(lambda *x: getattr(fft, name)(*x).abs().sum()))(*empty)
        assert (slopes.shape, slopes.dtype) == ((0, *shape), dtype)


def test_vmap_is_a_batch() -> None:
    x, z = drawn((3, 10), torch.float32), drawn((2, 3, 10), torch.complex64)
    same(torch.func.vmap(fft.rfft, in_dims=1)(x), fft.rfft(x.T))
    same(torch.func.vmap(torch.func.vmap(fft.fft))(z), fft.fft(z))
    same(torch.func.vmap(lambda z: fft.fft(z, axis=0), in_dims=1, out_dims=1)(z), fft.fft(z, axis=0))
    jacobian = torch.func.jacrev(fft.dct)(x[0].double())
    assert torch.allclose(jacobian, torch.func.jacfwd(fft.dct)(x[0].double()))


@pytest.mark.parametrize("name", ["dct", "idct", "dst", "idst"])
def test_vmap_of_cosine_transforms_is_a_batch(name: str) -> None:
    function, x = getattr(fft, name), drawn((3, 4, 10), torch.float32)
    for type in (2, 3):
        same(torch.func.vmap(partial(function, type=type))(x), function(x, type))
    same(torch.func.vmap(lambda x: function(x, axis=0), in_dims=1)(x), function(x.movedim(1, 0), axis=1))


@pytest.mark.parametrize("name", ["convolve", "correlate"])
def test_vmap_of_convolutions_is_a_batch(name: str) -> None:
    function, x, y = getattr(fft, name), drawn((3, 10), torch.float64), drawn((3, 4), torch.float64)
    same(torch.func.vmap(function)(x, y), function(x, y))
    same(
        torch.func.vmap(lambda x: function(x, y[0]), in_dims=1)(x[:, :3].T.contiguous()),
        function(x[:, :3], y[0]),
    )
    same(torch.func.vmap(lambda x: function(x, torch.tensor([1, 2])))(x), function(x, torch.tensor([1, 2])))


def test_whole_numbers_nobody_sees_are_not_convolved() -> None:
    x = torch.arange(6).reshape(2, 3)
    message = r"x has whole numbers, whose magnitudes nobody sees in torch\.compile or torch\.func\.vmap, .* or give x\.double\(\)"
    with pytest.raises(ParameterError, match=message):
        torch.func.vmap(fft.convolve)(x, x)
    with pytest.raises(torch._dynamo.exc.Unsupported, match=message):
        compiled(fft.convolve)(x, x)
    same(torch.compile(fft.convolve, backend="aot_eager")(x, x), fft.convolve(x, x), "outside of a graph")
    with pytest.raises(ParameterError, match="y is on the meta device"):
        fft.convolve(x, x.to("meta"))


def test_fake_tensors_have_shapes_and_dtypes() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        for function, dtype in FUNCTIONS[:6]:
            found = function(torch.empty(3, 10, dtype=dtype))
            right = function(torch.empty(3, 10, dtype=dtype))
            assert (found.shape, found.dtype) == (right.shape, right.dtype)
        found = fft.rfft(torch.empty(3, 10, dtype=torch.float64))
    assert (tuple(found.shape), found.dtype) == ((3, 6), torch.complex128)
    meta = torch.ops.tcu.fft(torch.empty(3, 10, 2, device="meta"), "to_real", 9, 1.0)
    assert tuple(meta.shape) == (3, 9)


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("forward", (3, 8, 2)), ("inverse", (8, 2)), ("from_real", (3, 8)), ("to_real", (5, 2))],
)
def test_the_operator_is_one_by_pytorch_s_own_checks(kind: str, shape: tuple[int, ...]) -> None:
    for n in (8, 11):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(0), requires_grad=True)
        found = torch.library.opcheck(torch.ops.tcu.fft.default, (x, kind, n, 0.5, "√n"))
        assert set(found.values()) == {"SUCCESS"}
        same(torch.ops.tcu.fft(x, kind, n, 1.0, "n"), torch.ops.tcu.fft(x, kind, n, 1 / n))


# What cannot be.

CALLS: list[tuple[Any, type[Exception], str]] = [
    (lambda: fft.rfft(torch.ones(4) + 1j), DtypeError, "x has dtype torch.complex64, and rfft takes real numbers"),
    (lambda: fft.fft(torch.ones(4, 3), pairs=True), ShapeError, r"x has shape \(4, 3\): pairs have a last axis of two"),
    (lambda: fft.fft(torch.ones(4).to(torch.float8_e4m3fn)), DtypeError, r"x has dtype torch.float8_e4m3fn: convert it first, with x\.to\(torch\.float32\)"),
    (lambda: fft.fft(torch.eye(3).to_sparse()), DtypeError, r"x is a torch.sparse_coo tensor: make it dense, with x.to_dense\(\)"),
    (lambda: fft.fft(torch.quantize_per_tensor(torch.ones(4), 1.0, 0, torch.qint8)), DtypeError, r"x is quantized, torch.qint8: transform x\.dequantize\(\)"),
    (lambda: fft.fft(torch.ones(4, device="meta")), ParameterError, "x is on the meta device and holds no numbers"),
    (lambda: fft.fft(torch.ones(4), 0), ParameterError, "n=0: give a whole number from 1 on"),
    (lambda: torch.ops.tcu.fft(torch.ones(4, 2), "back", 4, 1.0), UnknownNameError, "unknown kind of transform 'back'"),
    (lambda: torch.ops.tcu.fft(torch.ones(4, 2), "forward", 4, 1.0, "2"), UnknownNameError, "unknown divisor '2': available: 1, n, √n"),
    (lambda: torch.ops.tcu.fft(torch.ones(4), "forward", 4, 1.0), ShapeError, r"x has shape \(4,\): forward takes \(\.\.\., numbers, 2\)"),
    (lambda: torch.ops.tcu.fft(torch.ones(()), "from_real", 4, 1.0), ShapeError, r"x has shape \(\): from_real takes \(\.\.\., numbers\)"),
    (lambda: torch.ops.tcu.fft(torch.ones(4, 2), "forward", 0, 1.0), ParameterError, "n = 0: a transform has at least one number"),
    (lambda: torch.ops.tcu.fft(torch.ones(4, 2, dtype=torch.bfloat16), "forward", 4, 1.0), DtypeError, "the operator takes float16, float32 or float64, complex numbers as pairs"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "kind", "message"), CALLS)
def test_what_cannot_be_is_said_in_words(call: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()


def test_a_device_without_transforms_is_said_in_words() -> None:
    class Elsewhere:
        is_nested = is_quantized = False
        layout = torch.strided
        dtype = torch.float32
        device = torch.device("mps")

    from tcu.surfaces.torch.fft import taken

    with pytest.raises(
        ParameterError,
        match=r"x is on mps, where tcu has no transforms: move it with x\.cpu\(\) or x\.cuda\(\)",
    ):
        taken(Elsewhere(), False)


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", ["float16", "complex32", "float32", "float64", "complex64", "complex128"])
def test_a_gpu_has_the_bits_of_the_cpu(dtype: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    kind = getattr(torch, dtype)
    for n in (1, 7, 60, 97, 1000, 4096):
        x = drawn((5, n, 3), kind)
        for name in ("fft", "ifft", "irfft", "hfft", *(() if kind.is_complex else ("rfft", "ihfft"))):
            if n == 1 and name in ("irfft", "hfft"):
                continue
            same(getattr(fft, name)(x.cuda(), axis=1).cpu(), getattr(fft, name)(x, axis=1), name, n)
            same(
                getattr(fft, name)(x.cuda().movedim(1, 2)).cpu(), getattr(fft, name)(x.movedim(1, 2)), name, n
            )
    if not kind.is_complex and dtype != "float16":
        same(fft.dct(x.cuda(), axis=1).cpu(), fft.dct(x, axis=1))
        same(fft.convolve(x.cuda(), x.cuda(), axis=1).cpu(), fft.convolve(x, x, axis=1))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_transforms_of_no_rows(dtype: str) -> None:
    x = torch.zeros(0, 3, dtype=getattr(torch, dtype))
    for function in (tcu.fft.fft, tcu.fft.ifft):
        assert function(x).shape == (0, 3)
        assert function(x.T, axis=0).shape == (3, 0)
        assert function(x.clone().requires_grad_()).requires_grad
        assert function(x).dtype == x.dtype
