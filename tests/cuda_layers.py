"""The layers of the CUDA sources, in the order that ``tcu/gpu/cuda/README.md`` declares; and checks in their namespaces."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path

import tcu.gpu

__all__ = ["CUDA", "LAYERS", "USING", "with_facts"]

CUDA = Path(tcu.gpu.__file__).parent / "cuda"
for path in CUDA.parent.glob("*.py"):
    import_module(
        f"tcu.gpu.{path.stem}"
    )  # the structures of a kernel are those of the module that chooses it
LAYERS = tuple(re.findall(r"^\| `(\w+)` \|", (CUDA / "README.md").read_text(encoding="utf-8"), re.MULTILINE))
"""From the kernels at the top down to what every layer needs."""
USING = "".join(
    f"namespace tcu::{layer} {{}}\nusing namespace tcu::{layer};\n"
    for layer in LAYERS
    if layer not in ("kernels", "types")
)
"""The names of every layer, whether it is included or not; kernels and what is of `types` have no namespace of their own."""


def with_facts(source: str, facts: Iterable[str]) -> str:
    """A program that compiles if these facts hold of a kernel, or of a header, and of what it includes."""
    checks = "".join(f"static_assert({fact});\n" for fact in facts)
    return f'#include "{source}"\nusing namespace tcu;\n{USING}{checks}'
