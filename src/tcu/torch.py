"""All operators of tcu in PyTorch: importing this module registers ``torch.ops.tcu``.

The functions of tcu register what they need when they first meet a tensor.
Import this where operators are named before that, or where a program that
``torch.export`` saved is loaded.  Raises ImportError without PyTorch.
"""

from tcu.collectives import torch_operators as _operators
from tcu.collectives import torch_rows as _rows
from tcu.collectives import torch_scans as _scans
from tcu.collectives import torch_segments as _segments

__all__: list[str] = []

del _operators, _rows, _scans, _segments
