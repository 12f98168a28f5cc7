"""Workflows and our action use actions by commit, and have no permission that they do not need.

actionlint reads workflows only, so the steps of the action are checked as those of a workflow with
the same inputs.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NIGHTLY = ROOT / "docs" / "ci" / "nightly.yml"
ACTION = ROOT / "action.yml"
COMMENT = ROOT / "comment" / "action.yml"
USERS = [*WORKFLOWS, ACTION, COMMENT]
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


@pytest.mark.parametrize("workflow", USERS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_actions_are_pinned_by_commit_with_the_version_beside_it(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [name for name in used if not PINNED.fullmatch(name) and name != "./"] == []


def test_an_action_has_one_version_in_all_workflows() -> None:
    texts = [workflow.read_text(encoding="utf-8") for workflow in USERS]
    used = {line for text in texts for line in re.findall(r"uses: (.*)", text)}
    names = [line.partition("@")[0] for line in used]
    assert len(names) == len({*names})


def test_the_environment_that_tests_the_wheel_has_what_is_read_here() -> None:
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    (copied,) = re.findall(r"cp -r (.*) \{env_tmp_dir\}", tox)
    assert {path.relative_to(ROOT).parts[0] for path in (*USERS, NIGHTLY)} <= {*copied.split()}


def test_no_action_of_ours_is_forgotten_by_who_moves_the_versions() -> None:
    updates = yaml.safe_load((ROOT / ".github" / "dependabot.yml").read_text())["updates"]
    (actions,) = (part for part in updates if part["package-ecosystem"] == "github-actions")
    places = {f"/{path.parent.relative_to(ROOT)}".rstrip(".") for path in (ACTION, COMMENT)}
    assert set(actions["directories"]) == places


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_cancels_no_run_of_another_event(workflow: Path) -> None:
    concurrency = yaml.safe_load(workflow.read_text(encoding="utf-8")).get("concurrency")
    assert concurrency is None or "github.event_name" in concurrency["group"]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_permission_but_those_of_its_jobs(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    assert "\npermissions: {}\n" in text
    assert text.count("id-token: write") == (workflow.stem == "release")
    assert not re.search(r"(?<!id-token): write", text)


def actionlint(*arguments: str, text: str = "") -> str:
    """Return what it complains about."""
    program = Path(sys.executable).with_name("actionlint")
    command = [str(program), "-no-color", "-shellcheck=", "-pyflakes=", *arguments]
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT
    ).stdout


needs_actionlint = pytest.mark.skipif(
    not Path(sys.executable).with_name("actionlint").exists() and sys.platform != "linux",
    reason="there is no wheel of actionlint for this platform",
)


@needs_actionlint
@pytest.mark.parametrize("workflow", [*WORKFLOWS, NIGHTLY], ids=lambda path: path.stem)
def test_workflows_are_valid(workflow: Path) -> None:
    """What `uses: ./` gives the action is checked too."""
    assert actionlint(str(workflow)) == ""


def as_workflow(action: dict[str, Any]) -> str:
    """Return a workflow with the action's inputs, outputs and steps."""
    inputs = {name: {**entry, "type": "string"} for name, entry in action["inputs"].items()}
    outputs = {name: entry["value"] for name, entry in action["outputs"].items()}
    job = {"runs-on": "ubuntu-latest", "outputs": outputs, "steps": action["runs"]["steps"]}
    return yaml.safe_dump({"on": {"workflow_call": {"inputs": inputs}}, "jobs": {"action": job}})


@needs_actionlint
def test_the_steps_of_the_action_are_valid() -> None:
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert actionlint("-", text=as_workflow(action)) == ""
    assert all(("uses" in step) != ("shell" in step) for step in action["runs"]["steps"])
    broken = as_workflow(action).replace("inputs.backends", "inputs.backend")
    assert 'property "backend" is not defined' in actionlint("-", text=broken)


def test_texts_reach_the_shell_of_the_action_by_variables_alone() -> None:
    """An expression in a command would be run, whatever a pull request wrote into it."""
    action = yaml.safe_load(ACTION.read_text(encoding="utf-8"))
    assert [step["run"] for step in action["runs"]["steps"] if "${{" in step.get("run", "")] == []


def test_no_code_of_a_pull_request_runs_where_or_before_a_token_is() -> None:
    steps = yaml.safe_load(ACTION.read_text(encoding="utf-8"))["runs"]["steps"]
    names = [step.get("name") for step in steps]
    with_token = [step["name"] for step in steps if step.get("env", {}).get("GITHUB_TOKEN")]
    assert with_token == ["Fetch the baseline"]
    # The URL is looked at when the project has brought what reads it.
    strangers = ["Install the project", "Look for the baseline at its URL", "Run the tests"]
    places = [*map(names.index, ["Fetch the baseline", *strangers])]
    assert places == sorted(places)
    for name in strangers:
        environment = steps[names.index(name)]["env"]
        for variable in ("GITHUB_TOKEN", "GH_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"):
            assert environment[variable] == ""
    used = [step["uses"] for step in yaml.safe_load(COMMENT.read_text())["runs"]["steps"][:1]]
    assert [name.partition("@")[0] for name in used] == ["actions/setup-python"]  # no checkout
