"""Every algorithm with its theorem as a row: what runs, on what sizes, the bound, and how near the ledger stays.

``tcu cost``, the tests of the theorems and their study read this table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tcu.algorithms.dft import dft, dft_bound
from tcu.algorithms.external_memory import matmul_transfers_bound
from tcu.algorithms.integers import integer_multiply, karatsuba_bound, schoolbook_bound
from tcu.algorithms.machine import Machine
from tcu.algorithms.matmul import (
    matmul,
    matmul_bound,
    matmul_lower_bound,
    strassen_like,
    strassen_like_bound,
)
from tcu.algorithms.parameters import MachineLike
from tcu.algorithms.polynomials import evaluate, polynomial_bound
from tcu.algorithms.reductions import sum_bound, tensor_sum
from tcu.algorithms.schemes import find_scheme
from tcu.algorithms.sparse import random_sparse, sparse_bound, sparse_matmul
from tcu.algorithms.whole_calls import (
    whole_dft_bound,
    whole_karatsuba_bound,
    whole_matmul_bound,
    whole_polynomial_bound,
    whole_schoolbook_bound,
    whole_sparse_bound,
    whole_strassen_like_bound,
    whole_sum_bound,
)
from tcu.errors import ParameterError, unknown_name
from tcu.machine.ledger import LARGEST, Ledger, Number, told

__all__ = ["COSTS", "Cost", "CostedAlgorithm", "Size", "cost_of", "find_costed"]

Size = Mapping[str, Any]
"""n, and what else an algorithm's cost depends on."""
PATIENCE = 12.0
"""Seconds that counting one size may take."""


@dataclass(frozen=True)
class CostedAlgorithm:
    """One algorithm, its theorem, and how the two compare."""

    name: str
    title: str
    theorem: str
    """Where the bound is from."""
    n: str
    """What n counts."""
    run: Callable[[Machine, Size], Any]
    """Carries it out on shapes."""
    bound: Callable[[MachineLike, Size], float]
    """The theorem's expression as printed, without constants."""
    whole: Callable[[MachineLike, Size], float]
    """The same for every size, with the whole calls that the theorem takes for granted: see whole_calls.py."""
    constant: float
    """The ledger is at most this times :attr:`whole` for the sizes of :attr:`sizes`, which fill the unit."""
    everywhere: float
    """And at most this times :attr:`whole` for every n ≥ 1; either with the row's own options."""
    sizes: Callable[[int], list[int]]
    """n over three decades and more, for a machine of that m."""
    lower: Callable[[MachineLike, Size], float] | None = None
    """No program for the problem costs less, where that is known."""
    options: Mapping[str, Callable[[int, int], Any]] = field(default_factory=dict)
    """What else a size has, and its value for n and m unless given."""
    transfers: Callable[[int, Size], float] | None = None
    """The least I/Os with a memory of so many words, where that is known."""
    seconds: Callable[[int, Size], float] = lambda m, size: 0.0
    """About how long counting takes, for algorithms whose program depends on more than shapes; more for a larger n."""


@dataclass(frozen=True)
class Cost:
    """The ledger of one run beside its theorem."""

    algorithm: CostedAlgorithm
    size: Size
    ledger: Ledger
    bound: float
    whole: float
    lower: float | None

    @property
    def ratio(self) -> float:
        """Cost over the theorem's expression as printed."""
        return self.ledger.cost / self.bound

    @property
    def whole_ratio(self) -> float:
        """Cost over the bound of whole calls: the constant that the O hides, here."""
        return self.ledger.cost / self.whole

    @property
    def most(self) -> float | None:
        """The stated constant for every n; None for options that are not the row's own."""
        row, n, m = self.algorithm, self.size["n"], self.ledger.m
        own = all(self.size[name] == default(n, m) for name, default in row.options.items())
        return row.everywhere if own else None


def cost_of(
    algorithm: str | CostedAlgorithm, n: int, m: int, latency: Number, *, word_bits: int = 64, weak: bool = False,
    units: int = 1, **options: Any,
) -> Cost:  # fmt: skip
    """What the algorithm costs on an (m, ℓ)-TCU machine, without computing anything.

    Parameters
    ----------
    algorithm:
        A name of :data:`COSTS`.
    n:
        The size, as the row's ``n`` says.
    m, latency, word_bits, weak, units:
        The machine.  Bounds are those of one unit.
    options:
        Those of the row; None stands for the row's own value.

    Raises
    ------
    UnknownNameError:
        No such algorithm.
    ParameterError:
        No such size, option or machine; a size that takes too long to count.
    """
    row = find_costed(algorithm)
    _check_whole("n", n, f": {row.n}")
    machine = Machine(m, latency, word_bits=word_bits, executor="count", weak=weak, units=units)
    given = {name: value for name, value in options.items() if value is not None}
    if foreign := sorted(set(given) - set(row.options)):
        known = f"it has {', '.join(row.options)}" if row.options else "it has none"
        raise ParameterError(f"{row.name} has no option {foreign[0]!r}: {known}")

    def size_of(n: int) -> dict[str, Any]:
        return {"n": n} | {name: default(n, m) for name, default in row.options.items()} | given

    size = size_of(n)
    for name, value in given.items():
        if isinstance(row.options[name](n, m), int):
            _check_whole(name, value)
    if row.seconds(m, size) > PATIENCE:
        raise _impatient(row, m, size_of, size)
    row.run(machine, size)
    # Of the lower bound every part is a unit's.
    lower = None if row.lower is None else row.lower(machine, size) / units
    return Cost(row, size, machine.ledger, row.bound(machine, size), row.whole(machine, size), lower)


def find_costed(algorithm: str | CostedAlgorithm) -> CostedAlgorithm:
    """The row of that name.  Raises UnknownNameError."""
    if isinstance(algorithm, CostedAlgorithm):
        return algorithm
    try:
        return COSTS[algorithm]
    except (KeyError, TypeError):
        raise unknown_name("algorithm", algorithm, COSTS) from None


def _check_whole(name: str, value: Any, what: str = "") -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= LARGEST:
        limit = "most 10^60" if isinstance(value, int) and value > LARGEST else "least 1"
        raise ParameterError(f"{name}={told(value)}: give an integer of at {limit}{what}")


def _impatient(row: CostedAlgorithm, m: int, size_of: Callable[[int], Size], size: Size) -> ParameterError:
    """The error for a size that takes too long to count, with the largest that does not."""

    def most(name: str, changed: Callable[[int], Size]) -> int:
        """The largest number that fits in place of the one of that name; 0 where none does."""
        able, unable = 0, size[name]
        while unable - able > 1:
            middle = (able + unable) // 2
            able, unable = (middle, unable) if row.seconds(m, changed(middle)) <= PATIENCE else (able, middle)
        return int(able)

    able = {"n": most("n", size_of)}
    if not able["n"]:
        numbers = [name for name in row.options if isinstance(size[name], int)]
        able = {name: most(name, lambda value, name=name: {**size, name: value}) for name in numbers}  # type: ignore[misc]
    given, advice = (
        ", ".join(f"{name}={value:,}" for name, value in each.items() if isinstance(value, int))
        for each in (size, able)
    )
    return ParameterError(f"{row.name} of {given} takes too long to count: give at most {advice}")


def _powers(first: int, ratio: int, count: int) -> list[int]:
    return [first * ratio**i for i in range(count)]


def _square(machine: Machine, size: Size) -> tuple[Any, Any]:
    x = machine.shape((size["n"], size["n"]))
    return x, x


def _factors(machine: Machine, size: Size) -> tuple[Any, Any]:
    x = machine.shape(size["n"], bool)
    return x, x


def _schemed(
    scheme: str,
) -> tuple[Callable[[MachineLike, Size], float], Callable[[MachineLike, Size], float]]:
    return (
        _cube(partial(strassen_like_bound, scheme=scheme)),
        _cube(partial(whole_strassen_like_bound, scheme=scheme)),
    )


def _cube(bound: Callable[..., float]) -> Callable[[MachineLike, Size], float]:
    return lambda machine, size: bound(machine, size["n"], size["n"], size["n"])


def _of_n(bound: Callable[..., float]) -> Callable[[MachineLike, Size], float]:
    return lambda machine, size: bound(machine, size["n"])


def _matmul_transfers(memory: int, size: Size) -> float:
    return matmul_transfers_bound(memory, size["n"], size["n"], size["n"])


def _sparse_factors(size: Size) -> tuple[Any, Any]:
    return random_sparse(size["n"], size["per_row"], 0), random_sparse(size["n"], size["per_row"], 1)


def _sparse_seconds(m: int, size: Size) -> float:
    """Measured on one core: to draw the matrices, to multiply them, to hold the dense products, to find the entries."""
    n, drawn = size["n"], size["per_row"]
    row = min(drawn, n)
    multiplied = (1.2e-5 + 4e-7 * n) * drawn + 3e-9 * n * row**2
    cells = 12 * max(n * row, m)
    if n * n <= cells:  # one product of all rows
        return float(multiplied + 1e-7 * n * n)
    return float(multiplied + 1e-7 * cells + 5e-6 * n + 8e-6 * min(n * row**2, n * n))


def _of_sparse(bound: Callable[..., float]) -> Callable[[MachineLike, Size], float]:
    def of(machine: MachineLike, size: Size) -> float:
        a, b = _sparse_factors(size)
        scheme = _sparse_scheme(size)
        exponent = 1.5 if scheme is None else find_scheme(scheme).exponent
        return bound(machine, size["n"], (a @ b).nnz, a.nnz + b.nnz, exponent)

    return of


def _sparse_scheme(size: Size) -> str | None:
    """The dense product's: "resident" is that of Theorem 2, ω₀ = 3/2."""
    return None if size["scheme"] == "resident" else str(size["scheme"])


COSTS: dict[str, CostedAlgorithm] = {
    row.name: row
    for row in (
        CostedAlgorithm(
            "matmul", "dense product, one operand resident", "Theorem 2", "rows of the square matrices",
            lambda machine, size: matmul(machine, *_square(machine, size)),
            _cube(matmul_bound), _cube(whole_matmul_bound), 2.0, 10.0,
            lambda m: _powers(math.isqrt(m), 4, 6), lower=_cube(matmul_lower_bound), transfers=_matmul_transfers,
        ),
        CostedAlgorithm(
            "standard", "dense product, by the standard recursion", "Theorem 1", "rows of the square matrices",
            lambda machine, size: strassen_like(machine, *_square(machine, size), "standard"),
            *_schemed("standard"), 6.0, 50.0,
            lambda m: _powers(math.isqrt(m), 2, 11), lower=_cube(matmul_lower_bound), transfers=_matmul_transfers,
        ),
        CostedAlgorithm(
            "strassen", "dense product, by Strassen's recursion", "Theorem 1", "rows of the square matrices",
            lambda machine, size: strassen_like(machine, *_square(machine, size), "strassen"),
            *_schemed("strassen"), 8.4, 60.0, lambda m: _powers(math.isqrt(m), 2, 11),
        ),
        CostedAlgorithm(
            "laderman", "dense product, by Laderman's recursion", "Theorem 1", "rows of the square matrices",
            lambda machine, size: strassen_like(machine, *_square(machine, size), "laderman"),
            *_schemed("laderman"), 9.3, 72.0,
            lambda m: _powers(math.isqrt(m), 3, 8),
        ),
        CostedAlgorithm(
            "sparse", "product of two random sparse matrices", "Theorem 3", "rows of the square matrices",
            lambda machine, size: sparse_matmul(machine, *_sparse_factors(size), scheme=_sparse_scheme(size)),
            _of_sparse(sparse_bound), _of_sparse(whole_sparse_bound), 66.0, 110.0,
            lambda m: _powers(8 * math.isqrt(m), 2, 6),
            options={"per_row": lambda n, m: max(2, math.isqrt(m // n) + 1), "scheme": lambda n, m: "resident"},
            seconds=_sparse_seconds,
        ),
        CostedAlgorithm(
            "dft", "discrete Fourier transform", "Theorem 4", "complex numbers",
            lambda machine, size: dft(machine, machine.shape(size["n"], complex), product=size["product"]),
            _of_n(dft_bound), _of_n(whole_dft_bound), 41.0, 5500.0, lambda m: _powers(m, 4, 8), options={"product": lambda n, m: "four"},
        ),
        CostedAlgorithm(
            "integer", "product of two integers, schoolbook", "Theorem 5", "bits of each",
            lambda machine, size: integer_multiply(machine, *_factors(machine, size), algorithm="schoolbook"),
            _of_n(schoolbook_bound), _of_n(whole_schoolbook_bound), 48.0, 48.0, lambda m: _powers(64 * m, 4, 6),
        ),
        CostedAlgorithm(
            "karatsuba", "product of two integers, Karatsuba's recursion", "Theorem 6", "bits of each",
            lambda machine, size: integer_multiply(machine, *_factors(machine, size), algorithm="karatsuba"),
            _of_n(karatsuba_bound), _of_n(whole_karatsuba_bound), 82.0, 110.0, lambda m: _powers(64 * m, 4, 6),
        ),
        CostedAlgorithm(
            "polynomial", "a polynomial at many points", "Theorem 7", "coefficients",
            lambda machine, size: evaluate(machine, machine.shape(size["n"]), machine.shape(size["points"])),
            lambda machine, size: polynomial_bound(machine, size["n"], size["points"]),
            lambda machine, size: whole_polynomial_bound(machine, size["n"], size["points"]), 3.6, 4.0,
            lambda m: _powers(m, 4, 6), options={"points": lambda n, m: n},
        ),
        CostedAlgorithm(
            "sum", "sum of n numbers", "n + ℓ·log_√m n for the tall variant", "numbers",
            lambda machine, size: tensor_sum(
                machine, machine.shape(size["n"]), size["variant"], chain=size["chain"]
            ),
            lambda machine, size: sum_bound(machine, size["n"], size["variant"], size["chain"]),
            lambda machine, size: whole_sum_bound(machine, size["n"], size["variant"], size["chain"]), 3.0, 6.2,
            lambda m: _powers(m, 4, 8),
            options={"variant": lambda n, m: "tall", "chain": lambda n, m: 1},
        ),
    )
}  # fmt: skip
