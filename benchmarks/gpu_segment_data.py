"""Arrays cut into segments, and what every sum and every prefix of them is, exactly.

Each number is a multiple of 2^-24, drawn from a normal distribution of deviation 1/4, so that
int64 sums of 2^30 of them are exact: prefix[i] holds the sum of the first i, and the sum of any
segment is a difference of two.  math.fsum of segments drawn at random must agree with these
prefixes, bit for bit, before anything is compared with them.

The bound of an element, where ``mass`` is the sum of the magnitudes that enter it, u the unit
roundoff of the result's format and eta its smallest subnormal:

    |result - exact| <= u |exact| + eta / 2 + allowed u mass + 2^-53 |exact|

The last term is the rounding of the exact sum to binary64, in which both are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tcu.study.gpu.data import SEED, DisagreementError, to_host, torch_dtype

QUANTUM = 2.0**-24
DEVIATION = 0.25
"""A prefix of 2^29 numbers stays within binary16."""
PIECE = 1 << 27
"""Elements that are made or compared at a time."""
SAMPLES = 64
"""Segments that math.fsum sums too."""
SAMPLED = 1 << 14
"""Their most elements."""

MEANS = (1, 4, 8, 64, 512, 20_000)
POWER_LAW = "power law"
EXPONENT, LONGEST, EMPTY = 0.75, 1 << 20, 64
"""P(length >= k) = k^-EXPONENT up to LONGEST, a mean of 123; one segment of EMPTY is empty besides."""
RAGGED = (*(f"geometric, mean {mean}" for mean in MEANS), POWER_LAW)


def random_array(n: int, dtype: str, device: str) -> torch.Tensor:
    generator = torch.Generator(device).manual_seed(SEED)
    x = torch.empty(n, dtype=torch_dtype(dtype), device=device)
    for start in range(0, n, PIECE):
        piece = torch.empty(min(PIECE, n - start), device=device).normal_(0, DEVIATION, generator=generator)
        x[start : start + PIECE] = piece.div_(QUANTUM).round_().mul_(QUANTUM)
    return x


def ragged_offsets(case: str, n: int, device: str) -> torch.Tensor:
    """Offsets of segments that together hold n elements; the last one is cut off there.

    Raises DisagreementError where an offset is less than the one before.
    """
    generator = torch.Generator(device).manual_seed(SEED + RAGGED.index(case))
    pieces = [torch.zeros(1, dtype=torch.int64, device=device)]
    last = 0
    while last < n:
        ends = last + _lengths(case, n - last, device, generator).cumsum(0)
        pieces.append(ends[ends < n])
        last = int(ends[-1])
    offsets = torch.cat([*pieces, torch.full((1,), n, dtype=torch.int64, device=device)])
    if bool((offsets.diff() < 0).any()):
        raise DisagreementError(f"{case}: offsets that fall")
    return offsets


def _lengths(case: str, n: int, device: str, generator: torch.Generator) -> torch.Tensor:
    """Lengths drawn independently, of n elements or somewhat fewer or more."""
    if case == POWER_LAW:
        count = n // 80 + 64
        uniform = 1 - torch.rand(count, generator=generator, device=device, dtype=torch.float64)
        lengths = uniform.pow_(-1 / EXPONENT).clamp_(max=LONGEST).to(torch.int64)
        empty = torch.randint(EMPTY, (count,), generator=generator, device=device) == 0
        return lengths.masked_fill_(empty, 0)
    mean = MEANS[RAGGED.index(case)]
    lengths = torch.empty(n // mean + 64, dtype=torch.int64, device=device)
    # From 0 on: empty segments too.  On a GPU geometric_ gives 0 once in 10^7 draws, of which -1 would be left.
    return lengths.geometric_(1 / (mean + 1), generator=generator).clamp_(min=1) - 1


@dataclass(frozen=True)
class Exact:
    """Prefix sums of the numbers and of their magnitudes in units of QUANTUM, each with a 0 before it."""

    sums: torch.Tensor
    masses: torch.Tensor

    @classmethod
    def of(cls, x: torch.Tensor) -> Exact:
        units = torch.zeros(x.numel() + 1, dtype=torch.int64, device=x.device)
        for start in range(0, x.numel(), PIECE):
            piece = x[start : start + PIECE]
            units[1 + start : 1 + start + PIECE] = piece.double() / QUANTUM
        exact = cls(units.cumsum(0), units.abs_().cumsum(0))
        exact.confirm(x)
        return exact

    def confirm(self, x: torch.Tensor) -> None:
        """Raises DisagreementError where math.fsum of a random segment is not the difference of two prefixes."""
        rng = np.random.default_rng(SEED)
        for begin in rng.integers(0, x.numel(), SAMPLES).tolist():
            end = min(begin + int(rng.integers(1, SAMPLED)), x.numel())
            values = to_host(x[begin:end]).astype(np.float64)
            for prefix, given in ((self.sums, values), (self.masses, np.abs(values))):
                ours, python = int(prefix[end] - prefix[begin]) * QUANTUM, math.fsum(given.tolist())
                if ours != python:
                    raise DisagreementError(
                        f"elements {begin} to {end}: {ours!r}, but {python!r} by math.fsum"
                    )

    def segments(self, offsets: torch.Tensor) -> Wanted:
        return Wanted.whole(*(one[offsets[1:]] - one[offsets[:-1]] for one in (self.sums, self.masses)))

    def rows(self, rows: int, length: int) -> Wanted:
        end = rows * length + 1
        return Wanted.whole(*(one[0:end:length].diff() for one in (self.sums, self.masses)))

    def along(self, shape: tuple[int, ...], axis: int) -> Wanted:
        units = self.sums[: math.prod(shape) + 1].diff().view(shape)
        return Wanted.whole(units.sum(axis).flatten(), units.abs().sum(axis).flatten())

    def prefixes_along(self, shape: tuple[int, ...], axis: int) -> Wanted:
        """Inclusive scans along an axis."""
        units = self.sums[: math.prod(shape) + 1].diff().view(shape)
        return Wanted.whole(units.cumsum(axis).flatten(), units.abs().cumsum(axis).flatten())

    def prefixes_of_segments(self, offsets: torch.Tensor) -> Wanted:
        """An inclusive scan of each segment; the segments together hold all elements."""

        def pieces() -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
            n = self.sums.numel() - 1
            for start in range(0, n, PIECE):
                where = slice(start, min(start + PIECE, n))
                at = torch.arange(where.start, where.stop, device=self.sums.device)
                begin = offsets[torch.searchsorted(offsets, at, right=True) - 1]
                ends = slice(where.start + 1, where.stop + 1)
                yield where, *(one[ends] - one[begin] for one in (self.sums, self.masses))

        return Wanted(pieces)

    def prefixes(self, n: int, length: int) -> Wanted:
        """Inclusive scans of rows of that length; the rows together hold n elements."""

        def pieces() -> Iterator[tuple[slice, torch.Tensor, torch.Tensor]]:
            for start in range(0, n, PIECE):
                where = slice(start, min(start + PIECE, n))
                row = torch.arange(where.start, where.stop, device=self.sums.device) // length * length
                ends = slice(where.start + 1, where.stop + 1)
                yield where, *(one[ends] - one[row] for one in (self.sums, self.masses))

        return Wanted(pieces)


@dataclass(frozen=True)
class Wanted:
    """The exact results in units of QUANTUM, with their masses, a piece of the flattened result at a time."""

    pieces: Callable[[], Iterator[tuple[slice, torch.Tensor, torch.Tensor]]]

    @classmethod
    def whole(cls, sums: torch.Tensor, masses: torch.Tensor) -> Wanted:
        return cls(lambda: iter([(slice(0, sums.numel()), sums, masses)]))

    def verdict(self, result: torch.Tensor, allowed: float) -> dict[str, Any]:
        """The element that comes nearest to its bound, or is furthest beyond it, and "right" or "WRONG"."""
        flat = result.reshape(-1)
        info = torch.finfo(flat.dtype)
        u, eta = info.eps / 2, info.smallest_normal * info.eps
        worst: dict[str, Any] = {"share_of_bound": -1.0}
        seen = 0
        for where, sums, masses in self.pieces():
            exact = sums.double().mul_(QUANTUM)
            got = flat[where].double()
            if got.shape != exact.shape:
                return {"state": "WRONG", "why": f"{flat.numel()} results"}
            bound = exact.abs() * (u + 2.0**-53) + masses.double() * (QUANTUM * allowed * u) + eta / 2
            bound.clamp_(min=5e-324)  # half of binary64's smallest number is 0
            share = torch.nan_to_num((got - exact).abs_().div_(bound), nan=math.inf)
            at = int(share.argmax())
            seen += got.numel()
            if float(share[at]) > worst["share_of_bound"]:
                value, wanted = float(got[at]), float(exact[at])
                ulp = max(info.eps * 2.0 ** (math.frexp(wanted)[1] - 1), eta) if wanted else eta
                worst = {
                    "share_of_bound": float(share[at]), "index": where.start + at, "result": repr(value),
                    "exact": wanted, "ulps": abs(value - wanted) / ulp if math.isfinite(value) else None,
                }  # fmt: skip
        right = seen == flat.numel() and worst["share_of_bound"] <= 1
        return worst | {"state": "right" if right else "WRONG"}


def norm_wanted(operation: str, x: torch.Tensor, n: int) -> Wanted:
    """The norm of the first n numbers, or the dot product of those and the next n, from sums of binary64."""
    total, mass = 0.0, 0.0
    for start in range(0, n, PIECE):
        end = min(start + PIECE, n)
        first = x[start:end].double()
        product = first.square() if operation == "norm" else first * x[n + start : n + end].double()
        total, mass = total + float(product.sum()), mass + float(product.abs().sum())
    found = (math.sqrt(total), math.sqrt(mass)) if operation == "norm" else (total, mass)
    return Wanted.whole(
        *(torch.tensor([each / QUANTUM], dtype=torch.float64, device=x.device) for each in found)
    )


def confirm_checker(device: str) -> None:
    """Raises DisagreementError if a planted error passes, or a result that is rounded once does not."""
    x = random_array(1 << 12, "float16", device)
    rounded = (x.double().view(-1, 16).cumsum(1)).to(torch.float16).flatten()
    wanted = Exact.of(x).prefixes(x.numel(), 16)
    planted = {"none": rounded, "shifted": rounded.roll(1), "short": rounded[:-1]}
    for name, value in (("one spacing", None), ("NaN", math.nan), ("inf", math.inf)):
        wrong = rounded.clone()
        wrong[999] = wrong[999] * (1 + 2.0**-9) if value is None else value
        planted[name] = wrong
    for name, result in planted.items():
        if (wanted.verdict(result, 0.0)["state"] == "right") is not (name == "none"):
            raise DisagreementError(f"the check of results does not see what is planted: {name}")
