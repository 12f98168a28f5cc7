"""Templates with their style and script, which each page carries: it may travel alone."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup, escape

from pytest_schedprof.pages.views import RunPage, TestPage

STYLES = ("base.css", "parts.css", "owners.css")
_BREAKS = re.compile(r"([/.:\]-]+|(?<=[^\W_])_)(?=\w)")

COMMON = ("keys.js",)
SCRIPTS = ("tree.js", "difference.js", "painting.js", "telling.js", "finding.js", "flame.js")


def render_test(page: TestPage) -> str:
    """A test's page as HTML."""
    scripts = (*COMMON, *SCRIPTS) if any(each.flames for each in page.backends) else COMMON
    return _environment().get_template("test.html").render(page=page, script=_script(scripts))


def render_run(page: RunPage) -> str:
    """A run's page as HTML."""
    return _environment().get_template("run.html").render(page=page, script=_script(COMMON))


@cache
def _environment() -> Environment:
    """Everything is escaped but what is ours; a name that is not there is a mistake of ours."""
    environment = Environment(
        loader=PackageLoader("pytest_schedprof.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"breakable": breakable, "json": as_json}
    environment.globals["style"] = Markup("".join(map(_asset, STYLES)))
    return environment


def as_json(content: object) -> Markup:
    """For an element that holds data: no name in it can end that element."""
    return htmlsafe_json_dumps(content, separators=(",", ":"))


def breakable(text: str) -> Markup:
    """As text, with places where a long name may be broken: after its parts."""
    return Markup(_BREAKS.sub(r"\1<wbr>", str(escape(text))))


@cache
def _script(names: tuple[str, ...]) -> Markup:
    """One function around all files, so that the page has no names but theirs."""
    return Markup('(() => {{\n"use strict";\n{}}})();\n').format(
        Markup("".join(map(_asset, names)))
    )


@cache
def _asset(name: str) -> str:
    """A file without its comments and indents, which no browser needs two hundred times."""
    text = (files("pytest_schedprof.pages") / "assets" / name).read_text(encoding="utf-8")
    text = re.sub(r"^\s*(//.*|/\*[^*]*\*/)$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n\s*", "\n", text)
