"""How long tests wait for a process or a thread before they say that it hangs; no test measures time by it."""

HANGS = 600
"""Seconds: many times what the slowest takes on a machine that does ten other things."""
