"""Tests of the doctor: a reason and a remedy for each refusal, and what it prints."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pytest_schedprof.backends.sampling import CALLS, WITHOUT, Refusal, why_refused
from pytest_schedprof.model.backend import BackendCheck, Checkup, ClockOffset, Machine, Privileges
from pytest_schedprof.report.commands import as_json, doctor_text

FILTERED = Privileges(
    container="docker",
    uid=1000,
    seccomp=2,
    refused_calls={"ptrace": "EPERM", "process_vm_readv": "EPERM"},
)

anything = st.builds(
    Privileges,
    platform=st.sampled_from(["linux", "darwin"]),
    uid=st.sampled_from([0, 1000]),
    interpreter=st.sampled_from(["/opt/bin/python3", "/usr/bin/python3"]),
    container=st.sampled_from(["", "docker", "podman", "kubernetes", "lxc"]),
    refused_calls=st.dictionaries(
        st.sampled_from(["ptrace", "process_vm_readv"]),
        st.sampled_from(["EPERM", "ENOSYS", "SIGSYS"]),
    ),
    seccomp=st.sampled_from([0, 2]),
    ptrace_scope=st.sampled_from([-1, 0, 1, 2, 3]),
    security_label=st.sampled_from(["", "unconfined", "docker-default (enforce)"]),
)


def text(refusal: Refusal) -> str:
    return "; ".join([refusal.reason, *refusal.remedies])


@given(anything)
def test_whatever_the_answer_is_there_is_one_reason_and_a_backend_that_works(
    answer: Privileges,
) -> None:
    refusal = why_refused(answer)
    assert refusal.reason
    assert refusal.remedies[-1] == WITHOUT
    assert "\n" not in text(refusal)
    is_filtered = answer.platform == "linux" and answer.seccomp == 2 and bool(answer.refused_calls)
    assert ("a seccomp filter there refuses" in refusal.reason) == is_filtered
    capable = why_refused(replace(answer, was_given_ptrace=True))
    assert "--cap-add" not in text(capable)


def test_filtered_container_is_told_the_lines_of_each_engine_and_the_profile() -> None:
    refusal = why_refused(FILTERED)
    assert refusal.reason == (
        "a seccomp filter there refuses ptrace (EPERM) and process_vm_readv (EPERM)"
    )
    assert "Docker: run it with --cap-add SYS_PTRACE" in refusal.remedies
    assert "compose: cap_add: [SYS_PTRACE]" in refusal.remedies
    kubernetes = "Kubernetes: securityContext: {capabilities: {add: [SYS_PTRACE]}}"
    assert kubernetes in refusal.remedies
    assert f"a seccomp profile that allows {CALLS}" in refusal.remedies[-2]
    (only, *_) = why_refused(replace(FILTERED, container="kubernetes")).remedies
    assert only == kubernetes


def test_filter_outside_of_containers_is_not_mended_by_a_capability() -> None:
    message = text(why_refused(replace(FILTERED, container="")))
    assert "SYS_PTRACE" not in message
    assert "SystemCallFilter=" in message


@pytest.mark.parametrize(
    ("answer", "reason", "remedy"),
    [
        (Privileges(ptrace_scope=3), "ptrace_scope is 3", "/etc/sysctl.d there and reboot"),
        (Privileges(ptrace_scope=2, uid=9), "ptrace_scope is 2", "echo 1 > /proc/sys/kernel/yama"),
        (Privileges(ptrace_scope=2, may_ptrace=True), "nothing that can be seen", ""),
        (Privileges(is_dumpable=False), "not dumpable", "setcap -r"),
        (Privileges(security_label="docker-default (enforce)"), "AppArmor", "ptrace"),
        (Privileges(refused_calls={"ptrace": "ENOSYS"}), "gVisor", "outside of it"),
        (Privileges("darwin", uid=501), "only root", "as root"),
        (
            Privileges("darwin", uid=0, interpreter="/usr/bin/python3"),
            "System Integrity Protection (SIP)",
            "Homebrew",
        ),
        (Privileges(container="docker"), "nothing that can be seen", "--cap-add SYS_PTRACE"),
    ],
)
def test_each_reason_has_its_remedy(answer: Privileges, reason: str, remedy: str) -> None:
    refusal = why_refused(answer)
    assert reason in refusal.reason
    assert remedy in text(refusal)


MACHINE = Machine(
    pid=7,
    uid=1000,
    user="",
    python="3.11.7",
    implementation="CPython",
    interpreter="/opt/python",
    platform="Linux",
    versions={"distributed": "2026.8.0"},
    tick_hz=0.0,
    directory="/var/tmp",
    free_bytes=1_500_000_000,
)
NOTE = {"event loop": "cputime does not work on Python 3.11 then"}
WORKS = BackendCheck("cputime", False, True, 0.1, notes=NOTE)
REFUSED = BackendCheck("pyspy", True, False, 0.2, "it may not", ("let it", "or do without"))
CHECKUP = Checkup(
    address="tcp://scheduler:8786",
    is_own=False,
    here=MACHINE,
    scheduler=MACHINE,
    workers=3,
    loop_in_main_thread=False,
    privileges=Privileges(ptrace_scope=1, security_label="docker-default (enforce)"),
    clock=ClockOffset(-0.25, 0.002),
    differences=("dask is 1 where the tests run and 2 where the scheduler does",),
    backends=(WORKS, REFUSED),
)


TEXT = """\
scheduler    tcp://scheduler:8786, process 7 of an unknown user (uid 1000), 3 workers
platform     Linux
Python       CPython 3.11.7, /opt/python
versions     distributed 2026.8.0
differs      dask is 1 where the tests run and 2 where the scheduler does
event loop   not in the main thread: cputime does not work on Python 3.11 then
kernel tick  unknown
privileges   no container, no CAP_SYS_PTRACE, no seccomp filter, ptrace_scope 1, confined as
             docker-default (enforce)
free disk    1.5 GB in /var/tmp there, 1.5 GB in /var/tmp here
clock        -250.0 ms from the one here, give or take 2.0 ms

backend      works
cputime      yes, recorded and read in 0.10 s
pyspy        no: it may not
               - let it
               - or do without

pyspy does not work here; cputime works"""


def test_every_fact_has_its_line() -> None:
    assert doctor_text(CHECKUP) == TEXT


@pytest.mark.parametrize(
    ("backends", "verdict", "works"),
    [
        ((WORKS, REFUSED), "pyspy does not work here; cputime works", False),
        ((replace(WORKS, is_chosen=True),), "cputime works here", True),
        (
            (replace(WORKS, is_chosen=True), replace(REFUSED, works=True)),
            "cputime and pyspy work here",
            True,
        ),
        ((REFUSED,), "pyspy does not work here, nor does any other", False),
        (
            (REFUSED, replace(REFUSED, name="memray"), WORKS),
            "pyspy and memray do not work here; cputime works",
            False,
        ),
    ],
)
def test_last_line_is_the_verdict_on_what_was_chosen(
    backends: tuple[BackendCheck, ...], verdict: str, works: bool
) -> None:
    checkup = replace(CHECKUP, backends=backends)
    assert doctor_text(checkup).splitlines()[-1] == verdict
    assert checkup.works == works


def test_json_holds_all_of_it() -> None:
    record = json.loads(as_json(CHECKUP, schema_version=1))
    assert record["schema_version"] == 1
    assert record["backends"][1]["remedies"] == ["let it", "or do without"]
    assert record["clock"] == {"seconds": -0.25, "uncertainty": 0.002}
    assert record["privileges"]["ptrace_scope"] == 1
    assert set(Checkup.__struct_fields__) <= set(record)


def test_json_holds_names_that_are_not_utf_8() -> None:
    assert json.loads(as_json(["a\udcff"])) == ["a\\udcff"]
