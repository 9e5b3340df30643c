"""Launch the kernels of sums, dot products and exact sums on arrays in a GPU's memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tcu.errors import ParameterError
from tcu.formats.format import Format, format_of
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.compiler import task_of
from tcu.gpu.device import Gpu, call
from tcu.gpu.functions import load
from tcu.gpu.launch import MAX_BATCH_DIMENSIONS, collapse
from tcu.gpu.workspace import workspace
from tcu.plan import AddStep, FmaStep, MmaStep, Plan

__all__ = ["COUNTS", "LIMBS", "LIMB_BITS", "ExactConfig", "SumConfig", "launch_exact_sum", "launch_sum"]

_ELEMENTS = {"binary16": "BINARY16", "bfloat16": "BFLOAT16", "binary32": "BINARY32", "binary64": "BINARY64"}
_TARGETS = {name: number for number, name in enumerate(_ELEMENTS)}
_LOAD = 16
"""Bytes that a thread loads at once, as in cuda/array.cuh."""
LIMB_BITS, LIMBS, COUNTS = 16, 135, 3
"""As in cuda/limbs.cuh."""
_COPIES = 16


@dataclass(frozen=True)
class SumConfig:
    """How cuda/sum.cu is compiled: speed, not bits."""

    unroll: int
    """Loads of a thread in flight."""
    resident: int
    """Blocks per multiprocessor."""


@dataclass(frozen=True)
class ExactConfig:
    """How cuda/exact.cu is compiled and launched: speed, not bits."""

    threads: int
    unroll: int
    resident: int
    loads: int
    """Loads of a thread in a chunk, at most."""


class _Array(ctypes.Structure):
    """As in cuda/array.cuh."""

    _fields_ = (
        ("data", ctypes.c_uint64),
        ("n", ctypes.c_int64),
        ("dimensions", ctypes.c_int64),
        ("extents", ctypes.c_int64 * MAX_BATCH_DIMENSIONS),
        ("strides", ctypes.c_int64 * MAX_BATCH_DIMENSIONS),
    )


class _Sum(ctypes.Structure):
    """As in cuda/sum.cu."""

    _fields_ = (
        ("x", _Array),
        ("y", _Array),
        ("slots", ctypes.c_uint64),
        ("out", ctypes.c_uint64),
        ("divisor", ctypes.c_double),
        ("loads", ctypes.c_int64),
        ("chunks", ctypes.c_int64),
        ("root", ctypes.c_int64),
        ("target", ctypes.c_int64),
    )


class _ExactSum(ctypes.Structure):
    """As in cuda/exact.cu."""

    _fields_ = (
        ("x", _Array),
        ("limbs", ctypes.c_uint64),
        ("arrived", ctypes.c_uint64),
        ("out", ctypes.c_uint64),
        ("state", ctypes.c_uint64),
        ("loads", ctypes.c_int64),
        ("chunks", ctypes.c_int64),
        ("target", ctypes.c_int64),
    )


def launch_sum(
    plan: Plan,
    operands: Sequence[DeviceArray],
    out: int,
    target: Format,
    gpu: Gpu,
    stream: int,
    config: SumConfig,
    *,
    divisor: float = 1.0,
    root: bool = False,
) -> None:
    """Put the sum of one array, or the dot product of two, on the stream, by the plan.

    ``out``: the address of the result, rounded to ``target`` after a division
    by ``divisor`` and, if asked for, the square root.
    """
    loads, chain = _loop(plan)
    arrays, layout = _described(operands)
    product = len(operands) == 2
    function = _function(
        "sum.cu", "sum", gpu.compute_capability, _ELEMENTS[plan.input], layout,
        (("THREADS", plan.block), ("CHAIN", chain), ("UNROLL", config.unroll),
         ("RESIDENT", config.resident), ("TERM", "PRODUCT" if product else "VALUE")),
    )  # fmt: skip
    chunk = loads * chain * plan.block * (_LOAD // operands[0].dtype.itemsize)
    chunks = -(-plan.n // chunk)
    slots = workspace("sum", gpu.ordinal, stream, chunks, 0).slots_address
    y = arrays[1] if product else _Array()
    problem = _Sum(arrays[0], y, slots, out, divisor, loads, chunks, root, _TARGETS[target.name])
    _launch(function, max(chunks, 1), plan.block, stream, problem)


def launch_exact_sum(
    x: DeviceArray, out: int, target: Format, state: int, gpu: Gpu, stream: int, config: ExactConfig
) -> None:
    """Put the exact sum on the stream: rounded to ``target`` at ``out``, and its limbs and counts at ``state``.

    Either address may be 0.
    """
    (array,), layout = _described([x])
    function = _function(
        "exact.cu", "exact_sum", gpu.compute_capability, _ELEMENTS[format_of(x.dtype).name], layout,
        (("THREADS", config.threads), ("UNROLL", config.unroll), ("RESIDENT", config.resident)),
    )  # fmt: skip
    step = config.threads * (_LOAD // x.dtype.itemsize)
    # Small arrays need many blocks more than long chunks.
    loads = config.loads
    while loads > max(config.unroll, 8) and array.n < 1024 * loads * step:
        loads //= 2
    chunks = -(-array.n // (loads * step))
    words = _COPIES * (LIMBS + COUNTS)
    space = workspace("exact", gpu.ordinal, stream, 0, words + 1)
    problem = _ExactSum(
        array, space.words_address, space.words_address + 8 * words, out, state, loads, chunks,
        _TARGETS[target.name],
    )  # fmt: skip
    _launch(function, max(chunks, 1), config.threads, stream, problem)


def _loop(plan: Plan) -> tuple[int, int]:
    """(loads of a thread in a chunk, links of a chain)."""
    if not plan.parts:
        return 8, 1
    first, second = plan.parts[0].steps[:2]
    if isinstance(first, MmaStep):
        assert isinstance(second, AddStep)
        return int(second.length or 1), first.chain
    assert isinstance(first, (AddStep, FmaStep))
    return int(first.length or 1), 1


def _described(operands: Sequence[DeviceArray]) -> tuple[list[_Array], str]:
    """The operands as kernels take them, and the layout that serves all."""
    arrays, shifted, strided = [], False, False
    for x in operands:
        if x.address % x.dtype.itemsize:
            raise ParameterError(
                f"the array lies at address {x.address:#x}, which is no multiple of its {x.dtype.itemsize} bytes "
                "an element: copy it first"
            )
        n = math.prod(x.shape)
        extents, (strides,) = collapse(x.shape, [x.strides]) if n > 1 else ((), [()])
        strided |= len(extents) > 1 or (bool(extents) and strides[0] != 1)
        shifted |= bool(x.address % _LOAD)
        filled = [tuple(part) + (0,) * (MAX_BATCH_DIMENSIONS - len(part)) for part in (extents, strides)]
        both = [(ctypes.c_int64 * MAX_BATCH_DIMENSIONS)(*part) for part in filled]
        arrays.append(_Array(x.address, n, len(extents), *both))
    return arrays, "STRIDED" if strided else "SHIFTED" if shifted else "ALIGNED"


@cache
def _function(
    source: str, entry: str, capability: tuple[int, int], element: str, layout: str,
    macros: tuple[tuple[str, Any], ...],
) -> Any:  # fmt: skip
    given: Mapping[str, Any] = {"ELEMENT": element, "LAYOUT": layout, **dict(macros)}
    return load(task_of(source, given, "sm_{}{}".format(*capability)), entry)


def _launch(function: Any, blocks: int, threads: int, stream: int, problem: ctypes.Structure) -> None:
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(problem))
    call("cuLaunchKernel", function, blocks, 1, 1, threads, 1, 1, 0, stream, ctypes.addressof(parameters), 0)
