"""Numbers larger than memory: files of many kinds, read once, a piece at a time, resumable."""

from tcu.streams.checkpoint import Checkpoint as Checkpoint
from tcu.streams.chunked import FortranSource as FortranSource
from tcu.streams.functions import *  # noqa: F403  one for each operation
from tcu.streams.index_sums import bincount as bincount
from tcu.streams.index_sums import histogram as histogram
from tcu.streams.index_sums import index_mean as index_mean
from tcu.streams.index_sums import index_sum as index_sum
from tcu.streams.index_sums import reduce_by_key as reduce_by_key
from tcu.streams.npy import NpyPipe as NpyPipe
from tcu.streams.npy import NpySource as NpySource
from tcu.streams.passes import run as run
from tcu.streams.places import DEFAULT_MEMORY as DEFAULT_MEMORY
from tcu.streams.places import expand as expand
from tcu.streams.places import is_array_file as is_array_file
from tcu.streams.places import open_files as open_files
from tcu.streams.source import ArraySource as ArraySource
from tcu.streams.source import Source as Source
from tcu.streams.source import Strips as Strips
from tcu.streams.surface import function_of as function_of
from tcu.streams.totals import ExactTotal as ExactTotal
from tcu.streams.totals import Magnitudes as Magnitudes
from tcu.streams.totals import PlannedTotal as PlannedTotal
from tcu.streams.totals import Total as Total
