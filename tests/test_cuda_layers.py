"""Contract: the CUDA sources lie in layers that point down only, and a type's name means one thing.

The order of the layers is the table in ``tcu/gpu/cuda/README.md``.  A file
includes files of its own layer and of layers below it; kernels are included
by nobody.  What a file says it uses it includes, itself or through others:
a macro that is not defined would be zero in an ``#if``, without a word.  A
header's names are in the namespace of its layer.  No two files define a type
of the same name.  What Python writes ("generated/...") stands where it is included.  A wheel ships all of them.
"""

from __future__ import annotations

import pkgutil
import re
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path

import pytest
from cuda_layers import CUDA, LAYERS

import tcu.gpu
from tcu.gpu.compiler import read_sources

_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
_TYPE = re.compile(
    r"\b(?:struct|union|class|enum)\s+(?:alignas\((?:[^()]|\([^()]*\))*\)\s*)?(\w+)\s*(?::[^:{;]*)?$"
)
_ALIAS = re.compile(
    r"^(?:template\s*<[^>]*>\s*)?(?:typedef\b.*?(\w+)(?:\[\w+\])?|using\s+(\w+)\s*=.*)$", re.DOTALL
)
SOURCES = {
    path.relative_to(CUDA).as_posix(): path.read_text(encoding="utf-8")
    for path in sorted(CUDA.rglob("*")) if path.suffix in (".cu", ".cuh")
}  # fmt: skip
SHIPPED = tuple(SOURCES)
KERNELS = [name for name in SHIPPED if name.startswith("kernels/")]
for module in pkgutil.iter_modules(tcu.gpu.__path__, "tcu.gpu."):  # they fill the headers
    import_module(module.name)
for kernel in KERNELS:  # headers that are written when they are read, too
    SOURCES.update(
        (name, text) for name, text in read_sources(kernel.removeprefix("kernels/")) if "/" in name
    )
HEADERS = [name for name in SOURCES if name.startswith("device/")]


def layer_of(name: str) -> str:
    return name.split("/")[1] if name.startswith("device/") else name.split("/")[0]


def wrong_includes(sources: Mapping[str, str]) -> list[str]:
    """What points up, or to a kernel, or to nothing."""
    found = []
    for name, text in sources.items():
        if name.startswith("generated/"):
            continue
        own = LAYERS.index(layer_of(name))
        for included in _INCLUDE.findall(text):
            if included.startswith("generated/"):  # where it stands
                continue
            if not included.startswith("device/") or included not in sources:
                found.append(f"{name} includes {included}, which is no header of device")
            elif LAYERS.index(layer_of(included)) < own:
                found.append(f"{name} includes {included} of a layer above")
    return found


def plain(text: str) -> str:
    """Without comments and texts in quotes, and without what the preprocessor takes."""
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r'"(?:[^"\\]|\\.)*"', '""', text)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.MULTILINE)


def types_of(text: str) -> Iterator[str]:
    """The types that a file defines, in namespaces and in other types, but not in functions."""
    scopes, statement = [True], ""
    for token in re.finditer(r"[{};]|[^{};]+", plain(text)):
        if token[0] == "{":
            head = statement.strip()
            named = _TYPE.search(re.sub(r"<[^<>]*>\s*$", "", head))
            is_scope = bool(named) or re.match(r"(?:namespace\b|extern\s*\"\")", head) is not None
            if scopes[-1] and named and not re.match(r"template\s*<>", head):
                yield named[1]
            scopes.append(scopes[-1] and is_scope and "enum" not in head.split())
            statement = ""
        elif token[0] == "}":
            scopes.pop()
            statement = ""
        elif token[0] == ";":
            if scopes[-1] and (alias := _ALIAS.match(statement.strip())):
                yield alias[1] or alias[2]
            statement = ""
        else:
            statement += token[0]


def homonyms(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Types that several files define, with the files."""
    found: dict[str, set[str]] = {}
    for name, text in sources.items():
        for kind in types_of(text):
            found.setdefault(kind, set()).add(name)
    return {kind: files for kind, files in found.items() if len(files) > 1}


def test_the_table_names_the_folders() -> None:
    assert LAYERS[0] == "kernels"
    assert sorted(LAYERS[1:]) == sorted(path.name for path in (CUDA / "device").iterdir())
    assert {layer_of(name) for name in SOURCES} - {"generated"} == set(LAYERS)
    assert {path.parent for path in CUDA.rglob("*.cu")} == {CUDA / "kernels"}


def test_layers_point_down_only() -> None:
    assert wrong_includes(SOURCES) == []


def test_a_layer_that_points_up_is_seen() -> None:
    low, high = "device/types/types.cuh", "device/warp/tree.cuh"
    wrong = {**SOURCES, low: f'#include "{high}"\n{SOURCES[low]}'}
    assert wrong_includes(wrong) == [f"{low} includes {high} of a layer above"]
    for included in ("kernels/sum.cu", "sum.cu", "warp/tree.cuh"):
        text = f'#include "{included}"\n'
        assert wrong_includes({high: text}) == [f"{high} includes {included}, which is no header of device"]


def test_no_header_includes_itself_through_others() -> None:
    for name in HEADERS:
        others = [text for other, text in read_sources(name) if other != name]
        assert all(name not in _INCLUDE.findall(text) for text in others), name


@pytest.mark.parametrize("name", HEADERS)
def test_a_headers_names_are_in_its_layers_namespace(name: str) -> None:
    layer = layer_of(name)
    if name == "device/types/options.cuh":  # macros, which have no namespace
        assert plain(SOURCES[name]).replace("#pragma once", "").split() == []
        return
    space = "tcu" if layer == "types" else f"tcu::{layer}"
    if "#pragma once" not in SOURCES[name]:
        space += "::PASS"  # of those who include it several times
    text = plain(SOURCES[name]).strip()
    assert text.startswith(f"namespace {space} {{")
    assert text.endswith("}")
    assert text.count("namespace") == 1


@pytest.mark.slow(40)
@pytest.mark.parametrize("name", SOURCES)
def test_macros_that_decide_are_defined_by_what_is_included(name: str) -> None:
    """ELEMENT == BINARY16 is true for all elements where nobody has said what BINARY16 is."""
    texts = dict(read_sources(name.removeprefix("kernels/")))
    defined = {
        macro
        for text in texts.values()
        for macro in re.findall(r"^\s*#\s*define\s+(\w+)", text, re.MULTILINE)
    }
    values = {
        macro for text in SOURCES.values() for macro in re.findall(r"^#define (\w+) ", text, re.MULTILINE)
    }
    own = re.sub(r"//[^\n]*", "", SOURCES[name])
    compared = set(re.findall(r"\b(?:ELEMENT|LAYOUT|TERM|TILE|ALGORITHM) [!=]= (\w+)", own)) | {"BULK"} & set(
        re.findall(r"\w+", " ".join(re.findall(r"^\s*#\s*(?:el)?if\b(.*)$", own, re.MULTILINE)))
    )
    assert compared <= values
    assert compared <= defined


def test_a_types_name_means_one_thing() -> None:
    assert homonyms(SOURCES) == {}


def test_what_defines_a_type_is_seen() -> None:
    text = """
    // struct Comment { };
    namespace a { struct One { int x; union { int y; }; typedef int Two; enum Three { FOUR }; }; }
    template <typename T> struct alignas(sizeof(T) * 2) Five;
    template <typename T> struct alignas(sizeof(T) * 2) Six { T x; };
    template <> struct Six<int> { int x; };
    using Seven = One; typedef One<2, 3> Eight; using namespace a; using a::Nine;
    void function(struct Ten x) { struct Eleven { int x; }; typedef int Twelve; }
    """
    assert sorted(types_of(text)) == ["Eight", "One", "Seven", "Six", "Three", "Two"]
    assert homonyms({"x": text, "y": "namespace b { enum One { A }; }"}) == {"One": {"x", "y"}}


def test_a_wheel_ships_every_source() -> None:
    project = Path(__file__).parent.parent / "pyproject.toml"
    patterns = tomllib.loads(project.read_text(encoding="utf-8"))["tool"]["setuptools"]["package-data"]["tcu"]
    for name in SHIPPED:
        path = f"gpu/cuda/{name}"
        assert any(
            fnmatch(path, pattern) and path.count("/") == pattern.count("/") for pattern in patterns
        ), name
