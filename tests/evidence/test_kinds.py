"""The table of kinds, and third parties' kinds from a conftest and an installed package."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from support import Project

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence import KINDS
from pytest_schedprof.evidence.contract import Brought, EvidenceRegistry, Kind, Need
from pytest_schedprof.model.result import BackendResult

DOCS = Path(__file__).parents[2] / "docs"
PAGE, OPTIONS_PAGE = DOCS / "evidence.md", DOCS / "options.md"


@pytest.mark.parametrize("name", KINDS)
def test_every_built_in_kind_is_of_that_name(name: str) -> None:
    (kind,) = EvidenceRegistry().kinds([name])
    assert kind.name == name


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_has_a_row_and_a_section_in_its_page(name: str) -> None:
    lines = PAGE.read_text().splitlines()
    assert (
        len([line for line in lines if line.startswith(f"| [`{name}`](#{name}) | `{name}.")]) == 1
    )
    assert f"## {name}" in lines


def test_the_page_of_options_names_every_kind() -> None:
    (row,) = [
        line for line in OPTIONS_PAGE.read_text().splitlines() if "`schedprof_evidence`" in line
    ]
    assert [name for name in KINDS if f"`{name}`" not in row] == []


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

    def bring(self, found: Sequence[BackendResult]) -> Brought:
        return Brought({"counted.json": json.dumps(len(found)).encode()})


def test_a_kind_that_lacks_a_method_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"Unfinished lacks bring; see docs/evidence\.md"):
        EvidenceRegistry([[Unfinished]])  # type: ignore[type-abstract]
    with pytest.raises(SettingsError, match="does not derive from"):
        EvidenceRegistry([[object]])  # type: ignore[list-item]


def test_all_has_every_kind_and_added_ones() -> None:
    registry = EvidenceRegistry([[Counted]])
    assert registry.names == (*KINDS, "counted")
    assert [each.name for each in registry.kinds(("all",))] == [*KINDS, "counted"]
    assert registry.kinds(["counted"]) == (Counted,)
    assert Counted.needs == frozenset()
    assert Unfinished.needs == {Need.SCHEDULER}


def test_unknown_names_are_told_with_those_that_are_known() -> None:
    known = f"{', '.join(KINDS)}, counted, or 'all'"
    with pytest.raises(SettingsError, match=f"evidence must be any of {known}, got 'spam'"):
        EvidenceRegistry([[Counted]]).check(["span", "spam"])


THEIRS = """
from pytest_schedprof.evidence.contract import Brought, Kind, Need


class TasksOfClient(Kind, name="theirs", description="how many futures the client has"):
    def __init__(self, test):
        super().__init__(test)
        self.runs = 0
        self.closed = False

    def bring(self, found):
        futures = len(self.test.scheduler.client.futures)
        return Brought({"theirs.txt": f"{self.test.test_id} {futures}".encode()}, ("a note",))


class Misplaced(Kind, name="misplaced", description="files with the names of others", needs=()):
    def bring(self, found):
        return Brought({"result.json": b"{}"})


class Raising(Kind, name="raising", description="an error where none is expected", needs=()):
    def around(self, number):
        raise OSError("as it should")

    def bring(self, found):
        raise AssertionError("it is not at work any more")
"""

HOOK = """
from theirs import Misplaced, Raising, TasksOfClient

def pytest_schedprof_evidence():
    return [TasksOfClient, Misplaced, Raising]
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


def test_kinds_of_a_conftest(project: Project) -> None:
    (project.path / "theirs.py").write_text(THEIRS)
    (project.path / "conftest.py").write_text(HOOK)
    result = project.run_test(BODY, *OPTIONS, "--schedprof-evidence=theirs,misplaced,raising,span")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*evidence: theirs, span*"])
    found = {each.kind: each for each in project.result().evidence}
    assert found["theirs"].notes == ("a note",)
    assert found["theirs"].description == "how many futures the client has"
    assert found["misplaced"].missing == "its file 'result.json' must be named misplaced.SUFFIX"
    assert "OSError: as it should" in found["raising"].missing
    assert artifact(project, "theirs.txt").startswith("test_it.py::test_it ")


def install(project: Project, entry_point: str, module: str = THEIRS) -> None:
    """Put a distribution on the path, as an installer does: its name and module are `theirs`."""
    place = project.path / "site"
    information = place / "theirs_distribution-1.0.dist-info"
    information.mkdir(parents=True)
    (place / "theirs.py").write_text(module)
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: theirs-distribution\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text(f"[pytest_schedprof.evidence]\n{entry_point}\n")
    project.pytester.syspathinsert(place)


def test_a_kind_of_an_installed_distribution(project: Project) -> None:
    install(project, "theirs = theirs:TasksOfClient")
    project.run_test(BODY, *OPTIONS, "--schedprof-evidence=theirs").assert_outcomes(passed=1)
    assert artifact(project, "theirs.txt").startswith("test_it.py::test_it ")
    assert [each.name for each in EvidenceRegistry().kinds(["all"])] == [*KINDS, "theirs"]


def test_the_kind_of_the_page_works_as_an_installed_distribution(project: Project) -> None:
    section = PAGE.read_text().partition("\n## Write a kind of your own\n")[2]
    code = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    install(project, "durations = theirs:DurationsKind", code)
    project.run_test(BODY, *OPTIONS, "--schedprof-evidence=durations").assert_outcomes(passed=1)
    (found,) = json.loads(artifact(project, "durations.json"))
    assert found["inc"] > 0


@pytest.mark.parametrize(
    ("entry_point", "told"),
    [
        ("theirs = theirs:Nothing", "AttributeError: * has no attribute 'Nothing'"),
        ("theirs = nowhere:Kind", "ModuleNotFoundError: No module named 'nowhere'"),
        ("theirs = theirs:Need", "<enum 'Need'> does not derive from *.Kind"),
        ("theirs = theirs:Misplaced", "its class calls it 'misplaced'"),
    ],
)
def test_a_broken_entry_point_is_one_clear_error_for_those_who_ask_for_it(
    project: Project, entry_point: str, told: str
) -> None:
    install(project, entry_point)
    value = entry_point.partition(" = ")[2]
    entry = f"entry point '{value}' of theirs-distribution 1.0"
    start = f"ERROR: schedprof: evidence 'theirs' ({entry}) cannot be used: "
    for asked in ("theirs", "all"):
        result = project.run_test(BODY, *OPTIONS, f"--schedprof-evidence={asked}")
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        result.stderr.fnmatch_lines([f"{start}{told}; see docs/evidence.md"])
        assert len([line for line in result.stderr.lines if line.strip()]) == 1
    EvidenceRegistry().check(["span", "phases"])  # who does not ask for it does not meet it


def test_a_name_that_two_distributions_add_is_refused(project: Project) -> None:
    install(project, "theirs = theirs:TasksOfClient")
    second = project.path / "site" / "second-2.0.dist-info"
    second.mkdir()
    (second / "METADATA").write_text("Metadata-Version: 2.1\nName: second\nVersion: 2.0\n")
    points = project.path / "site" / "theirs_distribution-1.0.dist-info" / "entry_points.txt"
    (second / "entry_points.txt").write_text(points.read_text())
    with pytest.raises(SettingsError, match="cannot be used: several distributions") as caught:
        EvidenceRegistry().check(["theirs"])
    for each in ("of second 2.0", "of theirs-distribution 1.0"):  # in the order of the directory
        assert each in str(caught.value)


def test_the_hook_wins_over_built_in_kinds_and_these_over_installed_ones(project: Project) -> None:
    renamed = THEIRS.replace('name="theirs"', 'name="span"')
    install(project, "span = theirs:TasksOfClient", renamed)
    (kind,) = EvidenceRegistry().kinds(["span"])
    assert kind.__module__ == "pytest_schedprof.evidence.span"

    class Own(Counted, name="span", description="another"):
        """A kind of the hook."""

    assert EvidenceRegistry([[Own]]).kinds(["span"]) == (Own,)


LOADED = """
import json, sys

def pytest_unconfigure():
    names = [name for name in sys.modules if name.startswith("pytest_schedprof.evidence")]
    print("loaded", json.dumps(sorted(names)))
"""


@pytest.mark.usefixtures("apart")
def test_entry_points_are_not_read_without_the_option(project: Project) -> None:
    """The registry reads them, and it is not even imported."""
    (project.path / "conftest.py").write_text(LOADED)
    (project.path / "test_it.py").write_text("def test_it():\n    pass\n")
    result = project.run("-s")
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.stdout.lines if line.startswith("loaded ")]
    assert json.loads(line.removeprefix("loaded ")) == ["pytest_schedprof.evidence"]


def test_the_error_of_a_module_that_cannot_be_imported_is_told(project: Project) -> None:
    install(project, "theirs = theirs:Kind", "raise RuntimeError('as it should')")
    with pytest.raises(SettingsError, match="cannot be used: RuntimeError: as it should") as caught:
        EvidenceRegistry().check(["theirs"])
    assert isinstance(caught.value.__cause__, RuntimeError)
