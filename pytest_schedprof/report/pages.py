"""The pages of a run and of its tests."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from importlib.resources import files
from inspect import getmembers, isfunction
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape
from msgspec.structs import replace

from pytest_schedprof.judge.recordings import Other
from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends, kind_of
from pytest_schedprof.model.comparison import Difference, FirstDifference
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import BackendResult, Result, SampledShares
from pytest_schedprof.model.run import Run, Series
from pytest_schedprof.report import changes, results, tables, trends, words
from pytest_schedprof.report.code import code_of
from pytest_schedprof.report.decisions import Picture
from pytest_schedprof.report.flames import Flame, Flames
from pytest_schedprof.store.run_directory import RESULT_FILE
from pytest_schedprof.store.runs import TestFiles, decided_in

STYLES = ("base.css", "parts.css", "owners.css")
_BREAKS = re.compile(r"([/.:\]-]+|(?<=[^\W_])_)(?=\w)")
"""Ends of the parts of a name: after punctuation, or an underscore between words."""

ON_ALL_PAGES = "page.js"
SCRIPTS = ("tree.js", "painting.js", "graph.js", "flame.js")
"""Scripts of flame graphs."""

WORDS = (changes, results, tables, trends, words)
"""Modules whose public functions templates call on records, as filters of the same name."""


def page_of_test(
    test: TestFiles,
    run: Path,
    other: Other | None = None,
    known: KnownBackends = NO_BACKENDS,
    explained: Sequence[Explanation] = (),
    series: Sequence[Series] = (),
) -> str:
    """Return the page of a test that has a record.

    Args:
        test: its record and its files.
        run: directory of its run.
        other: the same test on another side, to compare its samples with.
        known: facts about backends, which tell what opens their files.
        explained: why figures regressed.
        series: of its figures in earlier runs.
    """
    assert test.result is not None
    up = Path(os.path.relpath(run, test.directory)).as_posix()
    drawings = drawn(test.result, test.directory, other, known)
    flames = SCRIPTS if any(drawing.flame for drawing in drawings) else ()
    return (
        _environment()
        .get_template("test.html")
        .render(
            result=test.result,
            drawings=drawings,
            code=code_of(test.result, test.directory),
            files=results.profile_files(test.result, known) | {RESULT_FILE: kind_of(RESULT_FILE)},
            size=partial(_size, test.directory),
            run=run.name,
            up=up,
            reason=results.reason_of(test),
            explained=explained,
            series=series,
            script=_script((ON_ALL_PAGES, *flames)),
        )
    )


def _size(directory: Path, name: str) -> str:
    try:
        return words.size_of((directory / name).stat().st_size)
    except OSError:
        return "missing"


class PageOfRun:
    """The page of a run, which takes its tests one by one: all results may not fit into memory."""

    def __init__(self, known: KnownBackends = NO_BACKENDS) -> None:
        """Begin a page.

        Args:
            known: facts about backends, which tell whose samples are shown.
        """
        self._known = known
        self._tests: list[TestFiles] = []
        self._shares = tables.SharesOfRun()

    def add(self, row: RowOfTest) -> None:
        if row.shares:
            self._shares.add(row.shares)
        self._tests.append(row.test)

    def text(
        self,
        run: Run,
        explained: Sequence[Explanation] = (),
        series: Sequence[Series] = (),
        history: str = "",
    ) -> str:
        """Return the page.

        Args:
            run: the record of the run.
            explained: why tests regressed.
            series: of figures over many runs.
            history: where these come from, in words; empty without a history.
        """
        tests = sorted(self._tests, key=results.gravity_of)
        kept = [test.result for test in self._tests if test.result]
        return (
            _environment()
            .get_template("run.html")
            .render(
                run=run,
                facts=results.facts_of_run(run, kept),
                counts=results.counts_of_run([test.verdict for test in tests], kept),
                tests=tests,
                verdict=results.status_of(tests[0]) if tests else Verdict.INCONCLUSIVE,
                groups=results.groups_of(self._tests),
                sampling=partial(tables.sampling, known=self._known),
                most=max(map(results.cpu_of, kept), default=0.0),
                owners=self._shares.owners(),
                functions=self._shares.functions(),
                changes=changes.gravest(
                    (comparison for result in kept for comparison in result.comparisons),
                    results.CHANGES_SHOWN,
                ),
                explained=explained[: words.MOST_EXPLAINED],
                history=history,
                series=trends.changed_series(series, SERIES_SHOWN),
                script=_script((ON_ALL_PAGES, "table.js")),
            )
        )


class RowOfTest(NamedTuple):
    """What the page of a run shows of a test."""

    test: TestFiles
    """Its result is without what the row does not show."""
    shares: SampledShares | None


def row_of(test: TestFiles, known: KnownBackends = NO_BACKENDS) -> RowOfTest:
    if test.result is None:
        return RowOfTest(test, None)
    backend = tables.sampling(test.result, known)
    reduced = replace(test, result=_as_in_row(test.result))
    return RowOfTest(reduced, backend.shares if backend else None)


def _as_in_row(result: Result) -> Result:
    backends = []
    for backend in result.backends:
        shares = backend.shares
        if shares:
            shares = replace(shares, functions=tuple(tables.hottest(shares.functions, 1)))
        backends.append(replace(backend, shares=shares, costs=None))
    return replace(result, backends=tuple(backends))


@cache
def _environment() -> Environment:
    """Return the templates: all values are escaped, and an unknown name is an error."""
    environment = Environment(
        loader=PackageLoader("pytest_schedprof.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    public = (pair for module in WORDS for pair in getmembers(module, isfunction))
    environment.filters |= {name: value for name, value in public if not name.startswith("_")}
    environment.filters |= {"breakable": breakable, "json": as_json, "worded": worded}
    environment.filters |= {"numeric": lambda head: f"n|{head}"}
    environment.globals |= {
        "LISTED": tables.LISTED,
        "NEWS": changes.NEWS,
        "SHOWN_OF_LIMIT": tables.SHOWN_OF_LIMIT,
        "SOURCE_LINES": SOURCE_LINES,
        "style": Markup("".join(map(_asset, STYLES))),
    }
    return environment


def as_json(content: object) -> Markup:
    """Return JSON for a script element; nothing in it can end that element."""
    return htmlsafe_json_dumps(content, separators=(",", ":"))


@lru_cache(maxsize=10_000)  # the same functions are on the pages of all tests
def breakable(text: str) -> Markup:
    """Escape a name and allow line breaks after each of its parts."""
    return Markup(_BREAKS.sub(r"\1<wbr>", str(escape(text))))


def worded(text: str) -> Markup:
    """Escape a sentence, and show what it has between backquotes as code."""
    words = text.split("`")
    codes = (Markup("<code>{}</code>").format(breakable(word)) for word in words[1::2])
    plain = map(escape, words[::2])
    return Markup("").join(
        part for pair in zip_longest(plain, codes, fillvalue="") for part in pair
    )


@cache
def _script(names: tuple[str, ...]) -> Markup:
    """Return the scripts in one function, so that they define no global names."""
    return Markup('(() => {{\n"use strict";\n{}}})();\n').format(
        Markup("".join(map(_asset, names)))
    )


@cache
def _asset(name: str) -> str:
    """Return a file without comments and indents, to keep the pages of many tests small."""
    text = (files("pytest_schedprof.report") / "assets" / name).read_text(encoding="utf-8")
    text = re.sub(r"^\s*(//.*|/\*[^*]*\*/)$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n\s*", "\n", text)


SOURCE_LINES = 120
"""Lines of a function that the page of a test shows of what changed in it."""

SERIES_SHOWN = 30
"""Most series that the page of a run shows."""


class Drawn(NamedTuple):
    """What the files of one backend hold, as pictures."""

    flame: Flame | None
    no_flame: str
    """Why a backend with samples has no flame graph; else empty."""
    decisions: Picture | None


def drawn(
    result: Result, directory: Path, other: Other | None = None, known: KnownBackends = NO_BACKENDS
) -> list[Drawn]:
    """Return the pictures of each backend of a test.

    Args:
        directory: of its files.
        other: the same test on another side, to compare its samples with.
        known: facts about backends, which tell what their files hold.
    """
    partings = {
        comparison.backend: comparison.parting
        for comparison in result.comparisons
        if comparison.parting
    }
    drawing = Flames(directory, other, known)
    return [
        Drawn(
            *drawing.of(f"flame-{number}", backend),
            _decisions(backend, directory, other, partings.get(backend.backend)),
        )
        for number, backend in enumerate(result.backends)
    ]


def _decisions(
    backend: BackendResult, directory: Path, other: Other | None, parting: FirstDifference | None
) -> Picture | None:
    """Return the round in which both sides part, or else the first one."""
    mine = decided_in(directory, (backend,))
    if not (backend.hashes and mine):
        return None
    number = parting.round - 1 if parting else 0
    before = other.result.counterpart(backend) if other else None
    decisions = decided_in(other.directory, (before,)) if other and before else []
    # The decisions must be those that the comparison was about, and others than now.
    if (
        other
        and parting
        and parting.what is not Difference.NOTHING
        and number < min(len(mine), len(decisions))
        and decisions[number].hash == parting.hashes[0]
    ):
        sides = [(f"before: {other.name}", decisions[number]), ("now", mine[number])]
        return Picture(sides, parting)
    return Picture([("", mine[0])], None)
