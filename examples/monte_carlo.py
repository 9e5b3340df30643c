"""A Monte-Carlo integral: the same samples, summed in several ways and in several orders.

The integrals of 4 / (1 + t²) and of 4 √(1 - t²) over [0, 1] are both π.  The mean of
their difference says how far two estimates from the same samples are apart; its
terms cancel, so that it is only as good as the sum: in binary32 every order
loses other digits, also where they are added in pairs, as NumPy does.
"""

from __future__ import annotations

import argparse
import math

import numpy as np

import tcu

SUMS = {
    "one after another, float32": lambda y: np.cumsum(y)[-1] / np.float32(y.size),
    "numpy.mean, float32": lambda y: y.mean(dtype=np.float32),
    "tcu.mean": tcu.mean,
    "tcu.fmean": tcu.fmean,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--orders", type=int, default=10, help="shuffles of the same samples")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    t = rng.random(given.samples)
    y = (4 / (1 + t * t) - 4 * np.sqrt(1 - t * t)).astype(np.float32)
    estimate = math.fsum(y.tolist()) / y.size
    print(f"{given.samples:,} samples; two estimates of pi are {estimate:.10f} apart")
    print(f"{'mean':28} {'value':>14} {'relative error':>17} {'different results':>18}")
    for name, mean in SUMS.items():
        first = float(mean(y))
        different = {float(mean(rng.permutation(y))) for _ in range(given.orders)} | {first}
        print(f"{name:28} {first:14.10f} {abs(first / estimate - 1):17.1e} {len(different):18}")


if __name__ == "__main__":
    main()
