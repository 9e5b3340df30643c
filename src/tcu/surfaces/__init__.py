"""What programs call: functions, operators of PyTorch, Dask arrays; each made from the table of operations."""
