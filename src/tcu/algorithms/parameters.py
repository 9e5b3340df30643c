"""m and ℓ for the theorems' bounds, from a machine or from the numbers themselves."""

from __future__ import annotations

from tcu.machine import Machine
from tcu.machine.ledger import check_latency, check_size

__all__ = ["MachineLike", "parameters"]

MachineLike = Machine | tuple[int, int | float]
"""A machine, or (m, latency)."""


def parameters(machine: MachineLike) -> tuple[int, int | float]:
    """(m, ℓ).  Raises ParameterError for numbers that no machine has."""
    if isinstance(machine, Machine):
        return machine.m, machine.latency
    m, latency = machine
    check_size(m)
    return m, check_latency(latency)
