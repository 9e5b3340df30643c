"""Contract: the kernel of tall products gives the model's bits, for every format, shape, layout and batch.

Without a GPU: it compiles for every architecture that has its instruction,
keeps B in registers, and its structure is the host's.  With one: its bits are
those of ``tcu.mma`` on the operands rounded to the format, whatever the
strides; machines on the GPU give what machines on the model give, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gpu_support import gpu_or_skip, library_or_skip, unit_or_skip
from test_gpu_compile import nvrtc_or_skip

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats import get_format
from tcu.gpu import KERNELS, Kernel, NoGpuError, planes, tall
from tcu.gpu.compiler import compile_cuda, task_of
from tcu.gpu.errors import ExtraMissingError
from tcu.gpu.mma import Strided
from tcu.gpu.tall import macros_of, stored_dtypes, tall_product
from tcu.machine import GpuExecutor, ModelExecutor
from tcu.machine.executors import IdealExecutor
from tcu.machine.executors.unit import narrowed
from tcu.model.mma import multiply_accumulate
from tcu.units import find_instruction

SIDES = (16, 37, 256)
ROWS = [
    kernel
    for kernel in KERNELS
    if kernel.name == "mma" and kernel.a == kernel.b and any(fmt == kernel.a for fmt, _ in tall._NARROW)
]


@pytest.mark.some(3)
@pytest.mark.parametrize("kernel", ROWS, ids=str)
def test_every_instruction_compiles_for_the_oldest_gpu_that_has_it(kernel: Kernel) -> None:
    nvrtc_or_skip()
    major, minor = max(kernel.minimum, (8, 0) if kernel.a == "bfloat16" else (7, 5))
    dtypes = [dtype for fmt, dtype in tall._NARROW if fmt == kernel.a]
    for dtype, side in zip(dtypes * 3, SIDES, strict=False):
        macros = macros_of(kernel, dtype, side, side, adjacent=side != 37)
        binary = compile_cuda(task_of("tall.cu", macros, f"sm_{major}{minor}"))
        assert f"{kernel.mnemonic} " in binary.ptx
        assert ".local" not in binary.ptx, "B must stay in registers"
        assert binary.log == ""


@pytest.mark.parametrize("capability", ["sm_75", "sm_90", "sm_120"])
def test_products_of_planes_compile(capability: str) -> None:
    nvrtc_or_skip()
    for dtype, n in ((np.float32, 100), (np.float64, 1 << 33)):
        binary = compile_cuda(task_of("planes.cu", planes.macros_of(np.dtype(dtype), n), capability))
        assert binary.log == ""
        assert "fma" not in binary.ptx, "the bits would not be the host's"
        assert ".local" not in binary.ptx


def test_indices_are_as_wide_as_they_must_be() -> None:
    assert planes.macros_of(np.dtype(np.float32), 1 << 31)["INDEX"] == "u32"
    assert planes.macros_of(np.dtype(np.float32), (1 << 32) - 1)["INDEX"] == "i64"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_planes_have_the_host_s_bits(dtype: type) -> None:
    gpu_or_skip()
    cupy = library_or_skip("cupy")
    rng = np.random.default_rng(9)
    x = (rng.standard_normal((2, 3, 5, 70, 33)) * 2.0 ** rng.integers(-30, 30, (2, 3, 5, 70, 33))).astype(
        dtype
    )
    executor = GpuExecutor("binary64")
    for shape in ((2, 3, 5, 70, 33), (2, 5, 1, 33), (2, 33), (2, 1, 1, 70, 1)):
        y = rng.standard_normal(shape).astype(dtype)
        wanted = IdealExecutor().complex_product(x, y)
        assert executor.complex_product(cupy.asarray(x), cupy.asarray(y)).get().tobytes() == wanted.tobytes()
        turned = cupy.ascontiguousarray(cupy.asarray(x).swapaxes(2, 4)).swapaxes(2, 4)
        assert executor.complex_product(turned, cupy.asarray(y)).get().tobytes() == wanted.tobytes()
        assert executor.complex_product(x, y).tobytes() == wanted.tobytes()
    x, y = cupy.asarray(x), cupy.asarray(y)
    with pytest.raises(ShapeError, match="of which y broadcasts to x"):
        planes.complex_product(x[:, :1], x)
    with pytest.raises(DtypeError, match="give two of float32 or of float64"):
        planes.complex_product(x, y.astype(np.float16))
    with pytest.raises(DtypeError, match="both on one GPU"):
        planes.complex_product(x, y.get())


def test_registers_bound_the_width() -> None:
    half = next(row for row in ROWS if row.a == "binary16" and row.k == 16)
    widths = [int(macros_of(half, "float16", side, side)["WIDTH"]) for side in (16, 64, 128, 256)]
    assert widths == [2, 8, 4, 2]
    assert int(macros_of(half, "float16", 256, 8)["WIDTH"]) == 1


def test_words_are_loaded_whole_only_where_they_are_aligned() -> None:
    half = next(row for row in ROWS if row.a == "binary16" and row.k == 16)
    byte = next(row for row in ROWS if row.a == "u8" and row.k == 32)
    float32, uint8 = np.dtype(np.float32), np.dtype(np.uint8)
    for kernel, dtype, address, shape, strides, adjacent in (
        (half, float32, 256, (70, 16), (16, 1), True),
        (half, float32, 260, (70, 16), (16, 1), False),
        (half, float32, 256, (70, 16), (17, 1), False),
        (half, float32, 256, (1, 16), (17, 1), True),
        (half, float32, 256, (70, 16), (1, 70), False),
        (half, float32, 256, (70, 16), (5, 16, 1), False),
        (half, float32, 256, (70, 16), (0, 18, 1), True),
        (byte, uint8, 256, (70, 16), (1, 1), False),
        (byte, uint8, 260, (3, 70, 16), (8, 4, 1), True),
        (byte, uint8, 256, (3, 70, 16), (2, 4, 1), False),
    ):
        assert tall._adjacent(Strided(address, shape, strides), dtype, kernel) is adjacent


def test_without_a_gpu_a_machine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise NoGpuError("no GPU here: run it elsewhere")

    monkeypatch.setattr("tcu.machine.executors.gpu.find_gpu", missing)
    with pytest.raises(NoGpuError, match="no GPU here"):
        tcu.Machine(256, executor="gpu")
    assert issubclass(ExtraMissingError, tcu.TcuError)


# ---- with a GPU ----


def rounded(values: np.ndarray, fmt: str) -> np.ndarray:
    whole = not get_format(fmt).is_float
    return values.astype(get_format(fmt).dtype) if whole else narrowed(values, get_format(fmt))


def operands(fmt: str, dtype: str, *shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(len(fmt) * 31 + len(dtype))
    low = {"u8": 0, "s8": -128}
    if fmt in low:
        return [rng.integers(low[fmt], low[fmt] + 256, shape).astype(dtype) for shape in shapes]
    made = []
    for shape in shapes:
        exponents = rng.integers(-12, 9, shape).astype(np.float64)
        made.append(
            (rng.standard_normal(shape) * 2.0**exponents).astype(np.float32).astype(get_format(dtype).dtype)
        )
    return made


def expected(a: np.ndarray, b: np.ndarray, instruction: Any) -> np.ndarray:
    zeros = np.zeros((a.shape[-2], b.shape[-1]), get_format(instruction.output).dtype)
    return multiply_accumulate(rounded(a, instruction.a), rounded(b, instruction.b), zeros, instruction)


@pytest.mark.gpu
@pytest.mark.parametrize(("fmt", "dtype"), tall._NARROW)
@pytest.mark.parametrize(
    "shape", [(16, 16, 16), (1, 5, 3), (33, 37, 41), (1000, 256, 256), (70_001, 16, 16), (50, 64, 200)]
)
def test_the_bits_are_the_model_s(fmt: str, dtype: str, shape: tuple[int, int, int]) -> None:
    unit = unit_or_skip(gpu_or_skip())
    rows, inner, columns = shape
    outputs = ("binary32", "binary16") if fmt == "binary16" else (None,)
    for output in outputs:
        instruction = find_instruction(unit, "mma", fmt, fmt, output)
        a, b = operands(fmt, dtype, (rows, inner), (inner, columns))
        got = tall_product(a, b, instruction)
        assert got.tobytes() == expected(a, b, instruction).tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("fmt", "dtype"),
    [("binary16", "float32"), ("binary16", "float16"), ("binary64", "float64"), ("u8", "uint8")],
)
def test_any_layout_gives_the_same_bits(fmt: str, dtype: str) -> None:
    unit = unit_or_skip(gpu_or_skip())
    cupy = library_or_skip("cupy")
    instruction = find_instruction(unit, "mma", fmt, fmt)
    a, b = operands(fmt, dtype, (3, 2, 100, 32), (2, 32, 32))
    wanted = expected(a, b, instruction)
    x, y = cupy.asarray(a), cupy.asarray(b)
    apart = cupy.zeros((3, 2, 100, 70), x.dtype)
    layouts = {
        "as it is": x,
        "transposed": cupy.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2),
        "batch last": cupy.ascontiguousarray(cupy.moveaxis(x, 0, -1)).transpose(3, 0, 1, 2),
        "columns apart": apart[..., :64:2],
        "odd start": apart[..., 1:33],
        "reversed rows": cupy.ascontiguousarray(x[..., ::-1, :])[..., ::-1, :],
    }
    for name, layout in layouts.items():
        if layout.base is apart or name in ("columns apart", "odd start"):
            layout[...] = x
        got = tall_product(layout, y, instruction)
        assert isinstance(got, cupy.ndarray)
        assert got.get().tobytes() == wanted.tobytes(), name
        resident = cupy.ascontiguousarray(y.swapaxes(-1, -2)).swapaxes(-1, -2)
        assert tall_product(layout, resident, instruction).get().tobytes() == wanted.tobytes(), name


@pytest.mark.gpu
def test_special_values() -> None:
    unit = unit_or_skip(gpu_or_skip())
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 65504, 65520, 1e-8, 6e-8, 3e38], np.float32)
    a = np.resize(values, (64, 16)).astype(np.float32)
    b = np.resize(values[3:], (16, 16)).astype(np.float32)
    for fmt in ("binary16", "bfloat16", "tf32"):
        instruction = find_instruction(unit, "mma", fmt, fmt)
        got, wanted = tall_product(a, b, instruction), expected(a, b, instruction)
        same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
        assert same.all(), fmt


@pytest.mark.gpu
@pytest.mark.parametrize("fmt", ["binary16", "bfloat16", "tf32", "binary64", "u8"])
def test_machines_on_the_gpu_give_the_bits_of_machines_on_the_model(fmt: str) -> None:
    gpu = gpu_or_skip()
    unit_or_skip(gpu)
    cupy = library_or_skip("cupy")
    real = tcu.Machine(256, 64, executor=GpuExecutor(fmt), word_bits=32 if fmt == "u8" else 64)
    model = tcu.Machine(256, 64, executor=ModelExecutor(gpu.unit, fmt), word_bits=real.word_bits)
    rng = np.random.default_rng(6)
    if fmt == "u8":
        a, b = 3**3000, -(7**2000)
        for algorithm in ("schoolbook", "karatsuba"):
            assert real.integer_multiply(a, b, algorithm=algorithm) == a * b
            model.integer_multiply(a, b, algorithm=algorithm)
        x = rng.integers(0, 256, (200, 100)).astype(np.uint8)
        assert (real.matmul(cupy.asarray(x), cupy.asarray(x.T)).get() == x.astype(int) @ x.T).all()
        model.matmul(x, x.T)
    else:
        x = rng.standard_normal(4096) + 1j * rng.standard_normal(4096)
        a = rng.standard_normal((90, 70))
        for run in (lambda m, where: m.dft(where(x)), lambda m, where: m.matmul(where(a), where(a.T)),
                    lambda m, where: m.sum(where(a))):  # fmt: skip
            assert run(real, cupy.asarray).get().tobytes() == run(model, np.asarray).tobytes()
    assert real.ledger == model.ledger


@pytest.mark.gpu
def test_errors_on_a_gpu() -> None:
    unit = unit_or_skip(gpu_or_skip())
    instruction = find_instruction(unit, "mma", "binary16", "binary16")
    half = np.ones((16, 16), np.float16)
    with pytest.raises(DtypeError, match="takes both of float16 or float32"):
        tall_product(half, half.astype(np.float32), instruction)
    with pytest.raises(ShapeError, match="the right operand has 1 to 256 rows and columns"):
        tall_product(np.ones((3, 300), np.float16), np.ones((300, 3), np.float16), instruction)
    with pytest.raises(
        ParameterError, match="m=262144: a call on a GPU takes a right operand of up to 256 rows"
    ):
        tcu.Machine(512 * 512, executor=GpuExecutor())
    with pytest.raises(ParameterError, match="a machine on a GPU multiplies"):
        GpuExecutor("e4m3")
    with pytest.raises(DtypeError, match="mixes formats"):
        tall_product(half.astype(np.uint8), half.astype(np.uint8), find_instruction(unit, "mma", "u8", "s8"))
    torch = library_or_skip("torch")
    with pytest.raises(ParameterError, match=r"pass cupy.from_dlpack\(x\)"):
        tcu.Machine(256, executor=GpuExecutor()).matmul(torch.ones(4, 4, device="cuda"), half)


def test_formats_and_their_dtypes() -> None:
    assert stored_dtypes(find_instruction("H100", "mma", "binary16", "binary16")) == ("float16", "float32")
    assert stored_dtypes(find_instruction("H100", "mma", "u8", "u8")) == ("uint8", "int32", "int64")
    assert stored_dtypes(find_instruction("Ada", "mma", "e4m3", "e4m3")) == ()
