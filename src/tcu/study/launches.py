"""What decides how fast the kernels of one module of tcu.gpu are: their sources, and the Python that chooses and starts them.

From texts alone, path in tcu → text, so that it can be told of any commit.  Of other modules only the definitions count
that the module needs.  Comments, docstrings and blank lines do not: what was measured is often written down there, and
changes nothing that runs.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache

__all__ = ["launching", "sources_of", "without_words"]

_CUDA, _KERNELS = "gpu/cuda/", "gpu/cuda/kernels/"
_HOST = (
    "__init__", "cache", "compiler", "configs", "device", "errors", "functions", "imports", "kernels", "tune", "tuning", "workspace",
)  # fmt: skip
"""Modules of tcu.gpu that launch nothing of their own."""
_PASSED = ("cache", "device", "errors", "functions", "imports", "workspace")
"""Of these the ones that every call goes through: they take host time, which is that of the whole folder."""
_TABLE = "KERNELS"
"""Of configs.py: it names all configurations, of which a module needs its own."""
_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_CUDA_WORDS = re.compile(r'("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')|//[^\n]*|/\*.*?\*/', re.DOTALL)
_GENERATED = "generated/"

Definition = tuple[str, str]
"""Module of tcu.gpu and name."""


@dataclass(frozen=True)
class _Module:
    definitions: Mapping[str, tuple[str, frozenset[str], frozenset[str]]]
    """Name → text, names in it, strings in it."""
    imports: Mapping[str, Definition]


def launching(texts: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """The modules of tcu.gpu that launch kernels, with what is of them; without those, of older sources, that
    include or import what is not found.
    """
    found = {}
    for path in sorted(texts):
        module = path.removeprefix("gpu/").removesuffix(".py")
        if path == f"gpu/{module}.py" and "/" not in module and module not in _HOST:
            with contextlib.suppress(KeyError):
                sources = sources_of(module, texts)
                if any(each.startswith(_KERNELS) for each in sources):
                    found[module] = sources
    return found


def sources_of(module: str, texts: Mapping[str, str]) -> dict[str, str]:
    """Path, or path and name of a definition → text, without words.

    Raises KeyError where something includes or imports what is not there.
    """
    root = f"gpu/{module}.py"
    found = {root: without_words(root, texts[root])}
    seen: set[Definition] = set()
    pending = [(module, name) for name in _module(texts[root]).definitions]
    while pending:
        where, name = pending.pop()
        if (where, name) in seen or where in _PASSED or (where, name) == ("configs", _TABLE):
            continue
        seen.add((where, name))
        path = f"gpu/{where}.py"
        own = _module(texts[path])
        if name in own.imports:
            pending.append(own.imports[name])
            continue
        text, names, strings = own.definitions[name]
        if where != module:
            found[f"{path} {name}"] = without_words(path, text)
        pending += [(where, each) for each in names if each in own.definitions]
        pending += [own.imports[each] for each in names if each in own.imports]
        for kernel in strings:
            for source in _included(f"{_KERNELS}{kernel}.cu", texts):
                if source.startswith(_GENERATED):
                    pending.append(_generated(source))
                else:
                    found[source] = without_words(source, texts[source])
    engines = re.compile(rf"^from tcu\.gpu\.{module} import ", re.MULTILINE)
    found |= {
        path: without_words(path, text) for path, text in texts.items()
        if path.startswith("engines/cuda/") and engines.search(text)
    }  # fmt: skip
    return found | _tuned(seen, texts)


def _generated(include: str) -> Definition:
    _, module, name = include.removesuffix(".inc").split("/")
    return module, name


def _included(kernel: str, texts: Mapping[str, str]) -> set[str]:
    """A kernel's source with what it includes, directly or through others; nothing where there is no such kernel."""
    found: set[str] = set()
    pending = [kernel] if kernel in texts else []
    while pending:
        path = pending.pop()
        if path not in found:
            found.add(path)
            for name in _INCLUDE.findall("" if path.startswith(_GENERATED) else texts[path]):
                own = name if "/" in name else f"kernels/{name}"
                pending.append(name if name.startswith(_GENERATED) else f"{_CUDA}{own}")
    return found


@cache
def _module(text: str) -> _Module:
    lines = text.splitlines(keepends=True)
    definitions: dict[str, tuple[str, frozenset[str], frozenset[str]]] = {}
    imports: dict[str, Definition] = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            where = (node.module or "").removeprefix("tcu.gpu.")
            if where != node.module:
                imports |= {each.asname or each.name: (where, each.name) for each in node.names}
            continue
        inside = list(ast.walk(node))
        begin = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        entry = (
            "".join(lines[begin - 1 : node.end_lineno]),
            frozenset(each.id for each in inside if isinstance(each, ast.Name)),
            frozenset(
                each.value
                for each in inside
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            ),
        )
        definitions |= dict.fromkeys(_defined(node), entry)
    return _Module(definitions, imports)


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        yield node.name
    for target in getattr(node, "targets", [getattr(node, "target", None)]):
        if target is not None:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _tuned(seen: set[Definition], texts: Mapping[str, str]) -> dict[str, str]:
    """The rows of tuning.json whose classes are needed."""
    table = _module(texts["gpu/configs.py"]).definitions.get(_TABLE) if "gpu/configs.py" in texts else None
    (kinds,) = ast.parse(table[0]).body if table else (None,)
    if not isinstance(kinds, ast.AnnAssign) or not isinstance(kinds.value, ast.Dict):
        return {}
    kernels = {
        str(key.value) for key, kind in zip(kinds.value.keys, kinds.value.values, strict=True)
        if isinstance(key, ast.Constant) and isinstance(kind, ast.Name) and ("configs", kind.id) in seen
    }  # fmt: skip
    rows = {
        capability: {name: row[name] for name in sorted({"resident_blocks", *kernels} & {*row})}
        for capability, row in json.loads(texts["gpu/tuning.json"]).items()
    }
    return {"gpu/tuning.json": json.dumps(rows)} if kernels else {}


@cache
def without_words(path: str, text: str) -> str:
    """A source without comments, docstrings and blank lines."""
    if path.endswith(".py"):
        text = _python(text)
    elif path.endswith((".cu", ".cuh")):
        text = _CUDA_WORDS.sub(lambda match: match[1] or " ", text)
    return "\n".join(" ".join(line.split()) for line in text.splitlines() if line.strip())


def _python(text: str) -> str:
    lines = text.splitlines(keepends=True)
    cut: dict[int, list[tuple[int, int]]] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            cut.setdefault(token.start[0], []).append((token.start[1], token.end[1]))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            for row in range(node.lineno, (node.end_lineno or node.lineno) + 1):
                cut[row] = [(0, len(lines[row - 1]))]
    for row, spans in cut.items():
        for begin, end in reversed(spans):
            lines[row - 1] = lines[row - 1][:begin] + lines[row - 1][end:]
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
