"""The functions of files, one for each operation, made from the table."""

from tcu.ops import OPERATIONS
from tcu.streams.surface import function_of

FUNCTIONS = {name: function_of(operation) for name, operation in OPERATIONS.items() if operation.in_parts}
globals().update(FUNCTIONS)
__all__ = list(FUNCTIONS)
