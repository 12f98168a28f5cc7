"""Tests of diagnosis: from what a scheduler reports about itself to a reason and a remedy."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.backends.sampling import CALLS, WITHOUT, Refusal, why_refused
from pytest_schedprof.model.backend import Privileges, read_privileges

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


def test_what_a_newer_agent_adds_is_left_out() -> None:
    known = Privileges(uid=7)
    sent = {name: getattr(known, name) for name in Privileges.__slots__}
    assert read_privileges({**sent, "added": True}) == known
