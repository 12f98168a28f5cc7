"""What dask itself can tell of a test, beside what the backends recorded."""
