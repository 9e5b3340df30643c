"""Plans from files."""

from __future__ import annotations

from pathlib import Path

from tcu.errors import DataFileError
from tcu.plan import stored
from tcu.plan.plan import AddStep, FmaStep, MmaStep, Part, Plan
from tcu.plan.tree import (
    Additions,
    Blocks,
    Compensated,
    ExactAddition,
    FusedProducts,
    TreeNode,
    TreeRegions,
    TreeStep,
)
from tcu.units.arithmetic import AlignedSum

__all__ = ["load_plan"]

_KINDS = {
    kind.__name__: kind
    for kind in (
        Plan, Part, MmaStep, AddStep, FmaStep, TreeStep, TreeRegions, Additions, Blocks, Compensated, ExactAddition, FusedProducts,
        AlignedSum,
    )
}  # fmt: skip


def load_plan(path: str | Path) -> Plan:
    """The plan that :meth:`tcu.plan.Plan.save` or ``tcu reveal -o`` wrote; raises DataFileError."""
    found = stored.read(path, _KINDS, TreeNode)
    if not isinstance(found, Plan):
        raise DataFileError(
            f"{path} holds a {type(found).__name__}, not a whole plan: write one with Plan.save"
        )
    return found
