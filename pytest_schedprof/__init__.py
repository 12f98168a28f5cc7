"""pytest-schedprof: scheduler performance regression testing for dask.distributed."""

from __future__ import annotations

__version__ = "0.1.0"
