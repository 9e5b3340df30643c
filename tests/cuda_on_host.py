"""Kernels compiled for the host by a C++ compiler, where there is one, so that their indices are tested without a GPU.

Every thread of a block is a fibre; ``mma.sync`` adds its products one after
the other in binary64 and rounds once, so that a program on NumPy arrays has
the same bits from :class:`SequentialExecutor`.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tcu.formats import get_format
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.compiler import read_sources
from tcu.machine.executors.unit import InstructionExecutor
from tcu.units import Instruction

__all__ = ["HostLibrary", "SequentialExecutor", "compiled_for_host", "compiler_or_skip"]

_MMA = """
struct Fragments { WORD a[2][32][A_WORDS], b[2][32][B_WORDS]; };
static Fragments fragments_of_warps[32];

static double input_at(WORD word, int place) {
    const INPUT code = static_cast<INPUT>(word >> (8 * sizeof(INPUT) * place));
    return VALUE(code);
}

static void mma(WORD (&d)[D_WORDS], const WORD (&a)[A_WORDS], const WORD (&b)[B_WORDS]) {
    const unsigned self = threadIdx.x, lane = self % 32, turn = fibres[self].mmas++ % 2;
    Fragments& shared_by_warp = fragments_of_warps[self / 32];
    std::copy(a, a + A_WORDS, shared_by_warp.a[turn][lane]);
    std::copy(b, b + B_WORDS, shared_by_warp.b[turn][lane]);
    wait_for(WARP_MATES);
    for (int i = 0; i < D_WORDS * OUTPUTS_PER_WORD; ++i) {
        const int row = lane / 4 + 8 * (i / 2), column = 2 * (lane % 4) + i % 2;
        double sum = OUTPUT_VALUE(d[i]);
        for (int k = 0; k < TILE_K; ++k) {
            const int owner = k % K_GROUP / INPUTS_PER_WORD, place = k % INPUTS_PER_WORD, group = k / K_GROUP;
            sum = sum + input_at(shared_by_warp.a[turn][row % 8 * 4 + owner][group * ROW_GROUPS + row / 8], place) *
                            input_at(shared_by_warp.b[turn][column * 4 + owner][group], place);
        }
        d[i] = OUTPUT_CODE(sum);
    }
}
"""
_VALUES = {
    "binary16": "static_cast<double>(of_half(code))",
    "bfloat16": "static_cast<double>(as<float>(static_cast<u32>(code) << 16))",
    "tf32": "static_cast<double>(as<float>(static_cast<u32>(code)))",
    "binary64": "as<double>(static_cast<u64>(code))",
}
_ASSEMBLY = {
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));': "bits = half_of(x);",
    'asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));': "bits = bfloat_of(x);",
    'asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));': "x = of_half(bits);",
}


def compiler_or_skip() -> str:
    found = shutil.which("g++")
    if found is None:
        pytest.skip("needs g++")
    return found


def compiled_for_host(
    source: str, entry: str, structure: str, macros: Mapping[str, str], folder: Path, fmt: str = "binary16"
) -> Any:
    """A kernel as a function of the structure's address and the number of blocks; 1 where threads wait forever."""
    texts = []
    for name, text in reversed(read_sources(source)):
        text = re.sub(r"^\s*#\s*(include|pragma)[^\n]*$", "", text, flags=re.MULTILINE)
        for assembly, plain in _ASSEMBLY.items():
            text = text.replace(assembly, plain)
        if name == "fragments.cuh":
            text = text[: text.index("// One overload per number of registers")] + _MMA
        texts.append(text)
    wide = macros.get("OUTPUT") == "u64"
    own = {
        "VALUE(code)": _VALUES[fmt],
        "OUTPUT_VALUE(bits)": "as<double>(bits)" if wide else "static_cast<double>(as<float>(bits))",
        "OUTPUT_CODE(x)": "as<u64>(x)" if wide else "as<u32>(static_cast<float>(x))",
    }
    given = {
        **{name: value for name, value in macros.items() if name not in ("MNEMONIC", "IMMEDIATES")},
        **own,
    }
    defines = "".join(f"#define {name} {value}\n" for name, value in given.items())
    main = (
        f"static const {structure}* given;\nstatic void once() {{ {entry}(*given); }}\n"
        f'extern "C" int run(const {structure}* problem, unsigned blocks) {{\n'
        "    given = problem;\n    return run_blocks(once, blocks, THREADS);\n}\n"
    )
    header = Path(__file__).with_name("cuda_on_host.h").read_text(encoding="utf-8")
    text = "\n".join([header, defines, *texts, main])
    path = folder / f"{entry}-{abs(hash(text)):x}"
    if not path.with_suffix(".so").exists():
        path.with_suffix(".cpp").write_text(text, encoding="utf-8")
        command = [
            compiler_or_skip(), "-std=c++17", "-O1", "-w", "-ffp-contract=off", "-msse2", "-shared", "-fPIC",
            str(path.with_suffix(".cpp")), "-o", str(path.with_suffix(".so")),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:4000]
    run = ctypes.CDLL(str(path.with_suffix(".so"))).run
    run.argtypes = [ctypes.c_void_p, ctypes.c_uint]
    return run


class HostLibrary:
    """NumPy arrays as if they were on a GPU."""

    name = "host"

    def ordinal(self, label: str, array: Any) -> int:
        return 0

    def view(self, label: str, array: Any, stream: int) -> DeviceArray:
        strides = tuple(step // array.itemsize for step in array.strides)
        return DeviceArray(array.ctypes.data, array.shape, strides, array.dtype, 0, array)

    def current_stream(self, ordinal: int) -> int:
        return 0

    def empty(self, like: Any, shape: tuple[int, ...], dtype: Any, ordinal: int) -> tuple[Any, int]:
        raw = np.full(np.prod(shape) * dtype.itemsize + 16, 0xFF, np.uint8)
        start = -raw.ctypes.data % 16
        array = raw[start : start + int(np.prod(shape)) * dtype.itemsize].view(dtype).reshape(shape)
        return array, array.ctypes.data

    def plain(self, array: Any) -> tuple[int, int, Any] | None:
        return (array.ctypes.data, array.size, array.dtype) if array.flags.c_contiguous else None

    def finish(self, array: Any, like: Any, stream: int) -> Any:
        return array


class SequentialExecutor(InstructionExecutor):
    """An instruction whose arithmetic is that of the kernels on the host: products added one by one."""

    def __init__(self, instruction: Instruction, k: int) -> None:
        super().__init__(instruction)
        self.name = "sequential"
        self._k = k

    def _product(self, a: Any, b: Any) -> Any:
        output = get_format(self.instruction.output).dtype
        x, y = a.astype(np.float64), b.astype(np.float64)
        total = np.zeros((*a.shape[:-1], b.shape[-1]), output)
        for first in range(0, a.shape[-1], self._k):
            wide = total.astype(np.float64)
            for k in range(first, min(first + self._k, a.shape[-1])):
                wide = wide + x[..., k : k + 1] * y[..., k : k + 1, :]
            total = wide.astype(output)
        return total
