"""Paper 002's figure 5 and its comparison of power on the GPU at hand (segmented reduction on tensor cores).

`measure` needs the GPU and nvcc and writes benchmarks/results/paper-002.json in
about a minute; `draw` makes one self-contained HTML page of it on any machine
that has plotly; `choose` writes the table that variant="paper-002" goes by,
which changes the bits of that variant.
"""

from __future__ import annotations

import argparse
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure", help="on the GPU")
    measure.add_argument("--quick", action="store_true", help="2^26 numbers and every other size of segments")
    measure.add_argument("--cccl", type=Path, help="folder with CCCL's headers, in place of the newest found")
    measure.add_argument("--dry-run", action="store_true", help="by the CPU model, to try it without a GPU")
    for name, what in (("draw", "anywhere: needs plotly"), ("choose", "anywhere")):
        command = commands.add_parser(name, help=what)
        command.add_argument("figures", nargs="?", type=Path, default=RESULTS / "paper-002.json")
    arguments = parser.parse_args()
    if arguments.command == "measure":
        import paper_002_measure

        written = paper_002_measure.measure(arguments.quick, arguments.cccl, arguments.dry_run)
    elif arguments.command == "draw":
        import paper_002_draw

        written = paper_002_draw.draw(arguments.figures)
    else:
        import paper_002_choose

        written = paper_002_choose.choose(arguments.figures)
    print(f"written to {written}")


if __name__ == "__main__":
    main()
