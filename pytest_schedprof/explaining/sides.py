"""Find two kept results of a test, and explain what changed between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_schedprof.errors import ArtifactError, SchedprofError, SettingsError
from pytest_schedprof.explaining.accounts import COUNTS, KeptSide, accounts_of, metrics_of
from pytest_schedprof.explaining.parts import explain
from pytest_schedprof.model.explanation import Accounts, Explanation
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.storage.baselines import folder_with_sources, kept_run, load
from pytest_schedprof.storage.places import Folder
from pytest_schedprof.storage.reading import inside
from pytest_schedprof.storage.records import read_record
from pytest_schedprof.storage.run_directory import AGAINST, RESULT_FILE, RUN_FILE
from pytest_schedprof.storage.runs import KeptRun, KeptTest, find_run

NO_SOURCES = (
    "no sources of {side} are kept: they are in sessions with --schedprof-save, "
    "--schedprof-compare or --schedprof-against"
)
OTHER_PYTHON = "bytecodes of Python {before} and {after} differ for the same source"
NO_DETAIL = (
    "callers and lines were not counted: run both sides with --schedprof-option counts.detail=true"
)

Pair = tuple[KeptSide, KeptSide]
"""A test before and after."""


def pair_in_run(run: KeptRun, test: KeptTest, directory: str) -> Pair:
    """Return a test and what it was compared with in its session.

    Raises:
        SettingsError: if it was compared with nothing.
    """
    folder = Folder(str(run.path))
    after = KeptSide(test.result, test.path, folder)
    if (test.path / AGAINST / RESULT_FILE).is_file():
        place = test.path / AGAINST
        return KeptSide(read_record(place / RESULT_FILE, Result), place, folder), after
    if not test.result.baseline:
        raise SettingsError(
            f"schedprof: {test.result.test_id} was compared with nothing: give two runs or "
            "baselines to explain, A and B"
        )
    earlier = {each.result.test_id: each for each in sides_of(test.result.baseline, directory)}
    if test.result.test_id not in earlier:
        raise SettingsError(
            f"schedprof: baseline {test.result.baseline!r} does not have {test.result.test_id}"
        )
    return earlier[test.result.test_id], after


def pairs_of(before: str, after: str, directory: str) -> list[Pair]:
    """Return the tests that two sets of results have in common.

    Raises:
        BaselineError: if one cannot be read.
    """
    olds = {each.result.test_id: each for each in sides_of(before, directory)}
    news = {each.result.test_id: each for each in sides_of(after, directory)}
    return [(olds[test], side) for test, side in news.items() if test in olds]


def sides_of(spec: str, directory: str) -> list[KeptSide]:
    """Return the results of a baseline or run, with the directories of those that are kept."""
    if (Path(spec) / RESULT_FILE).is_file():
        return [side_in(Path(spec))]
    place = kept_run(spec, directory)
    kept = kept_sides(place) if place else {}
    saved = folder_with_sources(spec, directory)
    return [
        replace(kept.get(result.test_id, KeptSide(result, run=saved)), result=result)
        for result in load(spec, directory).results
    ]


def side_in(place: Path, result: Result | None = None) -> KeptSide:
    """Return one test of a run, or one of its sides, by its directory."""
    above = (each for each in place.absolute().parents if (each / RUN_FILE).is_file())
    run = next(above, None)
    record = result or read_record(place / RESULT_FILE, Result)
    return KeptSide(record, place, Folder(str(run)) if run else None)


def kept_sides(place: Path) -> dict[str, KeptSide]:
    """Return the tests of a run that have directories, by their IDs; none if it cannot be read."""
    try:
        run = find_run(place)
        named = [inside(run.path, each.directory) for each in run.record.tests if each.directory]
        sides = [
            KeptSide(read_record(each / RESULT_FILE, Result), each, Folder(str(run.path)))
            for each in named
        ]
    except ArtifactError:
        return {}
    return {each.result.test_id: each for each in sides}


def earlier_sides(beside: Path | None, baseline: str, directory: str) -> dict[str, KeptSide]:
    """Return what a session compared its tests with: the tests of a run, or of a baseline."""
    if beside:
        return kept_sides(beside)
    try:
        return {each.result.test_id: each for each in sides_of(baseline, directory)}
    except SchedprofError:  # the tests were compared in turns
        return {}


def why_regressed(
    place: Path, result: Result, earlier: Mapping[str, KeptSide]
) -> tuple[Explanation, ...]:
    """Explain what regressed in a test by its session's comparison; nothing is no error.

    Args:
        place: directory of the test's files.
        result: its record.
        earlier: the tests that it may have been compared with, by their IDs.
    """
    failed = (each for each in result.comparisons if each.verdict is Verdict.FAIL)
    regressed = {each.backend for each in failed if each.tasks is None}  # explained per task
    if not regressed:
        return ()
    try:
        after = side_in(place, result)
        side = place / AGAINST
        is_in_turns = (side / RESULT_FILE).is_file()
        before = side_in(side) if is_in_turns else earlier.get(result.test_id)
        found = explanations((before, after)) if before else ()
        return tuple(each for each in found if each.backend in regressed and each.parts)
    except SchedprofError:
        return ()


def why_run_regressed(run: KeptRun, directory: str, most: int) -> list[Explanation]:
    """Explain what regressed in the first so many tests of a kept run; nothing is no error.

    Raises:
        ArtifactError: if a record cannot be read.
    """
    found = [run.test(each.test_id) for each in run.record.tests if each.directory]
    regressed = [each for each in found if _is_regressed(each.result)][:most]
    if not regressed:
        return []
    earlier = earlier_sides(None, regressed[0].result.baseline, directory)
    return [why for each in regressed for why in why_regressed(each.path, each.result, earlier)]


def _is_regressed(result: Result) -> bool:
    return any(each.verdict is Verdict.FAIL for each in result.comparisons)


def explanations(pair: Pair, metric: str = "") -> Iterator[Explanation]:
    """Yield an explanation for each backend and metric that were measured on both sides."""
    before, after = pair
    for measured in after.result.backends:
        earlier = before.backend(measured.backend, measured.mode)
        for each in metrics_of(measured) if earlier else ():
            if earlier and metric in ("", each):
                yield from _explanation(pair, earlier, measured, each)


def _explanation(
    pair: Pair, earlier: BackendResult, measured: BackendResult, metric: str
) -> Iterator[Explanation]:
    """Yield the explanation of one metric, if functions of both sides are known."""
    sides = zip(pair, (earlier, measured), strict=True)
    before, after = (accounts_of(side, of, metric) for side, of in sides)
    if before.functions and after.functions:
        test = pair[1].result.test_id
        found = explain(test, measured.backend, metric, before, after)
        yield replace(found, notes=tuple(_notes(pair, measured, before, after)))


def _notes(pair: Pair, measured: BackendResult, before: Accounts, after: Accounts) -> Iterator[str]:
    """Yield what is not known, and how to learn it."""
    pythons = [side.result.environment.minor_python for side in pair if side.result.environment]
    if measured.backend == COUNTS and len(set(pythons)) > 1:
        yield OTHER_PYTHON.format(before=pythons[0], after=pythons[1])
    missing = [name for name, each in (("A", before), ("B", after)) if not each.sources]
    if missing:
        yield NO_SOURCES.format(side=" and of ".join(missing))
    if measured.backend == COUNTS and not (before.lines and after.lines):
        yield NO_DETAIL


def known_metrics() -> list[str]:
    """Return the metrics that can be explained."""
    return [name for name, row in METRICS.items() if row.is_divided]
