"""Tests of a container's privileges and what they mean for py-spy, each in a real container."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from containers import DOCKER, composed
from observed import TRANSITION, Observed
from support import Project, python

HARDENED = "docker-compose.hardened.yml"
PTRACE = "docker-compose.ptrace.yml"


def test_root(project: Project) -> None:
    with composed(SCHEDPROF_USER="root") as place:
        assert Observed(project, f"tcp://{place}", "pyspy").has_seen_burning("pyspy")


def test_capabilities_dropped(project: Project, tmp_path: Path) -> None:
    dropped = {"cap_drop": ["ALL"], "security_opt": ["no-new-privileges"]}
    overlay = tmp_path / "dropped.yml"
    overlay.write_text(json.dumps({"services": {"scheduler": dropped}}))
    with composed(overlay) as place:
        assert Observed(project, f"tcp://{place}", "pyspy").has_seen_burning("pyspy")


def test_hardened_refuses_pyspy_with_advice_and_lets_others_work(project: Project) -> None:
    with composed(HARDENED, services=["scheduler", "worker-1"]) as place:
        refused = Observed(project, f"tcp://{place}", "pyspy").outcome
        others = Observed(project, f"tcp://{place}", "cputime", "counts", "viztracer")
        doctor = ("-m", "pytest_schedprof", "doctor", f"tcp://{place}")
        text = python(*doctor, status=1).stdout.strip()
        python(*doctor, "--backend", "cputime")
    assert "a seccomp filter there refuses ptrace" in " ".join(text.split())
    assert "--cap-add SYS_PTRACE" in text
    assert "cputime" in text.splitlines()[-1]
    assert_refused(refused)
    others.outcome.assert_outcomes(passed=1)
    assert others.has_seen_burning("cputime")
    assert 4 < others.calls_per_task(TRANSITION) < 8


def test_hardened_is_mended_by_the_capability(project: Project) -> None:
    with composed(HARDENED, PTRACE) as place:
        assert Observed(project, f"tcp://{place}", "pyspy").has_seen_burning("pyspy")


def test_profile_that_forbids_ptrace_flatly_is_not_mended(project: Project, tmp_path: Path) -> None:
    profile = json.loads((DOCKER / "seccomp-without-ptrace.json").read_text())
    del profile["syscalls"][0]["excludes"]
    path = tmp_path / "flat.json"
    path.write_text(json.dumps(profile))
    with composed(HARDENED, PTRACE, SCHEDPROF_SECCOMP=str(path)) as place:
        assert_refused(Observed(project, f"tcp://{place}", "pyspy").outcome)


def assert_refused(outcome: pytest.RunResult) -> None:
    """Check that the message names who refused, and both remedies."""
    outcome.assert_outcomes(failed=1)
    outcome.stdout.fnmatch_lines(
        ["schedprof: py-spy may not trace *EPERM*SYS_PTRACE*seccomp*ptrace*process_vm_readv*"]
    )
