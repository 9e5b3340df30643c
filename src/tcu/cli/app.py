"""The program ``tcu``: its commands, and what becomes of every failure."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

import tcu
from tcu.cli import (
    calibrating,
    catalogue,
    costing,
    explain,
    probing,
    reductions,
    report,
    scans,
    sums,
    tuning,
    vectors,
)  # fmt: skip
from tcu.cli.output import complain
from tcu.errors import TcuError
from tcu.ops import OPERATIONS
from tcu.ops.layout import Whole
from tcu.surfaces.served import is_served

__all__ = ["app", "main"]

BAD_INPUT = 2
BROKEN_PIPE = 1
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""

app = typer.Typer(
    name="tcu",
    help="What tensor cores compute, bit for bit: sums that anyone can reproduce, and every step explained.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("sum")(sums.sum_command)
app.command("cumsum")(scans.cumsum_command)
app.command("compare")(sums.compare_command)
_written = {command.name for command in app.registered_commands}
for _operation in OPERATIONS.values():
    if _operation.name not in _written and is_served(_operation, Whole, "command line"):
        app.command(_operation.name)(reductions.command_of(_operation))
app.command("units")(catalogue.units_command)
app.command("explain")(explain.explain_command)
app.command("probe")(probing.probe_command)
app.command("infer")(probing.infer_command)
app.command("collect")(vectors.collect_command)
app.command("verify")(vectors.verify_command)
app.command("tune")(tuning.tune_command)
app.command("cost")(costing.cost_command)
app.command("calibrate")(calibrating.calibrate_command)
app.command("report")(report.report_command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tcu {tcu.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program with ``arguments`` (None: the process's own) and return its exit code.

    0: done; 2: bad input, after one line on stderr; 130: interrupted; 1: the commands
    that compare found a difference, or the reader of stdout went away.
    """
    if sys.stdout is None:  # closed before we began
        return BAD_INPUT
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without our signs gets question marks
        sys.stdout.reconfigure(errors="replace")
    try:
        given = _with_minus_signs(sys.argv[1:] if arguments is None else arguments)
        code = app(given, prog_name="tcu", standalone_mode=False)
        sys.stdout.flush()
    except TcuError as error:
        return _fail(*(str(error).split("\n") if error.ends_in_log else [str(error)]))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes stdout once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115  the interpreter flushes it at its end
        return _fail(f"cannot write the answer: {error.strerror or error}")
    except MemoryError:
        return _fail("out of memory: save the numbers as .npy, which is read a piece at a time")
    except Exception as error:
        # Typer brings its own copy of Click or imports it, depending on its version,
        # so a usage error is known by what it offers, not by its class.
        message = getattr(error, "format_message", None)
        if message is None:
            raise
        return _fail(f"{_sentence(message())}; see {_help_of(error)}")
    return code if isinstance(code, int) else 0


_NEGATIVE = re.compile(r"-(?=[\s\d.(]|inf|nan)", re.IGNORECASE)


def _with_minus_signs(arguments: Sequence[str]) -> list[str]:
    """An expression may begin with a minus, which would pass for an option: explain reads "−", too."""
    if arguments[:1] != ["explain"]:
        return list(arguments)
    return [_NEGATIVE.sub("−", text, count=1) if _NEGATIVE.match(text) else text for text in arguments]


def _sentence(text: str) -> str:
    text = " ".join(text.split()).rstrip(".")
    return text[:1].lower() + text[1:]


def _help_of(error: Exception) -> str:
    context = getattr(error, "ctx", None)
    return f"{getattr(context, 'command_path', 'tcu')} --help"


def _fail(*lines: str) -> int:
    complain("error", "bold red", *lines)
    return BAD_INPUT
