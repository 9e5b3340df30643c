"""Which tcu this is: a module of its own, for those that tcu itself imports."""

__version__ = "0.2.0"
