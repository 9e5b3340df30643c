"""The GPU at hand: what it is called, what it can do, or a plain word why there is none."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from tcu.errors import ParameterError
from tcu.gpu.compiler import compiler_version
from tcu.gpu.errors import DriverError, GpuError, NoGpuError, UnsupportedInstructionError
from tcu.gpu.imports import cuda_module
from tcu.gpu.kernels import Kernel, supported
from tcu.plan import MmaStep, Plan
from tcu.units import CATALOGUE, DEFAULT_UNIT, Unit, get_unit

__all__ = [
    "CLUSTERED", "MOST_OF_CLUSTER", "REGISTERS", "Gpu", "attribute_of", "call", "check", "check_driver", "check_mma_of", "check_mmas", "current", "find_gpu", "gpu_count", "read",
]  # fmt: skip

CLUSTERED = 9, 0
"""The first compute capability with clusters."""
MOST_OF_CLUSTER = 8
"""Blocks, as every GPU with clusters has them (CUDA C++ Programming Guide, "Thread Block Clusters")."""
_LARGE_CLUSTERS = {(9, 0): 16, (10, 0): 16, (10, 3): 16}
"""Blocks that others have, where a kernel allows it (NVIDIA Hopper Tuning Guide, "Thread Block Clusters", and that of Blackwell)."""
REGISTERS = 65536
"""Of a multiprocessor, of 32 bits each (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability")."""


@dataclass(frozen=True)
class Gpu:
    """One NVIDIA GPU of this machine."""

    ordinal: int
    """Its number, as CUDA counts."""
    name: str
    compute_capability: tuple[int, int]

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """What it can run."""
        return supported(self.compute_capability)

    @cached_property
    def multiprocessors(self) -> int:
        return attribute_of(self.ordinal, "MULTIPROCESSOR_COUNT")

    @cached_property
    def l2(self) -> int:
        """Bytes of its second cache."""
        return attribute_of(self.ordinal, "L2_CACHE_SIZE")

    @property
    def most_of_cluster(self) -> int:
        """Blocks of a cluster; 1 where there are none."""
        if self.compute_capability < CLUSTERED:
            return 1
        return _LARGE_CLUSTERS.get(self.compute_capability, MOST_OF_CLUSTER)

    @cached_property
    def shared_memory(self) -> int:
        """Bytes that a block may have, if it asks for them."""
        return attribute_of(self.ordinal, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN")

    @cached_property
    def resident_threads(self) -> int:
        """Threads that a multiprocessor holds at a time."""
        return attribute_of(self.ordinal, "MAX_THREADS_PER_MULTIPROCESSOR")

    @cached_property
    def resident_blocks(self) -> int:
        """Blocks that a multiprocessor holds at a time."""
        return attribute_of(self.ordinal, "MAX_BLOCKS_PER_MULTIPROCESSOR")

    @property
    def unit(self) -> Unit:
        """The unit whose plans it executes: its own, or the default's where the catalogue has none."""
        return self.units[0] if self.units else get_unit(DEFAULT_UNIT)

    @property
    def units(self) -> tuple[Unit, ...]:
        """The units of the catalogue with its compute capability; its own name comes first."""
        wanted = "{}.{}".format(*self.compute_capability)
        rows = [unit for unit in CATALOGUE.values() if unit.compute_capability == wanted]
        return tuple(sorted(rows, key=lambda unit: unit.name not in self.name))


def call(function: str, *arguments: Any) -> Any:
    """A call of the CUDA driver: its results without the status; raises DriverError."""
    answer = getattr(cuda_module("cuda.bindings.driver"), function)(*arguments)
    if answer[0]:
        check(function, answer[0])
    return answer[1] if len(answer) == 2 else answer[1:]


def attribute_of(ordinal: int, name: str) -> int:
    """A number that the driver knows of the GPU: CU_DEVICE_ATTRIBUTE_... by the rest of its name."""
    which = getattr(cuda_module("cuda.bindings.driver").CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
    return int(call("cuDeviceGetAttribute", which, call("cuDeviceGet", ordinal)))


def check(function: str, status: Any) -> None:
    """Raises DriverError for a status that is not success."""
    if int(status) != 0:
        raise DriverError(f"{function} failed: {_explain(cuda_module('cuda.bindings.driver'), status)}")


def _explain(driver: Any, status: Any) -> str:
    _, text = driver.cuGetErrorString(status)
    said = text.decode() if isinstance(text, bytes) else str(text)
    return f"{status.name}, {said}"


def _load_compiler() -> None:
    with contextlib.suppress(GpuError):  # raised again where the compiler is needed
        compiler_version()


@cache
def _start_driver() -> None:
    """Initialize the driver; a failure is not cached, so a later call looks again."""
    # The compiler is asked for its version before a kernel is loaded.  Loading it takes 0.05 s, the driver's
    # start and the context's 0.2 s (H200), and neither needs Python's lock.
    threading.Thread(target=_load_compiler, daemon=True).start()
    driver = cuda_module("cuda.bindings.driver")
    advice = "install NVIDIA's driver, or leave the GPU out: the CPU computes the same bits"
    try:
        (status,) = driver.cuInit(0)
    except Exception as error:  # of the loader: libcuda is not on this machine
        raise NoGpuError(f"no NVIDIA driver on this machine: {advice}") from error
    if int(status) != 0:
        raise NoGpuError(f"no GPU that CUDA can use ({_explain(driver, status)}): {advice}")


def check_driver(driver: int, compiler: tuple[int, int]) -> None:
    """A driver runs machine code of its own major version of CUDA and of older ones."""
    major, minor = driver // 1000, driver % 1000 // 10
    if major < compiler[0]:
        extra = f', or install tcu for CUDA {major}: pip install "tcu[cuda{major}]"' if major >= 12 else ""
        raise DriverError(
            f"the driver knows CUDA {major}.{minor}, the compiler is of CUDA {compiler[0]}.{compiler[1]}: "
            f"update NVIDIA's driver{extra}"
        )


def gpu_count() -> int:
    """How many GPUs this machine has; raises NoGpuError where CUDA finds none."""
    _start_driver()
    return int(call("cuDeviceGetCount"))


def find_gpu(ordinal: int = 0) -> Gpu:
    """The GPU of that number.

    Raises ExtraMissingError, NoGpuError, DriverError or ParameterError.
    """
    count = gpu_count()
    if not 0 <= ordinal < count:
        numbers = "only GPU 0" if count == 1 else f"GPUs 0 to {count - 1}"
        raise ParameterError(f"device={ordinal}: this machine has {numbers}")
    return _describe(ordinal)


@cache
def _describe(ordinal: int) -> Gpu:
    name = call("cuDeviceGetName", 128, call("cuDeviceGet", ordinal)).split(b"\0")[0].decode()
    major, minor = (attribute_of(ordinal, f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    return Gpu(ordinal, name, (major, minor))


@cache
def _primary_context(ordinal: int) -> Any:
    """The GPU's primary context, which PyTorch and CuPy use too; kept for the life of the process.

    Asked of the driver itself: importing cuda.core for it took 0.13 s of a first call's 0.4 s (H200).
    """
    return call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", ordinal))


class current:
    """Make the GPU the thread's current one, and give the old one back."""

    def __init__(self, gpu: Gpu | int) -> None:
        self._ordinal = gpu if isinstance(gpu, int) else gpu.ordinal
        self._before = 0

    def __enter__(self) -> None:
        _start_driver()
        own = _primary_context(self._ordinal)
        before = int(call("cuCtxGetCurrent"))
        if before != int(own):  # else nothing is to be done: a call of the driver takes 0.5 us
            call("cuCtxSetCurrent", own)
            self._before = before

    def __exit__(self, *failure: object) -> None:
        if self._before != 0:  # without one before, the GPU's own stays, as other libraries leave it
            call("cuCtxSetCurrent", self._before)


def read(address: int, size: int) -> bytes:
    """Bytes of the current GPU's memory, when the default stream has come there."""
    data = bytearray(size)
    buffer = (ctypes.c_char * size).from_buffer(data)
    call("cuMemcpyDtoH", ctypes.addressof(buffer), address, size)
    return bytes(data)


def check_mmas(plan: Plan, gpu: Gpu) -> None:
    """Raises UnsupportedInstructionError where the GPU is older than the plan's MMAs."""
    if any(isinstance(step, MmaStep) for part in plan.parts for step in part.steps):
        check_mma_of(
            plan.input,
            gpu,
            "choose variant='warp-shuffle', or sum a NumPy array, with unit='A100' for example, on the CPU",
        )


def check_mma_of(element: str, gpu: Gpu, advice: str) -> None:
    """Raises UnsupportedInstructionError where the GPU has no MMA of such elements."""
    # PTX ISA, "mma": m16n8k8 of binary16 came with Turing, everything else with Ampere.
    least = (7, 5) if element == "binary16" else (8, 0)
    if gpu.compute_capability < least:
        raise UnsupportedInstructionError(
            "{} MMAs need compute capability {}.{}, {} has {}.{}: ".format(
                element, *least, gpu.name, *gpu.compute_capability
            )
            + advice
        )
