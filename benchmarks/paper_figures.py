"""Paper 000's figures 3, 5, 6, 7 and 8 on the GPU at hand (Navarro et al., GPU tensor cores for fast arithmetic
reductions).

`measure` needs the GPU and writes benchmarks/results/paper-000.json, which
`tcu report` draws on any machine.
"""

from __future__ import annotations

import argparse
from pathlib import Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    measure = commands.add_parser("measure", help="on the GPU")
    measure.add_argument("--quick", action="store_true", help="few parameters, sizes of a million and below")
    measure.add_argument("--cccl", type=Path, help="folder with CCCL's headers, in place of the newest found")
    measure.add_argument("--dry-run", action="store_true", help="by the CPU model, to try it without a GPU")
    arguments = parser.parse_args()
    import paper_measure

    print(f"written to {paper_measure.measure(arguments.quick, arguments.cccl, arguments.dry_run)}")


if __name__ == "__main__":
    main()
