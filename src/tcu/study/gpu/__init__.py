"""Timing on a GPU beside its peers: clocks, arrays, CUB, PyTorch, CuPy.  Needs PyTorch and nvcc, loaded when used."""

import sys
from typing import Any


def load() -> Any:
    """The package with its :mod:`gemm` and :mod:`reductions`, which import PyTorch: for when a study measures."""
    from tcu.study.gpu import gemm, reductions  # noqa: F401

    return sys.modules[__name__]
