"""The plan of a dot product: fused multiply-adds, then the trees of a sum."""

from __future__ import annotations

from tcu.formats.format import Format
from tcu.plan.plan import FmaStep, Part, Plan, Step
from tcu.plan.variants import (
    DOUBLE,
    binary64_final,
    binary64_trees,
    checked_block,
    loads_of,
    per_load,
    without_idle,
)
from tcu.plan.version import VERSIONS

__all__ = ["make_dot_plan"]

_BLOCK = 256


def make_dot_plan(n: int, input_format: Format, block: int | None = None) -> Plan:
    """The plan for n pairs of a format; ``block`` is B, threads per block (256).

    A thread multiplies what it loads of x by what it loads of y, with an
    accumulator for each number of a load; from there on the plan is that of a
    sum in binary64.  Raises ParameterError.
    """
    block = checked_block(_BLOCK if block is None else block)
    if not n:
        return Plan(n, input_format.name, "dot", None, block, (), (), DOUBLE, VERSIONS["dot"])
    rows = block * per_load(input_format)
    steps: tuple[Step, ...] = (FmaStep(loads_of(n, rows), rows), *binary64_trees(input_format, block))
    final = without_idle(binary64_final(steps, n, block))
    parts = (Part(0, n, without_idle(steps)),)
    return Plan(n, input_format.name, "dot", None, block, parts, final, DOUBLE, VERSIONS["dot"])
