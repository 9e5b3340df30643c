"""Plans as JSON: every record with the name of its class, what is repeated once."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tcu.errors import DataFileError, ParameterError, TcuError

__all__ = ["document", "read", "record_of", "write"]

_FORMAT = "tcu plan"
_VERSION = 1
"""Of the file's layout; the plan has a version of its own."""


def document(record: Any) -> dict[str, Any]:
    """A record of dataclasses, tuples, numbers and texts, as JSON has it."""
    shared: list[Any] = []
    places: dict[Any, int] = {}

    def data(value: Any) -> Any:
        if isinstance(value, tuple):
            return [data(each) for each in value]
        if not dataclasses.is_dataclass(value):
            return value
        if type(value).__name__ == "TreeNode":  # the place of its operation, and its inputs
            operation = vars(value)["operation"]
            if operation not in places:
                places[operation] = len(shared)
                shared.append(data(operation))
            return [places[operation], *vars(value)["inputs"]]
        fields = {field.name: data(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": type(value).__name__} | fields

    return {"format": _FORMAT, "version": _VERSION, "plan": data(record), "operations": shared}


def write(record: Any, path: str | Path) -> None:
    """The document of a record in a file; raises DataFileError, or ParameterError for what is no path."""
    file = _file(path)
    try:
        file.write_text(json.dumps(document(record)) + "\n", encoding="utf-8")
    except OSError as error:
        raise DataFileError(f"cannot write {path}: {error.strerror or error}: choose another place") from None


def read(path: str | Path, kinds: Mapping[str, Callable[..., Any]], node: type) -> Any:
    """The record in a file that :func:`write` wrote, made by what makes each of its ``kinds``.

    Raises DataFileError, or ParameterError for what is no path.
    """
    file = _file(path)
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror or error}") from None
    except (ValueError, RecursionError):
        raise _no_plan(path, "it is not JSON") from None
    return record_of(found, kinds, node, path)


def record_of(document: Any, kinds: Mapping[str, Callable[..., Any]], node: type, path: str | Path) -> Any:
    """The record that a document, of the file ``path``, was made of; raises DataFileError."""
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise _no_plan(path, f"it does not say that its format is {_FORMAT!r}")
    if document.get("version") != _VERSION:
        raise _no_plan(path, f"its version is {document.get('version')!r}, and this tcu reads {_VERSION}")

    def shared(place: Any) -> Any:
        if type(place) is not int or place < 0:
            raise TypeError(f"operation {place!r}")
        return operations[place]

    def record(data: Any) -> Any:
        if isinstance(data, list):
            return tuple(record(each) for each in data)
        if not isinstance(data, dict):
            return data
        fields = {name: record(value) for name, value in data.items() if name not in ("kind", "nodes")}
        if "nodes" in data:
            fields["nodes"] = tuple(node(shared(place), tuple(inputs)) for place, *inputs in data["nodes"])
        return kinds[data["kind"]](**fields)

    try:
        operations = [record(each) for each in document["operations"]]
        return record(document["plan"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError, TcuError) as error:
        raise _no_plan(path, f"{type(error).__name__}: {error}") from None


def _file(path: str | Path) -> Path:
    try:
        return Path(path)
    except TypeError:
        raise ParameterError(
            f"path is of type {type(path).__name__}: give the path of a plan's file, such as 'plan.json'"
        ) from None


def _no_plan(path: str | Path, why: str) -> DataFileError:
    return DataFileError(
        f"{path} holds no plan ({why}): write one with Plan.save, or tcu reveal ... -o {path}"
    )
