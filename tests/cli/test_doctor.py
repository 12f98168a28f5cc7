"""Tests of `schedprof doctor` on real schedulers: hardened, bare, and missing ones."""

from __future__ import annotations

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil
import pytest
from hardening import drop_sys_ptrace, filter_tracing
from support import python

from pytest_schedprof.backends.contract import Recording, Target
from pytest_schedprof.backends.cputime import CpuTimeBackend
from pytest_schedprof.backends.instructions import is_lent
from pytest_schedprof.backends.registry import BUILTIN
from pytest_schedprof.cli.main import main
from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.control.control import Control
from pytest_schedprof.measuring.doctor import _checked_apart

ABSENT = {"tachyon"} if sys.version_info < (3, 15) else set()


def attributes(dask_scheduler: Any = None) -> list[str]:
    return [name for name in vars(dask_scheduler) if name.startswith("_schedprof")]


def examined(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, Any]]:
    """Run doctor; return its exit status and its JSON."""
    status = main(["doctor", "--json", *arguments])
    return status, json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_without_an_address_it_examines_a_scheduler_of_its_own() -> None:
    process = python("-m", "pytest_schedprof", "doctor", "--backend", "pyspy,counts")
    assert process.stderr == ""
    assert process.stdout.endswith("\ncounts and pyspy work here\n")
    assert "started for this" in process.stdout
    assert "in the main thread: cputime samples by a timer" in process.stdout
    assert "instructions no: " in process.stdout or is_lent()  # valgrind takes long to start
    pid = int(process.stdout.partition("process ")[2].partition(" of")[0])
    assert not psutil.pid_exists(pid)


@pytest.mark.slow
def test_a_scheduler_that_does_not_start_under_a_launcher_ends_no_checkup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "valgrind").write_text("#!/bin/sh\nexit 3\n")
    (tmp_path / "valgrind").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    _, findings = examined(capsys, "--backend", "instructions,counts")
    works = {backend["name"]: backend["works"] for backend in findings["backends"]}
    assert works["counts"]
    assert works["instructions"] == is_lent()


def die() -> None:
    os._exit(1)


class Deadly(CpuTimeBackend):
    """Ends the scheduler, which a program has started for it."""

    name = "deadly"
    launcher = ("env",)

    def start(self, target: Target, *, timeout_s: float) -> Recording:
        target.call(die)
        raise AssertionError


def test_a_scheduler_that_is_lost_under_a_launcher_ends_no_checkup(control: Control) -> None:
    deadly = Deadly(rate_hz=100, options={})
    check = _checked_apart(deadly, control, is_chosen=True, timeout_s=200)
    assert (check.name, check.works) == ("deadly", False)
    assert "hung up" in check.reason


def test_what_it_says_of_a_scheduler_is_so_and_nothing_is_left_there(
    cluster: LocalProcesses, control: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    status, findings = examined(capsys, cluster.address)
    process, there = psutil.Process(cluster.pid), findings["scheduler"]
    assert status == 0
    assert findings["works"]
    assert not findings["is_own"]
    assert (there["pid"], there["uid"]) == (cluster.pid, process.uids().real)
    assert there["user"] == process.username()
    assert there["versions"]["distributed"] == version("distributed")
    assert there["free_bytes"] > 0
    assert findings["differences"] == []
    assert findings["loop_in_main_thread"]
    assert abs(findings["clock"]["seconds"]) <= findings["clock"]["uncertainty"] + 0.001
    assert 0 < findings["clock"]["uncertainty"] < 1
    works = {backend["name"]: backend["works"] for backend in findings["backends"]}
    absent = {*ABSENT, "decisions"}  # which needs a cluster of its own
    absent |= set() if is_lent() else {"instructions"}
    assert works == {name: name not in absent for name in BUILTIN}
    assert [backend["name"] for backend in findings["backends"] if backend["is_chosen"]] == [
        "pyspy"
    ]
    assert control.call(attributes) == []
    assert process.children(recursive=True) == []


@pytest.mark.slow
def test_hardened_scheduler_is_told_what_mends_it_and_what_works(
    hardened: Control, capsys: pytest.CaptureFixture[str]
) -> None:
    hardened.call(drop_sys_ptrace)
    hardened.call(filter_tracing)
    assert main(["doctor", hardened.address]) == 1
    text = capsys.readouterr().out
    words = " ".join(text.split())
    assert "a seccomp filter, ptrace is refused (EPERM), process_vm_readv is refused" in words
    assert "pyspy        no: py-spy may not trace the scheduler tcp://" in text
    assert "\n               - cputime and counts need no permission\n" in text
    last = text.splitlines()[-1]
    assert last.startswith("pyspy does not work here; cputime, counts, cprofile")
    assert main(["doctor", "--backend", "cputime", hardened.address]) == 0
    assert capsys.readouterr().out.endswith("\ncputime works here\n")


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys\n"
        "from pytest_schedprof.cli.main import main\n"
        "try:\n    main(['doctor', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'distributed', 'dask', 'msgspec', 'pytest'} & set(sys.modules)"
    )
    assert "example: schedprof doctor" in python("-c", program).stdout
