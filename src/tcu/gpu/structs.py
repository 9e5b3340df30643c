"""Structures and constants that the host shares with the GPU: declared once, in Python, beside the code that fills them.

Where a CUDA source says ``#include "generated/rows/Rows.inc"``, the compiler reads what ``Rows`` of ``tcu.gpu.rows``
is in CUDA's words: a structure, or constants.
"""

from __future__ import annotations

import ctypes
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from textwrap import dedent
from typing import Any, ClassVar, TypeVar

__all__ = ["Struct", "constants", "generated", "struct"]

_T = TypeVar("_T", bound="Struct")

_TYPES = {
    "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "u32": ctypes.c_uint32, "int": ctypes.c_int32, "double": ctypes.c_double,
}  # fmt: skip
_FIELDS = re.compile(r"^\s*(?:const )?([\w:]+)(\*?) ([^;/]+);", re.MULTILINE)


class Struct(ctypes.Structure):
    """A structure that kernels take, or a part of one, with the mark :func:`struct`."""

    cuda: ClassVar[str]
    """Its fields as CUDA says them, one type a line; lengths and structures in it are names of its module."""
    name: ClassVar[str]
    """What kernels call it."""

    @classmethod
    def text(cls) -> str:
        """In CUDA's words."""
        known = vars(sys.modules[cls.__module__])
        fields = re.sub(
            r"\[([A-Z_]+)\](?=[,;])", lambda found: f"[{known[found[1]]}]", dedent(cls.cuda).strip("\n")
        )
        return f"struct {cls.name} {{\n{re.sub('^', '    ', fields.rstrip(), flags=re.MULTILINE)}\n}};\n"

    @classmethod
    def offset(cls, path: str) -> int:
        """Where a field begins, such as "x.data", in bytes."""
        first, _, rest = path.partition(".")
        kinds: dict[str, Any] = {name: kind for name, kind, *_ in cls._fields_}
        return int(getattr(cls, first).offset) + (kinds[first].offset(rest) if rest else 0)


def struct(name: str = "", **kinds: Any) -> Callable[[type[_T]], type[_T]]:
    """Gives a class its fields.

    ``name``: what kernels call it, if not as Python does; ``kinds``: the types that macros in it stand for.
    """

    def declare(own: type[_T]) -> type[_T]:
        own.name = name or own.__name__
        own._fields_ = list(_fields(own.cuda, {**vars(sys.modules[own.__module__]), **_TYPES, **kinds}))
        return own

    return declare


def _fields(cuda: str, scope: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for kind, pointer, names in _FIELDS.findall(cuda):
        one = ctypes.c_uint64 if pointer else scope[kind.rpartition("::")[2]]
        for declared in names.split(","):
            name, _, length = declared.strip().rstrip("]").partition("[")
            yield name, one * (int(length) if length.isdigit() else scope[length]) if length else one


def constants(kind: str = "int", **values: int) -> str:
    """Numbers that CUDA sources know by these names."""
    return "".join(f"constexpr {kind} {name} = {value};\n" for name, value in values.items())


def generated(path: str) -> str:
    """The text of such a file: of a structure, of constants, or what a function makes of numbers that are elsewhere."""
    _, module, name = path.removesuffix(".inc").split("/")
    item = getattr(importlib.import_module(f"tcu.gpu.{module}"), name)
    if isinstance(item, type):
        return str(item.text())  # type: ignore[attr-defined]
    return str(item() if callable(item) else item)
