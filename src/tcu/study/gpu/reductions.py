"""What paper 000 measured, measured again: the sweeps of R, B and the split, and every variant over n.

Times are of one call by CUDA events (timing.py), on one buffer as in the
paper; errors are against the exact sum.  The sweeps are made at the paper's n
of about a million, where an H200 measures its launches, and at one that fills it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

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
    x = random_array("normal", n, "float16", "cuda")
    who = [Participant(str(number), sum_of(**option)) for number, option in enumerate(options)]
    found = rows(who, {"normal": x}, clock())
    return [{"n": n, **option, **row} for option, row in zip(options, found, strict=True)]


def compare(n: int, tuned: dict[str, dict[str, Any]]) -> Rows:
    """Time and error of every variant, ``tuned`` ones, the classic reduction and CUB in binary16 and binary32."""
    field = gather("float16", libraries(), variants=True, compiled=False).participants
    who = [one for one in field if one.name.startswith(("tcu", "warp")) or one.name == CUB_HALF]
    who += [Participant(name, sum_of(**parameters)) for name, parameters in tuned.items()]
    # It reads the same numbers as binary32, twice the bytes.
    cub = [one for one in libraries().cub("float32").participants if one.name == CUB_FLOAT]
    who += [Participant(one.name, one.run, lambda x: x.float()) for one in cub]
    data = {name: random_array(name, n, "float16", "cuda") for name in DISTRIBUTIONS}
    found = rows(who, data, clock())
    return [{"n": n, "who": one.name, **row} for one, row in zip(who, found, strict=True)]


def rows(who: list[Participant], data: dict[str, Any], clock: Clock) -> list[dict[str, Any]]:
    """For each participant its seconds on normal data and percent errors, or in words why there are none."""
    exact = {name: reference(x).exact for name, x in data.items()}
    calls: dict[str, Callable[[int], Any]] = {}
    found: dict[str, dict[str, Any]] = {}
    for one in who:
        try:
            arrays = {name: one.prepare(x) for name, x in data.items()}
            errors = {name: percent(result_value(one.run(x)), exact[name]) for name, x in arrays.items()}
        except Exception as error:  # parameters that the variant or this GPU does not take
            found[one.name] = {"missing": first_line(error)}
        else:
            found[one.name] = {"percent_error": errors}
            calls[one.name] = partial(_call, one.run, arrays["normal"])
    for name, timing in clock.events(calls, 1, SECONDS * len(calls)).items():
        found[name]["seconds"] = timing.median
    return [found[one.name] for one in who]


def _call(run: Callable[[Any], Any], x: Any, number: int) -> Any:
    return run(x)


def percent(value: float, exact: float) -> float | None:
    """None: the sum overflowed."""
    return 100 * abs(value - exact) / abs(exact) if math.isfinite(value) else None
