"""Render pages from templates; each page contains its style and script, so it can stand alone."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.resources import files
from itertools import zip_longest

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape

from pytest_schedprof.pages.run_page import RunPage
from pytest_schedprof.pages.test_page import TestPage
from pytest_schedprof.presentation.trends import Point

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
        loader=PackageLoader("pytest_schedprof.pages"),
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
    text = (files("pytest_schedprof.pages") / "assets" / name).read_text(encoding="utf-8")
    text = re.sub(r"^\s*(//.*|/\*[^*]*\*/)$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n\s*", "\n", text)
