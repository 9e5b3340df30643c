"""The functions of files, one for each operation, made from the table."""

from tcu.ops import OPERATIONS
from tcu.streams.surface import function_of
from tcu.surfaces.served import is_served

FUNCTIONS = {
    name: function_of(operation)
    for name, operation in OPERATIONS.items()
    if any(is_served(operation, layout, "files") for layout in operation.layouts)
}
globals().update(FUNCTIONS)
__all__ = list(FUNCTIONS)
