"""Members of the family before a judge: which of them give the answers that a target gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from tcu.errors import ParameterError
from tcu.formats.format import get_format
from tcu.formats.scalar import ROUNDINGS
from tcu.model.blocks import is_block_sum
from tcu.model.mma import PROPAGATING, wide_kernel
from tcu.probes.kinds import COLUMNS, ROWS
from tcu.probes.target import Codes, Operation, Question, Target, of_instruction
from tcu.units.arithmetic import (
    AlignedSum,
    Arithmetic,
    ExactBlock,
    FlushedTree,
    FusedChain,
    GroupedSum,
    LateSum,
)
from tcu.units.instruction import Instruction

__all__ = ["Asked", "Candidate", "Judge", "describe", "fits", "plainness"]

Candidate = AlignedSum | FusedChain | ExactBlock | FlushedTree | LateSum | GroupedSum
Asked = tuple[Question, Codes, Any]
"""A question, its answer, and which elements of the answer count."""


def fits(operation: Operation, row: Candidate) -> bool:
    """Whether an instruction of these formats can have the arithmetic."""
    try:
        operation.instruction(row, (ROWS, COLUMNS))
    except ParameterError:
        return False
    return True


class Judge:
    """Asks candidates the questions, the most telling one first."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.questions: list[Asked] = []

    def agrees(self, row: Candidate) -> bool:
        model = _compiled(self.target.instruction(row, (ROWS, COLUMNS)))
        for index, (q, answer, counts) in enumerate(self.questions):
            if not np.array_equal(model(q)[counts], answer[counts]):
                if index:
                    self.questions.insert(0, self.questions.pop(index))
                return False
        return True


def _compiled(instruction: Instruction) -> Callable[[Question], Codes]:
    """The model of one instruction without the checks and conversions of the public face."""
    used, row = instruction.k, instruction.arithmetic
    if is_block_sum(instruction) or (isinstance(row, AlignedSum) and row.through_binary16):
        return of_instruction("model", instruction).answer
    if isinstance(row, AlignedSum) and row.nan_rule in PROPAGATING:
        plain = _compiled(replace(instruction, arithmetic=replace(row, nan_rule="arm")))
        whole = of_instruction("model", instruction)
        nan = np.array(get_format(instruction.output).infinity_code << 1, np.uint64)

        def with_payloads(q: Question) -> Codes:
            answer = plain(q)
            magnitude = (answer.astype(np.uint64) << np.uint64(1)) & np.uint64((1 << 8 * answer.itemsize) - 1)
            return whole(q.a, q.b, q.c) if (magnitude > nan).any() else answer

        return with_payloads
    kernel, arguments = wide_kernel(instruction, used)
    zero = np.broadcast_to(
        np.int64(0), 1
    )  # not writeable, as tcu.mma's: else kernels are compiled twice, 2 s each

    def model(q: Question) -> Codes:
        assert q.c.shape[1] % 8 == 0, (
            "the kernel writes eight columns at a time, and would write past the last"
        )
        depth = -(-used // 8) * 8
        a, b = q.a[None], q.b[None]
        if depth != used:
            a = np.concatenate([a, np.zeros((1, a.shape[1], depth - used), a.dtype)], axis=2)
            b = np.concatenate([b, np.zeros((1, depth - used, b.shape[2]), b.dtype)], axis=1)
        out = np.empty((1, *q.c.shape), np.int32)
        kernel(a, b, q.c[None], zero, zero, zero, 0, 1, *arguments, out)
        if q.c.dtype.itemsize == 2:
            return np.asarray(out[0].view(np.float32).astype(np.float16).view(np.uint16))
        return np.asarray(out[0].view(np.uint32))

    return model


def describe(row: Arithmetic) -> str:
    """The parameters that are not at their defaults."""
    usual = {each.name: each.default for each in fields(row)}
    told = {name: value for name, value in vars(row).items() if value != usual[name]}
    if "order" in told:
        told["order"] = ", ".join(map(str, told["order"][:8])) + (" ..." if len(told["order"]) > 8 else "")
    texts = [f"{'F' if name == 'fraction_bits' else name} {value}" for name, value in told.items()]
    return ", ".join(texts if isinstance(row, AlignedSum) else [type(row).__name__, *texts])


def plainness(row: Candidate) -> tuple[object, ...]:
    """Among models that no input told apart, the one with the fewest peculiarities; none has a floor yet."""
    if isinstance(row, FusedChain):
        return (
            -1, row.late_c, row.lanes, row.group, row.order is not None, row.rounded_products,
            ROUNDINGS.index(row.rounding), row.flush_inputs, row.flush_outputs,
        )  # fmt: skip
    if isinstance(row, ExactBlock):
        return 2, -row.block
    if isinstance(row, FlushedTree):
        return 3, -row.group
    if isinstance(row, LateSum):
        return 4, row.groups, row.drops_small_c, -row.block, row.fraction_bits, row.late_bits
    if isinstance(row, GroupedSum):
        return 5, -row.block, -row.group, row.fraction_bits
    return (
        row.late_c, row.order is not None, row.normalized_products, row.flush_inputs, row.flush_outputs,
        row.output_fraction_bits is not None, -row.block, row.fraction_bits, ROUNDINGS.index(row.rounding),
    )  # fmt: skip
