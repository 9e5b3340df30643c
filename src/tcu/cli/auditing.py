"""``tcu audit``: a random sample of outputs against a saved plan."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from tcu.cli import options
from tcu.cli.npy_file import array_in, arrays_for
from tcu.cli.output import console, print_json
from tcu.plan import load_plan
from tcu.probes.audit import Audit, audit

__all__ = ["audit_command"]

WRONG = 1
_SHOWN = 8
"""Wrong outputs that are printed."""
_SHARES = (0.1, 0.01, 0.001, 0.0001)
_PROBABILITIES = (0.95, 0.99)


def audit_command(
    *,
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN.json", help="A plan that [bold]tcu reveal -o[/bold] or Plan.save wrote."
        ),
    ],
    outputs: Annotated[Path, typer.Argument(metavar="C.npy", help="The outputs to check.")],
    arrays: Annotated[
        list[Path],
        typer.Argument(
            metavar="A.npy [B.npy]", help="What they are of; two arrays where the plan is of products."
        ),
    ],
    sample: Annotated[
        int,
        typer.Option(
            "--sample", metavar="N", help="Outputs to check; all of them where there are no more.", min=1
        ),
    ] = 1000,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="S", help="Of the sample; else a fresh one, which nobody could know.", min=0
        ),
    ] = None,
    unit: options.PlanUnit = None,
    as_json: options.Json = False,
) -> None:
    """Check a random sample of the outputs of a product, or of sums of rows, against a saved plan.

    Files are mapped into memory, and of them only the rows and columns of the
    sample are read.  Says which outputs are wrong, and with which probability
    wrong ones would have gone unseen.

    Exit code: 0 every output of the sample is right, 1 some are wrong, 2 bad input.

    Example: [bold]tcu audit plan.json C.npy A.npy B.npy[/bold]
    """
    loaded = load_plan(plan)
    a, *b = arrays_for(loaded, arrays)
    found = audit(
        array_in(outputs, loaded.result), a, b[0] if b else None, loaded, sample=sample, seed=seed, unit=unit
    )
    if as_json:
        print_json(_document(found))
    else:
        _show(outputs, found)
    if not found.passed:
        raise typer.Exit(WRONG)


def _hex(found: Audit, bits: int) -> str:
    return f"0x{bits:0{found.bits // 4}x}"


def _document(found: Audit) -> dict[str, Any]:
    return {
        "passed": found.passed, "outputs": found.outputs, "sampled": found.sampled, "wrong": found.wrong,
        "wrong_outputs": [
            {"position": list(each.position), "bits": _hex(found, each.bits), "expected": _hex(found, each.expected)}
            for each in found.wrong_outputs
        ],
        "unseen": [{"share": share, "probability": found.unseen(share)} for share in _SHARES],
        "seen": [{"probability": each, "share": found.seen(each)} for each in _PROBABILITIES],
        "seed": found.seed,
    }  # fmt: skip


def _show(outputs: Path, found: Audit) -> None:
    screen = console()
    sign, style = ("✓", "bold green") if found.passed else ("✗", "bold red")
    what = f"{found.sampled:,} of {found.outputs:,} outputs checked, {found.wrong or 'none'} wrong"
    screen.print(Text.assemble((f"{sign} ", style), (str(outputs), "bold cyan"), f"  {what}"))
    for each in found.wrong_outputs[:_SHOWN]:
        screen.print(
            f"{list(each.position)}  {_hex(found, each.bits)}, by the plan {_hex(found, each.expected)}"
        )
    if found.wrong > _SHOWN:
        screen.print(f"... and {found.wrong - _SHOWN:,} more")
    if found.sampled < found.outputs:
        often, oftener = (f"{found.seen(each):.2g}" for each in _PROBABILITIES)
        likely, surely = _PROBABILITIES
        screen.print(
            f"It shows a wrong share of {often} with probability {likely}, of {oftener} with {surely}."
        )
    screen.print(Text(f"seed {found.seed}", style="dim"))
