"""Golden bits: what every operation returned for inputs that never change, as data in tests/data/golden-*.json.

    python tests/golden.py check                  what the CPU's model returns now, beside the table
    python tests/golden.py add                    rows that the table does not have yet; the others stay as they are
    python tests/golden.py write                  the table anew; a changed row must have a new version of its plan
    python tests/golden.py write --same-version   the same where the bits were wrong, not the order
    python tests/golden.py write --large          with the rows of 2^26 numbers and more (minutes, 4 GB of memory)

A row says how its inputs are made, which unit its bits need (null: they are those of every unit), and the version of its
plan ("additions 1"; null where no order of additions has a say).  It has bits for each shape: the code of a single number, or
the beginning of the SHA-256 of the codes of several.  The rows of golden-plans.json are digests of plans as data, for
lengths that nobody adds up.

Inputs come from SplitMix64, a counter whose bits are mixed, and from no library's distribution, which may change.
Sums of binary16 numbers are exact in binary64, so there only the digests of plans see the order of the additions
outside the unit; the other formats have rows of numbers whose sums round, and results in binary64 that show it.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from bits import codes, one_nan
from operations import names_of, needed

import tcu
from tcu import ops
from tcu.algorithms.transform_plan import transform_plan
from tcu.engines import engine_of
from tcu.errors import DtypeError
from tcu.formats import get_format
from tcu.machine.executors import ModelExecutor
from tcu.model.scans import Carries, piece_length, scan_segments
from tcu.model.stream import PlanStream
from tcu.ops.fft import FftCall
from tcu.plan import (
    DEFAULT_VARIANT,
    SCAN_VARIANTS,
    VARIANTS,
    VERSIONS,
    FmaStep,
    MmaStep,
    make_dot_plan,
    make_matmul_plan,
    make_plan,
    tile_order,
)
from tcu.plan.plan import Step
from tcu.plan.version import Family
from tcu.units import CATALOGUE, get_unit, product_instruction

FOLDER = Path(__file__).parent / "data"
Shape = tuple[int, ...]
Row = dict[str, Any]

FORMATS = ("binary16", "bfloat16", "binary32", "binary64")
UNITS = ("V100", "T4", "A100", "Ada", "B200", "RTX-Blackwell", "MI100", "MI250", "MI300")
"""With H100, one of each arithmetic of sums."""
PERIOD = 1_000_003
"""After so many numbers a long array repeats itself: a prime, so that no two blocks see the same."""
STREAMED = 1 << 27
"""Longer arrays go through the model a piece at a time."""
SAMPLE = 65_521
"""Of long running sums, one in so many is looked at, and the last 100."""


# Inputs.


def words(label: str, count: int) -> npt.NDArray[np.uint64]:
    """``count`` words from a seed that the label's SHAKE-256 gives."""
    return split_mix(int.from_bytes(hashlib.shake_256(label.encode()).digest(8), "little"), count)


def split_mix(seed: int, count: int) -> npt.NDArray[np.uint64]:
    """The numbers of SplitMix64: Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014."""
    z = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


WIDE = {
    "binary16": (0, 21),
    "bfloat16": (82, 90),
    "binary32": (82, 90),
    "tf32": (107, 40),
    "binary64": (983, 80),
}
"""Exponent fields of wide numbers, the first and how many; of all others, 8 around 1."""


def numbers(kind: str, name: str, n: int, label: str = "x") -> npt.NDArray[Any]:
    """n numbers of a format, from n = PERIOD on with that period.

    ordinary: magnitudes from 1/16 to 16; wide: more magnitudes than a sum has bits; cancelling: wide, each with its
    negative far away, and ordinary ones between; special: ordinary, with inf, NaN, -0 and subnormals here and there.
    """
    if n > PERIOD:
        return np.resize(_first(kind, name, label), n)
    if kind != "cancelling":
        return _first(kind, name, label)[:n].copy()
    fmt = get_format(name)
    half = _first("wide", name, label)[: n // 2].view(fmt.code_dtype)
    code = np.concatenate([half, np.roll(half, n // 5) ^ fmt.code_dtype.type(_sign(name)), half[: n % 2]])
    between = code[::7]
    between[:] = _first("ordinary", name, label)[: len(between)].view(fmt.code_dtype)
    return code.view(fmt.dtype)


@cache
def _first(kind: str, name: str, label: str) -> npt.NDArray[Any]:
    """The numbers of a period."""
    if kind == "cancelling":
        return numbers(kind, name, PERIOD, label)
    fmt, drawn = get_format(name), words(f"{kind} {name} {label}", PERIOD)
    if not fmt.is_float:
        return drawn.astype(fmt.code_dtype).view(fmt.dtype)
    first, count = WIDE.get(name, (max(fmt.bias - 4, 0), 8)) if kind == "wide" else (max(fmt.bias - 4, 0), 8)
    shift = fmt.fraction_bits + fmt.storage_shift
    fraction = drawn & np.uint64((1 << shift) - 1)
    exponent = np.uint64(first) + (drawn >> np.uint64(53)) % np.uint64(count)
    largest = (fmt.max_finite_code + 1 << fmt.storage_shift) - 1
    code = np.minimum(exponent << np.uint64(shift) | fraction, np.uint64(largest))
    code |= (drawn >> np.uint64(52) & np.uint64(1)) * np.uint64(_sign(name))
    if kind == "special":
        rest = drawn % np.uint64(1009)
        code[(rest > 0) & (rest < 40)] = _sign(name)
        code[(rest > 39) & (rest < 80)] &= np.uint64(_sign(name) | (1 << shift) - 1)
        code[rest == 80] = fmt.nan_code << fmt.storage_shift
        if fmt.has_infinity:
            code[(rest > 80) & (rest < 84)] = fmt.infinity_code << fmt.storage_shift
    return code.astype(fmt.code_dtype).view(fmt.dtype)


def _sign(name: str) -> int:
    fmt = get_format(name)
    return fmt.sign_code << fmt.storage_shift


SEGMENTS = {
    "short": tuple(range(13)),
    "mixed": (
        0,
        1,
        3,
        *(t + d for t in (8, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192) for d in (-1, 0, 1)),
    ),
    "long": tuple(t + d for t in (1 << 14, 1 << 15, 1 << 16) for d in (-1, 0, 1)),
    "empty": (0, 0, 0, 0, 0, 0, 0, 3),
    "huge": tuple((1 << 18) + d for d in (-1, 0, 1)),
    "beyond": tuple((1 << 22) + d for d in (-1, 0, 1)),
    "periodic": ((1 << 26) - 1, 1 << 26, (1 << 26) + 1, (1 << 27) + 1, 5),
}
"""The lengths of segments, of which a word for each segment chooses; those of "beyond" and "periodic" one after another."""


def offsets(kind: str, count: int) -> npt.NDArray[np.int64]:
    drawn = words(f"segments {kind}", count)
    choice = np.array(SEGMENTS[kind], np.int64)
    which = np.arange(count) if kind in ("beyond", "periodic") else drawn.astype(np.int64) & 0xFFFFFFFF
    return np.concatenate([[0], np.cumsum(choice[which % len(choice)])]).astype(np.int64)


# Rows.


@dataclass(frozen=True)
class Case:
    """A row without its bits."""

    file: str = field(compare=False)
    operation: str
    layout: str
    """Of the elements in memory: "whole", "shifted" by one, "strided" by three, "transposed" (the last two axes), "ragged KIND" (SEGMENTS)."""
    dtype: str
    """Format of the elements."""
    numbers: str
    unit: str | None
    options: tuple[tuple[str, Any], ...]
    shapes: tuple[Shape, ...] = field(compare=False)
    """For a ragged array, how many segments; for an MMA and a product of matrices, M, N and K."""

    @property
    def given(self) -> dict[str, Any]:
        return dict(self.options)

    @property
    def family(self) -> Family | None:
        """Of its plan, if there is one."""
        if "cumsum" in self.operation and "variant" in self.given:
            return "triangular"
        if "variant" in self.given:
            return VARIANTS[self.given["variant"]].family
        if self.operation == "segment_matmul":
            return "matmul"
        found = FAMILIES.get(self.operation.partition(" ")[0].removeprefix("segment_"))
        return VARIANTS[DEFAULT_VARIANT].family if found == "sum" else found

    def columns(self) -> Row:
        return {
            "operation": self.operation, "layout": self.layout, "dtype": self.dtype, "numbers": self.numbers,
            "unit": self.unit, "options": self.given,
        }  # fmt: skip

    def plan(self) -> str | None:
        return self.family and f"{self.family} {VERSIONS[self.family]}"


def _family_of(operation: ops.Operation) -> Family:
    return "scan" if operation.kind == "scan" else "sum" if operation.term == "value" else "dot"


FAMILIES: dict[str, Family] = {
    **{name: _family_of(ops.OPERATIONS[each]) for each in names_of(arithmetic="planned")
       for name in (each, f"{each}_error_bound") if hasattr(tcu, name)},
    "error_bound": "sum", "dft": "transform", "transform": "transform",
    "product": "matmul", "matmul_error_bound": "matmul",
    **dict.fromkeys(("fft", "ifft", "rfft", "irfft", "dct", "dst", "convolve"), "fft"),
    "polyval": "polyval", "polyval_error_bound": "polyval",
}  # fmt: skip


def case(
    file: str, operation: str, element: str, kind: str, shapes: Iterable[Shape | int], /, *,
    layout: str = "whole", unit: str | None = None, **options: Any,
) -> Case:  # fmt: skip
    found = tuple(sorted({(each,) if isinstance(each, int) else tuple(each) for each in shapes}))
    return Case(file, operation, layout, element, kind, unit, tuple(sorted(options.items())), found)


def around(*borders: int) -> tuple[int, ...]:
    return tuple(border + d for border in borders for d in (-1, 0, 1))


EDGES = (0, 1, 2, *around(*(1 << p for p in range(3, 18))))
FEW = (0, 33, 257, 1025, 4097, 16385, 65537)
ODD = around(96, 384, 768, 3072, 3840, 12288, 61440)

CHOICES: dict[str, tuple[dict[str, Any], ...]] = {
    "binary64": ({"block": 32}, {"block": 96}, {"block": 1024}),
    "short-chain": ({"block": 32}, {"chain": 4}, {"chain": 3, "block": 96}, {"block": 1024}),
    "single-pass": ({"chain": 1, "block": 32}, {"chain": 3, "block": 96}, {"accumulator": "float16"}),
    "recurrence": ({"chain": 1}, {"chain": 3}, {"accumulator": "float16"}),
    "two-mma": ({"accumulator": "float16"},),
    "single-pass-atomic": ({"chain": 1, "block": 32},),
    "split-atomic": ({"fraction": 0.25, "chain": 3, "block": 96},),
    "split": ({"fraction": 0.0}, {"fraction": 1.0}, {"fraction": 0.25, "chain": 3, "block": 96}),
    "warp-shuffle": ({"block": 32}, {"block": 96}),
    "reduction-16": ({"chain": 1, "block": 32}, {"chain": 5, "block": 96}, {"accumulator": "float16"}),
    "reduction-256": ({"block": 32}, {"accumulator": "float16"}),
    "reduction-256n": ({"chain": 1, "block": 32}, {"chain": 5, "block": 96}, {"accumulator": "float16"}),
    "reduction-256n-work-inefficient": ({"chain": 3, "block": 96}, {"accumulator": "float16"}),
    "paper-002": ({"chain": 4, "block": 32},),
}
"""Options beside the defaults."""


BY_TRIANGLES = [name for name, row in SCAN_VARIANTS.items() if row.uses_mma]
TRIANGULAR = ("binary16", "bfloat16")
TRIANGLES: dict[str, tuple[dict[str, Any], ...]] = {
    "scan-16": ({"chain": 1}, {"chain": 5}, {"accumulator": "float16"}),
    "scan-256": ({"accumulator": "float16"},),
    "scan-256n": ({"chain": 1}, {"chain": 3}, {"accumulator": "float16"}),
    "scan-256n-work-efficient": ({"chain": 3}, {"accumulator": "float16"}),
}
"""The same of scans by MMAs."""


def planned(dtype: str, unit: str, options: Row, n: int = 1) -> Any:
    """The plan of a sum; None where there is none."""
    try:
        return make_plan(n, get_format(dtype), get_unit(unit), **options)
    except (DtypeError, tcu.errors.ParameterError):
        return None


def needs(dtype: str, unit: str, options: Row) -> str | None:
    """The unit whose bits a sum has, None where no MMA takes part."""
    variant = options.get("variant", DEFAULT_VARIANT)
    by_additions = (DEFAULT_VARIANT, "warp-shuffle", *(() if dtype[-2:] == "16" else ("short-chain",)))
    return None if variant in by_additions else unit


def cases() -> Iterator[Case]:
    yield from of_sums()
    yield from of_axes()
    yield from of_segments()
    yield from of_scans()
    yield from of_products()
    yield from of_variances()
    yield from of_row_functions()
    yield from of_segment_row_functions()
    yield from of_exact_sums()
    yield from of_exact_scans()
    yield from of_bounds()
    yield from of_instructions()
    yield from of_matrices()
    yield from of_transforms()
    yield from of_polynomials()
    yield from of_machines()
    yield from of_plans()
    yield from of_long_arrays()


def of_sums() -> Iterator[Case]:
    wide = {"dtype": "float64"}
    for variant, dtype in product(VARIANTS, FORMATS):
        chosen: Row = {"variant": variant}
        if planned(dtype, "H100", chosen) is None:
            continue
        unit = needs(dtype, "H100", chosen)
        yield case("sums", "sum", dtype, "wide", EDGES, unit=unit, **chosen, **wide)
        for kind in ("ordinary", "cancelling"):
            yield case("sums", "sum", dtype, kind, (*FEW, *ODD), unit=unit, **chosen, **wide)
        for options in CHOICES[variant]:
            if planned(dtype, "H100", chosen | options) is not None:
                lengths = (*FEW, *ODD)
                yield case("sums", "sum", dtype, "wide", lengths, unit=unit, **chosen, **options, **wide)
        if unit is not None:
            for other in UNITS:
                if planned(dtype, other, chosen) is not None:
                    yield case("sums", "sum", dtype, "wide", FEW, unit=other, **chosen, **wide)
    for dtype in FORMATS:
        unit = needs(dtype, "H100", {})
        for target in (None, "float16", "bfloat16", "float32", "float64"):
            for operation in ("sum", "mean"):
                yield case("sums", operation, dtype, "ordinary", FEW, unit=unit, dtype=target)
        yield case("sums", "mean", dtype, "cancelling", (*FEW, *ODD), unit=unit, **wide)
        yield case("sums", "sum", dtype, "special", (31, 100, 1000, 4097), unit=unit, **wide)
        for layout in ("shifted", "strided"):
            yield case("sums", "sum", dtype, "wide", FEW, layout=layout, unit=unit, **wide)
        yield case(
            "sums",
            "sum",
            dtype,
            "wide",
            ((70, 30), (257, 129), (3, 5, 7)),
            layout="transposed",
            unit=unit,
            **wide,
        )
    # Small blocks have the borders of many chunks at lengths that are soon added up.
    for dtype, border in (("bfloat16", 1 << 24), ("binary32", 1 << 23), ("binary64", 1 << 22)):
        unit = needs(dtype, "H100", {})
        yield case("sums", "sum", dtype, "wide", around(border), unit=unit, block=32, **wide)


AXES: tuple[tuple[int | tuple[int, ...], tuple[Shape, ...]], ...] = (
    (0, ((0, 3), (1, 5), (40, 7), (129, 33), (1025, 6), (9, 5, 4), (20000, 3))),
    (1, ((3, 0, 2), (9, 40, 5), (4, 257, 3), (2, 2049, 17))),
    (-1, ((5, 0), (300, 1), (70, 8), (40, 33), (33, 255), (33, 257), (17, 1025), (5, 16385), (3, 2, 700))),
    ((0, 2), ((6, 5, 70), (3, 300, 90))),
    ((1, 2), ((7, 12, 25), (2, 3, 4, 5))),
)


def of_axes() -> Iterator[Case]:
    for dtype, (axis, shapes) in product(FORMATS, AXES):
        unit = needs(dtype, "H100", {})
        for layout in ("whole", "transposed") if isinstance(axis, int) else ("whole",):
            yield case(
                "axes", "sum", dtype, "wide", shapes, layout=layout, unit=unit, axis=axis, dtype="float64"
            )
        yield case("axes", "mean", dtype, "cancelling", shapes, unit=unit, axis=axis)
        yield case("axes", "sum", dtype, "special", shapes, unit=unit, axis=axis, keepdims=True)
        yield case("axes", "fsum", dtype, "wide", shapes, axis=axis)
        yield case("axes", "fmean", dtype, "special", shapes, axis=axis, dtype="float16")
        for variant in VARIANTS:
            chosen = {"variant": variant}
            if variant != DEFAULT_VARIANT and planned(dtype, "H100", chosen) is not None:
                unit = needs(dtype, "H100", chosen)
                yield case(
                    "axes", "sum", dtype, "wide", shapes[-2:], unit=unit, axis=axis, dtype="float64", **chosen
                )
    # From some length on, rows are added up by other ways.
    long = around(1 << 18)
    for dtype in ("bfloat16", "binary64"):
        unit = needs(dtype, "H100", {})
        yield case(
            "axes", "sum", dtype, "cancelling", [(2, n) for n in long], unit=unit, axis=1, dtype="float64"
        )
        yield case(
            "axes", "sum", dtype, "cancelling", [(n, 2) for n in long], unit=unit, axis=0, dtype="float64"
        )
        yield case("axes", "fsum", dtype, "cancelling", [(1, n) for n in around(1 << 20)], axis=1)


RAGGED = {"short": (0, 1, 40, 3000), "mixed": (60, 200), "long": (9,), "empty": (8, 300), "huge": (3,)}


def of_segments() -> Iterator[Case]:
    for dtype, (kind, shapes) in product(FORMATS, RAGGED.items()):
        unit = needs(dtype, "H100", {})
        ragged = {"layout": f"ragged {kind}"}
        for options in (
            {},
            {"variant": "short-chain"},
            {"variant": "short-chain", "chain": 3, "block": 96},
            {"block": 32},
        ):
            if "chain" in options and dtype[-2:] != "16":
                continue
            unit = needs(dtype, "H100", options)
            yield case(
                "segments",
                "segment_sum",
                dtype,
                "wide",
                shapes,
                **ragged,
                unit=unit,
                dtype="float64",
                **options,
            )
        unit = needs(dtype, "H100", {})
        yield case("segments", "segment_mean", dtype, "cancelling", shapes, **ragged, unit=unit)
        yield case("segments", "segment_sum", dtype, "special", shapes, **ragged, unit=unit, dtype="bfloat16")
        yield case("segments", "segment_fsum", dtype, "wide", shapes, **ragged)
        yield case("segments", "segment_fmean", dtype, "special", shapes, **ragged, dtype="float16")
        for exclusive, reverse in product((False, True), repeat=2):
            yield case(
                "segments", "segment_cumsum", dtype, "wide", shapes, **ragged, dtype="float64",
                exclusive=exclusive, reverse=reverse,
            )  # fmt: skip
        for variant in ("single-pass", "two-mma", "split", "reduction-16", "paper-002"):
            if kind == "mixed" and planned(dtype, "H100", {"variant": variant}) is not None:
                yield case(
                    "segments", "segment_sum", dtype, "wide", shapes, **ragged, unit="H100", variant=variant
                )
        for variant in BY_TRIANGLES if kind == "mixed" and dtype in TRIANGULAR else ():
            yield case(
                "segments", "segment_cumsum", dtype, "wide", shapes, **ragged, unit="H100", variant=variant
            )
    beyond = {"layout": "ragged beyond", "dtype": "float64", "block": 32}
    yield case("segments", "segment_sum", "binary64", "wide", (3,), **beyond)


def of_scans() -> Iterator[Case]:
    for dtype in FORMATS:
        group = 32 // get_format(dtype).dtype.itemsize
        borders = (0, 1, *around(group, 32 * group, 512 * group, 16384 * group), 16384 * 32 * group + 1)
        for exclusive, reverse in product((False, True), repeat=2):
            lengths = borders if not exclusive else FEW
            way = {"exclusive": exclusive, "reverse": reverse, "dtype": "float64"}
            yield case("scans", "cumsum", dtype, "wide", lengths, **way)
        yield case("scans", "cumsum", dtype, "cancelling", FEW)
        yield case("scans", "cumsum", dtype, "special", FEW, dtype="bfloat16")
        for axis, shapes in AXES:
            if isinstance(axis, int):
                yield case("scans", "cumsum", dtype, "wide", shapes, axis=axis, dtype="float64")
                yield case(
                    "scans", "cumsum", dtype, "wide", shapes, layout="transposed", axis=axis, reverse=True
                )
    for variant, dtype in product(BY_TRIANGLES, TRIANGULAR):
        chosen: Row = {"variant": variant}
        borders = (0, 1, *around(16, 256, 4096), 65537, 70001)
        yield case("scans", "cumsum", dtype, "wide", borders, unit="H100", **chosen)
        yield case("scans", "cumsum", dtype, "wide", FEW, unit="A100", **chosen, exclusive=True, reverse=True)
        yield case("scans", "cumsum", dtype, "cancelling", FEW, unit="H100", **chosen, dtype="bfloat16")
        yield case("scans", "cumsum", dtype, "special", FEW, unit="H100", **chosen)
        for options in TRIANGLES[variant] if dtype == "binary16" else ():
            yield case("scans", "cumsum", dtype, "wide", FEW, unit="H100", **chosen, **options)
        yield case("scans", "cumsum", dtype, "wide", ((3, 700), (40, 5)), unit="H100", **chosen, axis=0)


def of_products() -> Iterator[Case]:
    for operation, dtype in product(names_of(arithmetic="planned", product=True), FORMATS):
        for kind in ("wide", "cancelling"):
            lengths = EDGES if kind == "wide" else (*FEW, *ODD)
            yield case("products", operation, dtype, kind, lengths, dtype="float64")
        yield case("products", operation, dtype, "ordinary", FEW)
        yield case("products", operation, dtype, "special", FEW)
        for layout, block in (("shifted", 32), ("strided", 96), ("whole", 1024)):
            yield case(
                "products",
                operation,
                dtype,
                "wide",
                (*FEW, *ODD),
                layout=layout,
                block=block,
                dtype="float64",
            )
        for axis, shapes in AXES[:3]:
            yield case("products", operation, dtype, "wide", shapes, axis=axis, dtype="float64")
        yield case("products", operation, dtype, "wide", [(2, n) for n in around(1 << 18)], axis=1)
        yield from ragged_products(operation, dtype, "products")
    yield case("products", "dot", "binary64", "wide", around(1 << 22), block=32, dtype="float64")


def ragged_products(operation: str, dtype: str, file: str) -> Iterator[Case]:
    for kind in ("short", "mixed", "empty"):
        yield case(
            file, f"segment_{operation}", dtype, "wide", RAGGED[kind][:2], layout=f"ragged {kind}", dtype="float64"
        )  # fmt: skip


def of_variances() -> Iterator[Case]:
    for operation, dtype in product(names_of(moments=True), FORMATS):
        for kind in ("ordinary", "wide", "cancelling"):
            yield case("variances", operation, dtype, kind, (*FEW, *ODD), dtype="float64")
        yield case("variances", operation, dtype, "ordinary", FEW, correction=1)
        yield case("variances", operation, dtype, "special", FEW)
        yield case("variances", operation, dtype, "wide", FEW, layout="strided", dtype="float64")
        for axis, shapes in AXES[:3]:
            yield case("variances", operation, dtype, "wide", shapes, axis=axis, dtype="float64")
        for kind, shapes in RAGGED.items():
            if kind in ("short", "mixed", "empty"):
                yield case(
                    "variances",
                    f"segment_{operation}",
                    dtype,
                    "wide",
                    shapes[:2],
                    layout=f"ragged {kind}",
                    dtype="float64",
                )
        if operation in names_of(moments=True, exact=False):
            yield case("variances", operation, dtype, "wide", (*FEW, *ODD), block=96, dtype="float64")
            yield case("variances", operation, dtype, "cancelling", [(2, n) for n in around(1 << 18)], axis=1)
    for operation in names_of(moments=True, exact=False, root=False):
        yield case("variances", operation, "binary64", "wide", around(1 << 22), block=32, dtype="float64")


def of_row_functions() -> Iterator[Case]:
    """Rows of lanes, of a warp, of a block, of codes, and those that are read several times."""
    shapes = (
        (9, 1),
        (7, 3),
        (5, 64),
        (5, 257),
        (3, 1000),
        (3, 4096),
        (2, 16385),
        (1, 32769),
        (1, 70_001),
        (1, 300_001),
    )
    for operation, dtype in product(names_of(in_parts=False), FORMATS):
        for kind in ("ordinary", "wide", "special"):
            yield case("rows", operation, dtype, kind, shapes, axis=-1)
        for target in ("float16", "bfloat16", "float32", "float64"):
            yield case("rows", operation, dtype, "ordinary", ((5, 257), (3, 4096)), axis=-1, dtype=target)
        yield case("rows", operation, dtype, "ordinary", ((40, 7), (257, 3, 2)), axis=0)
        if operation in names_of(arithmetic="norms"):
            yield case("rows", operation, dtype, "wide", ((5, 257), (3, 4096)), axis=-1, eps=0.0)


def of_segment_row_functions() -> Iterator[Case]:
    ragged = [f"segment_{name}" for name in names_of(in_parts=False) if hasattr(tcu, f"segment_{name}")]
    for operation, dtype in product(ragged, FORMATS):
        for kind, numbers_of in product(("short", "mixed", "empty"), ("ordinary", "special")):
            yield case("rows", operation, dtype, numbers_of, RAGGED[kind][:2], layout=f"ragged {kind}")


def of_exact_sums() -> Iterator[Case]:
    for operation, dtype in product(names_of(exact=True, kind="reduce", moments=False), FORMATS):
        for kind in ("ordinary", "wide", "cancelling"):
            for target in (None, "float16", "float64"):
                yield case("exact", operation, dtype, kind, (*FEW, 300_001), dtype=target)
        if operation != "fdot":  # products of inf and of -inf have no exact sum
            yield case("exact", operation, dtype, "special", FEW)
        yield case("exact", operation, dtype, "wide", FEW, layout="strided")
        if operation in names_of(exact=True, product=True):
            for axis, shapes in AXES[:3]:
                for target in (None, "float64"):
                    yield case("exact", operation, dtype, "wide", shapes, axis=axis, dtype=target)
            yield from ragged_products(operation, dtype, "exact")


def of_exact_scans() -> Iterator[Case]:
    for dtype in FORMATS:
        for kind in ("ordinary", "wide", "cancelling", "special"):
            for target in (None, "float16", "float64"):
                yield case("exact", "fcumsum", dtype, kind, (*FEW, 300_001), dtype=target)
        for way in ({"exclusive": True}, {"reverse": True}):
            yield case("exact", "fcumsum", dtype, "wide", (*FEW, 300_001), **way)
        yield case("exact", "fcumsum", dtype, "wide", [(9, 33), (3, 1025)], axis=0)
        yield case("exact", "fcumsum", dtype, "wide", [(9, 33), (3, 1025)], axis=-1, dtype="float64")
        yield case(
            "exact",
            "segment_fcumsum",
            dtype,
            "wide",
            RAGGED["mixed"][:2],
            layout="ragged mixed",
            dtype="float64",
        )


def of_bounds() -> Iterator[Case]:
    for variant, dtype, unit in product(VARIANTS, FORMATS, ("V100", "H100")):
        if planned(dtype, unit, {"variant": variant}) is not None:
            yield case("bounds", "error_bound", dtype, "wide", FEW, unit=unit, variant=variant)
    for dtype in FORMATS:
        for operation in ("dot", *names_of(moments=True, exact=False)):
            yield case("bounds", f"{operation}_error_bound", dtype, "wide", FEW)
        yield case("bounds", "cumsum_error_bound", dtype, "wide", (1, 33, 1025), dtype="float64")
    for variant, dtype, unit in product(BY_TRIANGLES, TRIANGULAR, ("A100", "H100")):
        yield case("bounds", "cumsum_error_bound", dtype, "wide", (1, 33, 1025), unit=unit, variant=variant)


def of_instructions() -> Iterator[Case]:
    """Several tiles of every instruction, none of them full."""
    for unit in CATALOGUE.values():
        for row in unit.instructions:
            if row.addend:  # the bits of the row that it shares its arithmetic with
                continue
            formats: dict[str, Any] = {"instruction": row.name, "b": row.b, "output": row.output}
            if row.scale:
                formats |= {"scale": row.scale, "per_scale": row.per_scale}
            for kind in ("ordinary", "wide", "special") if get_format(row.a).is_float else ("ordinary",):
                shape = (19, 11, 2 * row.k + (0 if row.scale else 3))
                yield case("mma", "mma", row.a, kind, [shape], unit=unit.name, **formats)


MATRICES = (*((name, name) for name in (*FORMATS, "e4m3", "e5m2")), *product(("u8", "s8"), repeat=2))
"""Formats that are multiplied."""


def of_matrices() -> Iterator[Case]:
    """Products of matrices around the borders of chunks, on a unit of each arithmetic that has the formats."""
    shapes = [(5, 3, 0), (19, 11, 129), (3, 40, 255), (19, 11, 257), (1, 33, 1000), (70, 2, 900)]
    for unit, (a, b) in product(("H100", *UNITS), MATRICES):
        plan = make_matmul_plan(1, a, b)
        try:
            product_instruction(unit, *plan.operands, plan.accumulator)
        except DtypeError:
            continue
        for kind in ("ordinary", "wide", "special") if get_format(a).is_float else ("ordinary",):
            yield case("matmul", "product", a, kind, shapes, unit=unit, b=b)
        if not get_format(a).is_float:
            continue
        yield case("matmul", "product", a, "ordinary", shapes, unit=unit, b=b, plan="chain")
        yield case("matmul", "product", a, "ordinary", shapes, unit=unit, b=b, dtype="bfloat16", scaled=True)
        yield case(
            "matmul", "product", a, "ordinary", shapes, layout="transposed", unit=unit, b=b, dtype="float16"
        )
        yield case("matmul", "segment_matmul", a, "wide", [(70, 11, 300)], unit=unit, b=b)
        yield case("matmul", "matmul_error_bound", a, "ordinary", shapes[1:4], unit=unit, b=b)
    for unit in ("A100", "H100", "B200"):
        yield case(
            "matmul", "product", "binary32", "ordinary", shapes, unit=unit, b="binary32", rounding="cut"
        )
        yield case(
            "matmul",
            "product",
            "binary16",
            "ordinary",
            shapes,
            unit=unit,
            b="binary16",
            accumulator="float16",
        )


RADICES = (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 15, 16, 20, 25, 27, 32)
TRANSFORMED = (1, *RADICES, 11, 17, 18, 30, 60, 97, 100, 210, 243, 256, 257, 1000, 1009, 1024, 2401, 4096)
"""Lengths of one level of each butterfly, of several, and of a chirp; of real numbers of an odd number and of half as many."""


def of_transforms() -> Iterator[Case]:
    """Complex numbers are pairs; every kind around every border of the plans."""
    for dtype in ("binary16", "binary32", "binary64"):
        most = 1 << (13 if dtype == "binary64" else 14)  # of one pass
        wide = (1, 12, 17, 256, 1000, most, 2 * most, 105 << 8, 3**9, 5 << 12, 10007, 1 << 16)
        for operation in ("fft", "ifft", "rfft", "irfft"):
            yield case("fft", operation, dtype, "ordinary", [(3, n) for n in TRANSFORMED])
            yield case("fft", operation, dtype, "special", [(8, n) for n in (2, 12, 15, 17, 60, 256)])
            yield case("fft", operation, dtype, "ordinary", [(n, 5) for n in (7, 60, 97, 1024)], axis=0)
            yield case("fft", operation, dtype, "wide", [(1, n) for n in wide], norm="ortho")
        yield case("fft", "fft", dtype, "ordinary", [(2, 1 << 20)], norm="ortho")
        if dtype != "binary32":
            yield case("fft", "fft", dtype, "cancelling", [(1, 1 << 23)], norm="ortho")  # three passes
        else:
            yield case("long", "fft", dtype, "ordinary", [(1, 1 << 25)], norm="ortho")
    for dtype, operation, type in product(("binary32", "binary64"), ("dct", "dst"), (2, 3)):
        yield case("fft", operation, dtype, "ordinary", [(3, n) for n in (1, 2, 5, 12, 97, 256)], type=type)
        yield case("fft", operation, dtype, "ordinary", [(3, n) for n in (5, 12)], type=type, norm="ortho")
    for dtype, mode in product(("binary32", "binary64"), ("full", "same", "valid")):
        yield case("fft", "convolve", dtype, "ordinary", [(3, 40), (2, 1000)], mode=mode)


def of_polynomials() -> Iterator[Case]:
    """(coefficients, points), around every border of the plan."""
    lengths = (1, 2, 3, 9, *around(64, 80, 512, 576, 640, 1024), 3000, 16385)
    for dtype in ("binary32", "binary64"):
        yield case("polyval", "polyval", dtype, "ordinary", [(n, 77) for n in lengths])
        yield case("polyval", "polyval_error_bound", dtype, "ordinary", [(n, 9) for n in (1, 80, 576, 1025)])
        for kind in ("special", "wide"):
            yield case("polyval", "polyval", dtype, kind, [(n, 200) for n in (2, 9, 65, 700)])
        yield case(
            "polyval", "polyval", dtype, "ordinary", [(100, 20_000), (1100, 20_000)], layout="transposed"
        )


def of_machines() -> Iterator[Case]:
    for unit, operand in (("H100", "binary16"), ("H100", "tf32"), ("A100", "bfloat16"), ("V100", "binary16")):
        for program, shapes in PROGRAMS.items():
            if (operand, program) == ("tf32", "dft two parts"):  # only narrower operands come in parts
                continue
            yield case("machine", program, operand, "ordinary", shapes, unit=unit)
    for unit, algorithm in product(("A100", "H100"), ("schoolbook", "karatsuba")):
        yield case(
            "machine", "integer_multiply", "u8", "ordinary", (1, 17, 300), unit=unit, algorithm=algorithm
        )


BEYOND = (
    *FEW,
    *ODD,
    *around(*(1 << p for p in range(5, 36, 2))),
    (1 << 26) + 1,
    (1 << 31) + 12345,
    (1 << 33) + 7,
)
"""Lengths of plans: nobody has to add up what they are of."""


CHIRPS = (11, 17, 97, 257, 1009, 10007, 999983, (1 << 27) + 1)
FACTORED = (
    *TRANSFORMED, *CHIRPS, *(1 << p for p in range(11, 30)), 105 << 8, 3**9, 3**12, 3**16, 5 << 12, 5**8, 5**11, 7**6, 7**10, 3 << 24, 45 << 20,
)  # fmt: skip
"""Lengths of transforms' plans."""


def of_plans() -> Iterator[Case]:
    for variant, dtype in product(VARIANTS, FORMATS):
        for options in ({}, *CHOICES[variant]):
            chosen = {"variant": variant, **options}
            if planned(dtype, "H100", chosen) is not None:
                yield case("plans", "sum plan", dtype, "none", BEYOND, **chosen)
    for dtype in FORMATS:
        yield case("plans", "sum plan", dtype, "none", FEW)
        for options in ({}, {"block": 32}, {"block": 96}, {"block": 1024}):
            yield case("plans", "dot plan", dtype, "none", BEYOND, **options)
        yield case("plans", "cumsum plan", dtype, "none", BEYOND)
        for variant in BY_TRIANGLES if dtype in TRIANGULAR else ():
            for options in ({}, *TRIANGLES[variant]) if dtype == "binary16" else ({},):
                yield case("plans", "cumsum plan", dtype, "none", BEYOND, variant=variant, **options)
    for (a, b), order in product(MATRICES, ("chunks", "chain")):
        yield case("plans", "product plan", a, "none", BEYOND, b=b, order=order)
    for dtype in ("binary16", "binary32", "binary64"):
        yield case("plans", "fft plan", dtype, "none", FACTORED)
        yield case("plans", "fft error", dtype, "none", [n for n in FACTORED if n not in CHIRPS])
        yield case("plans", "fft tables", dtype, "none", (12, 60, 97, 1000, 16384, 105 << 8, 1 << 20))
        yield case("plans", "fft butterfly", dtype, "none", RADICES)
    for side, way in product((4, 16, 256), ("four", "three", "embedded")):
        lengths = (1, 2, 12, 16, 60, 64, 97, 210, 256, 1000, 1024, 4096, 65536, 1 << 20)
        yield case("plans", "transform plan", "binary16", "none", lengths, side=side, product=way)


def of_long_arrays() -> Iterator[Case]:
    """2^26 numbers and more, which take a GPU's memory and time; the model goes through them when the table is written."""
    wide = {"dtype": "float64"}
    for dtype in FORMATS:
        unit = needs(dtype, "H100", {})
        lengths = (*around(1 << 26), *around(1 << 27), (1 << 31) - 1, (1 << 31) + 12345)
        if dtype == "binary64":
            lengths = (*around(1 << 25), (1 << 26) + 1, (1 << 31) + 12345)
        yield case("long", "sum", dtype, "wide", lengths, unit=unit, **wide)
        yield case("long", "mean", dtype, "wide", [(1 << 26) + 1], unit=unit, **wide)
        yield case("long", "dot", dtype, "wide", [(1 << 26) + 1, (1 << 27) + 1, (1 << 31) + 12345], **wide)
        yield case("long", "norm", dtype, "wide", [(1 << 27) + 1], **wide)
        yield case(
            "long",
            "cumsum",
            dtype,
            "wide",
            [(1 << 26) + 1, (1 << 27) + 1, (1 << 28) + 1, (1 << 31) + 12345],
            **wide,
        )
        yield case("long", "cumsum", dtype, "wide", [(1 << 26) + 1], reverse=True, exclusive=True, **wide)
        yield case("long", "fsum", dtype, "wide", [(1 << 26) + 1, (1 << 31) + 12345], **wide)
        yield case("long", "segment_sum", dtype, "wide", [5], layout="ragged periodic", unit=unit, **wide)
        yield case("long", "sum", dtype, "wide", [((1 << 26) + 1, 2)], unit=unit, axis=0, **wide)
        yield case("long", "sum", dtype, "wide", [(2, (1 << 27) + 1)], unit=unit, axis=1, **wide)
        for variant in VARIANTS:
            chosen = {"variant": variant}
            if variant != DEFAULT_VARIANT and planned(dtype, "H100", chosen) is not None:
                unit = needs(dtype, "H100", chosen)
                yield case(
                    "long",
                    "sum",
                    dtype,
                    "cancelling",
                    [(1 << 26) + 1, (1 << 27) + 1],
                    unit=unit,
                    **chosen,
                    **wide,
                )


# What a row's bits are.


class Host:
    """Where arrays live, and who multiplies: here NumPy's, and the model."""

    def array(self, x: npt.NDArray[Any]) -> Any:
        return x

    def repeated(self, x: npt.NDArray[Any], n: int) -> Any:
        """n numbers, those of x again and again."""
        return np.resize(x, n)

    def executor(self, unit: str, operand: str) -> Any:
        return ModelExecutor(unit, operand)

    plans: Any = tcu.plan
    """Who makes plans."""


HOST = Host()


def bits_of(each: Case, shape: Shape, place: Host = HOST) -> str:
    """The bits of a row for one of its shapes."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        name = each.operation.removeprefix("segment_") if each.layout.startswith("ragged") else each.operation
        if place is HOST and len(shape) == 1 and shape[0] > STREAMED and each.operation in STREAMS:
            return digest(STREAMS[each.operation](each, shape[0]))
        return digest(OPERATIONS.get(name, _reduction)(each, shape, place))


def digest(result: Any) -> str:
    """The code of a number; of several, the beginning of the SHA-256 of their shape and codes; text is itself."""
    if isinstance(result, str):
        return result
    code = codes(result)
    if code.size == 1:
        return f"0x{int(code.reshape(-1)[0]):0{2 * code.itemsize}x}"
    content = np.ascontiguousarray(code, code.dtype.newbyteorder("<")).tobytes()
    return hashlib.sha256(f"{code.dtype.name} {code.shape} ".encode() + content).hexdigest()[:16]


def laid(each: Case, shape: Shape, place: Host, label: str = "x") -> Any:
    """The array of a case, laid out as it says."""

    def base(size: int) -> Any:
        if size > PERIOD:
            return place.repeated(_first(each.numbers, each.dtype, label), size)
        return place.array(numbers(each.numbers, each.dtype, size, label))

    size = math.prod(shape)
    if each.layout.startswith("ragged"):
        return base(int(offsets(each.layout.split()[1], shape[0])[-1]))
    if each.layout == "shifted":
        return base(size + 1)[1:].reshape(shape)
    if each.layout == "strided":
        return base(3 * size)[::3].reshape(shape)
    if each.layout == "transposed":
        return base(size).reshape(*shape[:-2], shape[-1], shape[-2]).swapaxes(-1, -2)
    return base(size).reshape(shape)


def _options(each: Case) -> Row:
    given = each.given
    return given if each.unit is None else given | {"unit": each.unit}


def _reduction(each: Case, shape: Shape, place: Host) -> Any:
    arrays = [laid(each, shape, place)]
    if "y" in needed(getattr(tcu, each.operation)):
        arrays.append(laid(each, shape, place, "y"))
    if each.layout.startswith("ragged"):
        edges = offsets(each.layout.split()[1], shape[0])
        arrays.append(place.array(edges))
    result = getattr(tcu, each.operation)(*arrays, **_options(each))
    if each.file == "long" and "cumsum" in each.operation:
        return _sampled(result)
    return result


def _sampled(line: Any) -> npt.NDArray[Any]:
    return np.concatenate([codes(line[::SAMPLE]), codes(line[-100:])])


def _bound(each: Case, shape: Shape, place: Host) -> str:
    """Ten digits: what C libraries make of log1p and expm1 differs behind them."""
    found = np.atleast_1d(np.asarray(_reduction(each, shape, place), np.float64))
    return (
        f"{float(found[0]):.9e}" if found.size == 1 else digest(np.array([float(f"{x:.9e}") for x in found]))
    )


def _mma(each: Case, shape: Shape, place: Host) -> Any:
    m, n, k = shape
    given = each.given
    kind = each.numbers
    a = numbers(kind, each.dtype, m * k, "a").reshape(m, k)
    b = numbers(kind, given["b"], k * n, "b").reshape(k, n)
    c = numbers(kind, given["output"], m * n, "c").reshape(m, n)
    executor = "model" if place is HOST else "gpu"
    scales = {}
    if "scale" in given:
        count = k // given["per_scale"]
        scales = {
            f"scale_{name}": numbers("ordinary", given["scale"], rows * columns, f"s{name}").reshape(
                rows, columns
            )
            for name, rows, columns in (("a", m, count), ("b", count, n))
        }
    return tcu.mma(a, b, c, unit=each.unit, instruction=given["instruction"], executor=executor, **scales)


def _product(each: Case, shape: Shape, place: Host) -> Any:
    m, n, k = shape
    given = each.given
    a = laid(each, (m, k), place, "a")
    b = laid(replace(each, dtype=given.pop("b")), (k, n), place, "b")
    if given.pop("scaled", False):
        for name, count in (("scale_a", m), ("scale_b", n), ("bias", n)):
            given[name] = place.array(numbers("ordinary", "binary32", count, name))
    return tcu.matmul(a, b, unit=each.unit, **given)


def _segments_product(each: Case, shape: Shape, place: Host) -> Any:
    """Rows in five segments, one of them empty."""
    m, n, k = shape
    given = each.given
    x = laid(each, (m, k), place, "a")
    weights = laid(replace(each, dtype=given.pop("b")), (5, k, n), place, "b")
    edges = place.array(np.array([0, 1, 1, m // 3, m - 2, m]))
    return tcu.segment_matmul(x, weights, edges, unit=each.unit, **given)


def _bound_of_product(each: Case, shape: Shape, place: Host) -> str:
    m, n, k = shape
    given = each.given
    a = laid(each, (m, k), HOST, "a")
    b = laid(replace(each, dtype=given.pop("b")), (k, n), HOST, "b")
    found = tcu.matmul_error_bound(a, b, unit=each.unit, **given)
    return digest(np.array([float(f"{x:.9e}") for x in found.reshape(-1)]))


def _machine(each: Case, place: Host, m: int = 256) -> Any:
    return tcu.Machine(m, 1, executor=place.executor(str(each.unit), each.dtype))


def _real(label: str, *shape: int) -> npt.NDArray[Any]:
    return numbers("ordinary", "binary32", math.prod(shape), label).reshape(shape)


def _complex(*shape: int) -> npt.NDArray[Any]:
    return _real("real", *shape) + np.complex64(1j) * _real("imaginary", *shape)


def _integers(each: Case, shape: Shape, place: Host) -> Any:
    bytes_of = [words(label, shape[0]).tobytes() for label in ("left", "right")]
    left, right = (int.from_bytes(data, "little") for data in bytes_of)
    product = tcu.algorithms.integer_multiply(_machine(each, place), left, right, **each.given)
    return hashlib.sha256(product.to_bytes(16 * shape[0], "little")).hexdigest()[:16]


PROGRAMS: dict[str, tuple[Shape, ...]] = {
    "matmul": ((7, 5, 3), (40, 100, 33)), "strassen": ((33, 40, 35),), "tensor_sum tall": ((300,),),
    "tensor_sum two-mma": ((300,),), "dft": ((3, 12), (2, 97), (1, 1024)), "dft three": ((3, 60),),
    "dft embedded": ((3, 60),), "dft two parts": ((3, 60),), "dft backward": ((2, 210),),
}  # fmt: skip
"""Of machines, with their shapes."""


def _program(each: Case, shape: Shape, place: Host) -> Any:
    machine = _machine(each, place)
    name, _, way = each.operation.partition(" ")
    if name in ("matmul", "strassen"):
        m, k, n = shape
        a, b = _real("a", m, k), _real("b", k, n)
        return machine.matmul(a, b) if name == "matmul" else machine.strassen(a, b)
    if name == "tensor_sum":
        return np.asarray(machine.sum(_real("x", *shape), way))
    x = _complex(*shape)
    if way == "backward":
        found = machine.idft(x)
    elif way == "two parts":
        found = machine.dft(x, parts=2)
    else:
        found = machine.dft(x, product=way or "four")
    return np.ascontiguousarray(found).view(found.real.dtype)


KINDS = {"fft": "forward", "ifft": "inverse", "rfft": "from_real", "irfft": "to_real"}


def _transform(each: Case, shape: Shape, place: Host) -> Any:
    """By an engine, of numbers or pairs of them; a NaN is one, whatever its bits."""
    given, kind = each.given, KINDS[each.operation]
    axis = given.get("axis", 1)
    n = shape[axis]
    counts = [n // 2 + 1 if kind == "to_real" and i == axis else count for i, count in enumerate(shape)]
    counts += [2] * (kind != "from_real")
    x = place.array(numbers(each.numbers, each.dtype, math.prod(counts)).reshape(counts))
    factor = 1 / math.sqrt(n) if "norm" in given else 1.0
    return one_nan(engine_of([x]).fft(FftCall(x, kind, n, axis, factor, kind != "from_real")))  # type: ignore[arg-type]


def _polyval(each: Case, shape: Shape, place: Host) -> Any:
    """Ordinary points lie between -1 and 1; a NaN is one, whatever its bits."""
    n, points = shape
    x = numbers(each.numbers, each.dtype, points)
    if each.numbers == "ordinary":
        x = x / (1 + abs(x))
    c = numbers(each.numbers, each.dtype, n, "c")
    if each.operation == "polyval_error_bound":
        return digest(np.array([float(f"{bound:.9e}") for bound in tcu.polyval_error_bound(x, c)]))
    if each.layout == "transposed":
        return tcu.polyval(place.array(x).reshape(-1, 2).T, place.array(np.stack([c, -c[::-1]]).copy()).T)
    return tcu.polyval(place.array(x), place.array(c))


def _made_of_transforms(each: Case, shape: Shape, place: Host) -> Any:
    arrays = [laid(each, shape, place)]
    if each.operation == "convolve":
        arrays.append(laid(each, (shape[1] // 3,), place, "y"))
    return one_nan(getattr(tcu.fft, each.operation)(*arrays, **each.given))


def digest_of_fft(n: int, name: Any, what: str) -> str:
    """Of the plan; of what its error comes to, to six digits; of its tables; or of a butterfly."""
    fft, butterflies = (importlib.import_module(f"tcu.plan.{module}") for module in ("fft", "butterflies"))
    if what == "butterfly":
        program = butterflies.butterfly(n)
        steps = [[step.kind, step.x, step.y, step.factor(name)] for step in program.steps]
        return short([steps, program.results])
    plan = fft.fft_plan(n, name)
    if what == "error":
        return f"{plan.error:.5e}"
    if what == "plan":
        stored = [fft.TOP, fft.MOST_SHIFT] if plan.storage == "binary16" else []
        scaled = [fft.LEAST, plan.halved, *plan.falls] if plan.work == "binary16" else stored
        return short(_fft_as_data(plan) + scaled)
    tables = [] if plan.chirp is None else [fft.chirp_of(n, plan.work)]
    for each in plan.passes:
        left = each.length
        for radix in each.radices[:-1]:
            tables.append(fft.level_twiddles(left, radix, plan.work))
            left //= radix
    if len(plan.passes) > 1:
        tables += fft.pass_twiddles(n, plan.turns)[1:]
    if plan.halved:
        tables.append(fft.half_turn(n, plan.work))
    return short([hashlib.sha256(np.ascontiguousarray(each).tobytes()).hexdigest() for each in tables])


def _fft_as_data(plan: Any) -> list[Any]:
    passes = [[each.length, *each.radices] for each in plan.passes]
    return [plan.length, plan.work, plan.storage, passes, plan.chirp and _fft_as_data(plan.chirp)]


def _plan(each: Case, shape: Shape, place: Host) -> str:
    """Of the plan as data, in words that no reordering of a class changes."""
    (n,), given, fmt = shape, each.given, get_format(each.dtype)
    kind = each.operation.split()[0]
    if kind == "fft":
        return digest_of_fft(n, each.dtype, each.operation.split()[1])
    if kind == "transform":
        return digest_of_transform(n, given["side"], given["product"])
    if kind == "cumsum" and given:
        scan = place.plans.scan_plan(n, fmt, get_unit("H100"), **given)
        steps = [[type(step).__name__, *vars(step).values()] for step in scan.steps]
        return short([
            scan.n, scan.input, scan.chain, scan.accumulator, steps, scan.rows, scan.strip, list(scan.shape), list(scan.totals),
        ])  # fmt: skip
    if kind == "cumsum":
        scan = place.plans.make_scan_plan(n, fmt)
        return short([scan.n, scan.input, scan.group, *scan.radices])
    if kind == "dot":
        return digest_of_plan(place.plans.make_dot_plan(n, fmt, **given))
    if kind == "product":
        plan = place.plans.make_matmul_plan(n, each.dtype, given.pop("b"), **given)
        return short([plan.k, plan.inputs, plan.rounding, plan.accumulator, plan.chunk, plan.result])
    return digest_of_plan(place.plans.make_plan(n, fmt, get_unit("H100"), **given))


def digest_of_plan(plan: Any) -> str:
    parts = [[part.start, part.stop, *map(step_as_data, part.steps)] for part in plan.parts]
    return short([plan.n, plan.input, parts, [*map(step_as_data, plan.final)], plan.result])


def step_as_data(step: Step) -> list[Any]:
    """All of a step that decides bits; an MMA's with the order in which its numbers enter."""
    if isinstance(step, MmaStep):
        return ["mma", *step.shape, step.operand, step.accumulator, step.dots, step.chain, _order(step)]
    if isinstance(step, FmaStep):
        return ["fma", step.format, step.length, step.inner]
    return ["add", step.format, step.order, step.length, step.inner]


@cache
def _order(step: MmaStep) -> str:
    return short(tile_order(step))


def digest_of_transform(n: int, side: int, way: Any) -> str:
    plan = transform_plan(n, side, way, 1, "binary16", "float32", 14)
    if plan is None:
        return "none"
    tables = [
        (each.build.__name__, each.args)
        for level in plan.levels
        for each in (level.matrices, level.twiddles)
        if each is not None
    ]
    levels = [(level.length, level.left, level.done, level.group) for level in plan.levels]
    return short(
        [n, plan.product, plan.parts, plan.part_bits, plan.work.name, plan.top, plan.back, levels, tables]
    )


def short(data: Any) -> str:
    return hashlib.sha256(json.dumps(data).encode()).hexdigest()[:16]


OPERATIONS: dict[str, Callable[[Case, Shape, Host], Any]] = {
    **{name: _bound for name in dir(tcu) if name.endswith("error_bound")}, "mma": _mma,
    "product": _product, "segment_matmul": _segments_product, "matmul_error_bound": _bound_of_product,
    "integer_multiply": _integers, **dict.fromkeys(PROGRAMS, _program),
    **dict.fromkeys(("sum plan", "dot plan", "cumsum plan", "transform plan", "product plan"), _plan),
    **dict.fromkeys(("fft plan", "fft error", "fft tables", "fft butterfly"), _plan),
    **dict.fromkeys(KINDS, _transform), **dict.fromkeys(("dct", "dst", "convolve"), _made_of_transforms),
    "polyval": _polyval, "polyval_error_bound": _polyval,
}  # fmt: skip
"""Those that are not called as :func:`_reduction` calls all others."""


# Long arrays, through the model a piece at a time.


def _piece(each: Case, start: int, stop: int, label: str = "x") -> npt.NDArray[Any]:
    return np.resize(np.roll(_first(each.numbers, each.dtype, label), -(start % PERIOD)), stop - start)


def _stream_of_sum(each: Case, n: int) -> Any:
    unit = get_unit(each.unit or "H100")
    options = {name: value for name, value in each.given.items() if name != "dtype"}
    fmt = get_format(each.dtype)
    pair = each.operation in ("dot", "norm")
    stream = PlanStream(make_dot_plan(n, fmt) if pair else make_plan(n, fmt, unit, **options), unit)
    second = "y" if each.operation == "dot" else "x"
    for start, stop in stream.pieces(0, 1 << 22):
        x: Any = _piece(each, start, stop)
        stream.merge(start, stop, stream.work(start, (x, _piece(each, start, stop, second)) if pair else x))
    value = stream.value()
    return np.float64(
        {"mean": lambda: value / n, "norm": lambda: math.sqrt(value)}.get(each.operation, lambda: value)()
    )


def _stream_of_exact_sum(each: Case, n: int) -> Any:
    total = tcu.ExactSum()
    for start in range(0, n, 1 << 24):
        total.add(_piece(each, start, min(start + (1 << 24), n)))
    return total.value("float64")


def _stream_of_scan(each: Case, n: int) -> Any:
    fmt = get_format(each.dtype)
    length, carries, last = piece_length(fmt), Carries(), n - 100
    found, tail = [], []
    for start in range(0, n, length):
        stop = min(start + length, n)
        out = np.empty(stop - start)
        edges = np.array([0, stop - start])
        carries.push(scan_segments(_piece(each, start, stop), edges, out, False, False, carries.carry))
        found.append(out[-start % SAMPLE :: SAMPLE].copy())  # and not all that it is a part of
        tail.append(out[max(last - start, 0) :].copy())
    return np.concatenate([codes(np.concatenate(found)), codes(np.concatenate(tail))])


STREAMS: dict[str, Callable[[Case, int], Any]] = {
    **dict.fromkeys(("sum", "mean", "dot", "norm"), _stream_of_sum),
    "fsum": _stream_of_exact_sum, "cumsum": _stream_of_scan,
}  # fmt: skip


# The table.


def named(shape: Shape) -> str:
    return "x".join(map(str, shape))


def key(row: Row | Case) -> str:
    columns = row.columns() if isinstance(row, Case) else {name: row[name] for name in COLUMNS}
    return json.dumps(columns)


COLUMNS = ("operation", "layout", "dtype", "numbers", "unit", "options")


def row_of(each: Case, place: Host = HOST) -> Row:
    return each.columns() | {
        "plan": each.plan(),
        "bits": {named(shape): bits_of(each, shape, place) for shape in each.shapes},
    }


def table(file: str) -> dict[str, Row]:
    """The stored rows of a file, by what they are of."""
    path = FOLDER / f"golden-{file}.json"
    return _rows_of(path.read_text("utf-8")) if path.exists() else {}


@cache
def _rows_of(text: str) -> dict[str, Row]:
    """Tests ask for a file's rows once for each of them."""
    return {key(row): row for row in json.loads(text)}


@cache
def all_cases() -> dict[str, list[Case]]:
    """By file."""
    found: dict[str, list[Case]] = {}
    for each in cases():
        found.setdefault(each.file, []).append(each)
    return found


def differences(each: Case, stored: Row | None, place: Host = HOST) -> list[str]:
    """What a row's bits are not, in words."""
    if stored is None:
        return [f"no row for {key(each)}"]
    said, now = stored["plan"], each.plan()
    found = [] if said == now else [f"{key(each)} is of plan {said}, and the plan is {now}"]
    if list(stored["bits"]) != [named(shape) for shape in each.shapes]:
        return [*found, f"{key(each)} has other shapes than its row"]
    for shape in each.shapes:
        expected, bits = stored["bits"][named(shape)], bits_of(each, shape, place)
        if bits != expected:
            found.append(f"{key(each)}, {named(shape)}: {bits}, golden {expected}")
    return found


def write(*, same_version: bool = False, large: bool = False) -> list[str]:
    """Write the table anew.

    Returns the bits that are others although their plan's version is the same;
    if there are any, nothing is written without ``same_version``.
    """
    new: dict[str, list[Row]] = {}
    refused = []
    for file, found in all_cases().items():
        if file == "long" and not large:
            continue
        old, new[file] = table(file), [row_of(each) for each in sorted(found, key=key)]
        for row in new[file]:
            before = old.get(key(row))
            if before is None or before["plan"] != row["plan"]:
                continue
            for shape, bits in row["bits"].items():
                if before["bits"].get(shape, bits) != bits:
                    refused.append(f"{key(row)}, {shape}: {bits}, golden {before['bits'][shape]}")
    if not refused or same_version:
        for file, rows in new.items():
            _save(file, rows)
    return refused


def _save(file: str, rows: Iterable[Row]) -> None:
    text = ",\n".join(map(json.dumps, rows))
    (FOLDER / f"golden-{file}.json").write_text(f"[\n{text}\n]\n", "utf-8")


def add() -> None:
    """Of cases that are new, but for the long ones."""
    for file, found in all_cases().items():
        rows = table(file)
        new = [each for each in found if key(each) not in rows]
        if new and file != "long":
            rows = rows | {key(each): row_of(each) for each in new}  # the table is kept as it was
            _save(file, [rows[name] for name in sorted(rows)])


def main(arguments: list[str]) -> int:
    command, flags = arguments[:1], set(arguments[1:])
    if command == ["check"] and not flags:
        every = [
            (each, table(file)) for file, found in all_cases().items() if file != "long" for each in found
        ]
        found = [line for each, rows in every for line in differences(each, rows.get(key(each)))]
        print("\n".join(found[:MOST_LINES]) or "the bits are those of the table")
        return int(bool(found))
    if command == ["add"] and not flags:
        add()
        return 0
    if command != ["write"] or flags - {"--same-version", "--large"}:
        print(__doc__)
        return 2
    refused = write(same_version="--same-version" in flags, large="--large" in flags)
    if refused and "--same-version" not in flags:
        print("\n".join(refused[:MOST_LINES]))
        print(
            f"{len(refused)} results are others, and the versions of their plans are the same: nothing was written. If the "
            "order of additions is to change, give its family the next number in src/tcu/plan/version.py; if the order is "
            "the same and the bits were wrong, add --same-version"
        )
        return 1
    return 0


MOST_LINES = 20

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
