"""The program ``tcu``: its commands, and what becomes of every failure."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tcu.cli.output import complain, headline
from tcu.errors import TcuError
from tcu.ops import OPERATIONS
from tcu.ops.layout import Whole
from tcu.surfaces.served import is_served
from tcu.version import __version__

__all__ = ["COMMANDS", "LateCommand", "app", "main"]

BAD_INPUT = 2
BROKEN_PIPE = 1
INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""

COMMANDS = {
    "sum": ("sums", "Sum numbers by a plan, or as a tensor core would, and compare with the exact sum."),
    "cumsum": (
        "scans",
        "Write the running sums of numbers, added in binary64, with the same bits on every machine.",
    ),
    "fcumsum": ("scans", "Write the running sums of numbers, each rounded once from the exact sum."),
    "compare": ("sums", "Sum a file on several units by several variants, side by side."),
    "units": ("catalogue", "List the matrix units of the catalogue, or all that is known about one."),
    "explain": (
        "explain",
        "Draw how a unit computes c + a0·b0 + a1·b1 + ...: which bits are kept, cut and rounded.",
    ),
    "probe": (
        "probing",
        "Find by experiment how a unit multiplies and adds: rounding, extra bits, order, subnormals, ...",
    ),
    "infer": ("probing", "Infer a bit-exact model of a unit, a GPU or a function from its answers alone."),
    "reveal": (
        "revealing",
        "Find the plan of any sum or product from its answers: who is added with whom, and in which arithmetic.",
    ),
    "replay": (
        "revealing",
        "Compute what a saved plan returns for arrays, and compare it with results from elsewhere.",
    ),
    "audit": (
        "auditing",
        "Check a random sample of the outputs of a product, or of sums of rows, against a saved plan.",
    ),
    "collect": (
        "vectors",
        "Ask the GPU at hand, or the processor, every kind of question, and keep its answers in a file.",
    ),
    "verify": ("vectors", "Replay a GPU's answers through the catalogue, and compare every bit."),
    "tune": ("tuning", "Find the fastest launch configurations for the GPU at hand, and store them."),
    "cost": ("costing", "What an algorithm costs on an (m, ℓ)-TCU machine: ledger, theorem, ratio."),
    "calibrate": (
        "calibrating",
        "Fit m, ℓ and a unit of time to measured tall products, then predict algorithms and compare.",
    ),
    "report": ("report", "The papers' figures, tables and statements, measured again on this machine."),
}
"""Name → the module of this package that has it, and what the list of commands says about it."""
COMMANDS |= {
    name: ("reductions", headline(operation.documentation))
    for name, operation in OPERATIONS.items()
    if name not in COMMANDS and is_served(operation, Whole, "command line")
}


class _Flags:
    """Of a command or a group: flags are shown without a value, as they take none."""

    def get_params(self, context: Any) -> list[Any]:
        """The parameters that help shows, --help among them."""
        found: list[Any] = super().get_params(context)  # type: ignore[misc]
        for each in found:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return found


class _Command(_Flags, TyperCommand):
    pass


class _Group(_Flags, TyperGroup):
    pass


class LateCommand(TyperCommand):
    """A command whose module is imported when it is run: others pay nothing for the studies that one of them needs."""

    @cached_property
    def loaded(self) -> Any:
        """The command itself, with its options."""
        assert self.name is not None
        module = import_module(f"tcu.cli.{COMMANDS[self.name][0]}")
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="rich")
        alone.command(self.name, cls=_Command)(getattr(module, f"{self.name}_command"))
        return typer.main.get_command(alone)

    def make_context(self, *given: Any, **named: Any) -> Any:
        """What Click parses the options into, and runs."""
        return self.loaded.make_context(*given, **named)


app = typer.Typer(
    name="tcu",
    cls=_Group,
    help="What tensor cores compute, bit for bit: sums that anyone can reproduce, and every step explained.",
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
for _name, (_, _headline) in COMMANDS.items():
    app.command(_name, cls=LateCommand, help=_headline)(lambda: None)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tcu {__version__}")
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
