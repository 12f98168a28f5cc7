"""Workflows use actions by commit, and have no permission that they do not need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PINNED = re.compile(r"[\w-]+/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_the_version_beside_it(workflow: Path) -> None:
    used = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert used
    assert [each for each in used if not PINNED.fullmatch(each)] == []


def test_an_action_has_one_version_in_all_workflows() -> None:
    texts = [workflow.read_text(encoding="utf-8") for workflow in WORKFLOWS]
    used = {line for text in texts for line in re.findall(r"uses: (.*)", text)}
    names = [line.partition("@")[0] for line in used]
    assert len(names) == len({*names})


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_no_permission_but_those_of_its_jobs(workflow: Path) -> None:
    text = workflow.read_text(encoding="utf-8")
    assert "\npermissions: {}\n" in text
    assert text.count("id-token: write") == (workflow.stem == "release")
    assert not re.search(r"(?<!id-token): write", text)
