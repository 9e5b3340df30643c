"""Sums on tensor cores that anyone can reproduce, bit for bit."""

import importlib as _importlib
from typing import Any as _Any

from tcu.collectives import DotInfo as DotInfo
from tcu.collectives import ExactSum as ExactSum
from tcu.collectives import SumInfo as SumInfo
from tcu.collectives import dot as dot
from tcu.collectives import dot_error_bound as dot_error_bound
from tcu.collectives import error_bound as error_bound
from tcu.collectives import fdot as fdot
from tcu.collectives import fmean as fmean
from tcu.collectives import fnorm as fnorm
from tcu.collectives import fsum as fsum
from tcu.collectives import mean as mean
from tcu.collectives import norm as norm
from tcu.collectives import sum as sum
from tcu.dispatch import mma as mma
from tcu.errors import TcuError as TcuError
from tcu.probes import infer as infer
from tcu.probes import probe as probe
from tcu.units import Instruction as Instruction
from tcu.units import Unit as Unit

__version__ = "0.1.0"

_LAZY = ("distributed", "streams")


def __getattr__(name: str) -> _Any:
    """Modules that most programs do without are loaded when they are asked for."""
    if name in _LAZY:
        return _importlib.import_module(f"tcu.{name}")
    raise AttributeError(f"module 'tcu' has no attribute {name!r}")
