"""``tcu reveal`` and ``tcu replay``: the plan of any sum or product, and what a plan returns."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import typer
from rich.text import Text

from tcu.cli import options
from tcu.cli.foreign import foreign_function, told
from tcu.cli.npy_file import array_in, arrays_for
from tcu.cli.output import console, json_number, print_json, write_page
from tcu.cli.progress import waiting
from tcu.cli.tree_drawing import drawn_tree
from tcu.cli.whole_numbers import whole
from tcu.errors import DataFileError, ParameterError, ShapeError
from tcu.formats.format import format_of
from tcu.plan import MatmulPlan, Plan, load_plan
from tcu.probes.black_box import same_bits
from tcu.probes.library import dtype_for, with_arrays_alone
from tcu.probes.replay import multiplies, predict, tree_of
from tcu.probes.reveal import reveal
from tcu.probes.revealed import Revealed, SumCounterexample
from tcu.report.html_page import Markup, page
from tcu.report.html_page import drawing as html_drawing
from tcu.report.tree_svg import tree_svg
from tcu.unfinished import check_place

__all__ = ["replay_command", "reveal_command"]

NOT_REPRODUCED = DIFFERENT = 1
_KINDS = {
    "sum": "sum", "fsum": "sum", "nansum": "sum", "cumsum": "cumsum", "dot": "dot", "vdot": "dot", "inner": "dot", "matmul": "matmul",
    "mm": "matmul",
}  # fmt: skip
"""What functions of these names do, where the user does not say."""
_SHOWN = 8
"""Results, or numbers of a counterexample, that are printed."""


def reveal_command(
    *,
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="numpy.sum, torch.matmul, FILE.py:NAME, PACKAGE.MODULE:NAME: f(x), f(x, y) or f(A, B).",
        ),
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            metavar="KIND",
            help="sum, dot, matmul or cumsum; else by its name.",
            rich_help_panel=options.TARGET,
        ),
    ] = None,
    n: Annotated[
        str | None,
        typer.Option(
            "--n",
            metavar="N",
            help="Numbers or pairs that are added up, such as 1000 or 2^10.",
            rich_help_panel=options.TARGET,
        ),
    ] = None,
    shape: Annotated[
        tuple[str, str, str] | None,
        typer.Option(
            "--shape", metavar="M N K", help="Of a product, in place of --n.", rich_help_panel=options.TARGET
        ),
    ] = None,
    dtype: Annotated[
        str,
        typer.Option("--dtype", metavar="DTYPE", help="Of the arrays.", rich_help_panel=options.TARGET),
    ] = "float32",
    outputs: Annotated[
        str | None,
        typer.Option(
            "--outputs",
            metavar="N",
            help="Fresh results that must agree.",
            rich_help_panel=options.TARGET,
        ),
    ] = None,
    seed: options.Seed = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write the plan, as JSON, if it was found.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg", metavar="FILE", help="Write a drawing of the tree, too.", rich_help_panel=options.OUTPUT
        ),
    ] = None,
    html: options.Html = None,
    as_json: options.Json = False,
) -> None:
    """Find the plan of any sum or product from its answers: who is added with whom, and in which arithmetic.

    The plan is compared on fresh inputs that were made to tell plans apart; one
    different bit, and it is not reproduced.  Infinities, NaN and overflow are
    asked about afterwards: where the plan does not hold there, the answer says so.

    Exit code: 0 reproduced, 1 not, 2 bad input.

    Examples: [bold]tcu reveal numpy.sum --n 1000[/bold]

    [bold]tcu reveal torch.matmul --shape 64 64 256 --dtype bfloat16 -o plan.json[/bold]
    """
    place = target.rpartition(":")[0]
    for written in (output, svg, html):
        if written is not None:
            check_place(written, [place] if place.endswith(".py") else [])
    function = _function(target)
    kind = kind or _KINDS.get(target.replace(":", ".").rpartition(".")[2])
    if kind is None:
        raise ParameterError(f"what does {target} compute? Say --kind sum, dot, matmul or cumsum")
    size = None if n is None else whole("--n", n)
    sizes = None if shape is None else tuple(whole("--shape", each) for each in shape)
    compared = None if outputs is None else whole("--outputs", outputs)
    with waiting(f"revealing {target}") as progress:
        found = reveal(
            function, size, kind=kind, dtype=dtype_for(target, dtype), shape=sizes, outputs=compared, seed=seed, progress=progress,  # type: ignore[arg-type]
        )  # fmt: skip
    reproduced = found.verdict == "reproduced"
    if output is not None and reproduced:
        assert found.plan is not None
        found.plan.save(output)
    if found.plan is not None:
        _draw(target, found, found.plan, svg, html)
    if as_json:
        print_json(_document(target, found))
    else:
        _show(target, found)
    if not reproduced:
        raise typer.Exit(NOT_REPRODUCED)


def _function(target: str) -> Callable[..., Any]:
    """numpy.sum as well as numpy:sum."""
    place, _, name = target.rpartition(".")
    text = target if ":" in target else f"{place}:{name}"
    if not text.partition(":")[0]:
        raise ParameterError(f"TARGET {target}: write numpy.sum, FILE.py:NAME or PACKAGE.MODULE:NAME")
    function = foreign_function(text, "TARGET")

    asked = with_arrays_alone(target.replace(":", "."), function)

    def call(*arrays: Any) -> Any:
        with told(f"TARGET {target}"), np.errstate(all="ignore"):
            return asked(*arrays)

    call.__name__ = target
    return call


def _show(target: str, found: Revealed) -> None:
    screen = console()
    sign, style = ("✓", "bold green") if found.verdict == "reproduced" else ("✗", "bold red")
    screen.print(Text.assemble((f"{sign} ", style), (target, "bold cyan"), f"  {found.conclusion}"))
    screen.print(Text(f"{found.asked:,} calls of the function", style="dim"))
    if found.plan is not None:
        step = tree_of(found.plan)
        title = "The tree" if found.verdict == "reproduced" else "The tree of the best plan"
        screen.print(Text(f"\n{title}: {step}\n", style="bold cyan"))
        for line in drawn_tree(step):
            screen.print(line)
    if found.counterexample is not None:
        screen.print(Text("\nWhere it goes wrong\n", style="bold cyan"))
        for name, text in _example(found.counterexample).items():
            screen.print(f"{name}: {text}")


def _draw(target: str, found: Revealed, plan: Plan, svg: Path | None, html: Path | None) -> None:
    """The tree of the plan in files."""
    if svg is None and html is None:
        return
    step = tree_of(plan)
    drawing = tree_svg(step)
    if svg is not None:
        write_page(svg, drawing)
    if html is not None:
        lines = drawn_tree(step)
        text = Text("\n".join(lines))
        terminal = html_drawing(text, max(map(len, lines)))
        write_page(html, page(f"{target}: {step}", found.conclusion, Markup(drawing), terminal))


def _example(example: SumCounterexample) -> dict[str, str]:
    found = {}
    for name, array in (("x", example.x), ("y", example.y)):
        if array is not None:
            places = np.argwhere(array != 0)
            texts = [
                f"[{', '.join(map(str, place))}] = {float(array[tuple(place)]).hex()}"
                for place in places[:_SHOWN].tolist()
            ]
            more = f", and {len(places) - _SHOWN:,} more" if len(places) > _SHOWN else ""
            found[name] = (", ".join(texts) + more + ", else 0") if texts else "0 everywhere"
    where = f" at {list(example.result)}" if example.result else ""
    return found | {
        f"the function returns{where}": example.function.hex(), f"the plan returns{where}": example.plan.hex(),
    }  # fmt: skip


def _document(target: str, found: Revealed) -> dict[str, Any]:
    example = found.counterexample
    return {
        "target": target, "kind": found.kind, "shape": list(found.shape), "output": found.output,
        "verdict": found.verdict, "conclusion": found.conclusion, "compared": found.compared,
        "different": found.different, "asked": found.asked,
        "tree": None if found.plan is None else drawn_tree(tree_of(found.plan)),
        "counterexample": None if example is None else {
            "x": _numbers(example.x), "y": None if example.y is None else _numbers(example.y),
            "result": list(example.result), "function": json_number(example.function), "plan": json_number(example.plan),
        },
        "special": [
            {
                "what": each.what, "x": _numbers(each.x), "y": None if each.y is None else _numbers(each.y),
                "result": list(each.result), "function": None if each.function is None else json_number(each.function),
                "raised": each.raised or None, "plan": json_number(each.plan),
            }
            for each in found.special
        ],
    }  # fmt: skip


def _numbers(array: npt.NDArray[Any]) -> Any:
    if array.ndim > 1:
        return [_numbers(each) for each in array]
    return [json_number(each) for each in array.astype(np.float64).tolist()]


def replay_command(
    *,
    plan: Annotated[
        Path,
        typer.Argument(
            metavar="PLAN.json",
            help="A plan that [bold]tcu reveal -o[/bold] wrote, or one of tcu.matmul, MatmulPlan.save.",
        ),
    ],
    arrays: Annotated[
        list[Path],
        typer.Argument(metavar="A.npy [B.npy]", help="The numbers; two arrays of a plan of products."),
    ],
    unit: options.PlanUnit = None,
    against: Annotated[
        Path | None,
        typer.Option(
            "--against",
            metavar="FILE.npy",
            help="Results to compare with, bit for bit.",
            rich_help_panel=options.OUTPUT,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE.npy", help="Write the results.", rich_help_panel=options.OUTPUT
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Compute what a saved plan returns for arrays, and compare it with results from elsewhere.

    Exit code: 0 done, and nothing differs; 1 results differ; 2 bad input.

    Example: [bold]tcu replay plan.json A.npy B.npy --against C.npy[/bold]
    """
    read = [plan, *arrays, *([] if against is None else [against])]
    if output is not None:
        check_place(output, [str(each) for each in read])
    loaded = load_plan(plan)
    found = predict(loaded, *arrays_for(loaded, arrays), unit=unit)
    if output is not None:
        _write(output, found)
    document = _replayed(loaded, found)
    if against is not None:
        document["different"] = different = _different(
            loaded, found, array_in(against, loaded.result), against
        )
    if as_json:
        print_json(document)
    else:
        screen = console()
        screen.print(
            Text.assemble(
                (str(plan), "bold cyan"),
                f"  {document['n']:,} {'pairs' if multiplies(loaded) else 'numbers'}, {document['dtype']}",
            )
        )
        for name, bits in zip(document["values"], document["bits"], strict=True):
            screen.print(f"{name}  {bits}")
        if found.size > _SHOWN:
            screen.print(f"... {found.size:,} results")
        screen.print(f"SHA-256 of all bits: {document['sha256']}")
        if against is not None:
            text = (
                f"{different:,} of {found.size:,} results differ from {against}"
                if different
                else f"every bit is that of {against}"
            )
            screen.print(Text(text, style="bold red" if different else "bold green"))
    if against is not None and different:
        raise typer.Exit(DIFFERENT)


def _codes(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.ascontiguousarray(array).reshape(-1).view(format_of(array.dtype).code_dtype)


def _replayed(plan: Plan | MatmulPlan, found: npt.NDArray[Any]) -> dict[str, Any]:
    fmt, codes = format_of(found.dtype), _codes(found)
    shown = codes[:_SHOWN].tolist()
    return {
        "n": plan.k if isinstance(plan, MatmulPlan) else plan.n, "dtype": str(found.dtype), "shape": list(found.shape),
        "values": [str(float(value)) for value in found.reshape(-1)[:_SHOWN]],
        "bits": [f"0x{code:0{fmt.bits // 4}x}" for code in shown],
        "sha256": hashlib.sha256(codes.tobytes()).hexdigest(),
    }  # fmt: skip


def _different(plan: Plan | MatmulPlan, found: npt.NDArray[Any], given: npt.NDArray[Any], place: Path) -> int:
    """How many results differ; which NaN a NaN is, a tree leaves open."""
    if given.shape != found.shape or given.dtype != found.dtype:
        raise ShapeError(
            f"{place} holds {given.dtype} {given.shape}: the plan returns {found.dtype} {found.shape} for these arrays"
        )
    same = same_bits(found, given) if isinstance(plan, Plan) else _codes(found) == _codes(given)
    return int(np.count_nonzero(~same))


def _write(place: Path, found: npt.NDArray[Any]) -> None:
    try:
        with place.open("wb") as file:
            np.save(file, found)
    except OSError as error:
        raise DataFileError(
            f"cannot write {place}: {error.strerror or error}: choose another place"
        ) from None
