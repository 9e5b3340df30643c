"""The report: what the studies found, as one page."""
