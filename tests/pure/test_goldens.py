"""What `report` writes of two sessions that were recorded once: the goldens.

`UPDATE_GOLDENS=1 pytest tests/pure/test_goldens.py` writes them anew; the diff shows what changed.

`sessions.tar.xz` has two sessions of the same three tests. One counts on a virtual cluster and
records decisions; one samples with `cputime` and takes all evidence; one times the intake of graphs
at three scales. The later session has a slower scheduler (`injection.plant`) and was compared with
the earlier one. Left out to save room: functions that cost little, the pictures of evidence, and
most rounds of samples. One undecided limit and a skipped one were added by hand.
"""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.judge.explanation import Pairs, why_regressed
from pytest_schedprof.measuring.pages import write_pages
from pytest_schedprof.report import terminal
from pytest_schedprof.report.comparisons import explanation_lines, why_lines
from pytest_schedprof.report.junit import properties_of
from pytest_schedprof.report.markup import Line
from pytest_schedprof.report.summary import run_markdown
from pytest_schedprof.store.run_files import RunFiles, read_run

GOLDENS = Path(__file__).parent.parent / "goldens"
WHERE = ".schedprof/later"
KNOWN = BackendRegistry().facts

LINES = {"div", "dt", "figure", "h1", "h2", "h3", "li", "p", "summary", "svg", "table", "tr", "ul"}
"""Elements that begin a line of the text of a page."""

CELLS = {"dd", "td", "th"}


class Text(HTMLParser):
    """The text of a page, with what browsers tell of pictures, and the address of each link."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._is_hidden = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a line or a cell."""
        self._is_hidden = tag in ("script", "style")
        told = dict(attrs)
        self.parts.append("\n" if tag in LINES else " | " if tag in CELLS else "")
        if label := told.get("aria-label") or told.get("title"):
            self.parts.append(f"[{label}] ")
        if tag == "a":
            self.parts.append(f"<{told['href']}> ")

    def handle_endtag(self, tag: str) -> None:
        """Show what follows a script or a style."""
        self._is_hidden = self._is_hidden and tag not in ("script", "style")

    def handle_data(self, data: str) -> None:
        """Take the text of an element."""
        if not self._is_hidden:
            self.parts.append(data.replace("\n", " "))


def text_of(page: Path) -> str:
    parser = Text()
    parser.feed(page.read_text(encoding="utf-8"))
    lines = (re.sub(" +", " ", line).strip() for line in "".join(parser.parts).splitlines())
    return "\n".join(filter(None, lines))


def shown(lines: Iterable[Line]) -> str:
    """The lines of the terminal, each with its markup."""
    return "\n".join(f"{line.text}  <{' '.join(line.markup)}>" for line in lines)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of runs."""
    path = tmp_path_factory.mktemp("sessions")
    with tarfile.open(GOLDENS / "sessions.tar.xz") as archive:
        archive.extractall(path, filter="data")
    return path


@cache
def pages(sessions: Path, against: str) -> dict[str, str]:
    """The text of each page of the later run, by the name of its test."""
    run, earlier = sessions / "later", sessions / against if against else None
    page = write_pages(run, earlier, str(sessions) if earlier else "", known=KNOWN)
    tests = {entry.test_id.rpartition("_")[2]: entry.directory for entry in read_run(run).run.tests}
    texts = {name: text_of(run / directory / "index.html") for name, directory in tests.items()}
    return {"run": text_of(page), **texts}


def outputs(run: RunFiles) -> Iterator[tuple[str, str]]:
    """What is written without pages, by name."""
    results, explained = (
        run.results,
        why_regressed(run.kept_tests(), Pairs(run.path, str(run.path.parent))),
    )
    for verbosity, name in ((0, "terminal"), (1, "terminal-v")):
        told = [
            *terminal.summary_lines(results, WHERE, verbosity=verbosity),
            *why_lines(explained, verbosity),
        ]
        yield name, shown(iter(told))
    yield (
        "show",
        shown(line for each in results for line in terminal.test_lines(each, WHERE, 0, KNOWN)),
    )
    yield "explain", shown(line for each in explained for line in explanation_lines(each))
    yield "summary", run_markdown(results, WHERE, explained=explained)
    properties = [
        f"{name}={value}" for each in results for name, value in properties_of(each, None)
    ]
    yield "junit", "\n".join(properties)


NAMES = ("terminal", "terminal-v", "show", "explain", "summary", "junit")
PAGES = ("run", "tree", "samples", "intake")


def check(name: str, text: str, sessions: Path) -> None:
    golden = GOLDENS / f"{name}.txt"
    text = text.replace(str(sessions), "SESSIONS") + "\n"
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_text_is_as_before(name: str, sessions: Path) -> None:
    check(name, dict(outputs(read_run(sessions / "later")))[name], sessions)


@pytest.mark.parametrize("name", PAGES)
def test_page_is_as_before(name: str, sessions: Path) -> None:
    check(f"page-{name}", pages(sessions, "")[name], sessions)


@pytest.mark.parametrize("name", PAGES[:2])
def test_page_against_another_run_is_as_before(name: str, sessions: Path) -> None:
    check(f"against-{name}", pages(sessions, "earlier")[name], sessions)
