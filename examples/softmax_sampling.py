"""Rows of logits normalised and sampled from, the way a language model draws its next tokens.

Probabilities are divided by the sum of their row, ``tcu.sum`` along the axis;
a token is drawn where the running sum of the probabilities, ``tcu.cumsum``,
passes a uniform number.  With running sums in binary32 the last one is not the
sum of the row, so that some numbers fall off the end or on tokens of
probability zero; running sums by a plan end where the sum ends, and draw the
same tokens on every machine.
"""

from __future__ import annotations

import argparse

import numpy as np
import numpy.typing as npt

import tcu

Array = npt.NDArray[np.float32]


def softmax(logits: Array) -> Array:
    """Each row as probabilities."""
    weights = np.exp(logits - logits.max(axis=-1, keepdims=True))
    normalised: Array = weights / tcu.sum(weights, axis=-1, keepdims=True)
    return normalised


def draw(running: npt.NDArray[np.floating], uniform: npt.NDArray[np.floating]) -> npt.NDArray[np.int64]:
    """For each row the first place where the running sum passes the number."""
    places: npt.NDArray[np.int64] = (running <= uniform[:, None]).sum(axis=-1)
    return places


def one_after_another(x: Array, dtype: npt.DTypeLike) -> npt.NDArray[np.floating]:
    return np.cumsum(x, axis=-1, dtype=dtype)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--tokens", type=int, default=32_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    logits = rng.normal(0, 1, (given.rows, given.tokens)).astype(np.float32)
    probabilities = softmax(logits)
    uniform = rng.random(given.rows)
    exact = np.cumsum(probabilities, axis=-1, dtype=np.longdouble)
    wanted = draw(exact, uniform)
    print(f"{given.rows:,} rows of {given.tokens:,} tokens")
    print(f"{'running sums':28} {'largest error':>14} {'other tokens drawn':>19}")
    for name, running in (
        ("one after another, float32", one_after_another(probabilities, np.float32)),
        ("tcu.cumsum", tcu.cumsum(probabilities, axis=-1)),
        ("tcu.cumsum, float64", tcu.cumsum(probabilities, axis=-1, dtype=np.float64)),
    ):
        error = float(np.abs(running - exact).max())
        other = int((draw(running, uniform) != wanted).sum())
        print(f"{name:28} {error:14.1e} {other:19}")


if __name__ == "__main__":
    main()
