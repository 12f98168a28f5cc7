"""The kind `memory`: what all workers together held in memory, sampled by the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from pytest_schedprof.agent import reports
from pytest_schedprof.evidence.contract import Brought, Kind, ObservedTest, RunFigures
from pytest_schedprof.evidence.pictures import as_json, memory_picture, with_pictures
from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.model.metric import MEASURES
from pytest_schedprof.model.result import BackendResult

INTERVAL_S = 0.2
"""Workers report their memory at most twice a second, each at a time of its own."""
MANY = 200
"""Number of workers above which sampling is slower: each sample sums over all workers."""


class MemoryKind(Kind, name="memory", description="what all workers held in memory"):
    """Uses the scheduler's side of dask's `MemorySampler`, for several measures at once.

    It is called over the control line: the test's client would wait long for a scheduler that died.
    """

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        scheduler = test.scheduler
        self._control = scheduler.control
        self._client = scheduler.client.id
        self._interval = INTERVAL_S * max(1.0, len(scheduler.workers) / MANY)
        self._samples: list[MemorySamples] = []

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Sample until the run ends."""
        keys = self._control.call(reports.start_samplers, self._client, MEASURES, self._interval)
        try:
            yield
        finally:
            for measure, samples in zip(
                MEASURES, self._control.call(reports.stop_samplers, keys), strict=True
            ):
                found = tuple((when, held) for when, held in samples)
                self._samples.append(MemorySamples(number, measure, found))

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the samples as JSON, and one picture in which all runs begin at zero."""
        return brought_memory(self._samples)


def brought_memory(samples: Sequence[MemorySamples], notes: tuple[str, ...] = ()) -> Brought:
    """Return samples with a picture and the highest of each run."""
    data = {"memory.json": as_json(samples)}
    brought = with_pictures(data, {"memory.html": lambda: memory_picture(samples)}, notes)
    return replace(brought, figures=[_peaks(measure, samples) for measure in MEASURES])


def _peaks(measure: str, samples: Sequence[MemorySamples]) -> RunFigures:
    found = [each for each in samples if each.measure == measure and each.samples]
    peaks = {each.take: max(float(held) for _, held in each.samples) for each in found}
    return RunFigures("memory", measure, peaks)
