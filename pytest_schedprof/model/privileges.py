"""Privileges of a scheduler's process, as the agent finds them there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

SECCOMP_FILTER = 2
"""Value of `Privileges.seccomp` if a filter is active."""


@dataclass(frozen=True, slots=True)
class Privileges:
    """Privileges of the scheduler's process, as found by the agent."""

    platform: str = "linux"
    uid: int = 0
    interpreter: str = ""
    container: str = ""
    """`kubernetes`, another kind of container, or empty for none."""
    refused_calls: Mapping[str, str] = field(default_factory=dict)
    """System calls that a filter refuses, with the error or the signal."""
    seccomp: int = 0
    """Value in /proc; 2 is a filter."""
    may_ptrace: bool = False
    """Whether a child of the process, such as py-spy, has CAP_SYS_PTRACE."""
    was_given_ptrace: bool = False
    """Whether its container has CAP_SYS_PTRACE; a process of another user than root lacks it."""
    no_new_privileges: bool = False
    ptrace_scope: int = -1
    """Yama's setting; -1 if the kernel has no Yama."""
    is_dumpable: bool = True
    security_label: str = ""
    """Label that AppArmor or SELinux gives the process."""


def read_privileges(found: Mapping[str, Any]) -> Privileges:
    """Read what the agent sent; fields that only a newer agent knows are left out."""
    return Privileges(**{each.name: found[each.name] for each in fields(Privileges)})
