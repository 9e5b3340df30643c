"""Sums: as a unit computes them, and correctly rounded."""

from tcu.collectives.exact import ExactSum as ExactSum
from tcu.collectives.exact import fsum as fsum
from tcu.collectives.summation import SumInfo as SumInfo
from tcu.collectives.summation import error_bound as error_bound
from tcu.collectives.summation import sum as sum
