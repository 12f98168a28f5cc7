"""What all workers together held in memory, sampled by the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from distributed.diagnostics.memory_sampler import MemorySampler

from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.evidence.contract import Brought
from pytest_schedprof.evidence.pictures import as_json, memory_picture, with_pictures
from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.model.result import BackendResult

MEASURES = ("process", "managed", "spilled")
INTERVAL_S = 0.2
"""Workers tell of their memory twice a second at most, each at its own time."""
MANY = 200
"""Workers beyond which samples are fewer: each sums over all of them."""


class MemoryKind:
    """Dask's `MemorySampler`, for several measures at once."""

    def __init__(self, scheduler: SchedulerUnderTest, test_id: str) -> None:
        self._client = scheduler.client
        self._sampler = MemorySampler()
        self._interval = INTERVAL_S * max(1.0, len(scheduler.workers) / MANY)

    @contextmanager
    def take(self, number: int) -> Iterator[None]:
        """Sample from begin to end."""
        with ExitStack() as opened:
            for measure in MEASURES:
                label = f"{number} {measure}"
                sample = self._sampler.sample(
                    label, client=self._client, measure=measure, interval=self._interval
                )
                opened.enter_context(sample)
            yield

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """As JSON, and all takes in one picture, which begin together."""
        samples = [_samples(*each) for each in self._sampler.samples.items()]
        samples.sort(key=lambda each: (each.take, MEASURES.index(each.measure)))
        data = {"memory.json": as_json(samples)}
        return with_pictures(data, {"memory.html": lambda: memory_picture(samples)})


def _samples(label: str, found: list[tuple[float, int]]) -> MemorySamples:
    number, measure = label.split()
    return MemorySamples(int(number), measure, tuple((when, held) for when, held in found))
