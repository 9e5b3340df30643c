"""Random trees of additions as functions: slow and plain, without the code that finds and replays them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from tcu.formats import get_format
from tcu.model.definition import dot
from tcu.model.mma import multiply_accumulate
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
    """Any way to put brackets: cut anywhere, or into lanes; of ``formats``, the narrowest first, wider ones come later."""
    if len(leaves) == 1:
        return int(leaves[0])
    style = rng.random()
    name = str(rng.choice(formats))
    inner = formats[: formats.index(name) + 1] if rng.random() < 0.5 else [name]
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


Multiply = Callable[[Numbers, Numbers, Numbers, Instruction], Numbers]


def by_definition(a: Numbers, b: Numbers, c: Numbers, row: Instruction) -> Numbers:
    """D = A·B + C by the definition in Python integers."""
    x = a.view(get_format(row.a).code_dtype) >> get_format(row.a).storage_shift
    y = b.view(get_format(row.b).code_dtype) >> get_format(row.b).storage_shift
    output = get_format(row.output)
    codes = np.empty(c.shape, output.code_dtype)
    for i, j in np.ndindex(c.shape):
        codes[i, j] = dot(
            x[i].tolist(), y[:, j].tolist(), int(c[i, j : j + 1].view(output.code_dtype)[0]), row
        )
    return codes.view(output.dtype)


def split_product(
    row: Instruction, chains: Sequence[Sequence[int]], pairs: bool, multiply: Multiply = multiply_accumulate
) -> Callable[[Numbers, Numbers], Numbers]:
    """A·B by chains of instructions side by side over parts of K, added by IEEE additions in turn or in pairs."""
    kind = get_format(row.output).dtype.type

    def random_product(a: Numbers, b: Numbers) -> Numbers:
        zeros = np.zeros((len(a), b.shape[1]), kind)
        sums = [
            multiply(np.ascontiguousarray(a[:, list(ks)]), np.ascontiguousarray(b[list(ks)]), zeros, row)
            for ks in chains
        ]
        with np.errstate(all="ignore"):
            while pairs and len(sums) > 1:
                sums = [sum(sums[at + 1 : at + 2], sums[at]) for at in range(0, len(sums), 2)]
            total = sums[0]
            for each in sums[1:]:
                total = total + each
        return np.asarray(total, kind)

    return random_product


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
