"""All operators of tcu in PyTorch, and what only PyTorch has: importing this module registers ``torch.ops.tcu``.

The functions of tcu register what they need when they first meet a tensor.
Import this where operators are named before that, or where a program that
``torch.export`` saved is loaded.  Raises ImportError without PyTorch.
"""

from __future__ import annotations

from tcu.surfaces.torch import fft as _fft
from tcu.surfaces.torch import polyval as _polyval
from tcu.surfaces.torch import run as _run
from tcu.surfaces.torch.matmul import linear as linear
from tcu.surfaces.torch.reproducible import reproducible as reproducible
from tcu.surfaces.torch.reproducible import set_reproducible as set_reproducible

__all__ = ["linear", "reproducible", "set_reproducible"]

del _fft, _polyval, _run
