"""Who executes an operation: the model on the host, or a GPU."""

from tcu.engines.execute import execute as execute
from tcu.engines.execute import load_cuda as load_cuda
