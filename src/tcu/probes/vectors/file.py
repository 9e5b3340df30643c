"""Vectors and the file that holds them, format version 2.

A compressed .npz archive, read without pickle.  For every instruction NAME =
name-input[-input of B]-output-kK, such as ``mma-binary16-binary32-k16``, four
arrays of code words (unsigned, of the format's storage width; a TF32 word is a
whole binary32 word) hold T matrix products D = A·B + C:

- ``NAME/a`` of shape [T, M, k], ``NAME/b`` of [T, k, N],
- ``NAME/c`` and ``NAME/d`` of [T, M, N].

One text, ``about`` (0-dimensional, Unicode), is a JSON object:

- ``format``: "tcu vectors"; ``version``: 2;
- ``machine``: ``kind`` ("gpu", "cpu", or "model" for a model of the catalogue),
  ``name``, ``compute_capability`` ("9.0"; of a processor "-"), and the versions ``driver``,
  ``cuda`` and ``nvrtc``, null where unknown;
- ``tcu``: the version that wrote it; ``date``: UTC, ISO 8601; ``seed``;
- ``instructions``: NAME → ``instruction``, ``a``, ``b``, ``output``,
  ``shape`` [m, n, k], and ``kinds``: the kind of question of every T.

A reader refuses a version that it does not know; a change of any of this takes
the next number.  Version 1 had no machine of kind "cpu"; it is read as well.
"""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tcu.errors import DataFileError, TcuError
from tcu.formats.format import FORMATS, get_format
from tcu.probes.target import Codes, unknown_arithmetic
from tcu.units.instruction import Instruction

__all__ = ["Entry", "Machine", "Vectors", "name_of"]

FORMAT, VERSIONS = "tcu vectors", (1, 2)
_ABOUT = "about"
_AGAIN = "collect it again with tcu collect"


@dataclass(frozen=True)
class Machine:
    """What answered."""

    kind: Literal["gpu", "cpu", "model"]
    name: str
    """As the driver calls the GPU, or the processor itself; or the model's name in the catalogue."""
    compute_capability: str
    driver: str | None = None
    cuda: str | None = None
    """The CUDA version that the driver knows."""
    nvrtc: str | None = None
    """The version of the compiler."""


@dataclass(frozen=True)
class Entry:
    """The vectors of one instruction: words of T products D = A·B + C."""

    row: Instruction
    """Name, formats and shape; the arithmetic says nothing."""
    kinds: tuple[str, ...]
    """The kind of question of every t."""
    a: Codes
    b: Codes
    c: Codes
    d: Codes

    @property
    def name(self) -> str:
        return name_of(self.row)

    @property
    def outputs(self) -> int:
        return int(self.d.size)


@dataclass(frozen=True)
class Vectors:
    """What one machine returned."""

    machine: Machine
    entries: Mapping[str, Entry]
    """By name, in the order of collection."""
    seed: int
    date: str
    """UTC, ISO 8601."""
    tcu: str
    """The version that collected them."""

    @property
    def outputs(self) -> int:
        return sum(entry.outputs for entry in self.entries.values())

    def save(self, path: str | Path) -> None:
        """Write the file; raises DataFileError where that is not possible."""
        arrays: dict[str, Any] = {_ABOUT: np.array(json.dumps(self._about(), indent=1))}
        for name, entry in self.entries.items():
            arrays |= {f"{name}/{part}": getattr(entry, part) for part in "abcd"}
        packed = io.BytesIO()
        np.savez_compressed(packed, **arrays)
        try:
            Path(path).write_bytes(packed.getvalue())
        except OSError as error:
            raise DataFileError(
                f"cannot write {path}: {error.strerror or error}: choose another place"
            ) from None

    def _about(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "version": VERSIONS[-1],
            "machine": asdict(self.machine),
            "tcu": self.tcu,
            "date": self.date,
            "seed": self.seed,
            "instructions": {
                name: {
                    "instruction": entry.row.name,
                    "a": entry.row.a,
                    "b": entry.row.b,
                    "output": entry.row.output,
                    "shape": list(entry.row.shape),
                    "kinds": list(entry.kinds),
                }
                for name, entry in self.entries.items()
            },
        }

    @classmethod
    def load(cls, path: str | Path) -> Vectors:
        """Read a file; raises DataFileError for anything that is not whole, or not such a file."""
        try:
            return _parse(_read(Path(path)))
        except _UnusableError as error:
            raise DataFileError(f"{path}: {error}") from None


def name_of(row: Instruction) -> str:
    """The instruction's name in files, such as "mma-binary16-binary32-k16"."""
    inputs = row.a if row.a == row.b else f"{row.a}-{row.b}"
    return f"{row.name}-{inputs}-{row.output}-k{row.k}"


class _UnusableError(Exception):
    """What is wrong with the file, and the next step."""


def _read(path: Path) -> dict[str, Codes]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise _UnusableError(f"cannot read it: {error.strerror or error}: check the path") from None
    if not data.startswith(b"PK"):
        raise _UnusableError("not a .npz file: give one that tcu collect wrote")
    try:
        with warnings.catch_warnings(), np.load(io.BytesIO(data), allow_pickle=False) as archive:
            warnings.simplefilter("ignore")  # NumPy wonders at damaged headers, which are refused below
            return {key: np.asarray(archive[key]) for key in archive.files}
    except Exception as error:  # whatever NumPy, zipfile and tokenize make of damaged bytes
        reason = (str(error).strip() or "unexpected end").splitlines()[0].rstrip(".")
        raise _UnusableError(f"damaged or not complete ({reason}): copy it anew, or {_AGAIN}") from None


def _parse(arrays: dict[str, Codes]) -> Vectors:
    about = _about_of(arrays)
    listed = _field(about, "instructions", dict)
    if not listed:
        raise _UnusableError(f"it lists no instruction: {_AGAIN}")
    expected = {_ABOUT} | {f"{name}/{part}" for name in listed for part in "abcd"}
    foreign = sorted(arrays.keys() - expected)
    if foreign:
        raise _UnusableError(f"it holds {foreign[0]!r}, which its text does not list: {_AGAIN}")
    return Vectors(
        machine=_machine(_field(about, "machine", dict)),
        entries={name: _entry(name, row, arrays) for name, row in listed.items()},
        seed=_field(about, "seed", int),
        date=_field(about, "date", str),
        tcu=_field(about, "tcu", str),
    )


def _about_of(arrays: dict[str, Codes]) -> dict[str, Any]:
    if _ABOUT not in arrays:
        raise _UnusableError(
            f"it has no {_ABOUT!r}, so it is no file of vectors: give one that tcu collect wrote"
        )
    text = arrays[_ABOUT]
    if text.shape != () or text.dtype.kind != "U":
        raise _UnusableError(f"its {_ABOUT!r} is {text.dtype} {text.shape}, not one text: {_AGAIN}")
    try:
        about = json.loads(str(text))
    except (ValueError, RecursionError) as error:
        raise _UnusableError(f"its {_ABOUT!r} is no JSON ({error}): {_AGAIN}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise _UnusableError(f"its {_ABOUT!r} is not that of {FORMAT}: give a file that tcu collect wrote")
    version = _field(about, "version", int)
    if version not in VERSIONS:
        known = " and ".join(map(str, VERSIONS))
        raise _UnusableError(f"format version {version}, this tcu reads {known}: update tcu")
    return about


def _field(record: dict[str, Any], key: str, kind: type, where: str = _ABOUT) -> Any:
    value = record.get(key)
    if not isinstance(value, kind) or isinstance(value, bool):
        shown = "missing" if key not in record else f"{value!r:.40}, not {_KINDS[kind]}"
        raise _UnusableError(f"{key!r} of {where!r} is {shown}: {_AGAIN}")
    return value


_KINDS = {dict: "an object", list: "a list", int: "a whole number", str: "a text"}


def _machine(record: dict[str, Any]) -> Machine:
    kind = _field(record, "kind", str, "machine")
    if kind not in ("gpu", "cpu", "model"):
        raise _UnusableError(f"'kind' of 'machine' is {kind!r}, not gpu, cpu or model: {_AGAIN}")
    needed = {key: _field(record, key, str, "machine") for key in ("name", "compute_capability")}
    versions = {
        key: None if record.get(key) is None else _field(record, key, str, "machine")
        for key in ("driver", "cuda", "nvrtc")
    }
    return Machine(kind, **needed, **versions)  # type: ignore[arg-type]


def _entry(name: str, record: Any, arrays: dict[str, Codes]) -> Entry:
    if not isinstance(record, dict):
        raise _UnusableError(f"{name!r} of 'instructions' is not an object: {_AGAIN}")
    row = _row(name, record)
    kinds = _field(record, "kinds", list, name)
    if not kinds or not all(isinstance(kind, str) for kind in kinds):
        raise _UnusableError(f"'kinds' of {name!r} is not a list of texts: {_AGAIN}")
    missing = [part for part in "abcd" if f"{name}/{part}" not in arrays]
    if missing:
        raise _UnusableError(f"it has no array {name}/{missing[0]}: {_AGAIN}")
    m, n = arrays[f"{name}/d"].shape[1:] if arrays[f"{name}/d"].ndim == 3 else (0, 0)
    if m * n == 0:
        raise _UnusableError(f"{name}/d has shape {arrays[f'{name}/d'].shape}, not [T, M, N]: {_AGAIN}")
    count = len(kinds)
    shapes = {"a": (count, m, row.k), "b": (count, row.k, n), "c": (count, m, n), "d": (count, m, n)}
    formats = {"a": row.a, "b": row.b, "c": row.output, "d": row.output}
    words = {
        part: _words(f"{name}/{part}", arrays[f"{name}/{part}"], shapes[part], formats[part])
        for part in "abcd"
    }
    return Entry(row, tuple(kinds), **words)


def _row(name: str, record: dict[str, Any]) -> Instruction:
    texts: list[str] = [_field(record, key, str, name) for key in ("instruction", "a", "b", "output")]
    shape = _field(record, "shape", list, name)
    if len(shape) != 3 or not all(type(extent) is int and extent > 0 for extent in shape):
        raise _UnusableError(f"'shape' of {name!r} is {shape}, not [m, n, k]: {_AGAIN}")
    unknown = [text for text in texts[1:] if text not in FORMATS]
    if unknown:
        raise _UnusableError(f"{name!r} has the format {unknown[0]!r}, unknown to this tcu: update tcu")
    try:
        instruction, a, b, output = texts
        m, n, k = shape
        row = Instruction(instruction, a, b, output, (m, n, k), unknown_arithmetic(output), ())
    except TcuError as error:
        raise _UnusableError(f"{name!r} is no instruction ({error}): {_AGAIN}") from None
    if name_of(row) != name:
        raise _UnusableError(f"{name!r} is described as {name_of(row)!r}: {_AGAIN}")
    return row


def _words(name: str, array: Codes, shape: tuple[int, ...], fmt: str) -> Codes:
    wanted = get_format(fmt).code_dtype
    if array.dtype.newbyteorder("=") != wanted:
        raise _UnusableError(f"{name} has dtype {array.dtype}, {fmt} words have {wanted}: {_AGAIN}")
    if array.shape != shape:
        raise _UnusableError(
            f"{name} has shape {array.shape}, the rest of the file asks for {shape}: {_AGAIN}"
        )
    return np.ascontiguousarray(array, wanted)
