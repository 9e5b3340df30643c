"""Replay vectors through the catalogue and compare every bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tcu.errors import DtypeError, UnknownNameError
from tcu.formats.array import decode_array
from tcu.formats.format import get_format
from tcu.probes.target import Codes
from tcu.probes.vectors.collection import replay
from tcu.probes.vectors.file import Entry, Vectors
from tcu.units.catalogue import CATALOGUE
from tcu.units.instruction import Unit
from tcu.units.lookup import find_instruction, get_unit, units_with

__all__ = ["Difference", "Replay", "Verification", "value_of", "verify"]


@dataclass(frozen=True)
class Difference:
    """One output on which the file and the model disagree; all numbers are code words."""

    t: int
    row: int
    column: int
    kind: str
    a: tuple[int, ...]
    """The row of A and the column of B, in k order."""
    b: tuple[int, ...]
    c: int
    recorded: int
    """What the machine returned."""
    model: int


@dataclass(frozen=True)
class Replay:
    """One instruction of the file, replayed."""

    entry: Entry
    outputs: int
    """Compared; 0 where the unit has no such instruction."""
    different: int
    kinds: tuple[str, ...]
    """Kinds of question with a difference."""
    first: Difference | None
    missing: str | None
    """Why nothing was compared."""


@dataclass(frozen=True)
class Verification:
    """A file against a unit."""

    vectors: Vectors
    unit: Unit
    replays: tuple[Replay, ...]
    others: tuple[tuple[str, int, int], ...] = ()
    """For a machine that the catalogue does not have: (unit, outputs, different) of all, best first."""

    @property
    def outputs(self) -> int:
        return sum(one.outputs for one in self.replays)

    @property
    def different(self) -> int:
        return sum(one.different for one in self.replays)

    @property
    def agrees(self) -> bool:
        """Something was compared, and every bit is the same."""
        return self.outputs > 0 and self.different == 0


def verify(
    vectors: Vectors,
    unit: str | Unit | None = None,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Verification:
    """Compare the vectors with a unit of the catalogue, bit for bit.

    Parameters
    ----------
    vectors:
        As :func:`collect` returns and :meth:`Vectors.load` reads them.
    unit:
        Whose model is compared; None: that of the machine, by its name and
        compute capability; of a processor, those that have the instructions.
        A GPU that the catalogue does not have is compared with every unit that
        has mma, and the one that agrees best is told.
    progress:
        Called after each instruction with how many are done, and of how many.
    """
    units = [get_unit(unit)] if unit is not None else _units_of(vectors)
    candidates = units or [get_unit(name) for name in units_with("mma")]
    total = len(candidates) * len(vectors.entries)
    found: list[Verification] = []
    for candidate in candidates:
        replays = []
        for entry in vectors.entries.values():
            replays.append(_replay(entry, candidate))
            if progress is not None:
                progress(len(found) * len(vectors.entries) + len(replays), total)
        found.append(Verification(vectors, candidate, tuple(replays)))
    if units:
        return found[0]
    # Whoever has fewer instructions must not win by being compared less.
    found.sort(key=lambda one: one.different - one.outputs)
    others = tuple((one.unit.name, one.outputs, one.different) for one in found)
    return Verification(vectors, found[0].unit, found[0].replays, others)


def value_of(word: int, fmt: str) -> float:
    """The number that a word of the format stands for."""
    row = get_format(fmt)
    return float(decode_array(np.array([word >> row.storage_shift], np.uint64), row)[0])


def _units_of(vectors: Vectors) -> list[Unit]:
    """The machine's own unit, or none where the catalogue has nothing of its kind."""
    machine = vectors.machine
    if machine.kind == "cpu":
        return _processors_unit(vectors)
    if machine.kind == "model":
        return [unit for unit in CATALOGUE.values() if unit.name == machine.name]
    same = [unit for unit in CATALOGUE.values() if unit.compute_capability == machine.compute_capability]
    return sorted(same, key=lambda unit: unit.name not in machine.name)[:1]


def _processors_unit(vectors: Vectors) -> list[Unit]:
    """A processor has instructions of several units: those of the file, as one."""
    names = {entry.row.name for entry in vectors.entries.values()}
    own = [unit for unit in CATALOGUE.values() if names & {row.name for row in unit.instructions}]
    if len(own) < 2:
        return own
    rows = tuple(row for unit in own for row in unit.instructions)
    return [
        Unit(" and ".join(unit.name for unit in own), vectors.machine.name, own[0].architecture, "-", rows)
    ]


def _replay(entry: Entry, unit: Unit) -> Replay:
    row = entry.row
    try:
        model = find_instruction(unit, row.name, row.a, row.b, row.output)
    except (DtypeError, UnknownNameError) as error:
        return Replay(entry, 0, 0, (), None, str(error))
    answer = replay(entry.a, entry.b, entry.c, model)
    wrong = np.argwhere(answer != entry.d)
    kinds = tuple(dict.fromkeys(entry.kinds[t] for t in wrong[:, 0]))
    first = _difference(entry, answer, *wrong[0].tolist()) if len(wrong) else None
    return Replay(entry, entry.outputs, len(wrong), kinds, first, None)


def _difference(entry: Entry, answer: Codes, t: int, i: int, j: int) -> Difference:
    return Difference(
        t, i, j, entry.kinds[t],
        tuple(entry.a[t, i].tolist()), tuple(entry.b[t, :, j].tolist()), int(entry.c[t, i, j]),
        int(entry.d[t, i, j]), int(answer[t, i, j]),
    )  # fmt: skip
