"""The functions over ranks, one for each operation, made from the table."""

from tcu.distributed.surface import function_of
from tcu.ops import OPERATIONS

FUNCTIONS = {name: function_of(operation) for name, operation in OPERATIONS.items() if operation.over_ranks}
globals().update(FUNCTIONS)
__all__ = list(FUNCTIONS)
