import pytest
from distributed import wait


def inc(x):
    return x + 1


@pytest.mark.schedprof("share(distributed.scheduler:SchedulerState._transition) <= 90%")
def test_many(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(3000), pure=False))


@pytest.mark.schedprof("share(distributed.scheduler:SchedulerState._transition) <= 1%")
def test_bad(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(3000), pure=False))
