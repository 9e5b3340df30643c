"""Timing on a GPU beside its peers: clocks, arrays, CUB, PyTorch, CuPy.  Needs PyTorch and nvcc, loaded when used."""
