"""What an operation is: one record, from which functions, operators of PyTorch, Dask, ranks and tests are made.

A reduction of a program's own is three functions: ``share`` makes of rows what later steps need,
``merge`` puts the shares of parts of a row together in any order, and
``finished`` makes the results.  A program may register operations of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError, UnknownOptionError, nearest, unknown_name
from tcu.ops.layout import LABELS, Along, Layout, Ragged, Whole
from tcu.ops.options import OPTIONS, defaults
from tcu.plan import SCAN_VARIANTS, VARIANTS

__all__ = [
    "OPERATIONS",
    "Call",
    "Finish",
    "Operation",
    "Term",
    "find_operation",
    "register",
    "unknown_option",
]

Kind = Literal["reduce", "scan", "map"]
Arithmetic = Literal["planned", "exact", "exponentials", "norms", "own"]
Term = Literal["value", "product", "square", "moments"]
Finish = Literal[
    "sum",
    "mean",
    "root",
    "variance",
    "deviation",
    "share",
    "log_share",
    "log",
    "unit",
    "standard",
    "direction",
]
EVERYWHERE: tuple[type[Layout], ...] = (Whole, Along, Ragged)
Values = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Operation:
    """One operation; two are the same if they are one object."""

    name: str
    kind: Kind = "reduce"
    """What becomes of a row: a number, as many running sums, or as many numbers that each depend on all of it."""
    arithmetic: Arithmetic = "planned"
    """By a plan, from the exact sum, from the sum of exponentials (:mod:`tcu.model.exponentials`) or of
    squares (:mod:`tcu.model.norms`) of whole rows, or by functions of its own (``share``, ``merge``, ``finished``)."""
    operands: tuple[str, ...] = ("x",)
    term: Term = "value"
    """What is added up: elements, products of two operands, squares of one, or both elements and squares (moments)."""
    finish: Finish = "sum"
    """What becomes of the total: itself, divided by the number of elements, or its root; of moments and
    exponentials, what they are for."""
    options: tuple[str, ...] = ("dtype",)
    """Names of :data:`tcu.ops.options.OPTIONS` in the order in which they travel; ``dtype`` is the last."""
    details: tuple[str, ...] = ()
    """What the function tells besides: "return_info", "progress"."""
    layouts: tuple[type[Layout], ...] = EVERYWHERE
    documentation: str = ""
    """The function's docstring."""
    segments: str = ""
    """The docstring of the function of ragged segments."""
    share: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None = None
    """Of an operation of its own: rows (r, n) to shares (r, s)."""
    merge: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] | None = None
    """Shares of parts (p, r, s) to shares (r, s), in any order."""
    finished: Callable[[npt.NDArray[Any], int], Values] | None = None
    """Shares (r, s) of rows of n elements to results (r,), in binary64."""
    derivative: Any = None
    """Of an operation of its own: (torch, x, axes, result) to d result / d x; None: no gradient."""

    defaults: tuple[Any, ...] = field(init=False, repr=False)
    """Of the options: made once, as a call on a GPU takes few microseconds."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "defaults", defaults(self.options))

    @property
    def variants(self) -> Mapping[str, Any]:
        """By name, the ways that the option ``variant`` chooses from."""
        return SCAN_VARIANTS if self.kind == "scan" else VARIANTS

    @property
    def exact(self) -> bool:
        return self.arithmetic == "exact"

    @property
    def product(self) -> bool:
        """Whether what is added up are products alone."""
        return self.term in ("product", "square")

    @property
    def adds_up(self) -> bool:
        """Whether what is added up are the elements themselves."""
        return self.term == "value" and self.arithmetic in ("planned", "exact")

    @property
    def moments(self) -> bool:
        return self.term == "moments"

    @property
    def tallies(self) -> tuple[bool, ...]:
        """The exact sums that a share has besides its count: for each, whether it is one of products."""
        return (False, True) if self.moments else (self.exact and self.product,)

    @property
    def on_gpu(self) -> tuple[type[Layout], ...]:
        """The layouts for which there are kernels."""
        if self.arithmetic == "own" or (self.exact and (self.moments or self.kind == "scan")):
            return ()
        if self.product and self.exact:
            return (Whole,)
        segments = self.in_parts and len(self.operands) == 1
        return tuple(each for each in self.layouts if segments or each is not Ragged)

    @property
    def in_parts(self) -> bool:
        """Whether parts of a row, in chunks, ranks or files, have shares that merge; else it takes whole rows."""
        return self.arithmetic not in ("exponentials", "norms")

    @property
    def over_ranks(self) -> bool:
        """Whether ranks that each have a part of every row can put results together."""
        return self.in_parts or (self.arithmetic == "exponentials" and self.kind == "reduce")

    @property
    def of_integers(self) -> bool:
        """Whether it adds up elements alone, and so takes integers, exactly."""
        return self.term == "value" and self.arithmetic in ("planned", "exact")

    @property
    def mean(self) -> bool:
        return self.finish == "mean"

    @property
    def root(self) -> bool:
        """Whether a root is taken in the end."""
        return self.finish in ("root", "deviation")

    def __repr__(self) -> str:
        return f"<operation {self.name}>"

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Any, ...]:
        return find_operation, (self.name,)

    def values(
        self, given: dict[str, Any], beside: Sequence[str] = (), function: str | None = None
    ) -> tuple[Any, ...]:
        """The options of a call, in the order in which they travel.

        Raises UnknownOptionError for one that the operation does not have, with the name of the function that was called (None: the
        operation's), and what it takes beside options.
        """
        if not given:
            return self.defaults
        for name in given:
            if name not in self.options:
                raise unknown_option(function or self.name, name, self.options, beside)
            check = OPTIONS[name].check
            if check is not None:
                given[name] = check(name, given[name])
        return tuple(map(given.get, self.options, self.defaults))

    def option(self, name: str, values: Sequence[Any]) -> Any:
        """One of the options, which the operation has."""
        return values[self.options.index(name)]

    def correction(self, values: Sequence[Any]) -> float:
        """What a variance takes off the number of elements."""
        return float(self.option("correction", values)) if self.moments else 0.0

    def eps(self, values: Sequence[Any], work: npt.DTypeLike) -> float:
        """What is added to a mean square, or the least norm, of rows that are computed in binary32 or binary64."""
        given = self.option("eps", values)
        if given is not None:
            return float(given)
        # As PyTorch has them.
        return {"standard": 1e-5, "direction": 1e-12}.get(self.finish, float(np.finfo(work).eps))

    def check_layout(self, layout: Layout) -> None:
        """Raises ParameterError for a layout that the operation does not have."""
        if type(layout) not in self.layouts:
            served = ", ".join(LABELS[each] for each in self.layouts)
            raise ParameterError(f"{self.name} does not take {LABELS[type(layout)]}, only {served}")


class Call(NamedTuple):
    """A call as it travels from the function to whoever executes it."""

    operation: Operation
    arrays: tuple[Any, ...]
    layout: Layout
    options: tuple[Any, ...]
    out: Any = None
    return_info: bool = False
    progress: Callable[[int], None] | None = None

    @property
    def dtype(self) -> Any:
        return self.options[-1]

    def option(self, name: str) -> Any:
        return self.operation.option(name, self.options)


OPERATIONS: dict[str, Operation] = {}


_ELSEWHERE = {"ddof": "correction"}
"""NumPy's names of options."""
_KNOWN = {*OPTIONS, "axis", "keepdims", "where", "out"}
"""What other functions take is not misspelt."""


def unknown_option(
    function: str, given: str, options: Sequence[str], beside: Sequence[str] = ()
) -> UnknownOptionError:
    """The error for an option that a function does not have; beside: what else it takes."""
    names = [*options, *beside]
    named = _ELSEWHERE.get(given)
    hint = f"did you mean {named}? " if named in names else "" if given in _KNOWN else nearest(given, names)
    more = f", beside {', '.join(beside)}" if beside else ""
    return UnknownOptionError(
        f"{function} has no option {given!r}: {hint}its options are {', '.join(options)}{more}"
    )


def register(operation: Operation) -> Operation:
    """Make an operation known by its name; raises ParameterError for a name that is taken."""
    if operation.name in OPERATIONS:
        raise ParameterError(f"there is an operation {operation.name!r} already: choose another name")
    if operation.arithmetic == "own" and None in (operation.share, operation.merge, operation.finished):
        raise ParameterError(f"the operation {operation.name!r} needs share, merge and finished")
    OPERATIONS[operation.name] = operation
    return operation


def find_operation(name: str) -> Operation:
    """Raises UnknownNameError."""
    try:
        return OPERATIONS[name]
    except KeyError:
        raise unknown_name("operation", name, OPERATIONS) from None
