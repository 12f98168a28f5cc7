"""What samplers have in common: why they may not read a process, and pictures of their samples."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from functools import cache

from msgspec import Struct

from pytest_schedprof.agent import checkup
from pytest_schedprof.backends.contract import Setting, Target
from pytest_schedprof.backends.remote import RemoteBackend
from pytest_schedprof.errors import BackendNotPermittedError
from pytest_schedprof.formats.pictures import write_flamegraph, write_raw
from pytest_schedprof.formats.speedscope import name_frames, read_speedscope
from pytest_schedprof.model.backend import SECCOMP_FILTER, Privileges
from pytest_schedprof.model.options import check_choice
from pytest_schedprof.model.profile import Namer, SampleProfile

_FORBIDDEN = re.compile(
    r"permission denied|operation not permitted|EPERM|EACCES|must be run as root|requires root"
    r"|ENOSYS|function not implemented",
    re.IGNORECASE,
)

APPLES_OWN = ("/System/", "/usr/bin/", "/Library/Developer/", "/Applications/Xcode")
"""Directories of macOS with interpreters that nobody may trace."""

NOBODY, ONLY_CAPABLE = 3, 2
"""Values of ptrace_scope that forbid tracing; with 1 the agent permits its children itself."""

CALLS = "ptrace and process_vm_readv"
WITHOUT = "cputime and counts need no permission"
KUBERNETES = "Kubernetes: securityContext: {capabilities: {add: [SYS_PTRACE]}}"
CONTAINERS = ("Docker: run it with --cap-add SYS_PTRACE", "compose: cap_add: [SYS_PTRACE]")

PROFILES = {
    "kubernetes": "seccompProfile: {type: Localhost, localhostProfile: FILE}",
    "": "SystemCallFilter= of its systemd unit, or whatever sets the filter",
}
"""Where to set a seccomp profile, by the kind of container; "" is for no container."""
DOCKERS_PROFILE = "--security-opt seccomp=FILE"


class Refusal(Struct, frozen=True):
    """A reason and what can be done about it, as clauses of one sentence."""

    reason: str
    remedies: tuple[str, ...]


def is_forbidden(log: str, status: int) -> bool:
    """Whether a sampler ended because the system refused it."""
    return bool(_FORBIDDEN.search(log)) or status == -signal.SIGSYS


def not_permitted(sampler: str, target: Target, words: str) -> BackendNotPermittedError:
    """Return the error with the reason found there; the sampler knows only that it was refused."""
    refusal = why_refused(Privileges(**target.call(checkup.privileges)))
    quoted = f" ({sampler}: {words!r})" if words else ""
    return BackendNotPermittedError(
        f"schedprof: {sampler} may not trace {target.label}: {refusal.reason}{quoted}",
        *refusal.remedies,
        "see docs/doctor.md",
    )


@cache
def refusal_of_own() -> Refusal | None:
    """Return why a sampler would surely be refused that traces a child of this process."""
    facts = Privileges(**checkup.privileges())
    checks = [_on_macos] if facts.platform == "darwin" else [_filtered, _by_yama]
    return next((refusal for check in checks if (refusal := check(facts))), None)


def why_refused(facts: Privileges) -> Refusal:
    """Return the reason why the system refused, the first that applies."""
    checks = [_on_macos] if facts.platform == "darwin" else [_filtered, _by_yama, _by_others]
    refusals = (refusal for check in checks if (refusal := check(facts)))
    could_help = facts.container and not facts.was_given_ptrace
    remedies = _capability(facts) if could_help else ()
    return next(
        refusals, Refusal("nothing that can be seen there forbids it", (*remedies, WITHOUT))
    )


def _on_macos(facts: Privileges) -> Refusal | None:
    as_root = () if facts.uid == 0 else ("run the scheduler as root: sudo",)
    if facts.interpreter.startswith(APPLES_OWN):
        return Refusal(
            f"{facts.interpreter} is macOS's own Python, which System Integrity Protection (SIP) "
            "lets nobody trace",
            ("use one of Homebrew, conda, uv or python.org", *as_root, WITHOUT),
        )
    return Refusal("macOS lets only root trace", (*as_root, WITHOUT)) if as_root else None


def _filtered(facts: Privileges) -> Refusal | None:
    """Check the probe: only a filter refuses its system calls, a missing permission does not."""
    if not facts.refused_calls:
        return None
    calls = " and ".join(f"{name} ({error})" for name, error in facts.refused_calls.items())
    if facts.seccomp != SECCOMP_FILTER:
        sandbox = f"the system there does not do {calls}, as sandboxes like gVisor may not"
        return Refusal(sandbox, ("run the scheduler outside of it", WITHOUT))
    source = PROFILES.get(facts.container, DOCKERS_PROFILE)
    profile = f"a seccomp profile that allows {CALLS}: {source}"
    return Refusal(f"a seccomp filter there refuses {calls}", _past_filter(facts, profile))


def _past_filter(facts: Privileges, profile: str) -> tuple[str, ...]:
    """Return remedies. Docker's own profiles allow the calls to containers with SYS_PTRACE."""
    if not facts.container:
        return (f"run the scheduler under {profile}", WITHOUT)
    if facts.was_given_ptrace:
        return (f"it has SYS_PTRACE, which does not mend this: run it with {profile}", WITHOUT)
    return (*_capability(facts), f"where that does not mend it, with {profile}", WITHOUT)


def _capability(facts: Privileges) -> tuple[str, ...]:
    return (KUBERNETES,) if facts.container == "kubernetes" else (*CONTAINERS, KUBERNETES)


def _by_yama(facts: Privileges) -> Refusal | None:
    host = "on the container's host" if facts.container else "there"
    if facts.ptrace_scope == NOBODY:
        return Refusal(
            "ptrace_scope is 3, so nobody may trace before the next boot",
            (f"set kernel.yama.ptrace_scope=1 in /etc/sysctl.d {host} and reboot", WITHOUT),
        )
    if facts.ptrace_scope != ONLY_CAPABLE or facts.may_ptrace:
        return None
    return Refusal(
        "ptrace_scope is 2, so only who has CAP_SYS_PTRACE may trace",
        (
            f"as root {host}: echo 1 > /proc/sys/kernel/yama/ptrace_scope",
            "or run the scheduler as root" + (" with SYS_PTRACE" if facts.container else ""),
            *(_capability(facts) if facts.container and not facts.was_given_ptrace else ()),
            WITHOUT,
        ),
    )


def _by_others(facts: Privileges) -> Refusal | None:
    if not (facts.is_dumpable or facts.may_ptrace):
        other = f"by an interpreter without capabilities: setcap -r {facts.interpreter}"
        return Refusal(
            "the kernel protects the scheduler's process, whose program has capabilities of its "
            "own or which changed its user (it is not dumpable)",
            ("start it as the user that it is to run as", other, WITHOUT),
        )
    if facts.security_label in ("", "unconfined", "kernel"):
        return None
    return Refusal(
        f"AppArmor or SELinux may forbid it, which confines the scheduler as "
        f"{facts.security_label!r}",
        ("let that profile trace itself (ptrace), or run the scheduler without it", WITHOUT),
    )


RECORDED = "speedscope"
"""Format of the recording itself, which is always kept."""

WRITERS = {
    "flamegraph": ("svg", write_flamegraph),
    "raw": ("raw.txt", write_raw),
}


class SamplingBackend(RemoteBackend, is_base=True):
    """A sampler whose recording is a file of speedscope."""

    measures = frozenset({"share", "self"})
    disturbs = False

    def prepare(self) -> None:
        for name in self.options.formats:
            check_choice(f"{self.name}.formats", name, sorted((RECORDED, *WRITERS)))

    @property
    def settings(self) -> Mapping[str, Setting]:
        return {"rate_hz": self.rate_hz, **super().settings}

    def read(self, content: bytes, namer: Namer) -> SampleProfile:
        return name_frames(read_speedscope(content), namer, backend=self.name, mode=self.mode)

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        writers = [WRITERS[name] for name in self.options.formats if name in WRITERS]
        if not writers:
            return {}
        file = read_speedscope(content)
        return {f"{self.name}.{suffix}": write(file) for suffix, write in writers}
