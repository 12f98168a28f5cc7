"""What a test's artifacts can be turned into: one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pytest_schedprof.formats.collapsed import write_collapsed
from pytest_schedprof.formats.joined import join_samples, join_stats, join_traces
from pytest_schedprof.formats.pprof import write_pprof
from pytest_schedprof.formats.speedscope import SpeedscopeFile, write_speedscope
from pytest_schedprof.formats.timeline import write_timeline


class Source(NamedTuple):
    """A kind of artifact."""

    endings: tuple[str, ...]
    backends: tuple[str, ...]
    """That leave such."""


SAMPLES = Source((".cputime.speedscope.json", ".pyspy.speedscope.json"), ("cputime", "pyspy"))
TRACE = Source((".viztracer.json", ".viztracer.json.gz"), ("viztracer",))
STATS = Source((".cprofile.pstats",), ("cprofile",))

Make = Callable[[Sequence[bytes]], bytes]


def _of_samples(write: Callable[[SpeedscopeFile], bytes]) -> Make:
    return lambda contents: write(join_samples(contents))


def _speedscope(contents: Sequence[bytes]) -> bytes:
    """One file is passed on as it is."""
    return contents[0] if len(contents) == 1 else write_speedscope(join_samples(contents))


EXPORTS: dict[str, dict[Source, Make]] = {
    "speedscope": {SAMPLES: _speedscope},
    "collapsed": {SAMPLES: _of_samples(write_collapsed)},
    "pprof": {SAMPLES: _of_samples(write_pprof)},
    "chrometrace": {TRACE: join_traces, SAMPLES: _of_samples(write_timeline)},
    "pstats": {STATS: join_stats},
}
"""By format, what each can be made of; what tells the most comes first."""


class Export(NamedTuple):
    """How to make a file of some artifacts."""

    make: Make
    names: tuple[str, ...]


def export_of(names: Sequence[str], form: str) -> Export | None:
    """What a format is made of, given the names of a test's artifacts; None if it cannot be."""
    for source, make in EXPORTS[form].items():
        for ending in source.endings:
            mine = [n for n in names if n.startswith("scheduler.") and n.endswith(ending)]
            if mine:
                return Export(make, tuple(mine))
    return None


def backends_for(form: str) -> list[str]:
    """Those with which a test must be recorded for a format."""
    return [name for source in EXPORTS[form] for name in source.backends]
