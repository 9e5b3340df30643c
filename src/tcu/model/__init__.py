"""The CPU model: the definition of what a unit computes, and a fast implementation of it."""
