"""The kernels as rows of data: which instruction each runs, and which GPUs have it.

The rows drive dispatch, the listing and the tests.  What a GPU must have is
from the PTX ISA, sections "mma" and "wgmma.mma_async" ("Target ISA notes").
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tcu.formats import get_format
from tcu.gpu.errors import UnsupportedInstructionError
from tcu.units import Instruction

__all__ = ["KERNELS", "Kernel", "architecture", "find_kernel", "supported"]

ComputeCapability = tuple[int, int]

_PTX_TYPES = {
    "binary16": "f16", "bfloat16": "bf16", "tf32": "tf32", "e4m3": "e4m3", "e5m2": "e5m2",
    "binary32": "f32", "binary64": "f64", "u8": "u8", "s8": "s8", "s32": "s32",
}  # fmt: skip
_C_TYPES = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}


@dataclass(frozen=True)
class Kernel:
    """One matrix instruction of NVIDIA GPUs: D (m × n) = A (m × k) · B (k × n) + C."""

    name: str
    """"mma" (mma.sync, one warp) or "wgmma" (wgmma.mma_async, four warps)."""
    a: str
    b: str
    """Input formats."""
    output: str
    """Format of C and D."""
    shape: tuple[int, int, int]
    """(m, n, k)."""
    minimum: ComputeCapability
    """The oldest compute capability that has it."""
    specific: bool = False
    """Only that one has it: compiled for its architecture-specific target (sm_90a)."""

    @property
    def k(self) -> int:
        return self.shape[2]

    @property
    def mnemonic(self) -> str:
        """The instruction as PTX writes it, without operands."""
        a, b, d = _PTX_TYPES[self.a], _PTX_TYPES[self.b], _PTX_TYPES[self.output]
        shape = "m{}n{}k{}".format(*self.shape)
        if self.name == "wgmma":
            return f"wgmma.mma_async.sync.aligned.{shape}.{d}.{a}.{b}"
        return f"mma.sync.aligned.{shape}.row.col.{d}.{a}.{b}.{d}"

    @property
    def source(self) -> str:
        """The file in ``tcu/gpu/cuda`` that holds the kernel."""
        return f"{self.name}.cu"

    @property
    def threads(self) -> int:
        """Threads per block: four warps."""
        return 128

    @property
    def tiles_per_block(self) -> int:
        return 1 if self.name == "wgmma" else self.threads // 32

    @cached_property
    def macros(self) -> dict[str, str]:
        """What the source leaves open."""
        given, result = get_format(self.a).dtype.itemsize, get_format(self.output).dtype.itemsize
        macros = {
            "MNEMONIC": f'"{self.mnemonic}"',
            "TILE_M": str(self.shape[0]),
            "TILE_N": str(self.shape[1]),
            "TILE_K": str(self.shape[2]),
            "INPUT": _C_TYPES[given],
            "OUTPUT": _C_TYPES[result],
            "WORD": "u64" if given == 8 else "u32",
            "THREADS": str(self.threads),
        }
        if self.name == "wgmma":
            # PTX ISA, wgmma.mma_async: scales of A and B, and for 16-bit inputs whether to transpose them.
            macros["IMMEDIATES"] = {1: '", 1, 1"', 2: '", 1, 1, 0, 0"', 4: '", 1, 1"'}[given]
            if self.output == "s32":
                macros["IMMEDIATES"] = '""'
        return macros

    @property
    def signature(self) -> str:
        """As :attr:`tcu.Instruction.signature`, with k."""
        inputs = self.a if self.a == self.b else f"{self.a}·{self.b}"
        return f"{self.name} {inputs} → {self.output} with k = {self.k}"

    def runs_on(self, capability: ComputeCapability) -> bool:
        return capability == self.minimum if self.specific else capability >= self.minimum

    def __str__(self) -> str:
        return self.mnemonic


def _mma(a: str, output: str, shape: tuple[int, int, int], minimum: ComputeCapability, b: str = "") -> Kernel:
    return Kernel("mma", a, b or a, output, shape, minimum)


def _wgmma(a: str, output: str, k: int, b: str = "") -> Kernel:
    return Kernel("wgmma", a, b or a, output, (64, 8, k), (9, 0), specific=True)


_INTEGERS = [(a, b) for a in ("u8", "s8") for b in ("u8", "s8")]
_FP8 = [
    (a, output, b)
    for output in ("binary32", "binary16")
    for a, b in (("e4m3", "e4m3"), ("e5m2", "e5m2"), ("e4m3", "e5m2"), ("e5m2", "e4m3"))
]

KERNELS: tuple[Kernel, ...] = (
    _mma("binary16", "binary32", (16, 8, 16), (8, 0)),
    _mma("binary16", "binary32", (16, 8, 8), (7, 5)),
    _mma("binary16", "binary16", (16, 8, 16), (8, 0)),
    _mma("binary16", "binary16", (16, 8, 8), (7, 5)),
    _mma("bfloat16", "binary32", (16, 8, 16), (8, 0)),
    _mma("bfloat16", "binary32", (16, 8, 8), (8, 0)),
    _mma("tf32", "binary32", (16, 8, 8), (8, 0)),
    _mma("tf32", "binary32", (16, 8, 4), (8, 0)),
    *(_mma(a, output, (16, 8, 32), (8, 9), b) for a, output, b in _FP8),
    _mma("binary64", "binary64", (8, 8, 4), (8, 0)),
    _mma("binary64", "binary64", (16, 8, 16), (9, 0)),
    *(_mma(a, "s32", (16, 8, 32), (8, 0), b) for a, b in _INTEGERS),
    *(_mma(a, "s32", (8, 8, 16), (7, 5), b) for a, b in _INTEGERS),
    _wgmma("binary16", "binary32", 16),
    _wgmma("binary16", "binary16", 16),
    _wgmma("bfloat16", "binary32", 16),
    _wgmma("tf32", "binary32", 8),
    *(_wgmma(a, output, 32, b) for a, output, b in _FP8),
    *(_wgmma(a, "s32", 32, b) for a, b in _INTEGERS),
)


def architecture(kernel: Kernel, capability: ComputeCapability) -> str:
    """The target that the kernel is compiled for on such a GPU, such as "sm_90a"."""
    major, minor = capability
    return f"sm_{major}{minor}{'a' if kernel.specific else ''}"


def supported(capability: ComputeCapability) -> tuple[Kernel, ...]:
    """The kernels that a GPU of that compute capability can run."""
    return tuple(kernel for kernel in KERNELS if kernel.runs_on(capability))


def find_kernel(instruction: Instruction, capability: ComputeCapability, gpu: str = "this GPU") -> Kernel:
    """The kernel that runs the instruction: same name, formats and k.

    m and n may differ: they are how many dot products one instruction takes,
    not what each of them computes.  Raises UnsupportedInstructionError.
    """
    available = supported(capability)
    wanted = (instruction.name, instruction.a, instruction.b, instruction.output, instruction.k)
    for kernel in available:
        if (kernel.name, kernel.a, kernel.b, kernel.output, kernel.k) == wanted:
            return kernel
    formats = (instruction.a, instruction.b, instruction.output)
    nearest = [kernel for kernel in available if (kernel.a, kernel.b, kernel.output) == formats]
    has = ", ".join(kernel.signature for kernel in nearest or available) or "no matrix instruction known here"
    raise UnsupportedInstructionError(
        f"{instruction.signature} with k = {instruction.k} is not an instruction of {gpu} "
        f"(compute capability {capability[0]}.{capability[1]}): it has {has}; "
        f"tcu.mma(..., unit=...) computes other units' instructions on the CPU"
    )
