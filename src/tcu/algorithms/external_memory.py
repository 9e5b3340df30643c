"""Theorem 8 of Silvestri and Vella, section 5: what a weak machine costs, and what moves between two memories.

An :class:`~tcu.machine.ExternalMemoryExecutor` carries the program out and
counts every word that moves, those of the CPU's steps included.  Where nothing
is computed, the ledger tells the most that can move.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tcu.errors import ParameterError
from tcu.machine import Machine
from tcu.machine.ledger import Ledger, Number

__all__ = ["Transfers", "matmul_transfers_bound", "simulate", "transfers_of"]

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
        """I/Os over time: at most 3, so that a lower bound F on I/Os makes F / 3 one on time (Theorem 8).

        A program that hands over a number has one I/O more, by which whoever takes it reads it.
        """
        return self.total / self.time if self.time else 0.0


def simulate(ledger: Ledger) -> Transfers:
    """The most I/Os that a weak machine's program takes in an external memory of M = 3m + 3, B = 1.

    Every tensor call reads both operands and writes the product, 3m words;
    every step reads at most two words and writes one.  As a call costs at
    least m and a step 1, I/Os are at most 3 times the cost.

    Raises ParameterError for a ledger with calls of more than √m rows, which
    no weak machine makes.
    """
    _check_weak(ledger)
    calls, steps, m = ledger.tensor_calls, ledger.steps, ledger.m
    return Transfers(
        2 * m * calls + _STEP_READS * steps, m * calls + _STEP_WRITES * steps, 3 * m + 3, ledger.cost
    )


def transfers_of(machine: Machine) -> Transfers:
    """The I/Os of what this weak machine has done: as counted where it ran in an external memory, else the most.

    Raises ParameterError as :func:`simulate`.
    """
    memory = getattr(machine.executor, "memory", None)
    if memory is None:
        return simulate(machine.ledger)
    _check_weak(machine.ledger)
    return Transfers(memory.reads, memory.writes, memory.words, machine.cost)


def _check_weak(ledger: Ledger) -> None:
    tall = [entry for entry in ledger if entry.kind == "tensor" and entry.rows > ledger.side]
    if tall:
        raise ParameterError(
            f"{tall[0].name!r} has {tall[0].rows} rows: the unit of a weak machine takes {ledger.side}; "
            "run the program on Machine(..., weak=True)"
        )


def matmul_transfers_bound(memory: int, rows: int, inner: int, columns: int) -> float:
    """The least I/Os of any program for A·B that makes every elementary product, in M = ``memory`` words.

    rows·inner·columns / (2√2·√M) - M: D. Irony, S. Toledo, A. Tiskin,
    *Communication lower bounds for distributed-memory matrix multiplication*,
    2004; and each operand is read and the product written at least once.
    """
    touched = rows * inner + inner * columns + rows * columns
    return max(rows * inner * columns / (2 * math.sqrt(2 * memory)) - memory, float(touched))
