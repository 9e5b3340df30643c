"""Reductions and scans of arrays that are spread over the processes of ``torch.distributed``.

Every rank passes its shard, every rank gets the result.  What travels is
exact sums of a fixed size, by one all_reduce of integers, so neither the
order of the ranks nor the algorithm of the network leaves a trace.
"""

from tcu.distributed.functions import *  # noqa: F403  one for each operation
from tcu.distributed.index_sums import bincount as bincount
from tcu.distributed.index_sums import embedding_gradient as embedding_gradient
from tcu.distributed.index_sums import histogram as histogram
from tcu.distributed.index_sums import index_mean as index_mean
from tcu.distributed.index_sums import index_sum as index_sum
from tcu.distributed.index_sums import reduce_by_key as reduce_by_key
from tcu.distributed.reductions import Pending as Pending
from tcu.distributed.surface import function_of as function_of
from tcu.distributed.vocabulary import cross_entropy as cross_entropy
