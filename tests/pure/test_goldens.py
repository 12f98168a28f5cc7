"""What `report` writes of the sessions that `tests/goldens/record.py` recorded: the goldens.

`UPDATE_GOLDENS=1 pytest tests/pure/test_goldens.py` writes them anew; the diff shows what changed.
There is one text for each session: its lines on the terminal, its summary, the text of its pages,
and what `schedprof show`, `schedprof explain` and JUnit say of it.
"""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from html.parser import HTMLParser
from itertools import groupby
from pathlib import Path

import pytest
from msgspec.structs import replace

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import main
from pytest_schedprof.judge.costs import Costs, unit_of
from pytest_schedprof.judge.explanation import Pairs, why_regressed
from pytest_schedprof.judge.recordings import Names
from pytest_schedprof.judge.shares import shares_of
from pytest_schedprof.model.profile import CostProfile, SampleProfile
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.report.comparisons import explanation_lines, why_lines
from pytest_schedprof.report.junit import pack, properties_of, unpack
from pytest_schedprof.report.markup import Line
from pytest_schedprof.report.summary import run_markdown
from pytest_schedprof.report.terminal import HOT_FUNCTIONS_VERBOSE, summary_lines
from pytest_schedprof.store.runs import KeptRun, KeptTest, find_run

GOLDENS = Path(__file__).parent.parent / "goldens"

SESSIONS = sorted(path.stem for path in GOLDENS.glob("*.txt"))

LINES = {"div", "dt", "figure", "h1", "h2", "h3", "li", "p", "summary", "table", "tr", "ul"}
"""Elements that begin a line of the text of a page."""

CELLS = {"dd", "td", "th"}

MOST_ROWS = 8
"""Lines of one kind that follow each other and are kept: further ones are made as these are."""


class Text(HTMLParser):
    """The text of a page, with what browsers tell of pictures, and the address of each link."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._shown: Callable[[str], str] = str

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if tag in ("script", "style"):
            self._shown = drawn if attributes.get("type") == "application/json" else hidden
        self.parts.append("\n" if tag in LINES else " | " if tag in CELLS else "")
        if label := attributes.get("aria-label") or attributes.get("title"):
            self.parts.append(f"[{label}] ")
        if tag == "a":
            self.parts.append(f"<{attributes['href']}> ")

    def handle_endtag(self, tag: str) -> None:
        self._shown = str

    def handle_data(self, data: str) -> None:
        self.parts.append(self._shown(data.replace("\n", " ")))


def hidden(data: str) -> str:
    return ""


def drawn(data: str) -> str:
    """Return in short what a script draws: samples as their sum, other numbers as their count."""
    content = json.loads(data)
    for name, value in content.items():
        if name in ("own", "before"):
            content[name] = sum(value)
        elif isinstance(value, (list, dict)) and name != "owners":
            content[name] = len(value)
    return f"\n[drawn: {json.dumps(content)}]\n"


def text_of(page: Path) -> str:
    parser = Text()
    parser.feed(page.read_text(encoding="utf-8"))
    texts = (re.sub(" +", " ", line).strip() for line in "".join(parser.parts).splitlines())
    return "\n".join(filter(None, texts))


def kind_of(line: str) -> str:
    """Return what rows of one table share: a bar, their first word, or to begin with none."""
    if not line or line.startswith("$"):
        return f"[{line}]"
    return "|" if " | " in line else re.split("[^a-z_]", line.lstrip(), maxsplit=1)[0]


def without_more_rows(text: str) -> str:
    lines: list[str] = []
    for _, group in groupby(text.splitlines(), key=kind_of):
        rows = [*group]
        lines += rows[:MOST_ROWS]
        if len(rows) > MOST_ROWS:
            lines.append(f"[{len(rows) - MOST_ROWS} more such lines]")
    return "\n".join(lines) + "\n"


def shown(lines: Iterable[Line]) -> list[str]:
    """The lines of the terminal, each with its markup."""
    return [" ".join([line.text, *(f"<{name}>" for name in line.markup)]) for line in lines]


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of runs."""
    path = tmp_path_factory.mktemp("sessions")
    with tarfile.open(GOLDENS / "sessions.tar.xz") as archive:
        archive.extractall(path, filter="data")
    return path


def texts(run: KeptRun, capsys: pytest.CaptureFixture[str]) -> Iterator[tuple[str, Sequence[str]]]:
    """What is written of a session, by the command that shows it or the file that has it."""
    results, place = [test.result for test in run.tests()], f".schedprof/{run.path.name}"
    explained = why_regressed(run.tests(), Pairs(run.path, str(run.path.parent)))

    def terminal(verbosity: int) -> list[str]:
        lines = summary_lines(results, place, verbosity=verbosity)
        return shown([*lines, *(why_lines(explained, verbosity) if explained else ())])

    def printed(*command: str) -> Sequence[str]:
        assert main(command) == 0
        return capsys.readouterr().out.splitlines()

    brief = terminal(0)
    yield "pytest", brief
    yield "pytest -v, what it adds", [line for line in terminal(1) if line not in brief]
    yield "summary.md", run_markdown(results, place, explained=explained).splitlines()
    printed("open", "--write", "--run", str(run.path))
    for entry in run.record.tests:
        yield f"the page of {entry.test_id}", [text_of(run.path / entry.directory / "index.html")]
    yield "the page of the run", [text_of(run.path / "index.html")]
    for result in results:
        yield (
            f"schedprof show {result.test_id}",
            printed("show", result.test_id, "--run", str(run.path)),
        )
        yield "JUnit", [f"{name}={value}" for name, value in properties_of(result, None)]
    if explained:
        lines = [line for explanation in explained for line in explanation_lines(explanation)]
        yield "schedprof explain", shown(lines)


@pytest.mark.parametrize("session", SESSIONS)
def test_texts_are_as_before(
    session: str, sessions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    golden = GOLDENS / f"{session}.txt"
    parts = texts(find_run(sessions / session), capsys)
    text = "\n\n".join("\n".join([f"$ {title}", *lines]) for title, lines in parts)
    text = without_more_rows(text.replace(str(sessions), "RUNS"))
    if os.environ.get("UPDATE_GOLDENS"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("session", SESSIONS)
def test_results_of_xdist_read_as_the_sessions_own(session: str, sessions: Path) -> None:
    tests = [*find_run(sessions / session).tests()]
    packed = [pack(test.result, test.path) for test in tests]
    brought = [unpack(text) for text in json.loads(json.dumps(packed))]
    assert [stored.directory for stored in brought] == [str(test.path) for test in tests]
    assert [stored.result.verdict for stored in brought] == [test.result.verdict for test in tests]
    backends = [backend for stored in brought for backend in stored.result.backends]
    assert all(len(functions_of(backend)) <= HOT_FUNCTIONS_VERBOSE for backend in backends)
    assert unpack(pack(tests[0].result, None)).directory == ""
    for verbosity in (-1, 0, 1):
        own, other = (
            list(summary_lines([test.result for test in side], "", verbosity=verbosity))
            for side in (tests, brought)
        )
        assert own == other


@pytest.mark.parametrize("session", SESSIONS)
def test_figures_follow_from_the_files(session: str, sessions: Path) -> None:
    for test in find_run(sessions / session).tests():
        for backend in test.result.backends:
            if backend.artifacts and functions_of(backend):
                check_figures(test, backend)


def functions_of(backend: BackendResult) -> list[str]:
    if backend.shares:
        return [row.function for row in backend.shares.functions]
    costs = backend.costs
    return [row.function for row in costs.functions + costs.folded] if costs else []


def check_figures(test: KeptTest, backend: BackendResult) -> None:
    """Read the files as at the end of the test, and compute its figures again.

    The scheduler named the functions then; here the record names them.
    """
    backends = BackendRegistry()
    known = backends.options_of(backend.backend)
    options = {name: value for name, value in backend.settings.items() if name in known}
    reader = backends.make(backend.backend, rate_hz=100.0, options=options)
    names = Names(functions_of(backend))
    units, samples = [], []
    for segment, file in zip(backend.window.segments, backend.artifacts, strict=True):
        profile = reader.read((test.path / file).read_bytes(), names)
        whole = {"cpu": segment.cpu_seconds, "transitions": segment.transitions}
        costs = [profile] if isinstance(profile, CostProfile) else []
        units.append(unit_of(segment.tasks, whole, costs, segment.scale))
        samples.append([profile] if isinstance(profile, SampleProfile) else [])
    if backend.shares:
        shares = shares_of(samples, drift=reader.drift, whole=Costs(units))
        assert shares.sampled() == backend.shares
        owners = [row.share.value for row in backend.shares.owners]
        assert sum(owners) == pytest.approx(1, abs=1e-4)
    if backend.costs:
        limited = [limit.parsed.pattern for limit in backend.limits if limit.parsed]
        computed = Costs(units).measured(limited)
        rows = zip(
            computed.functions + computed.folded,
            backend.costs.functions + backend.costs.folded,
            strict=True,
        )
        for row, kept in rows:  # sums of floats depend on the order
            assert row.total == pytest.approx(kept.total, abs=1e-12)
            assert replace(row, total=kept.total) == kept
        others = replace(backend.costs, functions=computed.functions, folded=computed.folded)
        assert computed == others
