"""Contract: which kernel runs what, what the operands must be, and every error on the way to a GPU.

None of it needs one; the comparison with the model is shown to notice planted errors.
"""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from gpu_support import (
    as_given,
    differences,
    instruction_of,
    modelled,
)

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError, TcuError
from tcu.formats import get_format
from tcu.gpu import (
    KERNELS,
    CompileError,
    DriverError,
    ExtraMissingError,
    Gpu,
    GpuError,
    Kernel,
    NoGpuError,
    UnsupportedInstructionError,
    device,
    find_kernel,
    functions,
    gpu_count,
    imports,
    multiply_accumulate,
    supported,
)
from tcu.gpu.arrays import collapse, joined
from tcu.units import CATALOGUE, Instruction, find_instruction, get_unit, units_with

F16 = find_instruction("H200", "mma", "binary16", "binary16")
RNG = np.random.default_rng(0)


def halves(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float16)


def test_the_comparison_notices_a_planted_error() -> None:
    unit, kernel = CATALOGUE["H200"], KERNELS[0]

    def planted(bit: int) -> Any:
        def execute(a: Any, b: Any, c: Any, row: Instruction) -> Any:
            d = modelled(a, b, c, kernel, unit).copy()
            d[..., -1, -1] ^= bit
            return d

        return execute

    assert differences(kernel, unit, planted(0), 10_000) == ""
    report = differences(kernel, unit, planted(1), 10_000)
    assert "49 of" in report
    assert all(word in report for word in (kernel.mnemonic, "H200", "a = 0x", "model 0x", "GPU   0x"))


@pytest.mark.parametrize("kernel", [row for row in KERNELS if row.runs_on((9, 0))], ids=str)
def test_every_row_has_its_model(kernel: Kernel) -> None:
    unit = CATALOGUE["H200"]
    row = instruction_of(kernel, unit)
    assert find_kernel(row, (9, 0)) is kernel
    formats = (kernel.a, kernel.b, kernel.output)
    a, b, c = (
        np.zeros(shape, get_format(f).code_dtype)
        for shape, f in zip(((3, 5), (5, 2), (3, 2)), formats, strict=True)
    )
    assert modelled(as_given(a, kernel.a), b, c, kernel, unit).shape == (3, 2)


def test_every_row_of_the_catalogue_that_a_gpu_of_its_kind_runs_has_a_kernel() -> None:
    without = ("tcgen05", "mma.m8n8k4", "mma.f16c", "mxf8f6f4", "mxf4", "mxf4nvf4")
    for unit in map(get_unit, units_with("mma")):
        if unit.name.startswith("MI"):
            continue
        major, minor = unit.compute_capability.split(".")
        capability = (int(major), int(minor))
        if unit.name == "V100":
            assert supported(capability) == ()
            continue
        for row in unit.instructions:
            if row.name not in without and not {row.a, row.b} & {"e3m2", "e2m3", "e2m1"}:
                assert find_kernel(row, capability).k == row.k, f"{unit.name} {row.signature}"


def test_kernels_are_different_and_named_after_their_instruction() -> None:
    keys = {(row.name, row.a, row.b, row.output, row.k) for row in KERNELS}
    assert len(keys) == len(KERNELS) == len({row.mnemonic for row in KERNELS})
    assert str(KERNELS[0]) == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


def test_wgmma_is_of_its_own_architecture_alone() -> None:
    assert {row.name for row in supported((9, 0))} == {"mma", "wgmma"}
    for capability in ((8, 9), (10, 0), (12, 0)):
        assert {row.name for row in supported(capability)} == {"mma"}


def test_an_instruction_that_the_gpu_lacks() -> None:
    wgmma = find_instruction("H200", "wgmma", "binary16", "binary16")
    with pytest.raises(
        UnsupportedInstructionError,
        match=r"wgmma binary16 → binary32 .* RTX .*has mma binary16 → binary32 with k = 16, .*unit=",
    ):
        find_kernel(wgmma, (8, 9), "RTX 4090")
    with pytest.raises(UnsupportedInstructionError, match="no matrix instruction"):
        find_kernel(wgmma, (6, 1))


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: multiply_accumulate(halves(2, 3), halves(2, 3), None, F16), ShapeError, "columns"),
        (lambda: multiply_accumulate(halves(3), halves(3, 3), None, F16), ShapeError, r"a\[None, :\]"),
        (lambda: multiply_accumulate(halves(2, 3, 3), halves(3, 3, 3), None, F16), ShapeError, "broadcast"),
        (lambda: multiply_accumulate(halves(3, 3), halves(3, 3), np.zeros((2, 3), np.float32), F16),
         ShapeError, r"c must end in \(3, 3\)"),
        (lambda: multiply_accumulate(halves(3, 3), halves(3, 3).astype(np.float32), None, F16),
         DtypeError, "b has dtype float32: mma binary16.*uint16 that holds its codes"),
        (lambda: multiply_accumulate(np.ma.masked_array(halves(3, 3)), halves(3, 3), None, F16),
         DtypeError, r"a is a masked array.*a\.filled"),
        (lambda: multiply_accumulate(SimpleNamespace(__cuda_array_interface__={}), halves(3, 3), None, F16),
         ParameterError, "a of DLPack, b of NumPy.*one library"),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_no_gpu_is_an_error_that_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    def driver(status: int) -> Any:
        number = type("Status", (int,), {"name": "CUDA_ERROR_NO_DEVICE"})(status)
        return SimpleNamespace(
            cuInit=lambda _: (number,), cuGetErrorString=lambda _: (0, b"no CUDA-capable device")
        )

    monkeypatch.setattr(device, "cuda_module", lambda name: driver(100))
    device._start_driver.cache_clear()
    with pytest.raises(NoGpuError, match=r"CUDA_ERROR_NO_DEVICE, no CUDA-capable.*the CPU computes"):
        gpu_count()

    def absent(_: int) -> Any:
        raise RuntimeError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(device, "cuda_module", lambda name: SimpleNamespace(cuInit=absent))
    with pytest.raises(NoGpuError, match=r"no NVIDIA driver.*install"):
        multiply_accumulate(halves(2, 2), halves(2, 2), None, F16)


def test_missing_packages_are_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named {name!r}")

    device._start_driver.cache_clear()
    imports.cuda_module.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(
        ExtraMissingError, match=r'cuda\.bindings\.driver is missing: pip install "tcu\[cuda13\]"'
    ):
        gpu_count()


def test_a_driver_older_than_the_compiler() -> None:
    device.check_driver(13000, (13, 4))
    device.check_driver(14010, (13, 4))
    with pytest.raises(
        DriverError, match=r"knows CUDA 12\.8, .*CUDA 13\.4: .*driver, or .*pip install \"tcu\[cuda12\]\"$"
    ):
        device.check_driver(12080, (13, 4))
    with pytest.raises(
        DriverError, match=r"knows CUDA 11\.4, .*: update NVIDIA's driver$"
    ):  # no packages are that old
        device.check_driver(11040, (13, 4))


def test_the_first_call_says_that_the_driver_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver is one of the test's, and answers as one of CUDA 12.8 under the packages of a newer CUDA."""
    pytest.importorskip("cuda.bindings.nvrtc", reason="needs cuda-bindings and NVRTC")
    asked: list[str] = []

    class Driver:
        CUdevice_attribute = SimpleNamespace(
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR=9, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR=0
        )

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            answers: dict[str, Any] = {
                "cuInit": lambda _: (0,),
                "cuDeviceGetCount": lambda: (0, 1),
                "cuDeviceGet": lambda ordinal: (0, ordinal),
                "cuDeviceGetName": lambda length, gpu: (0, b"NVIDIA H200\0"),
                "cuDeviceGetAttribute": lambda which, gpu: (0, which),
                "cuDriverGetVersion": lambda: (0, 12080),
            }
            return answers.get(name, lambda *_: (0, 1))

    found = imports.cuda_module
    driver = Driver()
    monkeypatch.setattr(
        device, "cuda_module", lambda name: driver if name == "cuda.bindings.driver" else found(name)
    )
    monkeypatch.setattr(functions, "compiler_version", lambda: (13, 4))
    caches = (device._start_driver, device._describe, device._primary_context)
    for each in caches:
        each.cache_clear()
    try:
        with pytest.raises(DriverError, match=r"update NVIDIA's driver, or .*tcu\[cuda12\]"):
            tcu.mma(halves(16, 16), halves(16, 8), executor="gpu")
    finally:
        for each in caches:
            each.cache_clear()
    assert "cuDriverGetVersion" in asked
    assert not [name for name in asked if name.startswith(("cuLibrary", "cuLaunch"))], (
        "nothing was loaded or launched"
    )


def test_a_gpu_knows_its_units_and_kernels() -> None:
    gpu = Gpu(0, "NVIDIA H200", (9, 0))
    assert [unit.name for unit in gpu.units] == ["H200", "H100"]
    assert gpu.kernels == supported((9, 0))
    assert [unit.name for unit in Gpu(0, "NVIDIA RTX PRO 6000", (12, 0)).units] == ["RTX-Blackwell"]
    assert Gpu(0, "NVIDIA Thor", (11, 0)).units == ()


def test_every_error_is_a_tcu_error_and_a_runtime_error() -> None:
    for kind in (ExtraMissingError, NoGpuError, DriverError, CompileError, UnsupportedInstructionError):
        assert issubclass(kind, GpuError)
        assert issubclass(kind, TcuError)
        assert issubclass(kind, RuntimeError)


def test_batches_collapse_to_as_few_dimensions_as_their_strides_allow() -> None:
    assert collapse((), [(), ()]) == ((), [(), ()])
    assert collapse((2, 3, 4), [(12, 4, 1), (0, 0, 0)]) == ((24,), [(1,), (0,)])
    assert collapse((2, 1, 4), [(4, 7, 1), (0, 9, 5)]) == ((2, 4), [(4, 1), (0, 5)])
    assert joined((2,) * 9, [(0, 1) * 4 + (0,)])[0] == (2,) * 9
    alternating = [tuple(1 if i % 2 else 0 for i in range(9)), (0,) * 9]
    with pytest.raises(ShapeError, match="needs 9 dimensions, a kernel takes 8"):
        collapse((2,) * 9, alternating)
