"""What a program on the (m, ℓ)-TCU machine did: every tensor call and every CPU step, by name.

Equal calls of one section are one entry with a count, so that a program of
10^9 calls has a ledger that fits on a screen.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tcu.errors import DataFileError, ParameterError

if TYPE_CHECKING:
    from rich.tree import Tree

__all__ = [
    "LARGEST",
    "Entry",
    "Ledger",
    "amount",
    "check_latency",
    "check_size",
    "check_units",
    "tensor_cost",
    "told",
]

Number = int | float
LARGEST = 10**60
"""Of m, ℓ and every size: costs and bounds, products of a few of them, then stay below what a float holds."""
_LONG = 10**24
"""From here on six digits of a number are shown."""
_FORMAT = "tcu-ledger-1"


@dataclass(frozen=True)
class Entry:
    """Equal tensor calls, or the CPU steps of one name, in one section."""

    path: tuple[str, ...]
    """The sections around it, outermost first."""
    kind: str
    """"tensor" or "step"."""
    name: str
    rows: int
    """n, the rows of the left operand of each tensor call; 0 for steps."""
    count: int
    """Tensor calls, or CPU operations."""
    cost: Number
    rounds: int | None = None
    """Of a machine of several units: how often some of them ran at once for these calls."""


def tensor_cost(rows: int, side: int, latency: Number) -> Number:
    """n·√m + ℓ, what one tensor call of n rows costs; fewer than √m rows are padded to √m (section 3)."""
    return max(rows, side) * side + latency


def told(value: object) -> str:
    """A parameter as messages name it: Python does not print integers of more than 4,300 digits."""
    if isinstance(value, tuple | list):
        return f"({', '.join(map(told, value))})"
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"about {'-' * (value < 0)}10^{round(value.bit_length() * math.log10(2))}"
    return repr(value)


def amount(value: Number) -> str:
    """A count or a cost for people to read."""
    if isinstance(value, int):
        return f"{value:,}" if value < _LONG else f"{value:.6g}" if value < LARGEST**5 else told(value)
    return f"{value:,.6g}"


def check_size(m: object) -> int:
    """√m.  Raises ParameterError unless m is a square of at least 1, and at most 10^60."""
    if isinstance(m, bool) or not isinstance(m, int) or not 1 <= m <= LARGEST or math.isqrt(m) ** 2 != m:
        near = max(1, round(float(m) ** 0.5)) ** 2 if isinstance(m, int | float) and 0 < m <= LARGEST else 256
        raise ParameterError(
            f"m={told(m)}: m is the number of entries of a square matrix √m × √m, such as {near}, "
            "and at most 10^60"
        )
    return math.isqrt(m)


def check_latency(latency: object) -> Number:
    """ℓ itself.  Raises ParameterError unless it is a number from 0 to 10^60."""
    if isinstance(latency, bool) or not isinstance(latency, int | float) or not 0 <= latency <= LARGEST:
        raise ParameterError(
            f"latency={told(latency)}: give a finite number of at least 0, in CPU operations, and at most 10^60"
        )
    return latency


def check_units(units: object) -> int:
    """p itself.  Raises ParameterError unless it is an integer from 1 to 10^60."""
    if isinstance(units, bool) or not isinstance(units, int) or not 1 <= units <= LARGEST:
        raise ParameterError(f"units={told(units)}: give how many units run at once, from 1 to 10^60")
    return units


_Key = tuple[tuple[str, ...], str, str, int]


@dataclass
class Ledger:
    """The calls and steps of a machine, in a tree of named sections."""

    m: int
    latency: Number
    units: int = 1
    """p: tensor calls that run at once, where programs have as many that do not wait for each other."""
    _counts: dict[_Key, int] = field(default_factory=dict)
    _rounds: dict[_Key, int] = field(default_factory=dict)
    """Of several units; one takes a round for each call."""

    def __post_init__(self) -> None:
        self._side = check_size(self.m)
        check_latency(self.latency)
        check_units(self.units)

    @property
    def side(self) -> int:
        """√m."""
        return self._side

    def add(
        self, path: tuple[str, ...], kind: str, name: str, rows: int, count: int, rounds: int | None = None
    ) -> None:
        """Calls or steps more; ``rounds``: in how many goes, None: one after another."""
        key = (path, kind, name, rows)
        self._counts[key] = self._counts.get(key, 0) + count
        if self.units > 1:
            self._rounds[key] = self._rounds.get(key, 0) + (count if rounds is None else rounds)

    def merge(self, path: tuple[str, ...], other: Ledger, times: int = 1) -> None:
        """All calls and steps of another ledger, as if they were made now, so often, in the section ``path``."""
        for (inner, kind, name, rows), count in other._counts.items():
            rounds = other._rounds.get((inner, kind, name, rows), count)
            self.add((*path, *inner), kind, name, rows, times * count, times * rounds)

    def clear(self) -> None:
        self._counts.clear()
        self._rounds.clear()

    def __iter__(self) -> Iterator[Entry]:
        for key, count in self._counts.items():
            path, kind, name, rows = key
            each = 1 if kind == "step" else tensor_cost(rows, self._side, self.latency)
            rounds = self._rounds.get(key, count)
            told = rounds if self.units > 1 and kind == "tensor" else None
            yield Entry(path, kind, name, rows, count, rounds * each, told)

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def entries(self) -> tuple[Entry, ...]:
        return tuple(self)

    @property
    def cost(self) -> Number:
        """The time of the program in CPU operations: all tensor calls and all steps."""
        return sum(entry.cost for entry in self)

    @property
    def tensor_calls(self) -> int:
        return sum(entry.count for entry in self if entry.kind == "tensor")

    @property
    def tensor_cost(self) -> Number:
        return sum(entry.cost for entry in self if entry.kind == "tensor")

    @property
    def tensor_rows(self) -> int:
        """Rows that went through the unit in all, padding included."""
        return sum(e.count * max(e.rows, self._side) for e in self if e.kind == "tensor")

    @property
    def steps(self) -> int:
        return sum(entry.count for entry in self if entry.kind == "step")

    def replay(self, *, m: int | None = None, latency: Number | None = None) -> Ledger:
        """The cost of the same calls on another machine.

        Another ℓ is exact: the calls stay what they are.  Another m keeps
        every product: n rows times a √m × √m matrix are done on a unit of
        side s by ⌈√m / s⌉² calls of n rows, their partial results added by
        ⌈√m / s⌉ - 1 steps for each entry of the product.  A program that knows s from the start may need
        fewer: run it on a machine of that m, with executor="count", for its
        own cost.

        Raises ParameterError for an m or ℓ that no machine has.
        """
        other = Ledger(self.m if m is None else m, self.latency if latency is None else latency, self.units)
        parts = -(-self._side // other.side)
        for entry in self:
            if entry.kind == "step":
                other.add(entry.path, entry.kind, entry.name, 0, entry.count)
                continue
            rounds = None if entry.rounds is None else entry.rounds * parts**2
            other.add(entry.path, entry.kind, entry.name, entry.rows, entry.count * parts**2, rounds)
            if parts > 1:
                sums = entry.count * entry.rows * self._side * (parts - 1)
                other.add(entry.path, "step", f"add parts of {entry.name}", 0, sums)
        return other

    def folded(self, depth: int) -> Ledger:
        """The same with all sections below ``depth`` taken together by kind, name and rows."""
        short = Ledger(self.m, self.latency, self.units)
        for entry in self:
            short.add(entry.path[:depth], entry.kind, entry.name, entry.rows, entry.count, entry.rounds)
        return short

    def merged(self, depth: int) -> tuple[Entry, ...]:
        """The entries of :meth:`folded`."""
        return self.folded(depth).entries

    def to_dict(self) -> dict[str, Any]:
        """The ledger as plain data: m, latency, cost, and every entry."""
        rows = [
            {"path": list(e.path), "kind": e.kind, "name": e.name, "rows": e.rows, "count": e.count, "cost": e.cost}
            | ({} if e.rounds is None else {"rounds": e.rounds})
            for e in self
        ]  # fmt: skip
        head = {"format": _FORMAT, "m": self.m, "latency": self.latency}
        several = {"units": self.units} if self.units > 1 else {}
        return head | several | {"cost": self.cost, "entries": rows}

    def to_json(self, indent: int | None = None) -> str:
        """The ledger as JSON, from which :meth:`from_json` makes it again."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> Ledger:
        """The ledger that :meth:`to_json` wrote.  Raises DataFileError for any other text."""
        try:
            data = json.loads(text)
            if data["format"] != _FORMAT:
                raise ValueError(f"format {data['format']!r}")
            ledger = cls(data["m"], data["latency"], data.get("units", 1))
            for row in data["entries"]:
                kind, count, rows = row["kind"], int(row["count"]), int(row["rows"])
                rounds = int(row.get("rounds", count))
                if (
                    kind not in ("tensor", "step")
                    or rows < 0
                    or not 0 <= rounds <= count <= ledger.units * rounds
                ):
                    raise ValueError(f"entry {row}")
                ledger.add(tuple(map(str, row["path"])), kind, str(row["name"]), rows, count, rounds)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise DataFileError(
                f"this text is no ledger ({type(error).__name__}: {error}): give what Ledger.to_json wrote"
            ) from error
        if ledger.cost != data.get("cost"):
            raise DataFileError(
                f"this ledger says that it costs {data.get('cost')}, and its entries cost {ledger.cost}: "
                "it was changed since Ledger.to_json wrote it"
            )
        return ledger

    def __rich__(self) -> Tree:
        """The tree of sections with their costs, for Rich's console."""
        from rich.text import Text
        from rich.tree import Tree

        total = self.cost
        several = f", {amount(self.units)} units" if self.units > 1 else ""
        tree = Tree(f"cost {amount(total)} on m = {amount(self.m)}, latency {amount(self.latency)}{several}")
        branches: dict[tuple[str, ...], Tree] = {(): tree}
        sums: dict[tuple[str, ...], Number] = {}
        for entry in self:
            for depth in range(1, len(entry.path) + 1):
                path = entry.path[:depth]
                sums[path] = sums.get(path, 0) + entry.cost
        for entry in self:
            for depth in range(1, len(entry.path) + 1):
                path = entry.path[:depth]
                if path not in branches:
                    share = f" ({sums[path] / total:.1%})" if total else ""
                    branches[path] = branches[path[:-1]].add(Text(f"{path[-1]}: {amount(sums[path])}{share}"))
            what = (
                f"{amount(entry.count)} × {amount(entry.rows)} rows"
                if entry.kind == "tensor"
                else f"{amount(entry.count)} steps"
            )
            if entry.rounds is not None:
                what += f" in {amount(entry.rounds)} rounds"
            branches[entry.path].add(Text(f"{entry.name}: {what}, cost {amount(entry.cost)}"))
        return tree

    def __str__(self) -> str:
        from rich.console import Console

        console = Console(file=io.StringIO(), width=160, color_system=None)
        console.print(self)
        assert isinstance(console.file, io.StringIO)
        return console.file.getvalue().rstrip("\n")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Ledger):
            return NotImplemented
        return (self.m, self.latency, self.units, self._counts, self._rounds) == (
            other.m, other.latency, other.units, other._counts, other._rounds,
        )  # fmt: skip

    __hash__ = None  # type: ignore[assignment]
