"""Tests of the documentation: it is complete, the code in it works, and the site has all of it."""

from __future__ import annotations

import inspect
import json
import os
import re
import runpy
import subprocess
import sys
import tomllib
from collections import defaultdict
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import AUTOLOAD, QUICK, Project, python

import pytest_schedprof
from pytest_schedprof.agent.touchpoints import TOUCHPOINTS
from pytest_schedprof.backends.registry import BUILTIN, BackendRegistry
from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.owners import NOT_SCHEDULER, OWNER_NAMES
from pytest_schedprof.judge.phases import CLIENT_OWNERS
from pytest_schedprof.measuring.options import MARKER_KEYWORDS, OPTIONS, Option
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.plugin import hooks, hookspecs
from pytest_schedprof.virtual.behaviour import TRAITS
from pytest_schedprof.workloads import WORKLOADS
from pytest_schedprof.workloads import collections as recorded

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def row_of(page: str, start: str) -> str:
    """Return the row of a page's tables that begins so."""
    rows = [line for line in (ROOT / page).read_text().splitlines() if line.startswith(start)]
    assert len(rows) == 1, f"{page} needs one row that begins with {start!r}, and has {len(rows)}"
    return rows[0]


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_option_is_documented_in_all_its_forms(option: Option) -> None:
    start = f"| `{option.flag_name}{'`' if option.is_flag else '='}"
    row = row_of("docs/options.md", start)
    assert f"`{option.ini_name}`" in row
    assert (f"`{option.name}=" in row) == option.in_marker


@pytest.mark.parametrize("name", BUILTIN)
def test_every_backend_its_metrics_and_its_options_are_documented(name: str) -> None:
    backend = BackendRegistry().make(name, rate_hz=100, options={})
    row = row_of("docs/backends.md", f"| [`{name}`]")
    missing = [metric for metric in backend.metrics if f"`{metric}`" not in row]
    assert missing == [], f"the row of {name} in docs/backends.md lacks these metrics"
    assert ("alone" in row) == backend.disturbs
    page = (ROOT / "docs" / "backends.md").read_text()
    section = page.partition(f"\n## `{name}`\n")[2].partition("\n## ")[0]
    options = set(backend.settings) - {"rate_hz"}
    missing = [option for option in options if f"| `{option}` |" not in section]
    assert missing == [], f"the section `{name}` of docs/backends.md lacks rows of these options"


NAMES: dict[str, list[str]] = {
    "options": [
        *(f"`{keyword}=" for keyword in MARKER_KEYWORDS),
        *(f"**`{name}`**" for name in vars(hooks) if name.startswith("schedprof_")),
        *(f"`{name}()`" for name in vars(hookspecs) if name.startswith("pytest_schedprof")),
    ],
    "limits": [
        *(f"| `{metric}` |" for metric in METRICS),
        *(f"`{name}`" for name in OWNER_NAMES if name not in NOT_SCHEDULER),
        *(f"`{owner}`" for owner in CLIENT_OWNERS),
    ],
    "clusters": [
        *(f"`{name}`" for name in WORKLOADS),
        *(f"| `{kind}` | `{trait[0]}` |" for kind, trait in TRAITS.items()),
    ],
    "reference": [
        f"\n::: pytest_schedprof.{name}\n"
        for name in (
            *(name for name in pytest_schedprof.__all__ if name != "__version__"),
            *(f"plugin.hooks.{name}" for name in vars(hooks) if name.startswith("schedprof_")),
        )
    ],
}
"""What each page must name: settings, metrics, workloads and traits of hollow workers."""


@pytest.mark.parametrize("page", NAMES)
def test_a_page_names_all_that_it_is_to_name(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    missing = [name for name in NAMES[page] if name not in text]
    assert missing == [], f"docs/{page}.md lacks these rows or names"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_limits_links_and_code_that_are_shown_are_right(page: Path) -> None:
    """Recipes for clusters too, even those that cannot run here."""
    content = page.read_text()
    for text in re.findall(rf'"((?:{"|".join(METRICS)})\b[^"]*<=[^"]*)"', content):
        assert str(parse_limit(text)) == text
    for target in re.findall(r"\]\(([^)#]+)\)", content):
        assert "://" in target or (page.parent / target).exists(), target
    for name in re.findall(r'src(?:set)?="([^"]+\.png)"', content):
        assert "://" in name or (page.parent / name).is_file(), name
    for code in re.findall(r"```python\n(.*?)```", content, re.DOTALL):
        compile(code, page.name, "exec")


@pytest.mark.parametrize("name", ["result", "run", "baseline"])
def test_published_schema_is_the_records_own(name: str) -> None:
    """Regenerate the file with `python docs/write_schemas.py`."""
    program = runpy.run_path(str(ROOT / "docs" / "write_schemas.py"))
    published = json.loads((ROOT / "docs" / f"{name}.schema.json").read_text())
    assert published == program["schema_of"](program["RECORDS"][name])


def examples(page: str) -> list[str]:
    """Return the examples of a page, with fewer tasks and workers than it shows its readers."""
    content = (ROOT / page).read_text()
    content = re.sub(r"range\(\d+\)", "range(60)", content).replace("n_workers=2", "n_workers=1")
    return re.findall(r"```python\n(.*?)```", content, re.DOTALL)


@pytest.mark.slow
def test_examples_of_the_pages_run(project: Project) -> None:
    for name, page in (("readme", "README.md"), ("limits", "docs/limits.md")):
        (project.path / f"test_example_of_{name}.py").write_text(examples(page)[0])
    project.run("--schedprof=cputime", "--schedprof-workers=1").assert_outcomes(passed=2)
    assert len(project.run_record().tests) == 2


LONGEST_S = 400
"""Seconds that the examples of a page may take: 24 s of CPU time took 110 s at a load of 15."""


@pytest.mark.slow
def test_the_tutorial_leads_to_a_red_test_that_is_explained_and_accepted(tmp_path: Path) -> None:
    """All its commands but those that install, in a shell without any setting."""
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    (slower,) = re.findall(r"```text\n(self\..*)\n```", page)
    (tests,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    _, *commands = re.findall(r"```shell\n(.*?)```", page, re.DOTALL)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    file, outputs = tmp_path / "test_tasks.py", list[str]()
    file.write_text(tests)
    for command, status in zip(commands, [0, 0, 1, 0, 0], strict=True):
        if command == "pytest --schedprof --schedprof-compare=main\n":
            file.write_text(tests.replace("self.done += 1", slower))
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, **QUICK},
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
        )
        assert done.returncode == status, done.stdout + done.stderr
        outputs.append(done.stdout)
    _, _, red, why, accepted = outputs
    cause = "bytecodes of test_tasks:Audit.transition: "
    assert f"\nschedprof: regressed against 'main': {cause}" in red
    assert slower in why
    assert "accepted: the audit counts threads (#12)" in accepted


@pytest.mark.slow
def test_tests_for_distributed_are_counted_and_skipped_without_the_plugin(
    project: Project,
) -> None:
    page = (ROOT / "docs" / "for-distributed.md").read_text(encoding="utf-8")
    names = {
        name
        for point in TOUCHPOINTS
        for alternatives in point.names
        for name in alternatives.split(" | ")
    }
    assert len(page.splitlines()) <= 80
    assert f"the {len(names)} that we use" in page
    for settings in re.findall(r"```toml\n(.*?)```", page, re.DOTALL):
        assert tomllib.loads(settings)["environments"]["schedprof"][-1] == "schedprof"
    (project.path / "test_cost.py").write_text(
        re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    )
    project.run("--schedprof").assert_outcomes(passed=5)
    assert {result.backends[0].backend for result in project.results().values()} == {"counts"}
    blocked = "import sys; sys.modules['pytest_schedprof'] = None; import pytest; pytest.main()"
    alone = {AUTOLOAD: "1", "PYTEST_ADDOPTS": "--strict-markers -W ignore"}
    assert "1 skipped" in python("-c", blocked, cwd=project.path, status=None, **alone).stdout


@pytest.mark.slow
def test_examples_of_the_api_run(tmp_path: Path) -> None:
    """One after the other, as in a notebook."""
    script = "\n".join([*examples("docs/api.md"), "client.close()"])
    process = python("-c", script, cwd=tmp_path)
    assert "transitions per task" in process.stdout
    assert "schedprof: cannot write" in process.stdout
    for name in re.findall(r'[a-z_]+_scheduler\("([\w.]+)"', script):
        assert name in BUILTIN or (tmp_path / name).exists()
    assert (tmp_path / "profiles" / "result.json").exists()
    assert "['pyspy.json', 'viztracer.json']" in process.stdout  # as users of dask-pyspy write it


SHOWN = re.findall(
    r"\(`([^`]*)`\):\n\n```python\n(.*?)```",
    (ROOT / "docs" / "virtual.md").read_text().partition("## Search for deadlocks")[2],
    re.DOTALL,
)
"""What each script prints that shows a bug of distributed, and the script."""


@pytest.mark.slow
@pytest.mark.skipif(version("distributed") != "2026.8.0", reason="these are bugs of 2026.8.0")
@pytest.mark.parametrize(
    ("printed", "script"), SHOWN, ids=["cancel", "stolen-actor", "retried-actor", "replicate"]
)
def test_bugs_of_distributed_happen_on_real_clusters(
    tmp_path: Path, printed: str, script: str
) -> None:
    (tmp_path / "script.py").write_text(script)
    process = python("script.py", cwd=tmp_path, status=None)
    assert process.stdout == f"{printed}\n"


@pytest.mark.parametrize("name", pytest_schedprof.__all__)
def test_every_public_function_is_documented(name: str) -> None:
    page = (ROOT / "docs" / "api.md").read_text()
    is_function = inspect.isfunction(getattr(pytest_schedprof, name))
    assert is_function == (f"## `{name}`\n" in page)


def test_commands_of_the_readme_are_those_of_ci() -> None:
    command = re.search(r"^\.venv/bin/(pytest .*)$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert command is not None
    for runner in (".ci/run", "tox.ini", ".github/workflows/ci.yml"):
        text = (ROOT / runner).read_text()
        assert command.group(1) in text or "bash .ci/run" in text, runner


WORKLOAD_FILES = Path(recorded.__file__).parent / "files"


def read_by_the_docs(path: Path) -> list[str]:
    """Run the program of the page on recorded workloads, in a fresh interpreter."""
    (program,) = re.findall(
        r"```python\n(import struct\n.*?)```",
        (ROOT / "docs" / "production.md").read_text(),
        re.DOTALL,
    )
    assert "pytest_schedprof" not in program
    return python("-c", program, str(path)).stdout.splitlines()


def expected(content: bytes) -> list[str]:
    workload = read_workload(content)
    prefixes = {task.number: task.group.prefix for graph in workload.graphs for task in graph.tasks}
    seconds: defaultdict[str, float] = defaultdict(float)
    for number, result in workload.results.items():
        seconds[prefixes.get(number, "?")] += result.seconds + sum(result.failed)
    return [f"{prefix}\t{spent:.6f}" for prefix, spent in sorted(seconds.items())]


@pytest.mark.parametrize("name", ["recorded_shuffle", "recorded_rechunk", "recorded_sweep"])
def test_the_documented_format_of_recorded_workloads_is_enough_to_read_one(name: str) -> None:
    path = WORKLOAD_FILES / f"{name}.schedprof"
    assert read_by_the_docs(path) == expected(path.read_bytes())


def test_a_workload_is_read_up_to_the_last_whole_block(tmp_path: Path) -> None:
    content = (WORKLOAD_FILES / "recorded_sweep.schedprof").read_bytes()
    cut = tmp_path / "cut.schedprof"
    cut.write_bytes(content[: len(content) * 2 // 3])
    assert read_by_the_docs(cut) == expected(cut.read_bytes())


REPOSITORY = "https://example.org/project"
CONFIG = {"extra": {"repository": REPOSITORY}}


on_page = runpy.run_path(str(ROOT / "docs" / "site_links.py"))["on_page_markdown"]
"""What mkdocs calls for each page."""


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- .*: ([\w-]+\.md)$", text, re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert len(listed) == len({*listed})
    assert pages - {*listed} == set()


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("../CONTRIBUTING.md", f"{REPOSITORY}/blob/main/CONTRIBUTING.md"),
        ("../tests/docs", f"{REPOSITORY}/tree/main/tests/docs"),
        ("../README.md#use-it", f"{REPOSITORY}/blob/main/README.md#use-it"),
        ("../no-such-file.md", "../no-such-file.md"),
        ("https://docs.pytest.org", "https://docs.pytest.org"),
    ],
)
def test_links_that_leave_docs_lead_to_the_repository(link: str, target: str) -> None:
    page = SimpleNamespace(url="pages/")
    assert on_page(f"See [it]({link}).", page, CONFIG) == f"See [it]({target})."


@pytest.mark.parametrize(("url", "above"), [("", ""), ("pages/", "../")])
def test_pictures_in_html_are_found_from_every_page(url: str, above: str) -> None:
    written = '<source srcset="a-dark.png"><img src="a-light.png" alt="b">'
    page = on_page(written, SimpleNamespace(url=url), CONFIG)
    assert page == f'<source srcset="{above}a-dark.png"><img src="{above}a-light.png" alt="b">'


def test_every_row_of_what_happens_when_something_dies_is_a_test() -> None:
    page = (ROOT / "docs" / "doctor.md").read_text(encoding="utf-8")
    table = page.partition("## When something dies")[2]
    rows = re.findall(r"^\| (?!what|---).*`(\w+)` \|$", table, re.MULTILINE)
    sources = "".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")
    )
    assert len(rows) == table.count("\n| ") - 1
    assert [name for name in rows if f"def {name}" not in sources] == []
