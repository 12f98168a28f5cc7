"""The search: measure both ends, choose a figure, and measure versions until one is left."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_schedprof.bisecting.asked import Asked
from pytest_schedprof.bisecting.journal import Entry, Journal
from pytest_schedprof.bisecting.session import SAID, UnmeasuredError, measure
from pytest_schedprof.bisecting.versions import Versions
from pytest_schedprof.bisecting.words import amount, figure_words
from pytest_schedprof.errors import BaselineError, SchedprofError
from pytest_schedprof.model.comparison import Report
from pytest_schedprof.presentation.changes import comparison_count
from pytest_schedprof.searching.search import Answer, Search
from pytest_schedprof.searching.target import Target, moved_functions, target_of

WORK = "work"
"""Directory of what is made for one version, in the directory of a search."""

Compare = Callable[[str, str], Report]
"""Compares two directories of results."""

Tell = Callable[[str], None]


class EndsError(SchedprofError):
    """An end of the range gave no figures, or nothing regressed between both ends."""


@dataclass(frozen=True)
class Found:
    """What a search found."""

    search: Search
    target: Target
    runs: int
    """Measurements that were made, without those of an earlier search that were used again."""
    before: Path
    """Results of the last version that is known to be good."""
    after: Path
    """Results of the first version that is known to be bad."""
    values: tuple[float, float]
    """The figure on both sides."""


class Finding:
    """One search over some versions."""

    def __init__(
        self, versions: Versions, asked: Asked, journal: Journal, compare: Compare, tell: Tell
    ) -> None:
        self._versions = versions
        self._asked = asked
        self._journal = journal
        self._compare = compare
        self._tell = tell
        self._runs = 0

    def find(self) -> Found:
        """Search; the first thing is to measure both ends.

        Raises:
            EndsError: if an end cannot be measured, or nothing regressed between them.
        """
        last = len(self._versions.names) - 1
        for end in (0, last):
            if trouble := self._measured(end).trouble:
                raise EndsError(self._no_end(end, trouble))
        report = self._report(last)
        target = target_of(report, self._asked.metric, self._asked.function)
        if target is None:
            raise EndsError(self._nothing(report))
        suspicion = self._versions.suspicion(moved_functions(report, target))
        self._tell_target(target, len(suspicion))
        search = self._searched(self._known(Search(last, suspicion), target), target)
        return self._found(search, target)

    def _known(self, search: Search, target: Target) -> Search:
        """Add what earlier searches measured."""
        for number in search.suspects:
            if number != search.last and self._versions.names[number] in self._journal.entries:
                search = search.with_answer(number, self._answer(number, target))
        return search

    def _searched(self, search: Search, target: Target) -> Search:
        while (number := search.next()) is not None:
            self._measured(number)
            search = search.with_answer(number, self._answer(number, target))
        return search

    def _measured(self, number: int) -> Entry:
        """Measure a version, unless that was done before."""
        name = self._versions.names[number]
        if name in self._journal.entries:
            return self._journal.entries[name]
        results, work = self._journal.results(name), self._journal.place / WORK
        shutil.rmtree(results, ignore_errors=True)
        results.mkdir(parents=True)
        self._runs += 1
        entry, is_lasting, started = Entry(name, 0.0), True, time.monotonic()
        try:
            with self._versions.ready(number, work) as version:
                measure(version, self._asked, results)
        except UnmeasuredError as error:
            entry, is_lasting = replace(entry, trouble=str(error)), error.is_lasting
        entry = replace(entry, took=round(time.monotonic() - started, 1))
        self._journal.write(entry, is_lasting=is_lasting)
        return entry

    def _report(self, number: int) -> Report:
        """Compare a version with the good end."""
        ends = (self._versions.names[0], self._versions.names[number])
        return self._compare(*(str(self._journal.results(each)) for each in ends))

    def _answer(self, number: int, target: Target) -> Answer:
        entry = self._journal.entries[self._versions.names[number]]
        answer, told = Answer.SKIP, entry.trouble
        if not entry.trouble:
            try:
                report = self._report(number)
                answer, value = target.answer(report), target.value(report)
                told = "its figures leave it open" if value is None else amount(target, value)
            except BaselineError as error:
                told = str(error).removeprefix("schedprof: ")
        self._tell(f"{self._versions.label(number)}: {answer.value}, {told}")
        return answer

    def _found(self, search: Search, target: Target) -> Found:
        values = [target.value(self._report(each)) for each in (search.good, search.bad)]
        before, after = (
            self._journal.results(self._versions.names[each]) for each in (search.good, search.bad)
        )
        one, other = (value if value is not None else target.change.before for value in values)
        return Found(search, target, self._runs, before, after, (one, other))

    def _tell_target(self, target: Target, suspected: int) -> None:
        between = len(self._versions.names) - 2
        touching = f", {suspected} suspected: they touch what changed" if suspected else ""
        self._tell(
            f"{figure_words(target)}: {amount(target, target.change.before)} at "
            f"{self._versions.label(0)}, {amount(target, target.change.after)} at "
            f"{self._versions.label(len(self._versions.names) - 1)}; {between} "
            f"{self._versions.noun}s between them{touching}"
        )

    def _no_end(self, end: int, trouble: str) -> str:
        said = self._journal.results(self._versions.names[end]) / SAID
        where = f"; all that pytest said is in {str(said)!r}" if said.exists() else ""
        return (
            f"schedprof: {self._versions.label(end)} gave no figures, and is an end of the range: "
            f"{trouble}{where}; mend that or choose another end, and --start-over"
        )

    def _nothing(self, report: Report) -> str:
        narrowed = " ".join(filter(None, [self._asked.metric, self._asked.function]))
        return (
            f"schedprof: nothing regressed{f' of {narrowed}' if narrowed else ''} between "
            f"{self._versions.label(0)} and {self._versions.label(len(self._versions.names) - 1)}: "
            f"{comparison_count(report.comparisons)}"
        )
