"""The machine with its algorithms as methods: what users of tcu.Machine hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tcu import machine as base
from tcu.algorithms.complex_rows import ComplexProduct
from tcu.algorithms.dft import Norm, dft, dftn, idft, idftn, irdft, rdft
from tcu.algorithms.external_memory import Transfers, transfers_of
from tcu.algorithms.integers import Algorithm, integer_multiply
from tcu.algorithms.matmul import matmul, strassen_like
from tcu.algorithms.polynomials import evaluate
from tcu.algorithms.reductions import SumVariant, tensor_sum
from tcu.algorithms.schemes import BilinearScheme
from tcu.algorithms.sparse import sparse_matmul

__all__ = ["Machine"]


class Machine(base.Machine):
    __doc__ = base.Machine.__doc__

    def matmul(self, a: Any, b: Any) -> Any:
        """A·B with one operand resident: :func:`tcu.algorithms.matmul` (Theorem 2)."""
        return matmul(self, a, b)

    def strassen(
        self, a: Any, b: Any, scheme: str | BilinearScheme = "strassen", *, levels: int | None = None
    ) -> Any:
        """A·B by a Strassen-like scheme: :func:`tcu.algorithms.strassen_like` (Theorem 1)."""
        return strassen_like(self, a, b, scheme, levels=levels)

    def sum(self, x: Any, variant: SumVariant = "tall", *, chain: int = 1) -> Any:
        """The sum of all numbers by tensor calls: :func:`tcu.algorithms.tensor_sum`."""
        return tensor_sum(self, x, variant, chain=chain)

    def dft(
        self, x: Any, n: int | None = None, axis: int = -1, norm: Norm = "backward",
        *, product: ComplexProduct = "four", parts: int = 1,
    ) -> Any:  # fmt: skip
        """The discrete Fourier transform: :func:`tcu.algorithms.dft` (Theorem 4)."""
        return dft(self, x, n, axis, norm, product=product, parts=parts)

    def idft(
        self, x: Any, n: int | None = None, axis: int = -1, norm: Norm = "backward",
        *, product: ComplexProduct = "four", parts: int = 1,
    ) -> Any:  # fmt: skip
        """Its inverse: :func:`tcu.algorithms.idft`."""
        return idft(self, x, n, axis, norm, product=product, parts=parts)

    def rdft(
        self, x: Any, n: int | None = None, axis: int = -1, norm: Norm = "backward",
        *, product: ComplexProduct = "four", parts: int = 1,
    ) -> Any:  # fmt: skip
        """The first half of the transform of real numbers: :func:`tcu.algorithms.rdft`."""
        return rdft(self, x, n, axis, norm, product=product, parts=parts)

    def irdft(
        self, x: Any, n: int | None = None, axis: int = -1, norm: Norm = "backward",
        *, product: ComplexProduct = "four", parts: int = 1,
    ) -> Any:  # fmt: skip
        """Its inverse: :func:`tcu.algorithms.irdft`."""
        return irdft(self, x, n, axis, norm, product=product, parts=parts)

    def dftn(
        self, x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward",
        *, product: ComplexProduct = "four", parts: int = 1,
    ) -> Any:  # fmt: skip
        """The transform along several axes: :func:`tcu.algorithms.dftn`."""
        return dftn(self, x, s, axes, norm, product=product, parts=parts)

    def idftn(
        self, x: Any, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward",
        *, product: ComplexProduct = "four", parts: int = 1,
    ) -> Any:  # fmt: skip
        """Its inverse: :func:`tcu.algorithms.idftn`."""
        return idftn(self, x, s, axes, norm, product=product, parts=parts)

    def integer_multiply(self, a: Any, b: Any, *, algorithm: Algorithm = "auto") -> Any:
        """The product of long integers: :func:`tcu.algorithms.integer_multiply` (Theorems 5 and 6)."""
        return integer_multiply(self, a, b, algorithm=algorithm)

    def evaluate(self, coefficients: Any, points: Any, *, modulus: int | None = None) -> Any:
        """A polynomial at many points: :func:`tcu.algorithms.evaluate` (Theorem 7)."""
        return evaluate(self, coefficients, points, modulus=modulus)

    def sparse_matmul(
        self, a: Any, b: Any, *, nonzeros: int | None = None, scheme: str | BilinearScheme | None = None,
        seed: int = 0,
    ) -> Any:  # fmt: skip
        """A·B of sparse matrices: :func:`tcu.algorithms.sparse_matmul` (Theorem 3)."""
        return sparse_matmul(self, a, b, nonzeros=nonzeros, scheme=scheme, seed=seed)

    def transfers(self) -> Transfers:
        """The I/Os of what this weak machine has done: :func:`tcu.algorithms.transfers_of` (Theorem 8)."""
        return transfers_of(self)
