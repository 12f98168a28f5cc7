"""Write the pages of a run and of its tests into its directory."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import zip_longest
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.judge.explanation import Pairs, why_regressed
from pytest_schedprof.model.backend import NO_BACKENDS, KnownBackends
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.report.others import Past, Saved, compared, other_of, read_past
from pytest_schedprof.report.page_reading import RunFiles, read_run
from pytest_schedprof.report.run_page import PAGE, RunPage, page_of_run
from pytest_schedprof.report.test_page import TestPage, page_of_test, reason_view
from pytest_schedprof.report.trends import Point, changed_rows, trend_rows
from pytest_schedprof.store.run_directory import write

STYLES = ("base.css", "parts.css", "owners.css", "streams.css", "time.css")
_BREAKS = re.compile(r"([/.:\]-]+|(?<=[^\W_])_)(?=\w)")
"""Ends of the parts of a name: after punctuation, or an underscore between words."""

SPARK_WIDTH, SPARK_HEIGHT, SPARK_EDGE = 240, 36, 4
"""Size of a sparkline, as in `parts.html`, and the margin that its circles need."""

COMMON = ("keys.js",)
OF_CODE = "opening.js"
SCRIPTS = (
    "tree.js",
    "turning.js",
    "difference.js",
    "painting.js",
    "telling.js",
    "finding.js",
    "copying.js",
    "address.js",
    "graph.js",
    "moving.js",
    "strip.js",
    "flame.js",
)


def render_test(page: TestPage) -> str:
    """Return a test's page as HTML."""
    flames = SCRIPTS if any(each.flames for each in page.backends) else ()
    code = (OF_CODE,) if flames or page.code.functions else ()
    script = _script((*COMMON, *code, *flames))
    return _environment().get_template("test.html").render(page=page, script=script)


def render_run(page: RunPage) -> str:
    """Return a run's page as HTML."""
    script = _script((*COMMON, "table.js"))
    return _environment().get_template("run.html").render(page=page, script=script)


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
    environment.filters |= {"breakable": breakable, "json": as_json, "worded": worded}
    environment.tests["contains"] = lambda values, value: value in values
    environment.filters |= {"points": _points, "x": _x, "y": _y}
    environment.globals["style"] = Markup("".join(map(_asset, STYLES)))
    return environment


def as_json(content: object) -> Markup:
    """Return JSON for a script element; nothing in it can end that element."""
    return htmlsafe_json_dumps(content, separators=(",", ":"))


def breakable(text: str) -> Markup:
    """Escape a name and allow line breaks after each of its parts."""
    return Markup(_BREAKS.sub(r"\1<wbr>", str(escape(text))))


def worded(text: str) -> Markup:
    """Escape a sentence, and show what it has between backquotes as code."""
    words = text.split("`")
    codes = (Markup("<code>{}</code>").format(breakable(each)) for each in words[1::2])
    plain = map(escape, words[::2])
    return Markup("").join(
        part for pair in zip_longest(plain, codes, fillvalue="") for part in pair
    )


def _points(points: Iterable[Point]) -> str:
    """Return the points of a sparkline as SVG has them."""
    return " ".join(f"{_x(each):g},{_y(each):g}" for each in points)


def _x(point: Point) -> float:
    return round(SPARK_EDGE + (SPARK_WIDTH - 2 * SPARK_EDGE) * point[0], 1)


def _y(point: Point) -> float:
    return round(SPARK_HEIGHT - SPARK_EDGE - (SPARK_HEIGHT - 2 * SPARK_EDGE) * point[1], 1)


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


SERIES_SHOWN = 30
"""Most series that the page of a run shows."""


def write_pages(
    directory: Path,
    against: Path | None = None,
    history: str = "",
    *,
    beside: Path | None = None,
    known: KnownBackends = NO_BACKENDS,
    explained: Sequence[Explanation] | None = None,
) -> Path:
    """Write the page of the run, and the pages of its tests, which it links.

    Args:
        directory: of the run.
        against: directory of another run, to show what changed since then.
        history: directory or URL of earlier runs, to show trends.
        beside: directory of the run that the session compared its tests with, for its samples.
        known: facts about backends, which tell what opens their files.
        explained: why tests regressed, if the session has found that out; else it is found here.

    Raises:
        ArtifactError: if there is no run, or if the pages cannot be written.
        BaselineError: if the two runs have no test in common.
    """
    run, before = read_run(directory), read_run(against) if against else None
    if before is not None:
        run = compared(run, before)
    past = read_past(history) if history else None
    if explained is None:
        regressed = (each for each in run.kept_tests() if each.result.has_regressed)
        explained = why_regressed(regressed, Pairs(directory, str(directory.parent), against))
    _write_tests(run, before or _samples_of(beside), past, known, explained)
    page = page_of_run(run, known, explained)
    if past is not None:
        trends = changed_rows(past.series, SERIES_SHOWN)
        page = replace(page, trends=trends, history=past.words)
    write(directory / PAGE, _encoded(render_run(page)))
    return directory / PAGE


def _write_tests(
    run: RunFiles,
    before: RunFiles | None,
    past: Past | None,
    known: KnownBackends,
    explained: Sequence[Explanation],
) -> None:
    saved = Saved(run.path)
    for test in run.tests:
        if test.result is not None:
            other = other_of(test, before, saved)
            page = page_of_test(test.result, test.directory, run.path, other, known)
            mine = (each for each in explained if each.test_id == test.entry.test_id)
            page = replace(page, reasons=tuple(map(reason_view, mine)))
            if past is not None:
                page = replace(page, trends=trend_rows(past.of(test.entry.test_id)))
            write(test.directory / PAGE, _encoded(render_test(page)))


def _samples_of(directory: Path | None) -> RunFiles | None:
    """Read the other run; if that fails, the pages have no differential flame graphs."""
    try:
        return read_run(directory) if directory else None
    except ArtifactError:
        return None


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
