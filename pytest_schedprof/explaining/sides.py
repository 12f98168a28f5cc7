"""Find two kept results of a test, and explain what changed between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
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
from pytest_schedprof.storage.runs import KeptTest, find_run

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


class Pairs:
    """The tests of a run, each with what its session compared it with; a baseline is read once."""

    def __init__(self, run: Path, directory: str, beside: Path | None = None) -> None:
        """Take a run that is compared with its own baselines, or with another run.

        Args:
            run: directory of the run.
            directory: where baselines are found by name.
            beside: the other run.
        """
        self._run, self._directory, self._beside = run, directory, beside
        self._known: dict[str, dict[str, KeptSide]] = {}

    def of(self, test: KeptTest) -> Pair:
        """Return a test before and after.

        Raises:
            SettingsError: if it was compared with nothing, or with what is gone.
            SchedprofError: if that cannot be read.
        """
        after = KeptSide(test.result, test.path, Folder(str(self._run)))
        place = test.path / AGAINST
        if self._beside is None and (place / RESULT_FILE).is_file():
            return side_in(place), after
        return self._earlier(test.result), after

    def _earlier(self, result: Result) -> KeptSide:
        name, test = result.baseline, result.test_id
        if not (name or self._beside):
            raise SettingsError(
                f"schedprof: {test} was compared with nothing: give two runs or baselines to "
                "explain, A and B"
            )
        if name not in self._known:
            self._known[name] = self._sides(name)
        before = self._known[name].get(test)
        if before is None:
            raise SettingsError(f"schedprof: baseline {name!r} does not have {test}")
        if before.result.started_at == result.started_at:
            raise SettingsError(
                f"schedprof: {test} was saved over baseline {name!r}, which it was compared with"
            )
        return before

    def _sides(self, name: str) -> dict[str, KeptSide]:
        if self._beside:
            return kept_sides(self._beside)
        sides = sides_of(name, self._directory, before=self._run)
        return {each.result.test_id: each for each in sides}


def pairs_of(before: str, after: str, directory: str) -> list[Pair]:
    """Return the tests that two sets of results have in common.

    Raises:
        BaselineError: if one cannot be read.
    """
    olds = {each.result.test_id: each for each in sides_of(before, directory)}
    news = {each.result.test_id: each for each in sides_of(after, directory)}
    return [(olds[test], side) for test, side in news.items() if test in olds]


def sides_of(spec: str, directory: str, before: Path | None = None) -> list[KeptSide]:
    """Return the results of a baseline or run, with the directories of those that are kept.

    A baseline has only a part of each record: the whole one is used where its run is kept.

    Args:
        spec: names the baseline or run.
        directory: where baselines are found by name.
        before: a run. If it is in a directory of runs that is named, the one before it is meant.
    """
    if (Path(spec) / RESULT_FILE).is_file():
        return [side_in(Path(spec))]
    place = kept_run(spec, directory, before)
    kept = kept_sides(place) if place else {}
    saved = folder_with_sources(spec, directory)
    return [
        kept[result.test_id]
        if result.test_id in kept and kept[result.test_id].result.started_at == result.started_at
        else KeptSide(result, run=saved)
        for result in load(spec, directory, other=before).results
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


def why_regressed(tests: Iterable[KeptTest], pairs: Pairs) -> list[Explanation]:
    """Explain what regressed in tests of a run; what cannot be explained is left out."""
    found: list[Explanation] = []
    for test in tests:
        with suppress(SchedprofError):
            found += _why(test, pairs)
    return found


def _why(test: KeptTest, pairs: Pairs) -> Iterator[Explanation]:
    failed = (each for each in test.result.comparisons if each.verdict is Verdict.FAIL)
    regressed = {each.backend for each in failed if each.tasks is None}  # explained per task
    if regressed:
        for each in explanations(pairs.of(test)):
            if each.backend in regressed and each.parts:
                yield each


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
