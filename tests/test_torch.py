"""Contract: PyTorch tensors give tensors, with the model's bits; operators that torch.compile, autograd and
torch.func take; and an error that names the next step for every tensor that has no sum.

None of it needs a GPU; tests/test_gpu_torch.py asks the same of one.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from patience import HANGS
from torch_support import compiled

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError, UnknownNameError
from tcu.formats import get_format
from tcu.formats.tensor import host_view, tensor_of

# PyTorch warns about itself: of torch.jit.script in forward mode, of what torch.compile imports.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)

from tcu.engines.cuda import sums as device_sums  # noqa: E402
from tcu.ops import Call, find_operation  # noqa: E402
from tcu.ops.layout import WHOLE  # noqa: E402
from tcu.surfaces.torch import (  # noqa: E402
    checks,
    launch_cache,
    unwatched,
)
from tcu.surfaces.torch import run as torch_run  # noqa: E402

OPERATIONS: dict[str, Callable[..., Any]] = {
    "sum": tcu.sum, "mean": tcu.mean, "norm": tcu.norm, "fsum": tcu.fsum, "fmean": tcu.fmean,
    "fnorm": tcu.fnorm,
    "dot": lambda x, **options: tcu.dot(x, x.flip(0) if torch.is_tensor(x) else x[::-1], **options),
    "fdot": lambda x, **options: tcu.fdot(x, x.flip(0) if torch.is_tensor(x) else x[::-1], **options),
}  # fmt: skip
DTYPES = ("float16", "bfloat16", "float32", "float64")
SMALL = torch.arange(1, 8, dtype=torch.float64) / 4

every_operation = pytest.mark.parametrize("name", OPERATIONS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def takes_two(name: str) -> bool:
    return len(find_operation(name).operands) == 2


def tensor(dtype: str, n: int = 1003) -> Any:
    return torch.from_numpy(np.random.default_rng(7).standard_normal(n)).to(getattr(torch, dtype))


def bits(x: Any) -> bytes:
    return host_view(x.reshape(())).tobytes() if torch.is_tensor(x) else np.asarray(x).tobytes()


# Tensors in, tensors out.


@every_operation
@every_dtype
def test_a_tensor_gives_a_tensor_with_the_model_s_bits(name: str, dtype: str) -> None:
    x = tensor(dtype)
    result, expected = OPERATIONS[name](x), OPERATIONS[name](host_view(x))
    assert type(result) is torch.Tensor
    assert result.shape == ()
    assert str(result.dtype) == f"torch.{expected.dtype}"
    assert bits(result) == bits(expected)


@every_dtype
@pytest.mark.parametrize("wanted", DTYPES)
def test_dtypes_of_pytorch_are_dtypes(dtype: str, wanted: str) -> None:
    x = tensor(dtype)
    result = tcu.sum(x, dtype=getattr(torch, wanted))
    assert result.dtype is getattr(torch, wanted)
    assert bits(result) == bits(tcu.sum(host_view(x), dtype=wanted)) == bits(tcu.sum(x, dtype=wanted))
    assert bits(tcu.sum(host_view(x), dtype=getattr(torch, wanted))) == bits(result)


def test_a_dtype_that_is_no_result() -> None:
    for x in (SMALL, SMALL.numpy(), SMALL.clone().requires_grad_()):
        with pytest.raises(DtypeError, match=r"torch\.int64: a result is rounded to float16, bfloat16"):
            tcu.sum(x, dtype=torch.int64)
    with pytest.raises(DtypeError, match="a result is rounded to"):
        tcu.sum(SMALL, dtype=["f4"])


@every_dtype
def test_any_strides_and_no_copy(dtype: str) -> None:
    x = tensor(dtype, 1200).reshape(30, 40)
    assert host_view(x).ctypes.data == x.data_ptr()
    for view in (x.T, x[::3, 1::2], x[:, :1].expand(30, 7), x[2:2], x[3, 4]):
        assert host_view(view).shape == tuple(view.shape)
        assert bits(tcu.sum(view)) == bits(tcu.sum(host_view(view).copy()))


def test_a_tensor_with_the_negative_bit() -> None:
    x = torch.tensor([1 + 2j, 3 - 5j]).conj().imag
    assert x.is_neg()
    assert tcu.sum(x) == 3
    assert (tcu.dot(x, x), tcu.dot(x, x.clone())) == (29, 29)


@every_dtype
def test_nan_and_zero_keep_their_bits(dtype: str) -> None:
    fmt = get_format(dtype)
    nan = tcu.sum(torch.tensor([float("nan"), 1], dtype=getattr(torch, dtype)), dtype=dtype)
    assert int(host_view(nan).view(fmt.code_dtype)) == fmt.nan_code
    zero = tcu.sum(torch.tensor([-0.0], dtype=getattr(torch, dtype)))
    assert not torch.signbit(zero)
    assert bits(tensor_of(np.array(-0.0, fmt.dtype)[()])) == np.array(-0.0, fmt.dtype).tobytes()


def test_the_other_functions_take_host_tensors_too() -> None:
    x = tensor("bfloat16", 100)
    for function in (tcu.error_bound, lambda x: tcu.ExactSum().add(x).value()):
        assert function(x) == function(host_view(x))
    assert tcu.dot_error_bound(x, x) == tcu.dot_error_bound(host_view(x), host_view(x))


# out, return_info, progress.


@every_operation
def test_out(name: str) -> None:
    x, out = tensor("float32"), torch.zeros((), dtype=torch.float64)
    before = out._version
    assert OPERATIONS[name](x, out=out) is out
    assert bits(out) == bits(OPERATIONS[name](x, dtype="float64"))
    assert out._version > before  # so that autograd notices
    line = torch.zeros(1, dtype=torch.float32)
    assert OPERATIONS[name](x, out=line) is line


def test_an_out_that_does_not_fit() -> None:
    x = tensor("float32")
    for out, message in (
        (torch.zeros(3), r"out has shape \(3,\): give a 0-d tensor"),
        (np.zeros(()), "out is a ndarray, x a tensor: give a 0-d tensor"),
        (torch.zeros((), device="meta"), "x is on cpu, out on meta: give both one device"),
        (torch.zeros((), requires_grad=True), "out requires grad: give a tensor that does not"),
    ):
        with pytest.raises(ParameterError, match=message):
            tcu.sum(x, out=out)
    with pytest.raises(ParameterError, match="out has dtype float64, the result float32"):
        tcu.sum(x, dtype="float32", out=torch.zeros((), dtype=torch.float64))
    with pytest.raises(Exception, match=r"out has dtype torch.float64, the result torch.float32"):
        compiled(lambda x, out: tcu.sum(x, dtype="float32", out=out))(x, torch.zeros((), dtype=torch.float64))
    with pytest.raises(DtypeError, match=r"out has dtype torch\.int64"):
        tcu.sum(x, out=torch.zeros((), dtype=torch.int64))
    with pytest.raises(ParameterError, match="give a 0-d NumPy array"):
        tcu.sum(x.numpy(), out=torch.zeros(()))


def test_an_out_of_a_class_of_the_program_s_own() -> None:
    class Mine(torch.Tensor):  # type: ignore[misc]
        pass

    x = tensor("float32")
    out = torch.zeros((), dtype=torch.float64).as_subclass(Mine)
    assert tcu.sum(x, out=out) is out
    assert bits(out) == bits(tcu.sum(x, dtype="float64"))
    with pytest.raises(ParameterError, match="out has dtype float64, the result float32"):
        tcu.sum(x, dtype="float32", out=out)


def test_no_gradient_goes_through_out() -> None:
    x, out = tensor("float32").requires_grad_(), torch.zeros(())
    with pytest.raises(ParameterError, match=r"x requires grad.*torch\.no_grad\(\)"):
        tcu.sum(x, out=out)
    with torch.no_grad():
        assert tcu.sum(x, out=out) is out


@pytest.mark.parametrize("wanting", [False, True])
def test_the_details(wanting: bool) -> None:
    x = tensor("float16").requires_grad_(wanting)
    seen: list[int] = []
    result, info = tcu.sum(x, unit="V100", return_info=True, progress=seen.append)
    assert sum(seen) == 1003
    assert (info.unit, info.bits) == ("V100", int(host_view(result).view(np.uint32)))
    assert result.requires_grad is wanting
    dot, details = tcu.dot(x, x, return_info=True)
    assert details.bits == int(host_view(dot).view(np.uint32))
    out = torch.zeros(())
    if not wanting:
        same, again = tcu.sum(x, unit="V100", return_info=True, out=out)
        assert same is out
        assert again == info
    assert tcu.mean(x, progress=seen.append).requires_grad is wanting
    assert sum(seen) == 2006


def test_the_readme_s_block_runs() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    blocks = re.findall(r"```python\n(import torch\n.*?)```", readme, re.S)
    (block,) = [block for block in blocks if "requires_grad" in block]
    torch._dynamo.reset()
    with torch.compiler.set_stance("force_eager"):
        names: dict[str, Any] = {"tcu": tcu}
        exec(compile(block, "README.md", "exec"), names)
    assert names["x"].grad.dtype is torch.bfloat16
    assert names["total"] == tcu.fsum(names["x"].detach(), dtype="float64")


# Gradients.


@every_operation
def test_first_and_second_derivatives(name: str) -> None:
    x = SMALL.clone().requires_grad_()
    assert torch.autograd.gradcheck(OPERATIONS[name], x, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(OPERATIONS[name], x)


@every_operation
@every_dtype
def test_gradients_have_the_dtype_of_x(name: str, dtype: str) -> None:
    theirs = {"sum": torch.sum, "fsum": torch.sum, "mean": torch.mean, "fmean": torch.mean,
              "norm": torch.linalg.vector_norm, "fnorm": torch.linalg.vector_norm,
              "dot": lambda x: torch.dot(x, x.flip(0)), "fdot": lambda x: torch.dot(x, x.flip(0))}[name]  # fmt: skip
    x, same = (tensor(dtype, 40).requires_grad_() for _ in range(2))
    OPERATIONS[name](x).backward()
    theirs(same.double()).backward()
    assert x.grad.dtype is x.dtype
    assert torch.allclose(x.grad.double(), same.grad.double(), rtol=2 * torch.finfo(x.dtype).eps)


def test_a_gradient_is_rounded_once() -> None:
    """1e6 is beyond binary16, 1e6 · 2^-10 is not."""
    x = torch.full((3,), 2.0**-10, dtype=torch.float16, requires_grad=True)
    (tcu.dot(x, x.detach()) * 1e6).backward()
    assert (x.grad == torch.tensor(1e6 * 2**-10).half()).all()


def test_the_gradient_of_a_norm_of_zeros_is_zero() -> None:
    for norm in (tcu.norm, tcu.fnorm):
        x = torch.zeros(5, requires_grad=True)
        norm(x).backward()
        assert (x.grad == 0).all()
    torch.linalg.vector_norm(same := torch.zeros(5, requires_grad=True)).backward()
    assert (same.grad == x.grad).all()


def test_the_gradient_of_nothing() -> None:
    for name, function in OPERATIONS.items():
        x = torch.zeros(0, 3, requires_grad=True)
        if not takes_two(name):
            function(x).backward()
            assert x.grad.shape == (0, 3)


def test_where_no_gradient_is_wanted_none_is_recorded() -> None:
    x = torch.nn.Parameter(tensor("float32"))
    assert tcu.sum(x).grad_fn is not None
    assert bits(tcu.sum(x.detach())) == bits(tcu.sum(x).detach())
    for without in (torch.no_grad(), torch.inference_mode()):
        with without:
            assert tcu.sum(x).grad_fn is None
    only_y = tcu.dot(SMALL, y := SMALL.clone().requires_grad_())
    only_y.backward()
    assert (y.grad == SMALL).all()


# torch.func.


@every_operation
def test_torch_func(name: str) -> None:
    function = OPERATIONS[name]
    x = SMALL.clone().requires_grad_()
    function(x).backward()
    assert torch.equal(torch.func.grad(function)(SMALL), x.grad)
    assert torch.allclose(torch.func.jvp(function, (SMALL,), (SMALL,))[1], (x.grad * SMALL).sum())
    hessian = torch.func.hessian(function)(SMALL)
    assert torch.allclose(hessian, torch.autograd.functional.hessian(function, SMALL))
    batch = torch.stack([SMALL, 2 * SMALL, SMALL.flip(0)])
    one_by_one = torch.stack([function(x) for x in batch])
    assert torch.equal(torch.vmap(function)(batch), one_by_one)
    assert torch.equal(torch.vmap(function, in_dims=1)(batch.T), one_by_one)
    assert torch.equal(torch.vmap(torch.func.grad(function))(batch)[0], x.grad)


def test_vmap_over_one_factor_and_over_nothing() -> None:
    batch = torch.stack([SMALL, 2 * SMALL])
    assert torch.equal(
        torch.vmap(tcu.dot, in_dims=(0, None))(batch, SMALL), tcu.dot(SMALL, SMALL) * torch.tensor([1, 2])
    )


# The operators.


def arguments(name: str, x: Any) -> tuple[Any, ...]:
    return (x, x.detach().flip(0)) if takes_two(name) else (x,)


@pytest.mark.some(20)
@every_operation
@every_dtype
def test_opcheck(name: str, dtype: str) -> None:
    tcu.sum(SMALL)
    operator = getattr(torch.ops.tcu, name).default
    for x in (tensor(dtype, 20), tensor(dtype, 24).reshape(4, 6).T, tensor(dtype, 20).requires_grad_()):
        given = arguments(name, x)
        torch.library.opcheck(operator, given)
        torch.library.opcheck(operator, given, {"dtype": torch.float64})


@every_operation
def test_operators_take_the_options_by_name_and_by_place(name: str) -> None:
    x = tensor("float16")
    operator = getattr(torch.ops.tcu, name)
    assert bits(operator(*arguments(name, x))) == bits(OPERATIONS[name](x))
    for option, value in {"unit": "V100", "variant": "two-mma", "block": 512, "dtype": torch.float64}.items():
        if option in find_operation(name).options:
            got = operator(*arguments(name, x), **{option: value})
            assert bits(got) == bits(OPERATIONS[name](x, **{option: value}))


def test_fake_tensors_have_a_shape_and_a_dtype() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        for dtype in DTYPES:
            x = torch.empty(3, 4, dtype=getattr(torch, dtype))
            for function in OPERATIONS.values():
                result = function(x)
                assert (result.shape, result.dtype.itemsize) == ((), max(x.dtype.itemsize, 4))
    meta = torch.ops.tcu.sum(torch.empty(3, device="meta"), dtype=torch.float16)
    assert (meta.device.type, meta.dtype) == ("meta", torch.float16)


def test_plain_tensors_go_past_the_operators(monkeypatch: pytest.MonkeyPatch) -> None:
    def recorded(*_: Any) -> None:
        raise AssertionError("recorded")

    monkeypatch.setattr(torch_run, "_recorded", recorded)
    tcu.sum(SMALL)
    with torch.no_grad():
        tcu.sum(SMALL.clone().requires_grad_())
    with pytest.raises(AssertionError, match="recorded"):
        tcu.sum(SMALL.clone().requires_grad_())
    with pytest.raises(AssertionError, match="recorded"), torch.device("cpu"):  # somebody watches
        tcu.sum(SMALL)


def test_the_operators_are_registered_when_a_tensor_is_met() -> None:
    code = """
import sys, tcu, numpy
tcu.sum(numpy.ones(3))
assert "torch" not in sys.modules
import torch
assert not hasattr(torch.ops.tcu, "sum")
assert torch.compile(lambda x: tcu.sum(x), fullgraph=True, backend="eager")(torch.ones(3)) == 3
assert torch.ops.tcu.sum(torch.ones(3)) == 3
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=HANGS)


# torch.compile.


@every_operation
def test_compiled_whole(name: str) -> None:
    function = compiled(lambda x: OPERATIONS[name](2 * x) + 1)
    for n in (5, 6, 1003):  # the second makes n a symbol
        x = tensor("float32", n).requires_grad_()
        result = function(x)
        assert torch.equal(result, OPERATIONS[name](2 * x) + 1)
        (gradient,) = torch.autograd.grad(result, x)
        assert torch.equal(gradient, torch.autograd.grad(OPERATIONS[name](2 * x), x)[0])


@pytest.mark.parametrize(
    "function",
    [
        *OPERATIONS.values(),
        tcu.cumsum,
        lambda x: tcu.segment_sum(x, torch.tensor([0, 3, 7]), check=False),
        lambda x: tcu.matmul(x[:6].reshape(2, 3).half(), x[:6].reshape(3, 2).half()),
    ],
)
def test_compiling_reads_no_table_of_modules(function: Callable[..., Any]) -> None:
    """torch.compile goes through what it reads, and failed now and then while another thread imported a module."""
    guards = torch._dynamo.explain(function)(SMALL).out_guards
    assert guards
    assert not [guard.name for guard in guards if "sys.modules" in guard.name]


@pytest.mark.parametrize("dtype", [torch.float16, "f16", np.float16, np.dtype("float16")])
def test_compiled_with_options(dtype: Any) -> None:
    x, out = tensor("float16"), torch.zeros((), dtype=torch.float16)
    options = {"unit": "V100", "variant": "single-pass", "chain": 4, "block": 128, "dtype": dtype}
    expected = tcu.sum(x, **options)
    assert bits(compiled(lambda x: tcu.sum(x, **options))(x)) == bits(expected)
    assert (
        bits(compiled(lambda x, out: tcu.sum(x, out=out, **options))(x, out)) == bits(expected) == bits(out)
    )
    assert bits(compiled(lambda x: tcu.sum(x, unit=tcu.units.CATALOGUE["V100"]))(x)) == bits(
        tcu.sum(x, unit="V100")
    )


def test_compiled_vmap() -> None:
    batch = torch.stack([SMALL, 2 * SMALL])
    assert torch.equal(compiled(torch.vmap(tcu.norm))(batch), torch.vmap(tcu.norm)(batch))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.filterwarnings("ignore")
def test_compiled_to_machine_code() -> None:
    torch._dynamo.reset()
    function = torch.compile(lambda x: tcu.sum(x * x) / tcu.norm(x), fullgraph=True)
    x = tensor("float64").requires_grad_()
    assert torch.allclose(function(x), tcu.sum(x * x) / tcu.norm(x), rtol=1e-15)
    function(x).backward()
    assert torch.allclose(x.grad, x.detach() / tcu.norm(x).detach())


def test_exported() -> None:
    class Module(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return tcu.sum(x) + tcu.fmean(x)

    for strict in (False, True):
        program = torch.export.export(Module(), (SMALL,), strict=strict)
        assert torch.equal(program.module()(2 * SMALL), Module()(2 * SMALL))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: tcu.sum(x, return_info=True), "return_info and progress do not go through torch.compile"),
        (lambda x: tcu.sum(x, progress=print), "return_info and progress do not go through torch.compile"),
        (torch.func.grad(tcu.sum), "under torch.func.grad or in forward mode does not go through"),
        (lambda x: torch.func.jvp(tcu.sum, (x,), (x,)), "or in forward mode does not go through"),
        (lambda x: tcu.norm(x.long()), "x has dtype torch.int64, none of float16"),
        (lambda x: tcu.dot(x, x[1:]), r"x has shape \(7,\) and y \(6,\)"),
        (lambda x: tcu.sum(x, dtype=torch.int32), "a result is rounded to float16"),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_what_does_not_compile_says_why(function: Any, message: str) -> None:
    with pytest.raises(Exception, match=message):
        compiled(function)(SMALL)


# Tensors that have no sum.


@pytest.mark.filterwarnings("ignore")  # of the prototypes of quantized and nested tensors
def test_tensors_that_cannot_be_summed() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    quantized = torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)
    for x, message in (
        (torch.ones(3).to_sparse(), r"x is a torch\.sparse_coo tensor: make it dense, with x\.to_dense\(\)"),
        (torch.eye(3).to_sparse_csc(), r"x is a torch\.sparse_csc tensor: make it dense"),
        (quantized, r"x is quantized, torch\.quint8: sum x\.dequantize\(\)"),
        (
            torch.ones(3, dtype=torch.complex64),
            r"x has dtype torch\.complex64, and only real numbers are taken: a sum or a mean is that of x\.real, and 1j",
        ),
        (
            torch.ones(3).to(torch.float8_e5m2),
            r"torch\.float8_e5m2, none of float16.*x\.to\(torch\.float64\)",
        ),
        (torch.ones(3, device="meta"), r"x is on the meta device and holds no numbers: .*torch\.ops\.tcu"),
        (fake, r"x is a FakeTensor and holds no numbers: .*torch\.zeros\(x\.shape"),
        (
            torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
            r"x is a nested tensor: sum x\.values\(\)",
        ),
    ):
        for function in (tcu.sum, tcu.mean, tcu.norm, tcu.fsum, tcu.fmean, tcu.fnorm):
            with pytest.raises((DtypeError, ParameterError), match=message):
                function(x)
        for function in (tcu.dot, tcu.fdot):
            with pytest.raises((DtypeError, ParameterError), match=message.replace(": sum", ": multiply")):
                function(x, x)


def test_a_device_that_tcu_does_not_know() -> None:
    x = SimpleNamespace(
        is_nested=False, layout="torch.strided", is_quantized=False, is_complex=lambda: False,
        dtype=torch.float32, device=SimpleNamespace(type="mps", __str__=lambda: "mps:0"),
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "is_tensor", lambda _: True)
        with pytest.raises(ParameterError, match=r"x is on .*move it with x\.cpu\(\) or x\.cuda\(\)"):
            checks.check_arrays((x,))
    with pytest.raises(ParameterError, match=r"x is on cuda:0: copy it to the host, with x\.cpu\(\)"):
        host_view(_on("cuda:0"))


def _on(device: str) -> Any:
    return SimpleNamespace(
        is_nested=False, layout="torch.strided", is_quantized=False, is_complex=lambda: False, is_meta=False,
        dtype=torch.float32, device=torch.device(device),
    )  # fmt: skip


def test_factors_that_do_not_fit() -> None:
    for y, kind, message in (
        (SMALL[1:], ShapeError, r"x has shape \(7,\) and y \(6,\): give both one shape"),
        (SMALL.float(), DtypeError, r"x has dtype torch\.float64 and y torch\.float32: convert one"),
        (SMALL.numpy(), ParameterError, "arrays of PyTorch, numpy: pass arrays of one library"),
        (SMALL.to("meta"), ParameterError, "x is on cpu, y on meta: move both to one device"),
        (SMALL.long(), DtypeError, r"y has dtype torch\.int64"),
    ):
        for x in (SMALL, SMALL.clone().requires_grad_()):
            with pytest.raises(kind, match=message):
                tcu.dot(x, y)
    with pytest.raises(ParameterError, match="arrays of numpy, PyTorch"):
        tcu.dot(SMALL.numpy(), SMALL)


def test_a_unit_that_operators_cannot_name() -> None:
    from dataclasses import replace

    mine = replace(tcu.units.CATALOGUE["V100"], name="mine")
    x = SMALL.half()
    assert bits(tcu.sum(x, unit=mine)) == bits(tcu.sum(x, unit="V100"))
    with pytest.raises(ParameterError, match=r"unit is 'mine'.*detach x"):
        tcu.sum(x.requires_grad_(), unit=mine)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"block": 256.0}, ParameterError, r"block \(B\) = 256\.0: choose a whole number"),
        ({"block": True}, ParameterError, r"block \(B\) = True: choose a whole number"),
        (
            {"variant": "single-pass", "chain": "2"},
            ParameterError,
            r"chain \(R\) = '2': choose a whole number",
        ),
        ({"variant": "split", "fraction": "x"}, ParameterError, "fraction ?= ?'?x'?: choose .*0 to 1"),
        ({"unit": b"H100"}, UnknownNameError, "unknown unit b'H100': did you mean"),
        ({"variant": b"split"}, UnknownNameError, "unknown variant b'split': did you mean split"),
        ({"variant": None}, UnknownNameError, "unknown variant None: available: binary64, short-chain"),
    ],
)
def test_options_that_are_none_with_a_gradient_and_without(
    options: dict[str, Any], error: type[Exception], message: str
) -> None:
    for x in (torch.ones(6), torch.ones(6, requires_grad=True)):
        for call in (
            lambda: tcu.sum(x, **options),  # noqa: B023
            lambda: tcu.mean(x, axis=0, **options),  # noqa: B023
            lambda: tcu.segment_sum(x, [0, 6], **options),  # noqa: B023
        ):
            with pytest.raises(error, match=message):
                call()


def test_options_of_numpy_and_pytorch_with_a_gradient_and_without() -> None:
    x = torch.arange(600, dtype=torch.float16)
    for options in (
        {"block": np.int64(64), "chain": np.int8(1)},
        {"variant": "split", "fraction": np.float32(0.5)},
        {"variant": "single-pass", "accumulator": np.float16},
        {"variant": "single-pass", "accumulator": torch.float32},
    ):
        assert torch.equal(tcu.sum(x, **options), tcu.sum(x.clone().requires_grad_(), **options).detach())


def test_details_of_what_has_no_numbers() -> None:
    with pytest.raises(ParameterError, match=r"return_info=True tells the result's bits.*leave it out"):
        torch.func.grad(lambda x: tcu.sum(x, return_info=True)[0])(SMALL)


# The way of a small sum to the GPU, with a GPU that only takes notes.


class Notes:
    """Stands for a launch."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...]] = []
        self.fails = False
        self.room = 0

    def start(self, *addresses: int) -> None:
        self.calls.append(addresses)
        if self.fails:
            raise RuntimeError("no context is current")


@pytest.fixture
def notes(monkeypatch: pytest.MonkeyPatch) -> Any:
    launch, asked = Notes(), []

    def reduce(request: Any, arrays: Any, out: Any) -> Any:
        asked.append(arrays)
        return SimpleNamespace(result=torch.zeros(()), prepared=SimpleNamespace(launch=launch, plan=None))

    monkeypatch.setattr(device_sums, "reduce", reduce)
    monkeypatch.setattr(launch_cache, "_calls", {})
    monkeypatch.setattr(launch_cache, "_current_gpu", lambda: -1)  # as a tensor on the host says
    monkeypatch.setattr(launch_cache, "_raw_stream", lambda ordinal: 17)
    monkeypatch.setattr(launch_cache, "_empty", lambda shape, strides, dtype: torch.empty(shape, dtype=dtype))
    return SimpleNamespace(launch=launch, asked=asked, monkeypatch=monkeypatch)


def quickly(name: str, *arrays: Any) -> Any:
    operation = find_operation(name)
    return unwatched.quickly(Call(operation, arrays, WHOLE, operation.values({})))


def test_the_second_sum_of_a_kind_needs_addresses_only(notes: Any) -> None:
    x, y = torch.zeros(64), torch.ones(64)
    quickly("sum", x)
    assert (len(notes.asked), notes.launch.calls) == (1, [])
    for same in (x, y):
        result = quickly("sum", same)
        assert notes.launch.calls[-1] == (same.data_ptr(), same.data_ptr(), result.data_ptr(), 17)
    quickly("dot", x, y)
    result = quickly("dot", y, x)
    assert notes.launch.calls[-1] == (y.data_ptr(), x.data_ptr(), result.data_ptr(), 17)
    assert len(notes.asked) == 2


def test_what_is_of_another_kind_goes_the_long_way(notes: Any) -> None:
    x = torch.zeros(64)
    quickly("sum", x)
    others = [x[1:], x[:-1], x.double(), x.half(), x.reshape(8, 8).T, x[::2]]
    for i, other in enumerate(others):
        quickly("sum", other)
        assert len(notes.asked) == i + 2
    quickly("mean", x)
    assert len(notes.asked) == len(others) + 2
    assert notes.launch.calls == []
    quickly("dot", x, x)
    with pytest.raises(ShapeError):
        quickly("dot", x, x[1:])
    with pytest.raises(DtypeError):
        quickly("dot", x, x.double())


@pytest.mark.parametrize("reason", ["another GPU is current", "no context is current"])
def test_a_launch_that_cannot_be_is_made_the_long_way(notes: Any, reason: str) -> None:
    x = torch.zeros(64)
    quickly("sum", x)
    if reason.startswith("another"):
        notes.monkeypatch.setattr(launch_cache, "_current_gpu", lambda: 3)
    notes.launch.fails = True
    quickly("sum", x)
    assert len(notes.asked) == 2


def test_an_mma_of_tensors_is_a_tensor_with_the_models_bits() -> None:
    rng = np.random.default_rng(0)
    for name, dtype in (
        ("float16", np.float16),
        ("bfloat16", ml_dtypes.bfloat16),
        ("float8_e4m3fn", ml_dtypes.float8_e4m3fn),
    ):
        a, b = rng.standard_normal((16, 32)).astype(dtype), rng.standard_normal((32, 8)).astype(dtype)
        code = {1: np.uint8, 2: np.int16}[a.itemsize]
        tensors = [torch.from_numpy(x.view(code)).view(getattr(torch, name)) for x in (a, b)]
        found = tcu.mma(*tensors)
        assert isinstance(found, torch.Tensor)
        assert np.array_equal(found.numpy().view(np.uint32), tcu.mma(a, b).view(np.uint32))
    with pytest.raises(
        ParameterError, match=r"a wants a gradient, which tcu.mma does not have: pass a.detach\(\)"
    ):
        tcu.mma(
            torch.ones(16, 16, dtype=torch.float16, requires_grad=True),
            torch.ones(16, 8, dtype=torch.float16),
        )


def test_a_batch_of_vmap_is_one_more_of_an_mma() -> None:
    rng = torch.Generator().manual_seed(4)
    a, b = torch.randn(3, 2, 5, 40, generator=rng).half(), torch.randn(3, 40, 6, generator=rng).half()
    c = torch.randn(2, 5, 6, generator=rng)
    call = partial(tcu.mma, unit="V100")
    alone = [call(*given, c) for given in zip(a, b, strict=True)]
    assert torch.equal(torch.vmap(call, (0, 0, None))(a, b, c), torch.stack(alone))
    assert torch.equal(
        torch.vmap(call, (-1, 2, None), out_dims=1)(a.movedim(0, -1), b.movedim(0, 2), c),
        torch.stack(alone, 1),
    )
    one_array = torch.vmap(lambda x: call(x, b[0]))(a)
    assert torch.equal(one_array, call(a, b[0]))
    assert torch.equal(
        torch.vmap(torch.vmap(call), (0, None))(a, b[:2]), torch.stack([call(x, b[:2]) for x in a])
    )
    assert torch.vmap(call)(a[:0], b[:0]).shape == (0, 2, 5, 6)
    x, y = (each.to(torch.float8_e4m3fn) for each in (a[:, 0, :, :32], b[:, :32]))
    scales = (
        torch.full((3, 5, 1), 0.5).to(torch.float8_e8m0fnu),
        torch.full((1, 6), 4.0).to(torch.float8_e8m0fnu),
    )

    def scaled(x, y, scale_a):
        return tcu.mma(x, y, unit="B200", instruction="mxf8f6f4", scale_a=scale_a, scale_b=scales[1])

    alone = [scaled(*given) for given in zip(x, y, scales[0], strict=True)]
    assert torch.equal(torch.vmap(scaled)(x, y, scales[0]), torch.stack(alone))
    with pytest.raises(
        ParameterError, match=r"b is a ndarray beside tensors: make it one, with torch\.as_tensor"
    ):
        torch.vmap(lambda x: call(x, b[0].numpy()))(a)


def test_a_row_of_a_batch_is_no_matrix_of_an_mma() -> None:
    a, b = torch.ones(3, 16, dtype=torch.float16), torch.ones(16, 8, dtype=torch.float16)
    for call in (lambda: tcu.mma(a[0], b), lambda: torch.vmap(lambda a: tcu.mma(a, b))(a)):
        with pytest.raises(
            ShapeError, match=r"a has shape \(16,\): give at least two dimensions, a\[None, :\] for a row"
        ):
            call()
    with pytest.raises(ShapeError, match=r"^a \(1, 16\), b \(8, 8\): a needs as many columns as b has rows"):
        torch.vmap(lambda a: tcu.mma(a[None], b[:8]))(a)


def test_an_mma_has_no_derivative_of_any_kind() -> None:
    a, b = torch.ones(2, 16, 16, dtype=torch.float16), torch.ones(16, 8, dtype=torch.float16)
    for derivative in (
        lambda: torch.func.grad(lambda a: tcu.mma(a, b).sum())(a),
        lambda: torch.func.jvp(lambda a: tcu.mma(a, b), (a,), (a,)),
        lambda: torch.vmap(torch.func.grad(lambda a: tcu.mma(a, b).sum()))(a),
        lambda: torch.func.grad(lambda a: torch.vmap(lambda a: tcu.mma(a, b))(a).sum())(a),
        lambda: torch.vmap(lambda a: tcu.mma(a, b))(a.clone().requires_grad_()),
    ):
        with pytest.raises(ParameterError, match=r"a wants a gradient, which tcu.mma does not have"):
            derivative()


@pytest.mark.parametrize("operation", ["dot", "norm"])
def test_tangents_of_16_bits_do_not_overflow_on_the_way(operation) -> None:
    a = torch.full((1000,), 200.0, dtype=torch.float16)
    if operation == "dot":
        _, tangent = torch.func.jvp(tcu.dot, (2 * a, 2 * a), (a, a))
        assert tangent.item() == 1.6e8
    else:
        _, tangent = torch.func.jvp(tcu.norm, (2 * a,), (2 * a,))
        assert tangent.item() == pytest.approx(400 * 1000**0.5)


def test_vmap_over_nothing() -> None:
    found = torch.vmap(tcu.sum)(torch.empty(0, 5, dtype=torch.float16))
    assert (found.shape, found.dtype) == (torch.Size([0]), torch.float32)


def without_memory(*like: Any) -> Any:
    """As a module's parameters are while something else has their memory."""
    x = torch.ones(*like)
    x.untyped_storage().resize_(0)
    return x


@pytest.mark.parametrize(
    "x", [without_memory(16, 16), torch._efficientzerotensor((16, 16))], ids=["freed", "never taken"]
)
def test_a_tensor_without_memory_is_refused(x: Any) -> None:
    """Address 0 would be read."""
    message = (
        r"has 256 elements and no memory, which was freed or never taken: give it numbers, for example with"
    )
    for function in (tcu.sum, tcu.fnorm, lambda x: tcu.mean(x, 0), tcu.cumsum, lambda x: tcu.dot(torch.ones(16, 16), x),
                     lambda x: tcu.mma(x, torch.ones(16, 8), unit="H100")):  # fmt: skip
        with pytest.raises(ParameterError, match=message):
            function(x)
    with pytest.raises(ParameterError, match="offsets has 256 elements and no memory"):
        tcu.segment_sum(torch.ones(2), x.view(torch.int32).reshape(-1))
