"""Baselines: each session saves a part of its own, and a reader gets all parts together.

So sessions that save at the same time lose nothing, and the files of a CI job's shards only need
to be put into one directory. A part is removed once later parts hold everything that it holds. A
baseline that is named as one file takes the results of all sessions in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from pytest_schedprof.errors import ArtifactError, BaselineError, without_secrets
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import BaselinePart, Commit, Run, by_test, identities
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.records import Record, decode, encode
from pytest_schedprof.store.run_directory import (
    RESULT_FILE,
    RUN_FILE,
    RunDirectory,
    check_room,
    make_directory,
    safe_name,
)
from pytest_schedprof.store.runs import LATEST, KeptRun, ResultsOfRuns, find_run, with_tests
from pytest_schedprof.store.sources import files_beside, take_sources

MOST_RUNS = 30
"""Runs that are read: older ones were measured of other code, or by a machine in another state."""


def recorded_runs(folder: Folder) -> list[KeptRun]:
    """Return the runs of a directory of runs, in order of time; none if it is something else.

    Raises:
        ArtifactError: if none of them can be read.
    """
    if folder.name.endswith(".json") or not folder.is_directory():
        return []
    if (folder / RUN_FILE).is_file() or (folder / RESULT_FILE).is_file():
        return []
    runs: list[KeptRun] = []
    skipped: list[ArtifactError] = []
    for file in folder.files(f"*/{RUN_FILE}"):
        try:  # one of another release, or cut short, does not spoil the others
            runs.append(KeptRun(file.parent, decode(file.read(), str(file), Run)))
        except ArtifactError as error:
            skipped.append(error)
    if skipped and not runs:
        raise skipped[-1]

    def order(run: KeptRun) -> tuple[bool, str]:
        return run.record.exit_status is not None and bool(run.files), run.record.started_at

    # Those whose session has not ended, which may be partial, or has profiled no test come first.
    return sorted(runs, key=order)


def runs_before(other: Path | None, runs: list[KeptRun]) -> list[KeptRun]:
    """Return the runs before another one if it is among them, else all of them.

    Raises:
        BaselineError: if it is the first one.
    """
    # By the names to which links lead.
    starts = {run.path.resolve().name: run.record.started_at for run in runs}
    if other is None or (moment := starts.get(other.resolve().name)) is None:
        return runs
    if not (before := [run for run in runs if run.record.started_at < moment]):
        raise BaselineError(f"schedprof: there is no run before {str(other)!r}")
    return before


NEGLIGIBLE = 0.001
"""Functions with smaller shares are not saved."""

KEPT_OUTCOMES = ("passed", "xpassed")


class Loaded(NamedTuple):
    """Earlier results and their name."""

    name: str
    tests: Mapping[str, Sequence[Result]]
    earlier: Mapping[str, Sequence[Result]] | None = None
    """The runs before them, if they are the newest run of a directory of runs."""
    commit: str = ""
    """The newest commit that was measured, in short; empty if it is not known."""

    @property
    def results(self) -> tuple[Result, ...]:
        """The results of all tests, which may not fit into memory."""
        return tuple(chain.from_iterable(self.tests.values()))


def folder_of(name: str, directory: str) -> Folder:
    """Return the place of a baseline: a path or URL as it is, a name inside the directory."""
    is_path = "/" in name or "\\" in name or name.endswith(".json") or name in (".", "..")
    return Folder(name) if is_path else Folder(directory) / "baselines" / name


def check_place(name: str, directory: str) -> None:
    """Refuse a path that cannot be written before anything is measured.

    What a URL allows is known only when it is written.

    Raises:
        ArtifactError: names the path.
    """
    folder = folder_of(name, directory)
    if folder == Folder(name) and not folder.is_url:
        path = Path(name)
        file = path if folder.name.endswith(".json") else path / "baseline.json"
        make_directory(file.parent)
        check_room(file)


def save_run(name: str, directory: str, run: RunDirectory) -> str:
    """Save the results of a session; return a line that says so.

    Raises:
        ArtifactError: if it cannot be written.
        BaselineError: if the session measured nothing that can be saved.
    """
    tests, commit = _of_run(Folder(str(run.path)))
    results = list(chain.from_iterable(tests.values()))
    folder, kept = save(name, directory, run.run_id, results, commit)
    if not kept:
        why = f"none of {_tests(len(results))} that ran profiled passed"
        raise BaselineError(
            f"schedprof: baseline {name!r} was not saved: "
            f"{why if results else 'no profiled test ran'}"
        )
    if not folder.name.endswith(".json"):
        take_sources(Folder(str(run.path)), run.run_id, folder)
    left = len(results) - kept
    more = f"; {_tests(left)} left out, which did not pass" if left else ""
    return f"baseline {without_secrets(name)!r}: {_tests(kept)} saved in {folder}{more}"


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"


def save(
    name: str,
    directory: str,
    run_id: str,
    results: Iterable[Result],
    commit: Commit | None = None,
) -> tuple[Folder, int]:
    """Save the results of a session; return the place and the number of tests saved.

    Raises:
        ArtifactError: if it cannot be written.
        BaselineError: if a file of that name exists and is no baseline.
    """
    kept = tuple(
        replace(
            result,
            backends=tuple(map(_slim, result.backends)),
            baseline="",
            baseline_commit="",
            comparisons=(),
        )
        for result in results
        if is_worth_keeping(result)
    )
    folder = folder_of(name, directory)
    if not kept:
        return folder, 0
    is_one_file = folder.name.endswith(".json")
    place = folder.parent if is_one_file else folder
    with place.locked():
        earlier: list[Result] = []
        if is_one_file and folder.exists():  # keep what these do not measure again
            known = identities(kept)
            earlier = [
                result
                for result in _decoded(folder.read(), folder, BaselinePart).results
                if not identities([result]) <= known
            ]
        moment = datetime.now(UTC).isoformat()
        part = BaselinePart(run_id, moment, (*earlier, *kept), commit)
        file = folder if is_one_file else folder / f"{safe_name(run_id)}.json"
        file.write(encode(part))
        if not is_one_file:
            _tidy(folder)
    return folder, len(kept)


def is_worth_keeping(result: Result) -> bool:
    """Whether later results may be compared with this one: it passed and was profiled."""
    return result.outcome in KEPT_OUTCOMES and result.is_usable


def _slim(backend: BackendResult) -> BackendResult:
    shares = backend.shares
    if shares:
        held = (function for function in shares.functions if function.share.value >= NEGLIGIBLE)
        shares = replace(shares, functions=tuple(held))
    return replace(backend, shares=shares, limits=(), artifacts=())


def _tidy(folder: Folder) -> None:
    """Remove parts whose measurements are all in later parts; leave those that cannot be read."""
    try:
        parts = _parts(folder)
    except (ArtifactError, BaselineError):
        return  # reading the baseline reports it
    known: set[object] = set()
    for path, part in parts:
        mine = identities(part.results)
        if mine <= known:
            for file in (path, *files_beside(folder, part.run_id)):
                file.remove()
        known |= mine


def load(spec: str, directory: str, *, other: Path | None = None) -> Loaded:
    """Load a baseline by name, path or URL, `latest`, a run, or a directory of runs.

    Args:
        directory: where baselines are found by name.
        other: a run to compare with. If it is in a directory of runs, those before it are loaded.

    Raises:
        BaselineError: if it is missing or corrupt; lists the baselines that exist.
    """
    try:
        folder = _folder(spec, directory)
        runs = runs_before(other, recorded_runs(folder))
        tests, commit = _of_run(runs[-1].folder) if runs else _results(folder)
    except ArtifactError as error:
        raise BaselineError(f"{error}{_known(spec, directory)}") from error
    if not tests:
        raise BaselineError(
            f"schedprof: {str(folder)!r} contains no results{_known(spec, directory)}"
        )
    # The runs before the newest one; those whose session has not ended may be partial.
    ended = [run for run in runs[:-1] if run.record.exit_status is not None]
    earlier = ResultsOfRuns(*ended[1 - MOST_RUNS :]) if runs else None
    name = folder.name if spec == LATEST else without_secrets(spec)
    return Loaded(name, tests, earlier, commit.short if commit else "")


def kept_run(spec: str, directory: str, other: Path | None = None) -> Path | None:
    """Return the directory of the newest run of a baseline, for samples, which no baseline has.

    None if the run is gone or was on another machine. `other` is as in `load`.
    """
    try:
        folder = _folder(spec, directory)
        if runs := runs_before(other, recorded_runs(folder)):
            folder = runs[-1].folder
        if folder.files(RUN_FILE):
            return find_run(Path(str(folder))).path
        parts = _parts(folder)
    except (ArtifactError, BaselineError):
        return None
    places = (Path(directory) / part.run_id for _, part in parts)
    return next((place for place in places if (place / RUN_FILE).is_file()), None)


def run_after(before: str, after: str, directory: str) -> Path | None:
    """Return the run of the later one of two sets of results, which no earlier side may have.

    None if both are the same: a search compares its good end with itself too.
    """
    return None if before == after else kept_run(after, directory)


def folder_with_sources(spec: str, directory: str) -> Folder | None:
    """Return the place of a saved baseline; None if it is a run, or cannot be found."""
    try:
        folder = _folder(spec, directory)
        return folder if folder.files("*.json") and not folder.files(RUN_FILE) else None
    except (ArtifactError, BaselineError):
        return None


def _folder(spec: str, directory: str) -> Folder:
    """Return the baseline of that name, the one saved last, or else the run, file or directory."""
    if spec == LATEST:
        return _latest(directory)
    if spec.endswith(f"/{LATEST}") and not Folder(spec).exists():  # the newest run, as in `show`
        return find_run(Path(spec)).folder
    named = folder_of(spec, directory)
    return Folder(spec) if not named.exists() and Folder(spec).exists() else named


Results: TypeAlias = tuple[Mapping[str, Sequence[Result]], Commit | None]
"""Results by test, and the commit that was measured."""


def _results(folder: Folder) -> Results:
    """Read a run, one test of a run, the parts of a baseline, or a file of one of these."""
    if not folder.name.endswith(".json") and folder.is_directory():
        if (folder / RUN_FILE).is_file():
            return _of_run(folder)
        if not (folder / RESULT_FILE).is_file():
            parts = [part for _, part in reversed(_parts(folder))]
            commit = parts[-1].commit if parts else None
            return by_test(result for part in parts for result in part.results), commit
        folder = folder / RESULT_FILE
    content = folder.read()
    try:  # the fields tell the kinds of records apart
        names = set(msgspec.json.decode(content, type=dict[str, msgspec.Raw]))
    except UNREADABLE as error:
        raise BaselineError(f"schedprof: {str(folder)!r} is corrupt: {error}") from error
    if "tests" in names:
        return _of_run(folder.parent)
    if "backends" in names:
        return by_test([_decoded(content, folder, Result)]), None
    part = _decoded(content, folder, BaselinePart)
    return by_test(part.results), part.commit


def _of_run(folder: Folder) -> Results:
    run = with_tests(_decoded((folder / RUN_FILE).read(), folder / RUN_FILE, Run), folder)
    return ResultsOfRuns(KeptRun(folder, run), is_strict=True), run.commit


def _parts(folder: Folder) -> list[tuple[Folder, BaselinePart]]:
    """Return the parts of a baseline, the newest first."""
    files = _contents(folder, "*.json")
    parts = [(file, _decoded(content, file, BaselinePart)) for file, content in files]
    return sorted(parts, key=lambda part: part[1].saved_at, reverse=True)


def _contents(folder: Folder, pattern: str) -> Iterator[tuple[Folder, bytes]]:
    """Yield files with their contents, without those that another session removes meanwhile."""
    for file in folder.files(pattern):
        try:
            yield file, file.read()
        except ArtifactError:
            if file.exists():
                raise


def _decoded(content: bytes, place: Folder, kind: type[Record]) -> Record:
    try:
        return decode(content, str(place), kind)
    except ArtifactError as error:
        if f'"{kind.__struct_fields__[0]}"'.encode() not in content:  # nor a piece of one
            raise BaselineError(f"schedprof: {str(place)!r} is no baseline") from error
        raise BaselineError(f"{error}; or remove it and save the baseline again") from error


def _latest(directory: str) -> Folder:
    """Return the baseline that was saved last."""
    files = _contents(Folder(directory), "baselines/*/*.json")
    saved = {_decoded(content, file, BaselinePart).saved_at: file for file, content in files}
    if not saved:
        raise BaselineError(
            f"schedprof: no baseline has been saved in {directory!r}: save one with "
            "--schedprof-save=NAME"
        )
    return saved[max(saved)].parent


def _known(spec: str, directory: str) -> str:
    if folder_of(spec, directory) == Folder(spec):
        return ""
    names = sorted({file.parent.name for file in Folder(directory).files("baselines/*/*.json")})
    known = ", ".join(names) or "none, save one with --schedprof-save=NAME"
    return f"; baselines in {directory!r}: {known}"
