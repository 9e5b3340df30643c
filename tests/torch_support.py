"""What tests of PyTorch's tensors share.

No module whose tests are skipped as a whole may import another such one: pytest's workers tell of one of the two alone,
and ``--skipped`` never runs the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["compiled"]


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function by torch.compile, as one graph and without a compiler of kernels."""
    import torch

    torch._dynamo.reset()
    return torch.compile(function, fullgraph=True, backend="aot_eager")  # type: ignore[no-any-return]
