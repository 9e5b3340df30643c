"""All operators of tcu in PyTorch: importing this module registers ``torch.ops.tcu``.

The functions of tcu register what they need when they first meet a tensor.
Import this where operators are named before that, or where a program that
``torch.export`` saved is loaded.  Raises ImportError without PyTorch.
"""

from tcu.surfaces.torch import run as _run

__all__: list[str] = []

del _run
