"""Sums on tensor cores that anyone can reproduce, bit for bit."""

from tcu.collectives import DotInfo as DotInfo
from tcu.collectives import ExactSum as ExactSum
from tcu.collectives import ScanInfo as ScanInfo
from tcu.collectives import SumInfo as SumInfo
from tcu.collectives import cumsum as cumsum
from tcu.collectives import cumsum_error_bound as cumsum_error_bound
from tcu.collectives import dot as dot
from tcu.collectives import dot_error_bound as dot_error_bound
from tcu.collectives import error_bound as error_bound
from tcu.collectives import fdot as fdot
from tcu.collectives import fmean as fmean
from tcu.collectives import fnorm as fnorm
from tcu.collectives import fsum as fsum
from tcu.collectives import mean as mean
from tcu.collectives import norm as norm
from tcu.collectives import segment_cumsum as segment_cumsum
from tcu.collectives import segment_fmean as segment_fmean
from tcu.collectives import segment_fsum as segment_fsum
from tcu.collectives import segment_mean as segment_mean
from tcu.collectives import segment_sum as segment_sum
from tcu.collectives import sum as sum
from tcu.dispatch import mma as mma
from tcu.errors import TcuError as TcuError
from tcu.probes import infer as infer
from tcu.probes import probe as probe
from tcu.units import Instruction as Instruction
from tcu.units import Unit as Unit

__version__ = "0.1.0"
