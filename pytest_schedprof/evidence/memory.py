"""The kind `memory`: what all workers together held in memory, sampled by the scheduler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pytest_schedprof.agent import reports
from pytest_schedprof.backends.options import Names, Seconds, check_above_zero
from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.evidence.contract import Brought, Kind, ObservedTest, RunFigures
from pytest_schedprof.evidence.memory_picture import Drawn, memory_picture
from pytest_schedprof.evidence.pictures import as_json, with_pictures
from pytest_schedprof.model.evidence import MemorySamples
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.metric import MEASURES, SAMPLED
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.storage.run_directory import NOW

FILE = "memory.json"

INTERVAL_S = 0.2
"""Workers report their memory at most twice a second, each at a time of its own."""
MANY = 200
"""Number of workers above which sampling is slower: each sample sums over all workers."""


@dataclass(frozen=True, slots=True)
class MemoryOptions:
    """Options of the kind."""

    measures: Names = SAMPLED
    """What to sample, beside what limits bound."""
    interval: Seconds | None = None
    """Seconds between samples; by default 0.2, or more with many workers."""

    def __post_init__(self) -> None:
        if unknown := [each for each in self.measures if each not in MEASURES]:
            raise SettingsError(
                f"schedprof: option memory.measures must be any of {', '.join(MEASURES)}, "
                f"got {quoted(unknown[0])}"
            )
        check_above_zero("memory.interval", self.interval)


def measures_of(options: MemoryOptions, limits: Sequence[Limit]) -> tuple[str, ...]:
    """Return what to sample: what the options name, and what the limits bound."""
    bound = [compile_pattern(limit.pattern) for limit in limits if limit.measured == "memory"]
    return tuple(
        each
        for each in MEASURES
        if each in options.measures or any(pattern.fullmatch(each) for pattern in bound)
    )


class MemoryKind(Kind, name="memory", description="what all workers held in memory"):
    """Uses the scheduler's side of dask's `MemorySampler`, for several measures at once.

    It is called over the control line: the test's client would wait long for a scheduler that died.
    """

    options_type = MemoryOptions

    def __init__(self, test: ObservedTest) -> None:
        super().__init__(test)
        scheduler = test.scheduler
        self._measures = measures_of(self.options, test.limits)
        self._control = scheduler.control
        self._client = scheduler.client.id
        usual = INTERVAL_S * max(1.0, len(scheduler.workers) / MANY)
        self._interval = self.options.interval or usual
        self._samples: list[MemorySamples] = []

    @contextmanager
    def around(self, number: int) -> Iterator[None]:
        """Sample until the run ends."""
        started = self._client, self._measures, self._interval
        keys = self._control.call(reports.start_samplers, *started)
        try:
            yield
        finally:
            sampled = self._control.call(reports.stop_samplers, keys)
            for measure, samples in zip(self._measures, sampled, strict=True):
                found = tuple((when, held) for when, held in samples)
                self._samples.append(MemorySamples(number, measure, found))

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return the samples as JSON, and one picture of all sides."""
        others = [Drawn(side, each._samples) for side, each in self.others.items()]
        return brought_memory(self._samples, others=others)


def brought_memory(
    samples: Sequence[MemorySamples], notes: tuple[str, ...] = (), others: Sequence[Drawn] = ()
) -> Brought:
    """Return samples with a picture and the highest of each run; others are drawn beside."""
    data, drawn = {FILE: as_json(samples)}, [Drawn(NOW, samples), *others]
    brought = with_pictures(data, {"memory.html": lambda: memory_picture(drawn)}, notes)
    measures = dict.fromkeys(each.measure for each in samples)
    return replace(brought, figures=[_peaks(measure, samples) for measure in measures])


def _peaks(measure: str, samples: Sequence[MemorySamples]) -> RunFigures:
    found = [each for each in samples if each.measure == measure and each.samples]
    peaks = {each.take: max(float(held) for _, held in each.samples) for each in found}
    return RunFigures("memory", measure, peaks)
