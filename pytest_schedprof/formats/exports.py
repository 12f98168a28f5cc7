"""Table of the formats that a test's artifacts can be turned into."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from pytest_schedprof.formats.joined import join_samples, join_traces
from pytest_schedprof.formats.pprof import write_pprof
from pytest_schedprof.formats.pstats import write_pstats
from pytest_schedprof.formats.speedscope import SpeedscopeFile, write_speedscope
from pytest_schedprof.formats.stays import write_collapsed
from pytest_schedprof.formats.timeline import write_timeline
from pytest_schedprof.model.backend import (
    CALLS,
    SPEEDSCOPE,
    TRACE,
    Artifact,
    BackendFacts,
    FileKind,
    recommended,
)

Make = Callable[[Sequence[bytes]], bytes]
"""Makes a file of one format from the files of a test, one of each segment of its window."""


def _from_samples(write: Callable[[SpeedscopeFile], bytes]) -> Make:
    return lambda contents: write(join_samples(contents))


def _speedscope(contents: Sequence[bytes]) -> bytes:
    """Return one file as it is, once it has been read, and several joined."""
    joined = join_samples(contents)
    return contents[0] if len(contents) == 1 else write_speedscope(joined)


EXPORTS: dict[str, dict[FileKind, Make]] = {
    "speedscope": {SPEEDSCOPE: _speedscope},
    "collapsed": {SPEEDSCOPE: _from_samples(write_collapsed)},
    "pprof": {SPEEDSCOPE: _from_samples(write_pprof)},
    "chrometrace": {TRACE: join_traces, SPEEDSCOPE: _from_samples(write_timeline)},
    "pstats": {CALLS: write_pstats},
}
"""Kinds of artifacts that each format can be made of, the most detailed first."""


class Export(NamedTuple):
    """A function that makes a file, and the artifacts to make it of."""

    make: Make
    names: tuple[str, ...]


def export_of(names: Sequence[str], form: str, artifacts: Iterable[Artifact]) -> Export | None:
    """Return what a format is made of, or None if it cannot be made.

    Args:
        names: of a test's files.
        form: the format, a key of `EXPORTS`.
        artifacts: of the backends that left them, the preferred first.
    """
    known = list(artifacts)
    for kind, make in EXPORTS[form].items():
        for artifact in known:
            mine = [name for name in names if _is(name, artifact)]
            if artifact.kind == kind and mine:
                return Export(make, tuple(mine))
    return None


def _is(name: str, artifact: Artifact) -> bool:
    """Whether a file is such an artifact, and of the scheduler."""
    return name.startswith("scheduler.") and name.endswith(f".{artifact.ending}")


def backends_for(form: str, known: Iterable[BackendFacts]) -> list[str]:
    """Return the backends whose recordings a format can be made of, by rank."""
    return recommended(
        each for each in known if any(one.kind in EXPORTS[form] for one in each.artifacts)
    )
