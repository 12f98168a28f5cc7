"""Baselines: each session saves a part of its own, and what is read is all parts together.

So sessions that save at once lose nothing, and the files of shards of a CI job need only be put
into one directory. A part is removed when later ones hold all that it holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

import msgspec

from pytest_schedprof.analysis.owners import NOT_SCHEDULER
from pytest_schedprof.comparison.matching import identities
from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.formats.json import UNREADABLE
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import BaselinePart, Run
from pytest_schedprof.storage.names import safe_name
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.records import COMPACT, Record, decode, encode
from pytest_schedprof.storage.run_directory import RunDirectory
from pytest_schedprof.storage.runs import find_run

LATEST = "latest"

NEGLIGIBLE = 0.001
"""Functions with smaller shares are not kept."""

KEPT_OUTCOMES = ("passed", "xpassed")


class Loaded(NamedTuple):
    """Earlier results and what they are called."""

    name: str
    results: tuple[Result, ...]


def folder_of(name: str, directory: str) -> Folder:
    """Where a baseline is: a name means one of the project's own."""
    is_place = "/" in name or "\\" in name or name.endswith(".json")
    return Folder(name) if is_place else Folder(directory) / "baselines" / name


def save_run(name: str, directory: str, run: RunDirectory) -> str:
    """Save what a session measured; a line that says so.

    Raises:
        ArtifactError: if it cannot be written.
    """
    results = _of_run(Folder(str(run.path)))
    folder, kept = save(name, directory, run.run_id, results)
    left = f"; {len(results) - kept} failed and are not in it" if kept < len(results) else ""
    return f"baseline {name!r}: {kept} tests saved in {folder}{left}"


def save(name: str, directory: str, run_id: str, results: Iterable[Result]) -> tuple[Folder, int]:
    """Save what a session measured; the place, and of how many tests.

    Raises:
        ArtifactError: if it cannot be written.
    """
    kept = tuple(_slim(result) for result in results if is_worth_keeping(result))
    folder = folder_of(name, directory)
    if not kept:
        return folder, 0
    part = BaselinePart(run_id, datetime.now(timezone.utc).isoformat(), kept)
    path = folder if folder.name.endswith(".json") else folder / f"{safe_name(run_id)}.json"
    path.write(encode(part, indent=COMPACT))
    _tidy(folder, path)
    return folder, len(kept)


def is_worth_keeping(result: Result) -> bool:
    """What failed, or was not properly profiled, is no measure for others."""
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
        own = [each for each in costs.functions if each.owner not in NOT_SCHEDULER]
        costs = replace(costs, functions=tuple(own))
    return replace(backend, shares=shares, costs=costs, limits=(), artifacts=(), targets=())


def _tidy(folder: Folder, written: Folder) -> None:
    """Remove parts that say nothing which later ones do not say. One that cannot be is left."""
    if folder == written:
        return
    try:
        parts = sorted(_parts(folder), key=lambda each: each[1].saved_at, reverse=True)
    except BaselineError:
        return  # whoever reads it is told
    known: set[object] = set()
    for path, part in parts:
        mine = identities(part.results)
        if mine <= known:
            path.remove()
        known |= mine


def load(spec: str, directory: str) -> Loaded:
    """Earlier results: a baseline by name, path or URL, `latest`, a run, or a directory of runs.

    Raises:
        BaselineError: names what is missing or corrupt, and what there is.
    """
    try:
        folder = _latest(directory) if spec == LATEST else _found(spec, directory)
        results = _results(folder)
    except BaselineError:
        raise
    except ArtifactError as error:
        raise BaselineError(f"{error}{_known(spec, directory)}") from error
    if not results:
        raise BaselineError(f"schedprof: {str(folder)!r} holds no results{_known(spec, directory)}")
    return Loaded(spec if spec != LATEST else folder.name, tuple(results))


def kept_run(spec: str, directory: str) -> Path | None:
    """Where the newest run of a baseline still is: samples are in no baseline.

    None if it is gone, or has been elsewhere.
    """
    try:
        folder = _latest(directory) if spec == LATEST else _found(spec, directory)
        if folder.files("run.json") or folder.files("*/run.json"):
            return find_run(Path(str(folder))).path
        parts = sorted(_parts(folder), key=lambda each: each[1].saved_at, reverse=True)
    except (ArtifactError, BaselineError):
        return None
    places = (Path(directory) / part.run_id for _, part in parts)
    return next((each for each in places if (each / "run.json").is_file()), None)


def _found(spec: str, directory: str) -> Folder:
    """A baseline of that name, or else a file or directory."""
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
    """A run, one test of it, a baseline's parts, or the newest of many runs."""
    if (folder / "run.json").is_file():
        return _of_run(folder)
    if (folder / "result.json").is_file():
        return [_decoded((folder / "result.json").read(), folder / "result.json", Result)]
    if runs := folder.files("*/run.json"):
        newest = max(runs, key=lambda each: _decoded(each.read(), each, Run).started_at)
        return _of_run(newest.parent)
    return [result for _, part in _parts(folder) for result in part.results]


def _of_run(folder: Folder) -> list[Result]:
    run = _decoded((folder / "run.json").read(), folder / "run.json", Run)
    places = [folder / test.directory / "result.json" for test in run.tests if test.directory]
    return [_decoded(place.read(), place, Result) for place in places]


def _parts(folder: Folder) -> list[tuple[Folder, BaselinePart]]:
    files = folder.files("*.json")
    return [(each, _decoded(each.read(), each, BaselinePart)) for each in files]


def _decoded(content: bytes, place: Folder, kind: type[Record]) -> Record:
    try:
        return decode(content, str(place), kind)
    except ArtifactError as error:
        raise BaselineError(f"{error}; or remove it and save it again") from error


def _fields(content: bytes, place: Folder) -> set[str]:
    """What tells the kinds of records apart."""
    try:
        return set(msgspec.json.decode(content, type=dict[str, msgspec.Raw]))
    except UNREADABLE as error:
        raise BaselineError(f"schedprof: {str(place)!r} is corrupt: {error}") from error


def _latest(directory: str) -> Folder:
    """The baseline that was saved last."""
    files = Folder(directory).files("baselines/*/*.json")
    parts: Sequence[tuple[str, Folder]] = [
        (_decoded(each.read(), each, BaselinePart).saved_at, each) for each in files
    ]
    if not parts:
        raise BaselineError(
            f"schedprof: no baseline was saved in {directory!r} yet: save one with "
            "--schedprof-save=NAME"
        )
    return max(parts, key=lambda each: each[0])[1].parent


def _known(spec: str, directory: str) -> str:
    if folder_of(spec, directory) == Folder(spec):
        return ""
    names = sorted({each.parent.name for each in Folder(directory).files("baselines/*/*.json")})
    return f"; baselines in {directory!r}: {', '.join(names) or 'none'}"
