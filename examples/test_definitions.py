"""Graphs that are only defined: what the client does for one of them must not grow faster than it.

There is no scheduler and no task. `counts` counts what dask does in the test's own process:

    pytest examples/test_definitions.py
"""

from __future__ import annotations

from collections.abc import Callable

import dask.array
import pytest
from dask.base import optimize
from dask.delayed import delayed


def delayed_array(size: int) -> None:
    """Each call of a delayed function gives all tasks of the array other names."""
    delayed(list)(dask.array.zeros(size, chunks=1) + 1)


def taken(size: int) -> None:
    numpy = pytest.importorskip("numpy")
    length = 4 * size
    index = numpy.arange(length) * 7 % length
    dask.array.zeros(length, chunks=4)[index].__dask_graph__()


def fused(size: int) -> None:
    """Fuse eight layers into one."""
    layered = dask.array.zeros(size, chunks=1)
    for _ in range(8):
        layered = layered + 1
    optimize(layered)[0].__dask_graph__()


def optimised_frame(size: int) -> None:
    pandas = pytest.importorskip("pandas")
    dataframe = pytest.importorskip("dask.dataframe")
    frame = dataframe.from_pandas(pandas.DataFrame({"x": range(4 * size)}), npartitions=size)
    (frame.x + 1 + 2).sum().optimize().__dask_graph__()


def to_zarr(size: int) -> None:
    zarr = pytest.importorskip("zarr")
    array = dask.array.zeros(size, chunks=1) + 1
    array.to_zarr(zarr.storage.MemoryStore(), compute=False)


def xarray_to_zarr(size: int) -> None:
    """What took minutes before dask 2026.3 (dask#12299)."""
    xarray, zarr = pytest.importorskip("xarray"), pytest.importorskip("zarr")
    array = xarray.DataArray(dask.array.zeros(size, chunks=1) + 1)
    array.to_zarr(zarr.storage.MemoryStore(), compute=False, consolidated=False)


@pytest.mark.slow
@pytest.mark.schedprof(
    "growth(client_bytecodes) <= 1.1", backend="counts", scale=[100, 200, 400], rounds=1
)
@pytest.mark.parametrize(
    "define", [delayed_array, taken, fused, optimised_frame, to_zarr, xarray_to_zarr]
)
def test_definition(schedprof_scale: int, define: Callable[[int], None]) -> None:
    define(schedprof_scale)
