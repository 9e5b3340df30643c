"""Options that several commands share, each written down once."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = [
    "Accumulator",
    "Block",
    "Chain",
    "DataFile",
    "Fraction",
    "InputDtype",
    "Json",
    "Key",
    "ResultDtype",
]

_FILE, _PLAN, _OUTPUT = "The numbers", "The schedule", "The answer"

DataFile = Annotated[
    str, typer.Argument(metavar="FILE", help="A .npy, .npz, .csv or .txt file, or - for standard input.")
]
Key = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Which array of a .npz file.", rich_help_panel=_FILE),
]
InputDtype = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        help="Round every number to this format first: float16, bfloat16, float32 or float64. "
        "bfloat16 also says what raw 2-byte items are, as NumPy saves them.",
        rich_help_panel=_FILE,
    ),
]
Chain = Annotated[
    int | None,
    typer.Option(
        "-R",
        "--chain",
        metavar="R",
        help="MMAs in a row on one accumulator; else the variant's default.",
        rich_help_panel=_PLAN,
    ),
]
Block = Annotated[
    int | None,
    typer.Option(
        "-B",
        "--block",
        metavar="B",
        help="Threads per block, a multiple of 32 up to 1024; else the variant's default.",
        rich_help_panel=_PLAN,
    ),
]
Accumulator = Annotated[
    str | None,
    typer.Option(
        metavar="DTYPE",
        help="Format of C and D in the chains: float32 or float16; else the widest.",
        rich_help_panel=_PLAN,
    ),
]
Fraction = Annotated[
    float | None,
    typer.Option(
        metavar="SHARE",
        help="Share of the numbers that the variant split gives to the tensor cores, 0 to 1; else 0.5.",
        rich_help_panel=_PLAN,
    ),
]
ResultDtype = Annotated[
    str | None,
    typer.Option(
        "--dtype",
        metavar="DTYPE",
        help="Format of the sum; else float32 for 16-bit numbers, and the numbers' own otherwise.",
        rich_help_panel=_OUTPUT,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead.", rich_help_panel=_OUTPUT)
]
