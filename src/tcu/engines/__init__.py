"""Who executes an operation: the model on the host, a GPU, or the processor's own matrix instruction."""

from tcu.engines.choice import engine_of as engine_of
from tcu.engines.choice import execute as execute
from tcu.engines.choice import load_cuda as load_cuda
