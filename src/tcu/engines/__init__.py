"""Who executes an operation: the model on the host, or a GPU."""
