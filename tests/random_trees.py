"""Random trees of additions as functions: slow and plain, without the code that finds and replays them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tcu.formats import get_format
from tcu.model.definition import dot
from tcu.units import AlignedSum, Instruction

Numbers = npt.NDArray[Any]
Tree = int | tuple[str, list[Any]]
"""A leaf, or a format and the trees that are added in it, one after another."""

WIDER = {
    "binary16": ("binary16", "binary32"),
    "bfloat16": ("bfloat16", "binary32"),
    "binary32": ("binary32", "binary64"),
    "binary64": ("binary64",),
}


def random_tree(rng: np.random.Generator, leaves: Sequence[int], formats: Sequence[str]) -> Tree:
    """Any way to put brackets: cut anywhere, or into lanes; a format of its own here and there."""
    if len(leaves) == 1:
        return int(leaves[0])
    style = rng.random()
    name = str(rng.choice(formats))
    if style < 0.3:
        return name, [int(leaf) for leaf in leaves]
    if style < 0.5 and len(leaves) > 3:
        lanes = int(rng.integers(2, min(9, len(leaves))))
        parts = [leaves[lane::lanes] for lane in range(lanes)]
    elif style < 0.7:
        leaves = rng.permutation(leaves)
        cut = int(rng.integers(1, len(leaves)))
        parts = [leaves[:cut], leaves[cut:]]
    else:
        cut = int(rng.integers(1, len(leaves)))
        parts = [leaves[:cut], leaves[cut:]]
    inner = formats if rng.random() < 0.5 else [name]
    return name, [random_tree(rng, part, inner) for part in parts]


def evaluated(tree: Tree, x: Numbers) -> Any:
    """The sum of a tree's leaves, an addition at a time."""
    if isinstance(tree, int):
        return x[tree]
    name, parts = tree
    kind = get_format(name).dtype.type
    total = kind(evaluated(parts[0], x))
    for part in parts[1:]:
        total = kind(total + kind(evaluated(part, x)))
    return total


def sum_of(tree: Tree, output: str) -> Callable[[Numbers], Any]:
    kind = get_format(output).dtype.type

    def random_sum(x: Numbers) -> Any:
        with np.errstate(all="ignore"):
            return kind(evaluated(tree, x))

    return random_sum


def split_product(row: Instruction, chains: Sequence[Sequence[int]], pair: bool) -> Callable[[Numbers, Numbers], Numbers]:
    """Dot products by the definition: chains of blocks side by side, added by IEEE additions, in turn or in pairs."""
    output = get_format(row.output)

    def product(a: Numbers, b: Numbers) -> Numbers:
        found = np.empty((len(a), b.shape[1]), output.dtype)
        x = a.view(get_format(row.a).code_dtype) >> get_format(row.a).storage_shift
        y = b.view(get_format(row.b).code_dtype) >> get_format(row.b).storage_shift
        for i, j in np.ndindex(found.shape):
            sums = []
            for chain in chains:
                code = 0
                for at in range(0, len(chain), row.k):
                    ks = chain[at : at + row.k]
                    code = dot(x[i, ks].tolist(), y[ks, j].tolist(), code, row)
                sums.append(np.array([code], output.code_dtype).view(output.dtype)[0])
            with np.errstate(all="ignore"):
                while pair and len(sums) > 1:
                    sums = [sums[at] + sums[at + 1] if at + 1 < len(sums) else sums[at] for at in range(0, len(sums), 2)]
                total = sums[0]
                for each in sums[1:]:
                    total = output.dtype.type(total + each)
            found[i, j] = total
        return found

    return product


def random_arithmetic(rng: np.random.Generator, output: str) -> AlignedSum:
    """Any member of the family that a product of whole blocks shows."""
    full = get_format(output).fraction_bits
    kept = int(rng.integers(8, full + 1)) if rng.random() < 0.3 else full
    return AlignedSum(
        int(rng.choice([1, 2, 4, 5, 8, 16])), int(rng.integers(8, 31)), str(rng.choice(["RNE", "RZ", "RU", "RD"])),  # type: ignore[arg-type]
        (-133 if output == "binary32" else -21) if rng.random() < 0.7 else None, None if kept == full else kept,
        normalized_products=bool(rng.random() < 0.2),
    )  # fmt: skip


assert ml_dtypes  # registers bfloat16 with NumPy
