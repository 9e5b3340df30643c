"""Plans from files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tcu.errors import DataFileError
from tcu.plan import stored
from tcu.plan.checked import checked_plan
from tcu.plan.matmul import MatmulPlan, checked_matmul_plan
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

__all__ = ["load_plan", "plan_of"]


def _matmul_plan(*, version: int, **fields: Any) -> MatmulPlan:
    """Its file must say the version: the order of additions is not in it."""
    return checked_matmul_plan(MatmulPlan(**fields, version=version))


def _plan(*, version: int, **fields: Any) -> Plan:
    return checked_plan(Plan(**fields, version=version))


_KINDS: dict[str, Callable[..., Any]] = {
    kind.__name__: kind
    for kind in (
        Part, MmaStep, AddStep, FmaStep, TreeStep, TreeRegions, Additions, Blocks, Compensated, ExactAddition, FusedProducts,
        AlignedSum,
    )
} | {"MatmulPlan": _matmul_plan, "Plan": _plan}  # fmt: skip


def load_plan(path: str | Path) -> Plan | MatmulPlan:
    """The plan that :meth:`tcu.plan.Plan.save`, :meth:`tcu.plan.MatmulPlan.save` or ``tcu reveal -o`` wrote.

    Raises DataFileError, or ParameterError for what is no path.

    Examples
    --------
    >>> import tcu
    >>> plan = tcu.plan.make_matmul_plan(64, "float16", "float16")
    >>> plan.save("product.json")
    >>> tcu.load_plan("product.json") == plan
    True
    """
    return _whole(stored.read(path, _KINDS, TreeNode), path)


def plan_of(document: Any, path: str | Path) -> Plan | MatmulPlan:
    """The plan that :func:`tcu.plan.stored.document` made a document of, which is part of the file ``path``.

    Raises DataFileError.
    """
    return _whole(stored.record_of(document, _KINDS, TreeNode, path), path)


def _whole(found: Any, path: str | Path) -> Plan | MatmulPlan:
    if not isinstance(found, Plan | MatmulPlan):
        raise DataFileError(
            f"{path} holds a {type(found).__name__}, not a whole plan: write one with Plan.save"
        )
    return found
