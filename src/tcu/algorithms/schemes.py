"""Bilinear schemes for small matrix products: Strassen's, Laderman's, your own.

A scheme ⟨r, s, t; p⟩ multiplies r × s by s × t blocks with p products:
product i is (Σ u_i·A)·(Σ v_i·B), and the blocks of C are sums of products
with the weights w.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tcu.errors import ParameterError, unknown_name

__all__ = ["LADERMAN", "SCHEMES", "STANDARD", "STRASSEN", "BilinearScheme", "find_scheme"]

Rows = tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class BilinearScheme:
    """The coefficients of one scheme, checked when it is made.

    Raises ParameterError unless they multiply every pair of matrices rightly:
    Σ_i u[i, ab] v[i, cd] w[i, ef] = [b = c][a = e][d = f] (Brent's equations),
    which is all that the product of two matrices asks.
    """

    name: str
    shape: tuple[int, int, int]
    """(r, s, t): A has r × s blocks, B s × t, C r × t."""
    u: Rows
    """One row for each product: the weights of A's blocks, row by row."""
    v: Rows
    w: Rows
    """One row for each product: what it adds to each block of C."""

    def __post_init__(self) -> None:
        r, s, t = self.shape
        if min(self.shape) < 1 or not self.u or not len(self.u) == len(self.v) == len(self.w):
            raise ParameterError(
                f"scheme {self.name}: shape {self.shape} with {len(self.u)}, {len(self.v)} and {len(self.w)} rows "
                "of u, v and w: give as many of each, one for each product"
            )
        for label, rows, width in (("u", self.u, r * s), ("v", self.v, s * t), ("w", self.w, r * t)):
            if any(len(row) != width for row in rows):
                raise ParameterError(f"scheme {self.name}: every row of {label} needs {width} weights")
        wrong = np.argwhere(self.brent() != _product_tensor(r, s, t))
        if len(wrong):
            x, y, z = wrong[0].tolist()
            raise ParameterError(
                f"scheme {self.name} does not multiply: a{_index(x, s)}·b{_index(y, t)} has the wrong weight in "
                f"c{_index(z, t)}, the first of {len(wrong)}"
            )

    def brent(self) -> npt.NDArray[np.int64]:
        """Σ_i u[i, x] v[i, y] w[i, z]: the weight of a_x·b_y in c_z."""
        u, v, w = (np.array(rows, np.int64) for rows in (self.u, self.v, self.w))
        tensor: npt.NDArray[np.int64] = np.einsum("ix,iy,iz->xyz", u, v, w)
        return tensor

    @property
    def products(self) -> int:
        """p_0."""
        return len(self.u)

    @cached_property
    def exponent(self) -> float:
        """ω_0 = log p_0 / log n_0 of Theorem 1, with n_0^{3/2} = r·s·t: 3/2 for the standard product."""
        volume = math.log(math.prod(self.shape))
        return 1.5 * math.log(self.products) / volume if volume else 1.5

    @property
    def growth(self) -> int:
        """How many times larger than the terms their weighted sums can be, in A, B or C."""
        rows: list[tuple[int, ...]] = [*self.u, *self.v, *zip(*self.w, strict=True)]
        return max(sum(map(abs, row)) for row in rows)


def _product_tensor(r: int, s: int, t: int) -> npt.NDArray[np.int64]:
    eye = [np.eye(size, dtype=np.int64) for size in (r, s, t)]
    tensor: npt.NDArray[np.int64] = np.einsum("ae,bc,df->abcdef", *eye)
    return tensor.reshape(r * s, s * t, r * t)


def _index(flat: int, columns: int) -> str:
    return f"{flat // columns + 1}{flat % columns + 1}"


def standard(r: int, s: int, t: int) -> BilinearScheme:
    """The scheme of the definition, with r·s·t products."""
    triples = [(i, j, k) for i in range(r) for j in range(s) for k in range(t)]
    return BilinearScheme(
        "standard" if r == s == t == 2 else f"standard {r}x{s}x{t}",
        (r, s, t),
        tuple(_unit(i * s + j, r * s) for i, j, _ in triples),
        tuple(_unit(j * t + k, s * t) for _, j, k in triples),
        tuple(_unit(i * t + k, r * t) for i, _, k in triples),
    )


def _unit(place: int, width: int) -> tuple[int, ...]:
    return tuple(int(i == place) for i in range(width))


def _scheme(name: str, shape: tuple[int, int, int], products: str, blocks: str) -> BilinearScheme:
    """A scheme as it is printed: "+11+22 * +11" means (a11 + a22)·b11; "+1-3" is m1 - m3."""
    pairs = [line.split("*") for line in products.strip().splitlines()]
    sums = [_terms(line) for line in blocks.strip().splitlines()]
    r, s, t = shape

    def weights(text: str, columns: int, width: int) -> tuple[int, ...]:
        row = [0] * width
        for sign, index in _terms(text):
            row[(index // 10 - 1) * columns + index % 10 - 1] = sign
        return tuple(row)

    return BilinearScheme(
        name,
        shape,
        tuple(weights(left, s, r * s) for left, _ in pairs),
        tuple(weights(right, t, s * t) for _, right in pairs),
        tuple(
            tuple(next((sign for sign, index in block if index == i + 1), 0) for block in sums)
            for i in range(len(pairs))
        ),
    )


def _terms(text: str) -> list[tuple[int, int]]:
    words = text.replace("+", " +").replace("-", " -").split()
    return [(1 if word[0] == "+" else -1, int(word[1:])) for word in words]


STANDARD = standard(2, 2, 2)

STRASSEN = _scheme(
    "strassen",
    (2, 2, 2),
    """+11+22 * +11+22
       +21+22 * +11
       +11 * +12-22
       +22 * +21-11
       +11+12 * +22
       +21-11 * +11+12
       +12-22 * +21+22""",
    """+1+4-5+7
       +3+5
       +2+4
       +1-2+3+6""",
)
"""V. Strassen, *Gaussian elimination is not optimal*, Numer. Math. 13, 1969."""

LADERMAN = _scheme(
    "laderman",
    (3, 3, 3),
    """+11+12+13-21-22-32-33 * +22
       +11-21 * -12+22
       +22 * -11+12+21-22-23-31+33
       -11+21+22 * +11-12+22
       +21+22 * -11+12
       +11 * +11
       -11+31+32 * +11-13+23
       -11+31 * +13-23
       +31+32 * -11+13
       +11+12+13-22-23-31-32 * +23
       +32 * -11+13+21-22-23-31+32
       -13+32+33 * +22+31-32
       +13-33 * +22-32
       +13 * +31
       +32+33 * -31+32
       -13+22+23 * +23+31-33
       +13-23 * +23-33
       +22+23 * -31+33
       +12 * +21
       +23 * +32
       +21 * +13
       +31 * +12
       +33 * +33""",
    """+6+14+19
       +1+4+5+6+12+14+15
       +6+7+9+10+14+16+18
       +2+3+4+6+14+16+17
       +2+4+5+6+20
       +14+16+17+18+21
       +6+7+8+11+12+13+14
       +12+13+14+15+22
       +6+7+8+9+23""",
)
"""J. D. Laderman, *A noncommutative algorithm for multiplying 3 × 3 matrices using 23 multiplications*, 1976."""

SCHEMES: dict[str, BilinearScheme] = {scheme.name: scheme for scheme in (STANDARD, STRASSEN, LADERMAN)}


def find_scheme(scheme: str | BilinearScheme) -> BilinearScheme:
    """The shipped scheme of that name; a :class:`BilinearScheme` passes through.  Raises UnknownNameError."""
    if isinstance(scheme, BilinearScheme):
        return scheme
    try:
        return SCHEMES[scheme]
    except (KeyError, TypeError):
        raise unknown_name("scheme", scheme, SCHEMES) from None
