"""Baselines: each session saves a part of its own, and a reader gets all parts together.

So sessions that save at the same time lose nothing, and the files of a CI job's shards only need
to be put into one directory. A part is removed once later parts hold everything that it holds. A
baseline that is named as one file takes the results of all sessions in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.metric import (
    CLIENT_BYTECODES,
)
from pytest_schedprof.model.result import NOT_SCHEDULER, BackendResult, FunctionCost, Result
from pytest_schedprof.model.run import BaselinePart, Run, identities
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.records import Record, decode, encode
from pytest_schedprof.store.run_directory import RESULT_FILE, RUN_FILE, RunDirectory, safe_name
from pytest_schedprof.store.runs import find_run, with_tests
from pytest_schedprof.store.sources import stacks_file_of, take_sources

MOST_RUNS = 30
"""Runs that are read: older ones were measured of other code, or by a machine in another state."""

RunIn: TypeAlias = tuple[Folder, Run]
"""The directory of a run, and its record."""


@dataclass(frozen=True)
class EarlierRuns:
    """Runs of one directory; a test's results are read when they are asked for."""

    runs: Sequence[RunIn]

    def __call__(self, test_id: str) -> list[Result]:
        """Return the results of a test, without records that cannot be read."""
        found = []
        for folder, run in self.runs:
            for entry in run.tests:
                if entry.test_id == test_id and entry.directory:
                    file = folder / entry.directory / RESULT_FILE
                    with suppress(ArtifactError):  # the others tell what is usual as well
                        found.append(decode(file.read(), file.place, Result))
        return found


def runs_in(folder: Folder) -> list[RunIn]:
    """Return the runs of a directory of runs, in order of time; none if it is something else.

    Raises:
        ArtifactError: if a record cannot be read.
    """
    if folder.name.endswith(".json") or not folder.is_directory():
        return []
    if (folder / RUN_FILE).is_file() or (folder / RESULT_FILE).is_file():
        return []
    files = folder.files(f"*/{RUN_FILE}")
    found = [(each.parent, decode(each.read(), each.place, Run)) for each in files]
    return sorted(found, key=_age)


def _age(each: RunIn) -> tuple[bool, str]:
    """Sort key of runs: those whose session has not ended, which may be partial, come first."""
    return each[1].exit_status is not None, each[1].started_at


def runs_before(other: Path | None, runs: list[RunIn]) -> list[RunIn]:
    """Return the runs before another one if it is among them, else all of them.

    Raises:
        BaselineError: if it is the first one.
    """
    names = [folder.name for folder, _ in runs]
    if other is None or other.name not in names:
        return runs
    if not (before := runs[: names.index(other.name)]):
        raise BaselineError(f"schedprof: there is no run before {str(other)!r}")
    return before


def earlier_runs(runs: Sequence[RunIn]) -> EarlierRuns:
    """Return the runs before the newest one.

    Args:
        runs: in order of time. Those whose session has not ended are left out.
    """
    ended = [each for each in runs[:-1] if each[1].exit_status is not None]
    return EarlierRuns(ended[1 - MOST_RUNS :])


LATEST = "latest"

NEGLIGIBLE = 0.001
"""Functions with smaller shares are not saved."""

KEPT_OUTCOMES = ("passed", "xpassed")


class Loaded(NamedTuple):
    """Earlier results and their name."""

    name: str
    results: tuple[Result, ...]
    earlier: EarlierRuns | None = None
    """The runs before them, if they are the newest run of a directory of runs."""


def folder_of(name: str, directory: str) -> Folder:
    """Return the place of a baseline: a path or URL as it is, a name inside the directory."""
    is_path = "/" in name or "\\" in name or name.endswith(".json") or name in (".", "..")
    return Folder(name) if is_path else Folder(directory) / "baselines" / name


def save_run(name: str, directory: str, run: RunDirectory) -> str:
    """Save the results of a session; return a line that says so.

    Raises:
        ArtifactError: if it cannot be written.
        BaselineError: if the session measured nothing that can be saved.
    """
    results = _of_run(Folder(str(run.path)))
    folder, kept = save(name, directory, run.run_id, results)
    if not kept:
        raise BaselineError(f"schedprof: baseline {name!r} was not saved: {_why_none(results)}")
    if not folder.name.endswith(".json"):
        with folder.locked():
            take_sources(Folder(str(run.path)), folder)
    left = len(results) - kept
    more = f"; {_tests(left)} left out, which did not pass" if left else ""
    return f"baseline {name!r}: {_tests(kept)} saved in {folder}{more}"


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"


def _why_none(results: Sequence[Result]) -> str:
    if not results:
        return "no profiled test ran"
    return f"none of {_tests(len(results))} that ran profiled passed"


def save(name: str, directory: str, run_id: str, results: Iterable[Result]) -> tuple[Folder, int]:
    """Save the results of a session; return the place and the number of tests saved.

    Raises:
        ArtifactError: if it cannot be written.
        BaselineError: if a file of that name exists and is no baseline.
    """
    kept = tuple(_slim(result) for result in results if is_worth_keeping(result))
    folder = folder_of(name, directory)
    if not kept:
        return folder, 0
    is_one_file = folder.name.endswith(".json")
    place = folder.parent if is_one_file else folder
    with place.locked():
        if is_one_file:
            _write(folder, run_id, (*_not_in(kept, folder), *kept))
        else:
            _write(folder / f"{safe_name(run_id)}.json", run_id, kept)
            _tidy(folder)
    return folder, len(kept)


def _write(path: Folder, run_id: str, results: tuple[Result, ...]) -> None:
    part = BaselinePart(run_id, datetime.now(UTC).isoformat(), results)
    path.write(encode(part))


def _not_in(results: Iterable[Result], file: Folder) -> list[Result]:
    """Return the results in a file of which these results do not measure everything again."""
    if not file.exists():
        return []
    known = identities(results)
    earlier = _decoded(file.read(), file, BaselinePart).results
    return [each for each in earlier if not identities([each]) <= known]


def is_worth_keeping(result: Result) -> bool:
    """Whether later results may be compared with this one: it passed and was profiled."""
    return result.outcome in KEPT_OUTCOMES and result.is_usable


def _slim(result: Result) -> Result:
    backends = tuple(_slim_backend(each) for each in result.backends)
    return replace(result, backends=backends, baseline="", comparisons=(), null=())


def _slim_backend(backend: BackendResult) -> BackendResult:
    shares, costs = backend.shares, backend.costs
    if shares:
        held = [each for each in shares.functions if each.share.value >= NEGLIGIBLE]
        shares = replace(shares, functions=tuple(held))
    if costs:
        own, folded = (
            tuple(filter(_is_compared, each)) for each in (costs.functions, costs.folded)
        )
        costs = replace(costs, functions=own, folded=folded)
    return replace(backend, shares=shares, costs=costs, limits=(), artifacts=(), targets=())


def _is_compared(cost: FunctionCost) -> bool:
    """Whether a function is the scheduler's, or has figures of the client."""
    return cost.owner not in NOT_SCHEDULER or CLIENT_BYTECODES in cost.total


def _tidy(folder: Folder) -> None:
    """Remove parts whose measurements are all in later parts; leave those that cannot be read."""
    try:
        parts = sorted(_parts(folder), key=lambda each: each[1].saved_at, reverse=True)
    except (ArtifactError, BaselineError):
        return  # reading the baseline reports it
    known: set[object] = set()
    for path, part in parts:
        mine = identities(part.results)
        if mine <= known:
            path.remove()
            stacks = stacks_file_of(folder, part.run_id)
            if stacks.exists():
                stacks.remove()
        known |= mine


def load(spec: str, directory: str, *, other: Path | None = None) -> Loaded:
    """Load a baseline by name, path or URL, `latest`, a run, or a directory of runs.

    Args:
        spec: what is loaded.
        directory: where baselines are found by name.
        other: a run to compare with. If it is in a directory of runs, those before it are loaded.

    Raises:
        BaselineError: if it is missing or corrupt; lists the baselines that exist.
    """
    try:
        folder = _latest(directory) if spec == LATEST else _found(spec, directory)
        runs = runs_before(other, runs_in(folder))
        results = _of_run(runs[-1][0]) if runs else _results(folder)
    except BaselineError:
        raise
    except ArtifactError as error:
        raise BaselineError(f"{error}{_known(spec, directory)}") from error
    if not results:
        raise BaselineError(
            f"schedprof: {str(folder)!r} contains no results{_known(spec, directory)}"
        )
    earlier = earlier_runs(runs) if runs else None
    return Loaded(spec if spec != LATEST else folder.name, tuple(results), earlier)


def kept_run(spec: str, directory: str, other: Path | None = None) -> Path | None:
    """Return the directory of the newest run of a baseline, for samples, which no baseline has.

    None if the run is gone or was on another machine. `other` is as in `load`.
    """
    try:
        folder = _latest(directory) if spec == LATEST else _found(spec, directory)
        if other is not None and (runs := runs_before(other, runs_in(folder))):
            return Path(str(runs[-1][0]))
        if folder.files(RUN_FILE) or folder.files(f"*/{RUN_FILE}"):
            return find_run(Path(str(folder))).path
        parts = sorted(_parts(folder), key=lambda each: each[1].saved_at, reverse=True)
    except (ArtifactError, BaselineError):
        return None
    places = (Path(directory) / part.run_id for _, part in parts)
    return next((each for each in places if (each / RUN_FILE).is_file()), None)


def folder_with_sources(spec: str, directory: str) -> Folder | None:
    """Return the place of a saved baseline; None if it is a run, or cannot be found."""
    try:
        folder = _latest(directory) if spec == LATEST else _found(spec, directory)
        return folder if folder.files("*.json") and not folder.files(RUN_FILE) else None
    except (ArtifactError, BaselineError):
        return None


def _found(spec: str, directory: str) -> Folder:
    """Return the baseline of that name, or else the file or directory."""
    named = folder_of(spec, directory)
    return Folder(spec) if not named.exists() and Folder(spec).exists() else named


def _results(folder: Folder) -> list[Result]:
    if not folder.name.endswith(".json") and folder.is_directory():
        return _of_directory(folder)
    content = folder.read()
    fields = _fields(content, folder)
    if "tests" in fields:
        return _of_run(folder.parent)
    if "backends" in fields:
        return [_decoded(content, folder, Result)]
    return list(_decoded(content, folder, BaselinePart).results)


def _of_directory(folder: Folder) -> list[Result]:
    """Read a run, one test of a run, or the parts of a baseline."""
    if (folder / RUN_FILE).is_file():
        return _of_run(folder)
    if (folder / RESULT_FILE).is_file():
        return [_decoded((folder / RESULT_FILE).read(), folder / RESULT_FILE, Result)]
    return [result for _, part in _parts(folder) for result in part.results]


def _of_run(folder: Folder) -> list[Result]:
    run = with_tests(_decoded((folder / RUN_FILE).read(), folder / RUN_FILE, Run), folder)
    places = [folder / test.directory / RESULT_FILE for test in run.tests if test.directory]
    return [_decoded(place.read(), place, Result) for place in places]


def _parts(folder: Folder) -> list[tuple[Folder, BaselinePart]]:
    """Return the parts of a baseline, without those that another session removes meanwhile."""
    parts = []
    for each in folder.files("*.json"):
        try:
            content = each.read()
        except ArtifactError:
            if each.exists():
                raise
        else:
            parts.append((each, _decoded(content, each, BaselinePart)))
    return parts


def _decoded(content: bytes, place: Folder, kind: type[Record]) -> Record:
    try:
        return decode(content, str(place), kind)
    except ArtifactError as error:
        raise BaselineError(f"{error}; or remove it and save the baseline again") from error


def _fields(content: bytes, place: Folder) -> set[str]:
    """Return the names of the fields, which tell the kinds of records apart."""
    try:
        return set(msgspec.json.decode(content, type=dict[str, msgspec.Raw]))
    except UNREADABLE as error:
        raise BaselineError(f"schedprof: {str(place)!r} is corrupt: {error}") from error


def _latest(directory: str) -> Folder:
    """Return the baseline that was saved last."""
    files = Folder(directory).files("baselines/*/*.json")
    parts: Sequence[tuple[str, Folder]] = [
        (_decoded(each.read(), each, BaselinePart).saved_at, each) for each in files
    ]
    if not parts:
        raise BaselineError(
            f"schedprof: no baseline has been saved in {directory!r}: save one with "
            "--schedprof-save=NAME"
        )
    return max(parts, key=lambda each: each[0])[1].parent


def _known(spec: str, directory: str) -> str:
    if folder_of(spec, directory) == Folder(spec):
        return ""
    names = sorted({each.parent.name for each in Folder(directory).files("baselines/*/*.json")})
    return f"; baselines in {directory!r}: {', '.join(names) or 'none'}"
