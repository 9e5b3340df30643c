"""What an experiment found: the inputs, the bits that came back, what each hypothesis predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tcu.formats.format import Format

__all__ = ["Case", "Finding", "Probe"]

Value = bool | int | str | None


@dataclass(frozen=True)
class Case:
    """One dot product c + a·b that was asked."""

    a: tuple[float, ...]
    b: tuple[float, ...]
    c: float
    """Exact values; factors that are not given are zero."""
    returned: int
    """Code of the answer in the output format."""
    predictions: dict[str, int]
    """Hypothesis → the code that it predicts."""
    scale_a: tuple[float, ...] = ()
    scale_b: tuple[float, ...] = ()
    """Where the target takes scales; ones that are not given."""

    @property
    def agreeing(self) -> tuple[str, ...]:
        """The hypotheses that the answer confirms."""
        return tuple(name for name, code in self.predictions.items() if code == self.returned)


@dataclass(frozen=True)
class Finding:
    """One experiment."""

    name: str
    """Short and stable, such as "rounding mode"."""
    source: str
    """Where the experiment is from, such as "paper 003, Rounding modes in tensor core computations"."""
    question: str
    cases: tuple[Case, ...]
    value: Value
    """The answer as data; None where the experiment cannot tell."""
    conclusion: str
    """The answer in one sentence."""


@dataclass(frozen=True)
class Probe:
    """Every experiment that applies to a target."""

    target: str
    input: Format
    output: Format
    k: int
    kind: Literal["aligned", "chain", "block", "integer"]
    """Which experiments apply: those of aligned sums, of IEEE arithmetic, of other sums of blocks, or of integers."""
    findings: tuple[Finding, ...]
    second: Format | None = None
    """Format of B, where it is another than A's."""

    def __getitem__(self, name: str) -> Finding:
        """The finding of that name; raises KeyError."""
        for finding in self.findings:
            if finding.name == name:
                return finding
        raise KeyError(name)
