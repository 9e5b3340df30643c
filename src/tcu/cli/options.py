"""Options that several commands share, each written down once, and whole lists of them."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from tcu.errors import ParameterError
from tcu.plan import SCAN_VARIANTS, VARIANTS
from tcu.units import DEFAULT_UNIT

__all__ = [
    "OUTPUT", "TARGET", "Correction", "DataFile", "DataFiles", "Html", "Json", "Numbers", "PlanUnit", "Reading", "ResultDtype", "ScanVariant", "Schedule", "TargetOptions", "UnitName", "Variant", "size_of", "spread",
]  # fmt: skip

FILE, PLAN, TARGET, OUTPUT = "The numbers", "The schedule", "The target", "The answer"
"""Titles under which the help lists options."""


def spread(command: Callable[..., None], left_out: Collection[str] = ()) -> Callable[..., None]:
    """``command`` with one parameter for every field of a list of options that it takes; some are left out.

    Typer makes an option of each parameter, so a list that two commands share
    would have to stand in the signatures of both.
    """
    hints = get_type_hints(command, include_extras=True)
    lists: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name not in lists:
            parameters.append(
                parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[parameter.name])
            )
            continue
        kind = lists[parameter.name]
        types = get_type_hints(kind, include_extras=True)
        parameters += [
            inspect.Parameter(each.name, parameter.KEYWORD_ONLY, default=each.default, annotation=types[each.name])
            for each in fields(kind)
        ]  # fmt: skip

    parameters = [parameter for parameter in parameters if parameter.name not in left_out]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        made = {
            name: kind(**{each.name: given.pop(each.name, each.default) for each in fields(kind)})
            for name, kind in lists.items()
        }
        command(**given, **made)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


DataFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A .npy, .npz, .csv or .txt file, or - for standard input.")
]


@dataclass(frozen=True)
class Numbers:
    """Which numbers of a file, and how they are read."""

    key: Annotated[
        str | None,
        typer.Option(
            "--key",
            metavar="NAME",
            help="Which array of a .npz or HDF5 file or of a Zarr group.",
            rich_help_panel=FILE,
        ),
    ] = None
    column: Annotated[
        str | None,
        typer.Option(
            "--column",
            metavar="COLUMN",
            help="One column of a Parquet or text file, by its name; of a text file also by its number from 1, 2 or "
            "'#2', else all fields of all lines.",
            rich_help_panel=FILE,
        ),
    ] = None
    header: Annotated[
        bool | None,
        typer.Option(
            "--header/--no-header",
            help="Whether the first line of a text file names its columns, as 2019,2020 may; else it does if none of its "
            "fields is a number, and is data if all are.",
            show_default=False,
            rich_help_panel=FILE,
        ),
    ] = None
    input_dtype: Annotated[
        str | None,
        typer.Option(
            "--input-dtype",
            metavar="DTYPE",
            help="Round every number to this format first: float16, bfloat16, float32 or float64. "
            "bfloat16 also says what raw 2-byte items are, as NumPy saves them.",
            rich_help_panel=FILE,
        ),
    ] = None


DataFiles = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE...",
        help="Files, folders or globs: .npy, Zarr, HDF5, Parquet, .npz, .csv, .txt; or - for standard input.",
    ),
]


@dataclass(frozen=True)
class Reading:
    """How numbers of any length are read."""

    memory: Annotated[
        str,
        typer.Option(
            "--memory",
            metavar="SIZE",
            help="Memory for numbers, such as 512M or 4G, beside what the program itself takes (about 200M).",
            rich_help_panel=FILE,
        ),
    ] = "1G"
    gpu: Annotated[
        bool,
        typer.Option(
            "--gpu", help="Copy the numbers to the GPU at hand and sum them there.", rich_help_panel=FILE
        ),
    ] = False
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            "--checkpoint",
            metavar="FILE",
            help="Keep the state there, and go on from it after an interruption, to the same bits.",
            rich_help_panel=FILE,
        ),
    ] = None
    checkpoint_every: Annotated[
        float,
        typer.Option(
            "--checkpoint-every",
            metavar="SECONDS",
            help="How often the state is kept.",
            min=0.0,
            rich_help_panel=FILE,
        ),
    ] = 10.0


_SIZES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def size_of(text: str) -> int:
    """Bytes from a size with K, M, G or T, powers of 1024; raises ParameterError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise ParameterError(f"--memory {text}: give a size such as 512M, 4G or a number of bytes")
    return int(float(match[1]) * _SIZES[match[2]])


UnitName = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="UNIT",
        help=f"See [bold]tcu units[/bold]; else {DEFAULT_UNIT}, or with --gpu the GPU's.",
    ),
]
PlanUnit = Annotated[
    str | None,
    typer.Option(
        "--unit",
        metavar="UNIT",
        help=f"Of a plan by MMAs, see [bold]tcu units[/bold]; else {DEFAULT_UNIT}.",
    ),
]
ScanVariant = Annotated[
    str, typer.Option("--variant", metavar="NAME", help=f"One of {', '.join(SCAN_VARIANTS)}.")
]
Variant = Annotated[str, typer.Option("--variant", metavar="NAME", help=f"One of {', '.join(VARIANTS)}.")]


@dataclass(frozen=True)
class Schedule:
    """The order of the additions, as far as the variant leaves it open."""

    chain: Annotated[
        int | None,
        typer.Option(
            "-R",
            "--chain",
            metavar="R",
            help="MMAs in a row on one accumulator; else the variant's default.",
            rich_help_panel=PLAN,
        ),
    ] = None
    block: Annotated[
        int | None,
        typer.Option(
            "-B",
            "--block",
            metavar="B",
            help="Threads per block, a multiple of 32 up to 1024; else the variant's default.",
            rich_help_panel=PLAN,
        ),
    ] = None
    accumulator: Annotated[
        str | None,
        typer.Option(
            "--accumulator",
            metavar="DTYPE",
            help="Format of C and D in the chains: float32 or float16; else the widest.",
            rich_help_panel=PLAN,
        ),
    ] = None
    fraction: Annotated[
        float | None,
        typer.Option(
            "--fraction",
            metavar="SHARE",
            help="Share of the numbers that the variant split gives to the tensor cores, 0 to 1; else 0.5.",
            rich_help_panel=PLAN,
        ),
    ] = None

    def check(self, variants: Sequence[str]) -> None:
        """Refuse the share of the tensor cores where nothing would be shared."""
        if self.fraction is not None and "split" not in variants:
            raise ParameterError(
                f"--fraction {self.fraction}: only the variant split divides the numbers between tensor cores and "
                "ordinary ones: give --variant split, or leave --fraction out"
            )


@dataclass(frozen=True)
class TargetOptions:
    """A unit, the GPU or the processor at hand, or a function of the user's, and what to ask of it."""

    target: Annotated[
        str | None, typer.Argument(metavar="TARGET", help="A unit (see [bold]tcu units[/bold]), gpu or cpu.")
    ] = None
    module: Annotated[
        str | None,
        typer.Option(
            "--module",
            metavar="FILE.py:NAME",
            help="Instead of TARGET: a function f(a, b, c) → d of arrays (M, k), (k, N), (M, N), in a file or "
            "as PACKAGE.MODULE:NAME. Needs --k.",
            rich_help_panel=TARGET,
        ),
    ] = None
    instruction: Annotated[
        str | None,
        typer.Option(
            "--instruction",
            metavar="NAME",
            help="mma (default), wgmma, tcgen05, or a processor's, such as vdpbf16ps.",
            rich_help_panel=TARGET,
        ),
    ] = None
    input_format: Annotated[
        str | None,
        typer.Option(
            "--input",
            metavar="FORMAT",
            help="f16 (default), bf16, tf32, e4m3, e5m2, f64 or s8; of A and B: e4m3,e5m2.",
            rich_help_panel=TARGET,
        ),
    ] = None
    output: Annotated[
        str | None,
        typer.Option(
            "--output",
            metavar="FORMAT",
            help="f32, f16, f64 or s32; else the widest.",
            rich_help_panel=TARGET,
        ),
    ] = None
    k: Annotated[
        int | None,
        typer.Option(
            "--k",
            metavar="K",
            help="Products that the function or gpu adds at a time.",
            min=1,
            max=4096,
            rich_help_panel=TARGET,
        ),
    ] = None
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale",
            metavar="FORMAT/K",
            help="Scales of A and B, as ue8m0/32: a scale to 32 k. The function is f(a, b, c, scale_a, scale_b).",
            rich_help_panel=TARGET,
        ),
    ] = None


Correction = Annotated[
    float,
    typer.Option(
        "--correction",
        metavar="C",
        help="Taken off the count in the denominator: 1 for an unbiased estimate from a sample.",
    ),
]
ResultDtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        help="Format of the sum; else float32 for 16-bit numbers, and the numbers' own otherwise.",
        rich_help_panel=OUTPUT,
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="S",
        help="Seed of the inputs, for the same ones again; else they are drawn anew.",
        min=0,
        rich_help_panel=TARGET,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead.", rich_help_panel=OUTPUT)
]
Html = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", help="Write one self-contained page, too.", rich_help_panel=OUTPUT
    ),
]
