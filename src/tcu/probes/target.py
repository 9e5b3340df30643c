"""What a probe looks at: anything that computes D = A·B + C."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tcu import cpu, gpu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.formats.array import encode_array, whole_number
from tcu.formats.format import Format, get_format
from tcu.formats.scalar import Number, encode
from tcu.model.mma import multiply_accumulate
from tcu.units.arithmetic import AlignedSum, Arithmetic, ExactInteger, FusedChain
from tcu.units.catalogue import CATALOGUE
from tcu.units.instruction import Evidence, Instruction, Unit
from tcu.units.lookup import canonical_instruction, find_instruction, find_scale, get_unit

__all__ = [
    "Codes", "Function", "Operation", "Question", "Target", "as_target", "of_instruction", "operation_of", "unknown_arithmetic",
]  # fmt: skip

Codes = npt.NDArray[Any]
Function = Callable[..., npt.NDArray[Any]]
"""D of A, B and C, and of the scales of A and B where there are any."""


@dataclass(frozen=True)
class Question:
    """Codes of A (M, k), B (k, N) and C (M, N)."""

    a: Codes
    b: Codes
    c: Codes
    scales: tuple[Codes, Codes] | None = None
    """Of A and B, (M, k/s) and (k/s, N), where s successive k share one."""


@dataclass(frozen=True)
class Operation:
    """The formats and k of D = A·B + C, which is all that operands are drawn for."""

    input: Format
    output: Format
    k: int
    """Products that one instruction adds up."""
    second: Format | None = field(default=None, kw_only=True)
    """Format of B, where it is another than A's."""
    scale: Format | None = field(default=None, kw_only=True)
    """Format of the scales of A and B; None: there are none."""
    per_scale: int = field(default=0, kw_only=True)
    """How many k share a scale."""

    @property
    def right(self) -> Format:
        """Format of B."""
        return self.second or self.input

    def codes(self, values: npt.NDArray[np.float64]) -> Codes:
        """Input words of values."""
        return _words(values, self.input)

    def right_codes(self, values: npt.NDArray[np.float64]) -> Codes:
        """Words of B of values."""
        return _words(values, self.right)

    def instruction(
        self, arithmetic: Arithmetic, shape: tuple[int, int], evidence: tuple[Evidence, ...] = ()
    ) -> Instruction:
        """One that could be this operation's."""
        formats = self.input.name, self.right.name, self.output.name
        scales = (None, 0) if self.scale is None else (self.scale.name, self.per_scale)
        return Instruction("mma", *formats, (*shape, self.k), arithmetic, evidence, *scales)

    def output_codes(self, values: npt.NDArray[np.float64]) -> Codes:
        return encode_array(values, self.output)


@dataclass(frozen=True)
class Target(Operation):
    """An operation that can be asked; its arithmetic is unknown to the probes."""

    name: str
    function: Function

    def __call__(self, a: Codes, b: Codes, c: Codes, scales: tuple[Codes, Codes] | None = None) -> Codes:
        """Codes of D (M, N) for codes of A (M, k), B (k, N) and C (M, N), and of the scales, else ones where it takes any."""
        x, y, z = self.input.dtype, self.right.dtype, self.output.dtype
        given = [(a, x), (b, y), (c, z)]
        if self.scale is not None:
            count = self.k // self.per_scale
            one = np.array(encode(Number.of(1), self.scale), self.scale.code_dtype)
            of_a, of_b = scales or (np.full((len(a), count), one), np.full((count, b.shape[1]), one))
            given += [(of_a, self.scale.dtype), (of_b, self.scale.dtype)]
        # Copies, because a function may work in place, or return the same array each time.
        with np.errstate(all="ignore"):  # inf and NaN are among the questions
            d = self.function(*(words.view(dtype).copy() for words, dtype in given))
        d = np.array(d, order="C")
        if d.shape != c.shape or d.dtype != self.output.dtype:
            raise ShapeError(
                f"{self.name} returned {d.dtype} {d.shape}: for C of {self.output.dtype} {c.shape} it must "
                "return an array of the same"
            )
        return d.view(self.output.code_dtype)

    def answer(self, q: Question) -> Codes:
        """Codes of D for a question."""
        return self(q.a, q.b, q.c, q.scales)

    def dots(
        self,
        a: list[list[float]],
        b: list[list[float]],
        c: list[float],
        scales: Sequence[tuple[Sequence[float], Sequence[float]]] | None = None,
    ) -> Codes:
        """Codes of independent dot products c + a·b of exact values, short rows padded with zeros."""
        result = np.empty(len(a), self.output.code_dtype)
        for i, (x, y, z) in enumerate(zip(a, b, c, strict=True)):
            left, right = np.zeros(self.k), np.zeros(self.k)
            left[: len(x)], right[: len(y)] = x, y
            result[i] = self(
                self.codes(left)[None, :],
                self.right_codes(right)[:, None],
                self.output_codes(np.array([[z]])),
                None if scales is None else self._scale_codes(*scales[i]),
            )[0, 0]
        return result

    def _scale_codes(self, of_a: Sequence[float], of_b: Sequence[float]) -> tuple[Codes, Codes]:
        assert self.scale is not None
        return encode_array([of_a], self.scale), encode_array([[each] for each in of_b], self.scale)


def as_target(
    target: str | Unit | Function,
    *,
    instruction: str = "mma",
    input: str = "binary16",
    output: str | None = None,
    k: int | None = None,
    scale: tuple[str, int] | None = None,
) -> Target:
    """A target from a unit of the catalogue, a unit of your own, "gpu" or "cpu" for what is at hand, or a function.

    A function f(a, b, c) takes arrays (M, k), (k, N), (M, N) of the dtypes of
    ``input`` and ``output`` (default binary32), returns D (M, N), and must be
    told ``k``.  ``input`` names the format of A and B, or both: "e4m3,e5m2".
    ``scale`` names the format of scales and how many k share one, ("ue8m0",
    32): the function is f(a, b, c, scale_a, scale_b), with scale_a (M, k/32)
    and scale_b (k/32, N).  Of a unit's instruction it is the first that the
    catalogue has, unless given.
    """
    fmt, other = _inputs(input)
    if callable(target):
        k, given = whole_number(k), "a function" if k is None else f"k={k!r}: a function"
        if k is None or k < 1:
            raise ParameterError(
                f"{given} needs k=..., 1 or more: the whole number of products that it adds up at a time"
            )
        _check_call(target, scale is not None)
        name = getattr(target, "__name__", type(target).__name__)
        result = get_format(output or _widest(fmt))
        known = {
            (row.a, row.b, row.output, row.scale) for unit in CATALOGUE.values() for row in unit.instructions
        }
        if scale is not None and not (
            isinstance(scale, Sequence) and not isinstance(scale, str) and len(scale) == 2
        ):
            raise ParameterError(
                f'scale={scale!r}: give a format and how many k share one, such as ("ue8m0", 32)'
            )
        scaled = None if scale is None else get_format(scale[0])
        if (fmt.name, other.name, result.name, scaled and scaled.name) not in known:
            pair = fmt.name if fmt is other else f"{fmt.name} and {other.name}"
            pair += "" if scaled is None else f" with scales of {scaled.name}"
            raise DtypeError(f"no unit multiplies {pair} into {result.name}: tcu units lists what there is")
        per_scale = 0 if scale is None else whole_number(scale[1]) or 0
        if scale is not None and (per_scale < 1 or k % per_scale):
            raise ParameterError(
                f"scale={scale!r}: {scale[1]} k to a scale, but k = {k} is no multiple of it"
            )
        second = _second(fmt, other)
        return Target(fmt, result, k, name, target, second=second, scale=scaled, per_scale=per_scale)
    if not isinstance(target, str | Unit):
        raise ParameterError(
            f"target is of type {type(target).__name__}: give a unit's name, a unit, or a function f(a, b, c)"
        )
    if scale is not None and target in ("gpu", "cpu"):
        raise ParameterError(
            f"scale={scale!r}: tcu runs no instruction with scales on the {target}; give a unit or a function"
        )
    if target == "gpu":
        return _gpu(instruction, fmt, other, output, k)
    if target == "cpu":
        return _cpu(instruction, fmt, other, output)
    unit = get_unit(target)
    if scale is None:
        named = find_scale(unit, instruction, fmt.name, other.name)
    else:
        named = get_format(scale[0]).name, scale[1]
    row = find_instruction(unit, instruction, fmt.name, other.name, output and get_format(output).name, named)
    return of_instruction(f"{unit.name} {row.signature}", row)


def _check_call(function: Function, scaled: bool) -> None:
    """Raises ParameterError for a function that cannot be called so."""
    names = ("a", "b", "c", "scale_a", "scale_b")[: 5 if scaled else 3]
    try:
        inspect.signature(function).bind(*names)
    except ValueError:  # of what has none
        pass
    except TypeError as error:
        call = f"f({', '.join(names)})"
        raise ParameterError(
            f"the function is called as {call}, and takes other arguments ({error}): let it add c itself, as f(a, b) + c is "
            "another arithmetic; of a product f(a, b) alone, tcu.reveal(f, kind='matmul', shape=(M, N, K)) finds the order"
        ) from None


def _inputs(given: str) -> tuple[Format, Format]:
    """The formats of A and B; binary32 is read as TF32."""
    names = [name.strip() for name in given.split(",")]
    if len(names) > 2:
        raise ParameterError(f"input={given!r}: name one format, or those of A and B, such as e4m3,e5m2")
    formats = [get_format(name) for name in names]
    formats = [get_format("tf32") if fmt.name == "binary32" else fmt for fmt in formats]
    return formats[0], formats[-1]


def _second(a: Format, b: Format) -> Format | None:
    """B's format, unless it is A's."""
    return b if b.name != a.name else None


def _words(values: npt.NDArray[np.float64], fmt: Format) -> Codes:
    return np.asarray(encode_array(values, fmt) << np.array(fmt.storage_shift, fmt.code_dtype))


def _gpu(instruction: str, fmt: Format, other: Format, output: str | None, k: int | None) -> Target:
    """The GPU at hand; its arithmetic is not looked up, only what it can run."""
    at_hand = gpu.find_gpu()
    result = get_format(output or _widest(fmt))
    wanted = (canonical_instruction(instruction), fmt.name, other.name, result.name)
    rows = [
        row
        for row in at_hand.kernels
        if (row.name, row.a, row.b, row.output) == wanted and k in (None, row.k)
    ]
    if not rows:
        has = ", ".join(row.signature for row in at_hand.kernels)
        pair = fmt.name if fmt.name == other.name else f"{fmt.name}·{other.name}"
        raise DtypeError(f"{at_hand.name} has no {instruction} {pair} → {result.name}; it has: {has}")
    kernel = max(rows, key=lambda row: row.k)
    # The executor looks at formats and k only; the arithmetic is what the probes are to find.
    unknown = unknown_arithmetic(kernel.output)
    blank = Instruction(kernel.name, kernel.a, kernel.b, kernel.output, kernel.shape, unknown, ())

    def function(a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return np.asarray(gpu.multiply_accumulate(a, b, c, blank))

    name = f"{at_hand.name} {kernel.signature}"
    return Target(fmt, result, kernel.k, name, function, second=_second(fmt, other))


def _cpu(instruction: str, fmt: Format, other: Format, output: str | None) -> Target:
    """The processor of this machine, likewise."""
    at_hand = cpu.find_cpu()
    row = cpu.own_instruction(at_hand, instruction, fmt.name, other.name, output and get_format(output).name)

    def function(a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return cpu.multiply_accumulate(a, b, c, row)

    name, second = f"{at_hand.name} {row.signature}", _second(fmt, other)
    return Target(fmt, get_format(row.output), row.k, name, function, second=second)


def unknown_arithmetic(output: str) -> Arithmetic:
    """A stand-in for the row of an instruction whose arithmetic nobody asks for."""
    rows: dict[str, Arithmetic] = {"binary64": FusedChain(), "s32": ExactInteger()}
    return rows.get(output, AlignedSum(1, 1, "RZ"))


def operation_of(row: Instruction) -> Operation:
    """Formats and k of one instruction."""
    a, scale = get_format(row.a), None if row.scale is None else get_format(row.scale)
    return Operation(
        a,
        get_format(row.output),
        row.k,
        second=_second(a, get_format(row.b)),
        scale=scale,
        per_scale=row.per_scale,
    )


def of_instruction(name: str, row: Instruction) -> Target:
    """The model of one instruction, as a target like any other."""

    def function(
        a: npt.NDArray[Any], b: npt.NDArray[Any], c: npt.NDArray[Any], *scales: npt.NDArray[Any]
    ) -> npt.NDArray[Any]:
        return multiply_accumulate(a, b, c, row, scales=(scales[0], scales[1]) if scales else None)

    return Target(**vars(operation_of(row)), name=name, function=function)


def _widest(fmt: Format) -> str:
    return "s32" if not fmt.is_float else "binary64" if fmt.name == "binary64" else "binary32"
