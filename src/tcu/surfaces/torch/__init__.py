"""PyTorch's tensors: operators with gradients, fake kernels and vmap, and quick ways for plain tensors."""
