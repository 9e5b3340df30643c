"""The energy of an n-body system, and how much of its drift is the sum that measures it.

Bodies move under gravity by the leapfrog scheme in binary64, which keeps the
energy nearly constant.  The energy is a sum over all pairs; here it is measured
in binary32 several ways.  What an inaccurate sum adds looks like drift.
"""

from __future__ import annotations

import argparse
import itertools
import math

import numpy as np
import numpy.typing as npt

import tcu

Array = npt.NDArray[np.float64]
SOFTENING = 0.05
SUMS = {
    "one after another, float32": lambda x: float(np.cumsum(x)[-1]),
    "numpy.sum, float32": lambda x: float(x.sum(dtype=np.float32)),
    "tcu.sum": lambda x: float(tcu.sum(x)),
    "tcu.fsum": lambda x: float(tcu.fsum(x)),
}


def separations(position: Array) -> tuple[Array, Array]:
    """Vectors from every body to every other, and softened distances."""
    vectors = position[None, :, :] - position[:, None, :]
    return vectors, np.sqrt((vectors**2).sum(axis=-1) + SOFTENING**2)


def acceleration(position: Array, mass: Array) -> Array:
    vectors, distance = separations(position)
    found: Array = (mass[None, :, None] * vectors / distance[..., None] ** 3).sum(axis=1)
    return found


def energies(position: Array, velocity: Array, mass: Array) -> npt.NDArray[np.float32]:
    """Every kinetic energy and every pair's potential energy, in binary32."""
    _, distance = separations(position)
    first, second = np.triu_indices(mass.size, 1)
    kinetic = 0.5 * mass * (velocity**2).sum(axis=-1)
    potential = -mass[first] * mass[second] / distance[first, second]
    return np.concatenate([kinetic, potential]).astype(np.float32)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bodies", type=int, default=400)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    rng = np.random.default_rng(given.seed)
    mass = np.full(given.bodies, 1 / given.bodies)
    position = rng.normal(0, 1, (given.bodies, 3))
    velocity = rng.normal(0, 0.3, (given.bodies, 3))
    step = 0.005
    drift: dict[str, list[float]] = {name: [] for name in SUMS}
    exact: list[float] = []
    force = acceleration(position, mass)
    for _ in range(given.steps):
        velocity += 0.5 * step * force
        position += step * velocity
        force = acceleration(position, mass)
        velocity += 0.5 * step * force
        terms = energies(position, velocity, mass)
        exact.append(math.fsum(terms.tolist()))
        for name, total in SUMS.items():
            drift[name].append(total(terms))
    print(
        f"{given.bodies} bodies, {given.steps} steps, {terms.size:,} energies; exact energy {exact[-1]:.9f}"
    )
    print(f"{'sum':28} {'largest error':>14} {'largest change of one step':>27}")
    print(f"{'exact':28} {0:14.1e} {change(exact):27.1e}")
    for name, values in drift.items():
        error = max(abs(value - right) for value, right in zip(values, exact, strict=True))
        print(f"{name:28} {error:14.1e} {change(values):27.1e}")


def change(values: list[float]) -> float:
    """The largest difference of neighbours: what would be taken for drift."""
    return max(abs(later - sooner) for sooner, later in itertools.pairwise(values))


if __name__ == "__main__":
    main()
