"""``tcu.mma`` by the processor's own instruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tcu.cpu.device import Cpu, find_cpu
from tcu.cpu.kernels import TILE, compiled
from tcu.errors import DtypeError
from tcu.formats.format import get_format
from tcu.units import Instruction

__all__ = ["multiply_accumulate", "own_instruction"]


def own_instruction(cpu: Cpu, instruction: str, a: str, b: str, output: str | None = None) -> Instruction:
    """The processor's instruction of that name for these formats; "mma" stands for the first that it has.

    Raises DtypeError.
    """
    for row in cpu.instructions:
        if instruction in ("mma", row.name) and (row.a, row.b) == (a, b) and output in (None, row.output):
            return row
    has = ", ".join(row.signature for row in cpu.instructions) or "no matrix instruction that tcu knows"
    asked = f"{a} · {b}" if output is None else f"{a} · {b} → {output}"
    raise DtypeError(f"{cpu.name} has no {instruction} of {asked}; it has: {has}")


def multiply_accumulate(
    a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any], row: Instruction
) -> npt.NDArray[Any]:
    """D = A·B + C for arrays that fit the instruction, batched; K is padded with zeros, as the model does.

    Raises CpuError where the processor or its kernel does not allow it.
    """
    find_cpu().check(row)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    m, n = a.shape[-2], b.shape[-1]
    output = get_format(row.output)
    result = np.empty((*batch, m, n), output.dtype)
    if result.size == 0 or a.shape[-1] == 0:
        result[...] = c
        return result
    kernel = compiled(row.name)
    tall = _up(m, TILE) if row.shape[0] > 1 else m
    wide, depth = _up(n, TILE), _up(a.shape[-1], row.k)
    left = np.broadcast_to(_words_of_rows(a, tall, depth), (*batch, tall, _words(a, depth)))
    right = np.broadcast_to(_words_of_columns(b, wide, depth), (*batch, _words(b, depth), wide))
    addend = np.broadcast_to(_padded(c, tall, wide).view(np.uint32), (*batch, tall, wide))
    words = np.empty((tall, wide), np.uint32)
    for at in np.ndindex(batch):
        x, y, z = (np.ascontiguousarray(part[at]) for part in (left, right, addend))
        kernel(x.ctypes.data, y.ctypes.data, z.ctypes.data, words.ctypes.data, tall, wide, x.shape[1])
        result[at] = words[:m, :n].view(output.dtype)
    return result


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _words(array: npt.NDArray[Any], depth: int) -> int:
    return depth * array.dtype.itemsize // 4


def _padded(array: npt.NDArray[Any], rows: int, columns: int) -> npt.NDArray[Any]:
    padded = np.zeros((*array.shape[:-2], rows, columns), array.dtype)
    padded[..., : array.shape[-2], : array.shape[-1]] = array
    return padded


def _words_of_rows(a: npt.NDArray[Any], rows: int, depth: int) -> npt.NDArray[np.uint32]:
    return _padded(a, rows, depth).view(np.uint32)


def _words_of_columns(b: npt.NDArray[Any], columns: int, depth: int) -> npt.NDArray[np.uint32]:
    each = 4 // b.dtype.itemsize
    padded = _padded(b, depth, columns)
    packed = padded.reshape(*padded.shape[:-2], depth // each, each, columns).swapaxes(-1, -2)
    return np.ascontiguousarray(packed).view(np.uint32)[..., 0]
