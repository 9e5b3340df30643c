"""The version of each family of plans: a number that changes whenever the order of its additions does.

Every plan carries the number of its family.  The golden bits of the tests
(tests/golden.py) record it, so that a change of order either fails them or
comes with a new number here; and a plan prints it from 2 on, so that a
checkpoint of another version is refused as one of another plan.
"""

from __future__ import annotations

from typing import Literal

__all__ = ["VERSIONS", "Family", "said"]

Family = Literal[
    "additions",
    "sum",
    "blocks",
    "segmented",
    "chosen",
    "dot",
    "scan",
    "triangular",
    "transform",
    "fft",
    "matmul",
    "polyval",
    "tree",
]

VERSIONS: dict[Family, int] = {
    "additions": 1, "sum": 1, "blocks": 2, "segmented": 1, "chosen": 2, "dot": 1, "scan": 1, "triangular": 1, "transform": 1, "fft": 5, "matmul": 1, "polyval": 1, "tree": 1,
}  # fmt: skip
"""Of the default plans of :func:`tcu.sum`; of its other plans; among them of those whose blocks' numbers are added up at the end, of the algorithms of
paper 002, and of its best one; of dot products; of running sums; of those by MMAs; of transforms on the machine; of fast Fourier transforms; of matrix products; of polynomials' values; of trees that were
revealed, which are data of their own: the number is that of how such data are read."""


def said(version: int) -> str:
    """What a plan's text says of its version: nothing of the first, as texts without it are kept in checkpoints."""
    return f", version {version}" if version > 1 else ""
