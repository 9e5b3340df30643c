"""Sums, means, running sums, dot products and norms: as a unit or a plan computes them, and correctly rounded."""

from tcu.collectives.averages import mean as mean
from tcu.collectives.exact import ExactSum as ExactSum
from tcu.collectives.exact import fmean as fmean
from tcu.collectives.exact import fsum as fsum
from tcu.collectives.exact_products import fdot as fdot
from tcu.collectives.exact_products import fnorm as fnorm
from tcu.collectives.products import DotInfo as DotInfo
from tcu.collectives.products import dot as dot
from tcu.collectives.products import dot_error_bound as dot_error_bound
from tcu.collectives.products import norm as norm
from tcu.collectives.scans import ScanInfo as ScanInfo
from tcu.collectives.scans import cumsum as cumsum
from tcu.collectives.scans import cumsum_error_bound as cumsum_error_bound
from tcu.collectives.scans import segment_cumsum as segment_cumsum
from tcu.collectives.segment_sums import segment_fmean as segment_fmean
from tcu.collectives.segment_sums import segment_fsum as segment_fsum
from tcu.collectives.segment_sums import segment_mean as segment_mean
from tcu.collectives.segment_sums import segment_sum as segment_sum
from tcu.collectives.summation import SumInfo as SumInfo
from tcu.collectives.summation import error_bound as error_bound
from tcu.collectives.summation import sum as sum
