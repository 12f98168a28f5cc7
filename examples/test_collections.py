"""Profile the scheduler while it runs dask's collections: an array and a dataframe."""

from __future__ import annotations

import dask
import dask.array
import pytest
from distributed import wait

from pytest_schedprof import SchedulerUnderTest


@pytest.mark.slow
@pytest.mark.schedprof(
    "share(distributed.scheduler:Scheduler.update_graph) <= 90%",
    "share(@dashboard) <= 30%",
    rate=150,
)
def test_rechunk_of_an_array(schedprof_scheduler: SchedulerUnderTest) -> None:
    array = dask.array.ones((300, 300), chunks=(20, 100))
    wait(schedprof_scheduler.client.compute(array.rechunk((100, 20)).sum()))


@pytest.mark.slow
@pytest.mark.schedprof("share(@serialisation) <= 80%", rate=150)
def test_set_index_of_a_time_series(schedprof_scheduler: SchedulerUnderTest) -> None:
    frame = dask.datasets.timeseries(
        start="2000-01-01", end="2000-01-08", partition_freq="6h", freq="10min", seed=1
    )
    # Without divisions dask computes them on the workers, and simulated workers cannot.
    divisions = [0, *range(900, 1101, 10), 2000]
    means = frame.set_index("id", divisions=divisions)[["x", "y"]].mean()
    wait(schedprof_scheduler.client.compute(means))
