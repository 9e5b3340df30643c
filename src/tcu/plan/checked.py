"""Whether a plan from a file is one that this tcu executes: a file may be damaged, or edited by hand."""

from __future__ import annotations

import dataclasses
import types
from collections import Counter
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tcu.errors import ParameterError
from tcu.formats.format import get_format
from tcu.plan.plan import AddStep, FmaStep, MmaStep, Plan, Step
from tcu.plan.tree import Blocks, FusedProducts, TreeRegions, TreeStep
from tcu.plan.variants import VARIANTS
from tcu.plan.version import VERSIONS

__all__ = ["checked_plan"]

_SUMS = ("binary16", "bfloat16", "binary32", "binary64")
"""Formats in which numbers are added up."""
_MOST = 1 << 24
"""Numbers of a group, beside a few times those that there are: beyond, a damaged file would fill the memory with zeros."""


def checked_plan(plan: Plan) -> Plan:
    """The plan.  Raises ParameterError, DtypeError or UnknownNameError for one that no tcu of this version writes."""
    _check_types(plan, set())
    steps = [step for part in plan.parts for step in part.steps] + list(plan.final)
    trees = [step for step in steps if isinstance(step, TreeStep | TreeRegions)]
    _check_version(plan, bool(trees))
    if plan.n < 0:
        raise ParameterError(f"n={plan.n}: a sum has no negative number of elements")
    for name in (plan.input, plan.result):
        get_format(name)
    _check_parts(plan)
    for step in steps:
        if isinstance(step, TreeStep | TreeRegions):
            for tree in step.trees if isinstance(step, TreeRegions) else (step,):
                _check_tree(tree)
        else:
            _check_step(step, plan.n)
    if trees and (len(steps) != 1 or trees[0].leaves != plan.n):
        raise ParameterError("a tree takes all elements, and is the only step")
    return plan


def _check_version(plan: Plan, of_trees: bool) -> None:
    if of_trees:
        version = VERSIONS["tree"]
    elif plan.variant == "dot":
        version = VERSIONS["dot"]
    elif plan.variant in VARIANTS:
        version = VERSIONS[VARIANTS[plan.variant].family]
    else:
        raise ParameterError(f"variant={plan.variant!r}: this tcu has none of that name")
    if plan.version != version:
        raise ParameterError(
            f"its order of additions is of version {plan.version!r}, this tcu's of {version}"
        )


def _check_parts(plan: Plan) -> None:
    edge = 0
    for part in plan.parts:
        if part.start != edge or part.stop <= edge:
            raise ParameterError(f"elements {part.start} to {part.stop} do not begin where others end")
        edge = part.stop
    if edge != plan.n:
        raise ParameterError(f"its parts take {edge} of {plan.n} elements")


def _check_step(step: Step, n: int) -> None:
    """Of a plan that this library makes."""
    counts: dict[str, int | None]
    if isinstance(step, MmaStep):
        m, columns, k = step.shape
        counts = {
            "m": m, "n": columns, "k": k, "dots": step.dots, "chain": step.chain, "shared": step.shared,
        }  # fmt: skip
        for name in (step.operand, step.accumulator):
            get_format(name)
    else:
        assert isinstance(step, AddStep | FmaStep)
        counts = {"length": step.length, "inner": step.inner}
        _check_format(step.format)
        if step.length is None and (isinstance(step, FmaStep) or step.order == "tree"):
            raise ParameterError("length=None: a tree has a length")
    for name, count in counts.items():
        if count is not None and not 1 <= count <= _MOST + n:
            raise ParameterError(f"{name}={count}: choose 1 to {_MOST + n}")
    if counts.get("length", 1) is not None and step.group > _MOST + 4 * n:
        raise ParameterError(f"a group of {step.group} numbers is far more than the {n} that there are")


def _check_tree(tree: TreeStep) -> None:
    if tree.product is not None:
        _check_format(tree.product)
    for node in tree.nodes:
        operation = node.operation
        _check_format(operation.output if isinstance(operation, Blocks) else operation.format)
        of_products: tuple[int, ...] = ()
        if isinstance(operation, FusedProducts):
            if not tree.products:
                raise ParameterError("numbers that are no products have no fused multiply-adds")
            of_products = node.inputs[1:]
        elif isinstance(operation, Blocks):
            get_format(operation.operand)
            if tree.products:
                of_products = node.inputs[1 if operation.carried else 0 :]
        if any(value >= tree.leaves for value in of_products):
            raise ParameterError(f"{operation} take products alone")
    if len(tree.roots) == 1:
        used = Counter(value for node in tree.nodes for value in node.inputs) + Counter(tree.roots)
        for value in range(tree.leaves + len(tree.nodes)):
            if used[value] != 1:
                what = f"element {value}" if value < tree.leaves else f"node {value - tree.leaves}"
                raise ParameterError(f"{what} is added {used[value]} times: a sum takes each once")
    elif tree.products:
        raise ParameterError("a tree of products has one root: running sums are of numbers")
    elif len(tree.roots) != tree.leaves:
        raise ParameterError(
            f"{len(tree.roots)} roots of {tree.leaves} leaves: a tree has one, or one for each"
        )


def _check_format(name: str) -> None:
    if name not in _SUMS:
        raise ParameterError(f"format={name!r}: sums are rounded to {', '.join(_SUMS)}")


# What the fields of records hold, by their annotations.


_hints = cache(get_type_hints)


def _check_types(record: Any, seen: set[int]) -> None:
    """Raises ParameterError for a field that does not hold what its class says; nodes share operations, and each is seen once."""
    if id(record) in seen:
        return
    seen.add(id(record))
    kind: Any = type(record)
    for name, hint in _hints(kind).items():
        value = getattr(record, name)
        if not _fits(value, hint, seen):
            raise ParameterError(f"{kind.__name__}.{name} = {value!r:.60}: it is no {hint}")


def _fits(value: Any, hint: Any, seen: set[int]) -> bool:
    origin, within = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, each, seen) for each in within)
    if origin is Literal:
        return any(type(value) is type(each) and value == each for each in within)
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        of_each = (within[0],) * len(value) if within[-1] is Ellipsis else within
        return len(value) == len(of_each) and all(
            _fits(one, each, seen) for one, each in zip(value, of_each, strict=True)
        )
    if not isinstance(hint, type) or type(value) is not hint:
        return False
    if dataclasses.is_dataclass(value):
        _check_types(value, seen)
    return True
