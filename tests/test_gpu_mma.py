"""Contract: a GPU's own instruction returns the model's bits; arrays of any library go in and come back.

The comparison takes a million adversarial outputs for every row of the
registry that the GPU has.  What needs no GPU is in test_gpu_dispatch.py, a
test of the comparison itself among it.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_support import (
    differences,
    gpu_or_skip,
    library_or_skip,
    modelled,
    unit_or_skip,
)

from tcu.errors import DtypeError, ParameterError, ShapeError, TcuError
from tcu.formats import get_format
from tcu.gpu import (
    KERNELS,
    DriverError,
    Kernel,
    device,
    find_gpu,
    find_kernel,
    functions,
    gpu_count,
    multiply_accumulate,
)
from tcu.gpu.arrays import library_of
from tcu.gpu.cache import cache_folder
from tcu.units import find_instruction

OUTPUTS = 1_000_000


@pytest.fixture(autouse=True, scope="session")
def _cache_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TCU_CACHE_DIR", str(tmp_path_factory.mktemp("tcu")))
        yield


F16 = find_instruction("H200", "mma", "binary16", "binary16")
RNG = np.random.default_rng(0)


def halves(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float16)


@pytest.mark.gpu
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_every_instruction_returns_the_models_bits(kernel: Kernel) -> None:
    gpu = gpu_or_skip()
    unit = unit_or_skip(gpu)
    if kernel not in gpu.kernels:
        pytest.skip(f"{gpu.name} does not have {kernel}")
    report = differences(kernel, unit, multiply_accumulate, OUTPUTS)
    assert not report, report


@pytest.mark.gpu
def test_the_kernels_are_kept_on_disk() -> None:
    gpu_or_skip()
    functions._found.cache_clear()
    multiply_accumulate(halves(2, 2), halves(2, 2), None, F16)
    assert list(cache_folder().glob("*.cubin"))


@pytest.mark.gpu
def test_tiny_and_empty_problems() -> None:
    gpu = gpu_or_skip()
    unit = unit_or_skip(gpu)
    row = find_instruction(unit, "mma", "binary16", "binary16")
    kernel = find_kernel(row, gpu.compute_capability)
    for m, n, k in ((1, 1, 1), (1, 9, 16), (17, 1, 33), (2, 3, 0), (0, 3, 4), (3, 0, 4)):
        a, b = halves(m, k), halves(k, n)
        c = RNG.standard_normal((m, n)).astype(np.float32)
        d = multiply_accumulate(a, b, c, row)
        assert d.shape == (m, n)
        assert d.dtype == np.float32
        if m and n:
            assert (d.view(np.uint32) == modelled(a, b, c, kernel, unit)).all()
    assert (multiply_accumulate(halves(2, 4), np.zeros((4, 3), np.float16), None, row) == 0).all()


@pytest.mark.gpu
def test_batches_broadcast_as_in_the_model() -> None:
    unit = unit_or_skip(gpu_or_skip())
    row = find_instruction(unit, "mma", "binary16", "binary16")
    from tcu.model.mma import multiply_accumulate as model

    a, b = halves(3, 1, 5, 20), halves(2, 20, 9)
    c = RNG.standard_normal((5, 9)).astype(np.float32)
    expected = model(a, b, c, row)
    assert (multiply_accumulate(a, b, c, row) == expected).all()
    assert (multiply_accumulate(a[::-1, :, ::2], b, c[::2], row) == expected[::-1, :, ::2]).all()


# Arrays of other libraries.


def on_gpu(name: str, array: Any) -> Any:
    """The NumPy array as an array of the library, on GPU 0."""
    library = library_or_skip({"jax": "jax.numpy", "protocol": "cupy"}.get(name, name))
    if name == "torch":
        return library.from_numpy(array).cuda()
    if name == "jax":
        return library.asarray(array)
    moved = library.asarray(array)
    if name == "protocol":  # a library that is known only by what it exposes
        return SimpleNamespace(__cuda_array_interface__=moved.__cuda_array_interface__, owner=moved)
    return moved


def on_host(name: str, array: Any) -> Any:
    if name == "torch":
        return array.cpu().numpy()
    if name == "protocol":
        return library_or_skip("cupy").from_dlpack(array).get()
    return array.get() if name == "cupy" else np.asarray(array)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch", "cupy", "jax", "protocol"])
def test_arrays_stay_in_their_library_and_on_the_gpu(name: str) -> None:
    unit = unit_or_skip(gpu_or_skip())
    row = find_instruction(unit, "mma", "binary16", "binary16")
    a, b = halves(3, 33, 40), halves(40, 21)
    c = RNG.standard_normal((33, 21)).astype(np.float32)
    x, y, z = (on_gpu(name, array) for array in (a, b, c))
    d = multiply_accumulate(x, y, z, row)
    if name != "protocol":
        assert type(d) is type(x)
    assert library_of(d) is not None
    assert (on_host(name, d) == multiply_accumulate(a, b, c, row)).all()
    without = multiply_accumulate(x, y, None, row)
    assert (on_host(name, without) == multiply_accumulate(a, b, None, row)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_nothing_is_copied_and_strides_are_followed(name: str) -> None:
    unit = unit_or_skip(gpu_or_skip())
    row = find_instruction(unit, "mma", "binary16", "binary16")
    a, b = halves(34, 40), halves(21, 40)
    x, y = on_gpu(name, a), on_gpu(name, b)
    library = library_of(y)
    assert library is not None
    assert library.view("b", y.T, 0).address == library.view("b", y, 0).address
    assert library.view("b", y.T, 0).strides == (1, 40)
    d = multiply_accumulate(x[::2], y.T, None, row)
    assert (on_host(name, d) == multiply_accumulate(a[::2], b.T, None, row)).all()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("dtype", "name", "operand"),
    [
        ("bfloat16", "mma", "bfloat16"),
        ("float8_e4m3fn", "mma", "e4m3"),
        ("float8_e5m2", "wgmma", "e5m2"),
        ("float32", "mma", "tf32"),
        ("float64", "mma", "binary64"),
        ("int8", "wgmma", "s8"),
    ],
)
def test_every_dtype_of_pytorch(dtype: str, name: str, operand: str) -> None:
    gpu = gpu_or_skip()
    unit = unit_or_skip(gpu)
    torch = library_or_skip("torch")
    try:
        row = find_instruction(unit, name, operand, operand)
    except TcuError:
        pytest.skip(f"{unit.name} has no {name} of {operand}")
    kernel = find_kernel(row, gpu.compute_capability)
    raw = [RNG.integers(0, 100, shape, dtype=np.uint8) for shape in ((17, 40), (40, 9))]
    x, y = (torch.from_numpy(array).cuda().to(getattr(torch, dtype)) for array in raw)
    code = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}[x.element_size()]
    d = multiply_accumulate(x, y, None, row)
    a, b = (array.view(code).cpu().numpy() for array in (x, y))
    c = np.zeros((17, 9), get_format(row.output).code_dtype)
    assert (d.cpu().numpy().view(c.dtype) == modelled(a, b, c, kernel, unit)).all()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_the_callers_current_stream_is_used(name: str) -> None:
    """The operand changes on a side stream after a long wait; only work on that stream sees it."""
    unit = unit_or_skip(gpu_or_skip())
    row = find_instruction(unit, "mma", "binary16", "binary16")
    torch = library_or_skip("torch")
    if name == "torch":
        stream = torch.cuda.Stream()
        scope: Any = torch.cuda.stream(stream)
    else:
        cupy = library_or_skip("cupy")
        scope = cupy.cuda.Stream(non_blocking=True)
        stream = torch.cuda.ExternalStream(scope.ptr)
    old, new = np.zeros((16, 16), np.float16), np.ones((16, 16), np.float16)
    x, y, fresh = on_gpu(name, old), on_gpu(name, new), on_gpu(name, new)
    multiply_accumulate(x, y, None, row)  # loads the kernel
    torch.cuda.synchronize()
    with scope:
        with torch.cuda.stream(stream):
            torch.cuda._sleep(200_000_000)
        x[...] = fresh
        d = multiply_accumulate(x, y, None, row)
    stream.synchronize()
    assert (on_host(name, d) == 16).all()


@pytest.mark.gpu
def test_the_current_gpu_of_the_thread_is_left_as_it_was() -> None:
    gpu_or_skip()
    multiply_accumulate(halves(2, 2), halves(2, 2), None, F16)
    before = int(device.call("cuCtxGetCurrent"))
    multiply_accumulate(halves(2, 2), halves(2, 2), None, F16)
    assert int(device.call("cuCtxGetCurrent")) == before


@pytest.mark.gpu
def test_errors_on_a_gpu() -> None:
    gpu_or_skip()
    with pytest.raises(ParameterError, match=r"device=\d+: this machine has"):
        multiply_accumulate(halves(2, 2), halves(2, 2), None, F16, device=gpu_count())
    with pytest.raises(ParameterError, match="device=-1"):
        find_gpu(-1)
    torch = library_or_skip("torch")
    x = torch.zeros((4, 4), dtype=torch.float16, device="cuda")
    with pytest.raises(ParameterError, match=r"b of NumPy.*one library"):
        multiply_accumulate(x, np.zeros((4, 4), np.float16), None, F16)
    with pytest.raises(ParameterError, match=r"b is a PyTorch tensor on cpu.*b\.cuda\(\)"):
        multiply_accumulate(x, x.cpu(), None, F16)
    with pytest.raises(ParameterError, match=r"a on GPU 0.*device=1"):
        multiply_accumulate(x, x, None, F16, device=1)
    with pytest.raises(DtypeError, match="b has dtype float32"):
        multiply_accumulate(x, x.float(), None, F16)
    with pytest.raises(DtypeError, match="to_dense"):
        multiply_accumulate(x, x.to_sparse(), None, F16)
    with pytest.raises(ShapeError, match="columns"):
        multiply_accumulate(x, x[:3], None, F16)
    with pytest.raises(DriverError, match="cuMemFree failed: CUDA_ERROR"):
        device.call("cuMemFree", 12345)
