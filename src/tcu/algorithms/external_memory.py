"""Theorem 8 of Silvestri and Vella, section 5: what a weak machine costs, and what moves between two memories."""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcu.errors import ParameterError
from tcu.machine.ledger import Ledger, Number

__all__ = ["Transfers", "matmul_transfers_bound", "simulate"]

_STEP_READS, _STEP_WRITES = 2, 1
"""A step of the CPU: two operands, one result."""


@dataclass(frozen=True)
class Transfers:
    """The I/Os of a program in an external memory with M = ``memory`` words inside and blocks of B = 1 word."""

    reads: int
    writes: int
    memory: int
    """3m words for a tensor call, and three more for a step."""
    time: Number
    """What the program costs on the weak machine."""

    @property
    def total(self) -> int:
        return self.reads + self.writes

    @property
    def ratio(self) -> float:
        """I/Os over time: at most 3, so that a lower bound F on I/Os makes F / 3 one on time (Theorem 8)."""
        return self.total / self.time if self.time else 0.0


def simulate(ledger: Ledger) -> Transfers:
    """The I/Os with which an external memory of M = 3m + 3, B = 1 carries out a weak machine's program.

    Every tensor call reads both operands and writes the product, 3m words;
    every step reads two words and writes one.  As a call costs at least m and
    a step 1, I/Os are at most 3 times the cost.

    Raises ParameterError for a ledger with calls of more than √m rows, which
    no weak machine makes.
    """
    tall = [entry for entry in ledger if entry.kind == "tensor" and entry.rows > ledger.side]
    if tall:
        raise ParameterError(
            f"{tall[0].name!r} has {tall[0].rows} rows: the unit of a weak machine takes {ledger.side}; "
            "run the program on Machine(..., weak=True)"
        )
    calls, steps, m = ledger.tensor_calls, ledger.steps, ledger.m
    return Transfers(
        2 * m * calls + _STEP_READS * steps, m * calls + _STEP_WRITES * steps, 3 * m + 3, ledger.cost
    )


def matmul_transfers_bound(memory: int, rows: int, inner: int, columns: int) -> float:
    """The least I/Os of any program for A·B that makes every elementary product, in M = ``memory`` words.

    rows·inner·columns / (2√2·√M) - M: D. Irony, S. Toledo, A. Tiskin,
    *Communication lower bounds for distributed-memory matrix multiplication*,
    2004; and each operand is read and the product written at least once.
    """
    touched = rows * inner + inner * columns + rows * columns
    return max(rows * inner * columns / (2 * math.sqrt(2 * memory)) - memory, float(touched))
