"""The table of kinds, and third parties' kinds from a conftest."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from math import inf, nan
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support import Project

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence import KINDS
from pytest_schedprof.evidence.contract import (
    Brought,
    EvidenceRegistry,
    Kind,
    Need,
    ObservedTest,
    RunFigures,
    with_pictures,
)
from pytest_schedprof.evidence.gathering import Gathering
from pytest_schedprof.measuring.settings import read_call
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.result import BackendResult

DOCS = Path(__file__).parents[2] / "docs"
PAGE, OPTIONS_PAGE = DOCS / "evidence.md", DOCS / "options.md"


@pytest.mark.parametrize("name", KINDS)
def test_every_built_in_kind_is_of_that_name_and_in_the_docs(name: str) -> None:
    (kind,) = EvidenceRegistry().kinds([name])
    assert kind.name == name
    lines = PAGE.read_text().splitlines()
    row = f"| [`{name}`](#{name}) | `{name}."
    assert sum(line.startswith(row) for line in lines) == 1, f"one row must begin with {row}"
    assert f"## {name}" in lines
    options = OPTIONS_PAGE.read_text().splitlines()
    (row,) = [line for line in options if "`schedprof_evidence`" in line]
    assert f"`{name}`" in row


def test_the_descriptor_is_checked_when_a_class_is_made() -> None:
    with pytest.raises(TypeError, match="description"):

        class Bare(Kind, name="bare"):  # type: ignore[call-arg]
            """A kind without a description."""

    for name in ("all", "no/path", "", "Upper"):
        with pytest.raises(ValueError, match="cannot name a kind of evidence"):

            class Misnamed(Kind, name=name, description="is called as no kind can be"):
                """A kind whose name cannot be used."""

    with pytest.raises(ValueError, match="must be one line"):

        class Verbose(Kind, name="verbose", description="two\nlines"):
            """A kind whose description has two lines."""


class Unfinished(Kind, name="unfinished", description="has no method bring"):
    """A kind that cannot be made."""


class Counted(Kind, name="counted", description="the number of backends", needs=()):
    """A kind that needs nothing."""

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        return Brought({"counted.json": json.dumps(len(results)).encode()})


def test_a_kind_that_lacks_a_method_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"Unfinished lacks bring; see docs/evidence\.md"):
        EvidenceRegistry([[Unfinished]])  # type: ignore[type-abstract]
    with pytest.raises(SettingsError, match="does not derive from"):
        EvidenceRegistry([[object]])  # type: ignore[list-item]


def test_all_has_every_kind_and_added_ones_and_no_other_is_known() -> None:
    registry = EvidenceRegistry([[Counted]])
    assert registry.names == (*KINDS, "counted")
    assert [kind.name for kind in registry.kinds(("all",))] == [*KINDS, "counted"]
    assert registry.kinds(["counted"]) == (Counted,)
    assert Counted.needs == frozenset()
    assert Unfinished.needs == {Need.SCHEDULER}
    known = f"{', '.join(KINDS)}, counted, or 'all'"
    with pytest.raises(SettingsError, match=f"evidence must be any of {known}, got 'spam'"):
        registry.check(["span", "spam"])


class Odd(Kind, name="odd", description="a figure that may be anything", needs=()):
    """A kind whose figure is what is put there."""

    figure: Any

    def bring(self, results: Sequence[BackendResult]) -> Brought:
        return Brought({}, figures=[RunFigures("figure", "odd:one", {1: self.figure})])


@pytest.mark.parametrize(
    ("figure", "missing"),
    [
        (Fraction(1, 2), ""),
        (nan, "its figure 'odd:one' must be numbers of at most 1e+18, got nan"),
        (-inf, "its figure 'odd:one' must be numbers of at most 1e+18, got -inf"),
        (None, "unexpected TypeError"),
    ],
)
def test_a_figure_that_no_record_can_hold_is_left_out(
    figure: object, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Odd, "figure", figure, raising=False)
    gathering = Gathering([Odd], ObservedTest("test_it"))
    with gathering.around():
        pass
    gathering.keep(None, ())
    (evidence,) = gathering.kept or ()
    assert bool(evidence.amounts) is not bool(missing)
    assert evidence.missing.startswith(missing)
    assert msgspec.json.decode(msgspec.json.encode(evidence), type=Evidence) == evidence


def test_a_limit_on_a_kind_that_does_not_exist_is_refused_beside_all() -> None:
    limits = ("figure(theirs:longest) <= 1", "memory(process) <= 1GB")
    gathered = read_call("a test", limits, {}, evidence="all").gathered
    assert gathered == ("all", "theirs", "memory")
    with pytest.raises(SettingsError, match=r"evidence must be any of .*, got 'theirs'"):
        EvidenceRegistry().kinds(gathered)
    kinds = EvidenceRegistry().kinds(["all", "memory"])
    assert [kind.name for kind in kinds] == [*KINDS]


OPTIONS_THAT_CANNOT_BE = [
    ("local.dt=0", "option local.dt must be above 0, got 0"),
    ("local.metric=weight", "one of bytes, count, a function, or where .* got 'weight'"),
    ("local.metric=no.such:name", "one of bytes, count, a function, or where .* got 'no.such"),
    ("local.size=1", "evidence 'local' has no option 'size'; known: dt, metric"),
    ("memory.measures=process,rss", "measures must be any of process, managed, .* got 'rss'"),
    ("memory.measures=", "memory.measures must be names, separated by commas, got ''"),
    ("memory.interval=soon", "memory.interval must be a time such as 500ms .* got 'soon'"),
    ("workers.interval=0", r"workers\.interval must be above 0, got 0"),
]


@pytest.mark.parametrize(("option", "message"), OPTIONS_THAT_CANNOT_BE)
def test_options_that_cannot_be(option: str, message: str) -> None:
    name, _, value = option.partition("=")
    kind, _, field = name.partition(".")
    with pytest.raises(SettingsError, match=message):
        EvidenceRegistry().load(kind).read_options({field: value})


THEIRS = """
from pytest_schedprof.evidence.contract import Brought, EvidenceUnavailableError, Kind, Need


class TasksOfClient(Kind, name="theirs", description="how many futures the client has"):
    def bring(self, results):
        futures = len(self.test.scheduler.client.futures)
        return Brought({"theirs.txt": f"{self.test.test_id} {futures}".encode()}, ("a note",))


class Misplaced(Kind, name="misplaced", description="files with the names of others", needs=()):
    def bring(self, results):
        return Brought({"result.json": b"{}"})


class Raising(Kind, name="raising", description="an error where none is expected", needs=()):
    def around(self, number):
        raise OSError("as it should")

    def bring(self, results):
        raise AssertionError("it is not at work any more")


class Silent(Kind, name="silent", description="an error without a reason", needs=()):
    def bring(self, results):
        raise EvidenceUnavailableError
"""

HOOK = """
from theirs import Misplaced, Raising, Silent, TasksOfClient

def pytest_schedprof_evidence():
    return [TasksOfClient, Misplaced, Raising, Silent, DurationsKind]
"""

BODY = """
def test_it(schedprof_scheduler):
    futures = schedprof_scheduler.client.map(inc, range(20), pure=False)
    wait(futures)
"""

OPTIONS = ("--schedprof=cputime", "--schedprof-cluster=simulated", "--schedprof-workers=2")


def artifact(project: Project, name: str) -> str:
    (file,) = (project.run_directory / "tests").glob(f"*/{name}")
    return file.read_text()


def test_an_option_that_cannot_be_fails_the_session(project: Project) -> None:
    words = {"local.dt=0": "option local.dt must be above 0", "lokal.dt=1": "'lokal' is unknown"}
    for option, message in words.items():
        arguments = ("--schedprof-evidence=local", f"--schedprof-option={option}")
        result = project.run_test(BODY, *OPTIONS, *arguments)
        assert result.ret != 0
        assert message in result.stdout.str() + result.stderr.str()


def test_kinds_of_a_conftest_one_of_which_a_page_shows(project: Project) -> None:
    section = PAGE.read_text().partition("\n## Write a kind of your own\n")[2]
    code = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    (project.path / "theirs.py").write_text(THEIRS)
    (project.path / "conftest.py").write_text(f"{code}\n{HOOK}")
    kinds = "theirs,misplaced,raising,silent,span,durations"
    result = project.run_test(BODY, *OPTIONS, f"--schedprof-evidence={kinds}")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*evidence: theirs, span, durations*"])
    brought = {evidence.kind: evidence for evidence in project.result().evidence}
    assert brought["theirs"].notes == ("a note",)
    assert brought["theirs"].description == "how many futures the client has"
    assert brought["misplaced"].missing == "its file 'result.json' must be named misplaced.SUFFIX"
    assert "OSError: as it should" in brought["raising"].missing
    assert brought["silent"].missing == "EvidenceUnavailableError"
    assert artifact(project, "theirs.txt").startswith("test_it.py::test_it ")
    (durations,) = json.loads(artifact(project, "durations.json"))
    assert durations["inc"] > 0


def test_data_outlast_a_picture_that_fails() -> None:
    def fail() -> bytes:
        raise AttributeError("module 'bokeh' has no attribute 'x'\nand more")

    brought = with_pictures({"a.json": b"1"}, {"a.html": fail, "b.html": lambda: b"2"}, ("note",))
    assert brought.files == {"a.json": b"1", "b.html": b"2"}
    reason = "no a.html: AttributeError: module 'bokeh' has no attribute 'x'"
    assert brought.notes == ("note", reason)
