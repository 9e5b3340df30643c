"""Sums of n numbers by tensor calls: the two-MMA and chained reductions, and one that the TCU model favours.

Papers: R. Carrasco, R. Vega, C. A. Navarro, *Analyzing GPU tensor core
potential for fast reductions*, 2019 (two MMAs per group of m numbers), and
C. A. Navarro et al., *GPU tensor cores for fast arithmetic reductions*, 2020
(chains of R).  Their m is the side of a matrix, √m here.  They count parallel
steps, all groups of a level at once: :func:`tcu.plan.cost.modelled_time`.  A
machine does one thing at a time, so its ledger holds the work.
"""

from __future__ import annotations

import math
import operator
from typing import Any, Literal, get_args

import numpy as np

from tcu.algorithms.parameters import MachineLike, parameters
from tcu.errors import DtypeError, ParameterError
from tcu.machine import Machine
from tcu.machine.constants import ones_like
from tcu.machine.executors.executor import is_integer
from tcu.machine.shapes import zeros

__all__ = ["SumVariant", "sum_bound", "tensor_sum"]

SumVariant = Literal["tall", "two-mma", "chained"]


def tensor_sum(machine: Machine, x: Any, variant: SumVariant = "tall", *, chain: int = 1) -> Any:
    """The sum of all numbers of an array, level after level of tensor calls.

    - "tall": the numbers as rows of √m, pumped past a resident column of
      ones; n / √m sums are left.  One call for a level.
    - "two-mma": groups of m numbers; X·1 sums the rows of each, 1·(X·1) its
      columns.  Two square calls for a group; n / m are left.
    - "chained": X_1·1 + ... + X_R·1 first, then one call for the chain;
      n / (R·m) are left.  The unit of this model does not accumulate: the
      CPU adds, at R - 1 steps for each entry of X·1, whose columns are all alike.

    Parameters
    ----------
    machine:
        Where it runs.  On units of narrow operands, the sums of a level are
        rounded to them for the next, as in the recurrence variant of the
        second paper.
    x:
        Real numbers or integers, of any shape.
    variant, chain:
        As above; R = ``chain`` is for "chained" alone.

    Returns
    -------
    A number of 0 dimensions, of the executor's result dtype; 0 for no numbers.

    Raises
    ------
    DtypeError:
        Complex numbers, or none at all.
    ParameterError:
        A variant that does not exist, a chain below 1 or without "chained",
        a machine of m = 1.
    """
    if variant not in get_args(SumVariant):
        raise ParameterError(f"variant={variant!r}: choose one of {', '.join(get_args(SumVariant))}")
    if (
        isinstance(chain, bool)
        or not isinstance(chain, int)
        or chain < 1
        or (chain > 1 and variant != "chained")
    ):
        raise ParameterError(f"chain={chain!r}: give 1 or more MMAs, more than 1 for variant='chained' only")
    _check_unit(machine.m)
    x = machine.array(x)
    if x.dtype.kind not in "fiubOV":
        raise DtypeError(
            f"x has dtype {x.dtype}: give real numbers or integers, real and imaginary parts apart"
        )
    level = 0
    x = x.reshape(-1)
    if x.shape[0] < 2:
        total = machine.executor.dtypes.result if x.shape[0] == 0 and not is_integer(x) else x.dtype
        return x.astype(total)[0] if x.shape[0] else zeros((), total, like=x)
    while x.shape[0] > 1:
        level += 1
        with machine.section(f"{variant} sum, level {level}"):
            x = _LEVELS[variant](machine, x, chain)
    return x[0]


def _check_unit(m: int) -> None:
    if m == 1:
        raise ParameterError("m=1: a unit for single numbers does not sum; take m=4 or more")


def _tall(machine: Machine, x: Any, _: int) -> Any:
    rows = _filled(machine, x, machine.side).reshape(-1, machine.side)
    ones = machine.cpu.each(ones_like, (machine.side, 1), _unit_dtype(x), x, name="make ones")
    return machine.tall_multiply(rows, ones, name="rows times ones").reshape(-1)


def _grouped(machine: Machine, x: Any, chain: int) -> Any:
    side = machine.side
    groups = _filled(machine, x, chain * machine.m).reshape(-1, chain, side, side)
    ones = machine.cpu.each(ones_like, (side, side), _unit_dtype(x), x, name="make ones")
    sums = machine.multiply(groups, ones, name="X times ones")
    total = sums[:, 0]
    for i in machine.turns(chain - 1):
        total = machine.cpu.each(operator.add, total, sums[:, i + 1], name="add sums of rows")
    return machine.multiply(ones, total, name="ones times sums")[:, 0, 0]


_LEVELS = {"tall": _tall, "two-mma": _grouped, "chained": _grouped}


def _unit_dtype(x: Any) -> Any:
    return x.dtype if is_integer(x) else np.float32 if x.dtype.itemsize <= 4 else np.float64


def _filled(machine: Machine, x: Any, multiple: int) -> Any:
    """Zeros behind it, up to a multiple."""
    return machine.cpu.padded(x, (-(-x.shape[0] // multiple) * multiple,))


def sum_bound(machine: MachineLike, n: int, variant: SumVariant = "tall", chain: int = 1) -> float:
    """What n numbers cost without constants of their own.

    - "tall": n + ℓ·log_√m n, as each level leaves 1 / √m of the numbers;
    - "two-mma": 2·(n / m)·(m + ℓ);
    - "chained": (R + 1)·n / (R·m)·(m + ℓ).

    All but the first omit the later levels, which add 1 / (m - 1) of it at most.
    """
    m, latency = parameters(machine)
    _check_unit(m)
    if variant == "tall":
        return n + latency * max(1.0, math.log(n) / math.log(math.isqrt(m)))
    calls = (chain + 1) / (chain * m) * n
    return calls * (m + latency)
