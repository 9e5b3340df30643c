"""Reductions of arrays that are spread over the processes of ``torch.distributed``.

Every rank passes its shard, every rank gets the result.  What travels is
exact sums of a fixed size, by one all_reduce of integers, so neither the
order of the ranks nor the algorithm of the network leaves a trace.
"""

from tcu.distributed.reductions import Pending as Pending
from tcu.distributed.reductions import dot as dot
from tcu.distributed.reductions import fdot as fdot
from tcu.distributed.reductions import fmean as fmean
from tcu.distributed.reductions import fnorm as fnorm
from tcu.distributed.reductions import fsum as fsum
from tcu.distributed.reductions import mean as mean
from tcu.distributed.reductions import norm as norm
from tcu.distributed.reductions import sum as sum
from tcu.distributed.scans import cumsum as cumsum
