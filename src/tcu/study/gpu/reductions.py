"""What paper 000 measured, measured again: the sweeps of R, B and the split, and every variant over n.

Times are of one call by CUDA events (timing.py), on one buffer as in the
paper; errors are against the exact sum, of as many arrays as every study
draws.  The sweeps are made at the paper's n
of about a million, where an H200 measures its launches, and at one that fills it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Any

from tcu.study.data import DRAWS
from tcu.study.gpu.data import DISTRIBUTIONS, random_array, reference
from tcu.study.gpu.peers import Libraries, Participant, cub_name, gather, result_value, sum_of
from tcu.study.gpu.timing import Clock, CudaClock, first_line
from tcu.study.study import Rows

__all__ = ["compare", "sweep"]

SECONDS = 0.1
"""For each call that takes part in a row of turns."""
CUB_HALF, CUB_FLOAT = cub_name("float16", "float16"), cub_name("float32", "float32")


@cache
def clock() -> Clock:
    return CudaClock()


@cache
def libraries() -> Libraries:
    return Libraries(["float16", "float32"], None)


def sweep(n: int, options: list[dict[str, Any]]) -> Rows:
    """Time and error of tcu.sum with each set of parameters, on normal binary16 data."""
    who = [Participant(str(number), sum_of(**option)) for number, option in enumerate(options)]
    found = rows(who, n, ("normal",), clock())
    return [{"n": n, **option, **row} for option, row in zip(options, found, strict=True)]


def compare(n: int, tuned: dict[str, dict[str, Any]]) -> Rows:
    """Time and error of every variant, ``tuned`` ones, the classic reduction and CUB in binary16 and binary32."""
    field = gather("float16", libraries(), variants=True, compiled=False).participants
    who = [one for one in field if one.name.startswith(("tcu", "warp")) or one.name == CUB_HALF]
    who += [Participant(name, sum_of(**parameters)) for name, parameters in tuned.items()]
    # It reads the same numbers as binary32, twice the bytes.
    cub = [one for one in libraries().cub("float32").participants if one.name == CUB_FLOAT]
    who += [Participant(one.name, one.run, lambda x: x.float()) for one in cub]
    found = rows(who, n, DISTRIBUTIONS, clock())
    return [{"n": n, "who": one.name, **row} for one, row in zip(who, found, strict=True)]


def rows(
    who: list[Participant], n: int, distributions: Sequence[str], clock: Clock, device: str = "cuda"
) -> list[dict[str, Any]]:
    """For each participant its seconds on normal data and percent errors of all draws, or in words why there are none."""
    found: dict[str, dict[str, Any]] = {
        one.name: {"percent_error": {name: [] for name in distributions}} for one in who
    }
    for name, trial in itertools.product(distributions, range(DRAWS)):
        x = random_array(name, n, "float16", device, trial)
        exact = reference(x).exact
        for one in who:
            if "missing" in found[one.name]:
                continue
            try:
                error = percent(result_value(one.run(one.prepare(x))), exact)
            except Exception as why:  # parameters that the variant or this GPU does not take
                found[one.name] = {"missing": first_line(why)}
            else:
                found[one.name]["percent_error"][name].append(error)
    x = random_array("normal", n, "float16", device)
    calls: dict[str, Callable[[int], Any]] = {
        one.name: partial(_call, one.run, one.prepare(x)) for one in who if "missing" not in found[one.name]
    }
    for name, timing in clock.events(calls, 1, SECONDS * len(calls)).items():
        found[name]["seconds"] = timing.median
    return [found[one.name] for one in who]


def _call(run: Callable[[Any], Any], x: Any, number: int) -> Any:
    return run(x)


def percent(value: float, exact: float) -> float | None:
    """None: the sum overflowed."""
    return 100 * abs(value - exact) / abs(exact) if math.isfinite(value) else None
