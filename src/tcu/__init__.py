"""Sums on tensor cores that anyone can reproduce, bit for bit."""

import importlib
from typing import TYPE_CHECKING

from tcu import integers as integers
from tcu.dispatch import mma as mma
from tcu.errors import TcuError as TcuError
from tcu.ops.info import DotInfo as DotInfo
from tcu.ops.info import ScanInfo as ScanInfo
from tcu.ops.info import SumInfo as SumInfo
from tcu.plan.load import load_plan as load_plan
from tcu.surfaces.bounds import cumsum_error_bound as cumsum_error_bound
from tcu.surfaces.bounds import dot_error_bound as dot_error_bound
from tcu.surfaces.bounds import error_bound as error_bound
from tcu.surfaces.cross_entropy import cross_entropy as cross_entropy
from tcu.surfaces.exact_sum import ExactSum as ExactSum
from tcu.surfaces.functions import *  # noqa: F403 - those that are made from the table of operations
from tcu.surfaces.index_sums import index_mean as index_mean
from tcu.surfaces.index_sums import index_sum as index_sum
from tcu.surfaces.keyed_sums import bincount as bincount
from tcu.surfaces.keyed_sums import embedding_gradient as embedding_gradient
from tcu.surfaces.keyed_sums import histogram as histogram
from tcu.surfaces.keyed_sums import reduce_by_key as reduce_by_key
from tcu.surfaces.matmul import matmul as matmul
from tcu.surfaces.matmul import segment_matmul as segment_matmul
from tcu.surfaces.matmul_bound import matmul_error_bound as matmul_error_bound
from tcu.surfaces.polyval import polyval as polyval
from tcu.surfaces.polyval import polyval_error_bound as polyval_error_bound
from tcu.surfaces.row_norms import layer_norm as layer_norm
from tcu.surfaces.row_norms import rms_norm as rms_norm
from tcu.units import Instruction as Instruction
from tcu.units import Unit as Unit
from tcu.version import __version__ as __version__

if TYPE_CHECKING:
    from tcu import algorithms as algorithms
    from tcu import distributed as distributed
    from tcu import fft as fft
    from tcu import probes as probes
    from tcu import streams as streams
    from tcu.algorithms import Machine as Machine
    from tcu.probes.audit import audit as audit
    from tcu.probes.infer import infer as infer
    from tcu.probes.probe import probe as probe
    from tcu.probes.reveal import reveal as reveal

_LATER = {
    "Machine": "tcu.algorithms",
    "algorithms": "tcu.algorithms",
    "audit": "tcu.probes",
    "distributed": "tcu.distributed",
    "fft": "tcu.fft",
    "infer": "tcu.probes",
    "probe": "tcu.probes",
    "probes": "tcu.probes",
    "reveal": "tcu.probes",
    "streams": "tcu.streams",
    "torch": "tcu.torch",
}
"""Name → its module.  Most programs do without these, so that ``import tcu`` is quick."""

if not TYPE_CHECKING:  # a checker would take every name for one of these

    def __getattr__(name: str) -> object:
        """What is imported when first asked for."""
        if name not in _LATER:
            raise AttributeError(f"module 'tcu' has no attribute {name!r}")
        module = importlib.import_module(_LATER[name])
        return module if module.__name__ == f"tcu.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER} - {"torch"})  # which PyTorch must be there for
