"""The machine with its algorithms as methods: what users of tcu.Machine hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tcu import machine as base

if TYPE_CHECKING:
    from tcu.algorithms.external_memory import Transfers
    from tcu.algorithms.reductions import SumVariant
    from tcu.algorithms.schemes import BilinearScheme

__all__ = ["Machine"]


class Machine(base.Machine):
    __doc__ = base.Machine.__doc__

    # Each algorithm is imported when it is first run, so that `import tcu` stays quick.

    def matmul(self, a: Any, b: Any) -> Any:
        """A·B with one operand resident: :func:`tcu.algorithms.matmul` (Theorem 2)."""
        from tcu.algorithms.matmul import matmul

        return matmul(self, a, b)

    def strassen(
        self, a: Any, b: Any, scheme: str | BilinearScheme = "strassen", *, levels: int | None = None
    ) -> Any:
        """A·B by a Strassen-like scheme: :func:`tcu.algorithms.strassen_like` (Theorem 1)."""
        from tcu.algorithms.matmul import strassen_like

        return strassen_like(self, a, b, scheme, levels=levels)

    def sum(self, x: Any, variant: SumVariant = "tall", *, chain: int = 1) -> Any:
        """The sum of all numbers by tensor calls: :func:`tcu.algorithms.tensor_sum`."""
        from tcu.algorithms.reductions import tensor_sum

        return tensor_sum(self, x, variant, chain=chain)

    def transfers(self) -> Transfers:
        """The I/Os of what this weak machine has done: :func:`tcu.algorithms.simulate` (Theorem 8)."""
        from tcu.algorithms.external_memory import simulate

        return simulate(self.ledger)
