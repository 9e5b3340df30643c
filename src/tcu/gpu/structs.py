"""Structures and constants that the host shares with the GPU: declared once, in Python, beside the code that fills them.

Where a CUDA source says ``#include "generated/rows/Rows.inc"``, the compiler reads what ``Rows`` of ``tcu.gpu.rows``
is in CUDA's words: a structure, or constants.
"""

from __future__ import annotations

import ctypes
import re
import sys
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

__all__ = ["Struct", "constants", "generated", "struct"]

_TYPES = {
    "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "u32": ctypes.c_uint32, "int": ctypes.c_int32, "double": ctypes.c_double,
}  # fmt: skip
_FIELDS = re.compile(r"^\s*(?:const )?([\w:]+)(\*?) ([^;/]+);", re.MULTILINE)


class Struct(ctypes.Structure):
    """A structure that kernels take, or a part of one."""

    cuda: ClassVar[str]
    """Its fields as CUDA says them, one type a line."""
    alignment: ClassVar[int] = 0
    """Bytes at whose multiples it lies on the GPU; 0: as its fields do.  What holds it is padded to a multiple by hand."""

    @classmethod
    def text(cls) -> str:
        """In CUDA's words."""
        aligned = f"alignas({cls.alignment}) " if cls.alignment else ""
        return f"struct {aligned}{cls.__name__} {{\n{cls.cuda}}};\n"

    @classmethod
    def offset(cls, path: str) -> int:
        """Where a field begins, such as "x.data", in bytes."""
        first, _, rest = path.partition(".")
        kinds: dict[str, Any] = {name: kind for name, kind, *_ in cls._fields_}
        return int(getattr(cls, first).offset) + (kinds[first].offset(rest) if rest else 0)


def struct(name: str, cuda: str, alignment: int = 0, **kinds: Any) -> type[Struct]:
    """The structure that kernels know by that name; ``kinds``: the types that macros in its fields stand for."""
    known = {each.__name__: each for each in Struct.__subclasses__()}
    members = {
        "cuda": cuda.lstrip("\n"),
        "alignment": alignment,
        "_fields_": list(_fields(cuda, {**_TYPES, **known, **kinds})),
    }
    kind: Any = type(Struct)
    made: type[Struct] = kind(name, (Struct,), members)
    return made


def _fields(cuda: str, types: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for kind, pointer, names in _FIELDS.findall(cuda):
        one = ctypes.c_uint64 if pointer else types[kind.rpartition("::")[2]]
        for declared in names.split(","):
            name, _, length = declared.strip().rstrip("]").partition("[")
            yield name, one * int(length) if length else one


def constants(kind: str = "int", **values: int) -> str:
    """Numbers that CUDA sources know by these names."""
    return "".join(f"constexpr {kind} {name} = {value};\n" for name, value in values.items())


def generated(path: str) -> str:
    """The text of such a file: of a structure, of constants, or what a function makes of numbers that are elsewhere."""
    _, module, name = path.removesuffix(".inc").split("/")
    # Who compiles a kernel has imported what fills its structures; to import it from here would be a circle.
    item = getattr(sys.modules[f"tcu.gpu.{module}"], name)
    if isinstance(item, type):
        return str(item.text())  # type: ignore[attr-defined]
    return str(item() if callable(item) else item)
