"""What all workers together held in memory, sampled by the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pytest_schedprof.agent import memory_samples
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Brought, Kind
from pytest_schedprof.evidence.pictures import as_json, memory_picture, with_pictures
from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.model.result import BackendResult

MEASURES = ("process", "managed", "spilled")
INTERVAL_S = 0.2
"""Workers tell of their memory twice a second at most, each at its own time."""
MANY = 200
"""Workers beyond which samples are fewer: each sums over all of them."""


class MemoryKind(Kind):
    """The scheduler's side of dask's `MemorySampler`, for several measures at once.

    It is reached by the line of our own: the test's client waits long for a scheduler that died.
    """

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        self._control = scheduler.control
        self._client = scheduler.client.id
        self._interval = INTERVAL_S * max(1.0, len(scheduler.workers) / MANY)
        self._samples: list[MemorySamples] = []

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Sample from begin to end."""
        keys = self._control.call(memory_samples.start, self._client, MEASURES, self._interval)
        try:
            yield
        finally:
            for measure, samples in zip(
                MEASURES, self._control.call(memory_samples.stop, keys), strict=True
            ):
                found = tuple((when, held) for when, held in samples)
                self._samples.append(MemorySamples(number, measure, found))

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, and all takes in one picture, which begin together."""
        data = {"memory.json": as_json(self._samples)}
        return with_pictures(data, {"memory.html": lambda: memory_picture(self._samples)})
