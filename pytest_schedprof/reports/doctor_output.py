"""Output of `schedprof doctor` as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

import msgspec

from pytest_schedprof.model.checkup import BackendCheck, Checkup, Machine
from pytest_schedprof.model.privileges import SECCOMP_FILTER, Privileges
from pytest_schedprof.model.words import listed

SCHEMA_VERSION = 1
WIDTH = 100
GIGABYTE = 1e9


def as_json(checkup: Checkup) -> str:
    """Return all facts as JSON, with the version of the format first."""
    record = {"schema_version": SCHEMA_VERSION, "works": checkup.works}
    record |= msgspec.to_builtins(checkup)
    return msgspec.json.format(msgspec.json.encode(record), indent=2).decode()


def as_text(checkup: Checkup) -> str:
    """Return a table of facts, a table of backends, and what to do."""
    lines = [
        f"{name:<13}{line}" for name, text in _facts(checkup) for name, line in _cell(name, text)
    ]
    lines += ["", *_backend_lines(checkup.backends), "", _verdict(checkup)]
    return "\n".join(lines)


def _cell(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Wrap a text over several lines; its name stands before the first."""
    for number, line in enumerate(wrap(text, WIDTH - 13, break_on_hyphens=False)):
        yield "" if number else name, line


def _facts(checkup: Checkup) -> Iterator[tuple[str, str]]:
    here, there = checkup.here, checkup.scheduler
    started = ", started for this" if checkup.is_own else f", {checkup.workers} workers"
    yield "scheduler", f"{checkup.address}, process {there.pid} of {_user(there)}{started}"
    yield "platform", there.platform
    yield "Python", f"{there.implementation} {there.python}, {there.interpreter}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in there.versions.items())
    for text in checkup.differences:
        yield "differs", text
    place = "in the main thread" if checkup.loop_in_main_thread else "not in the main thread"
    yield "event loop", _with_notes(place, "event loop", checkup)
    tick = f"{there.tick_hz:g} Hz" if there.tick_hz else "unknown"
    yield "kernel tick", _with_notes(tick, "kernel tick", checkup)
    yield "privileges", ", ".join(_privileges(checkup.privileges))
    yield "free disk", f"{_room(there)} there, {_room(here)} here"
    offset, doubt = checkup.clock.seconds * 1e3, checkup.clock.uncertainty * 1e3
    yield "clock", f"{offset:+.1f} ms from the one here, give or take {doubt:.1f} ms"


def _user(machine: Machine) -> str:
    return f"{machine.user or 'an unknown user'} (uid {machine.uid})"


def _with_notes(text: str, fact: str, checkup: Checkup) -> str:
    """Append what a fact means for the backends."""
    notes = [each.notes[fact] for each in checkup.backends if fact in each.notes]
    return f"{text}: {'; '.join(notes)}" if notes else text


def _privileges(found: Privileges) -> Iterator[str]:
    yield f"{found.container} container" if found.container else "no container"
    yield "CAP_SYS_PTRACE" if found.may_ptrace else "no CAP_SYS_PTRACE"
    yield "a seccomp filter" if found.seccomp == SECCOMP_FILTER else "no seccomp filter"
    yield from (f"{call} is refused ({how})" for call, how in found.refused_calls.items())
    if found.ptrace_scope >= 0:
        yield f"ptrace_scope {found.ptrace_scope}"
    if found.no_new_privileges:
        yield "no new privileges"
    if found.security_label:
        yield f"confined as {found.security_label}"


def _room(machine: Machine) -> str:
    return f"{machine.free_bytes / GIGABYTE:.1f} GB in {machine.directory}"


def _backend_lines(backends: Sequence[BackendCheck]) -> Iterator[str]:
    yield f"{'backend':<13}works"
    for each in backends:
        text = _success(each) if each.works else f"no: {each.reason}"
        yield from (f"{name:<13}{line}" for name, line in _cell(each.name, text))
        yield from (f"{'':<15}- {remedy}" for remedy in each.remedies)


def _success(check: BackendCheck) -> str:
    text = f"yes, recorded and read in {check.seconds:.2f} s"
    if check.kept_hz is None:
        return text
    return f"{text}; keeps up with about {check.kept_hz:.0f} samples a second of a busy scheduler"


def _verdict(checkup: Checkup) -> str:
    chosen = [each.name for each in checkup.backends if each.is_chosen]
    refused = [each.name for each in checkup.backends if each.is_chosen and not each.works]
    if not refused:
        return f"{listed(chosen)} {_verb(chosen)} here"
    working = [each for each in checkup.backends if each.works]
    others = [each.name for each in sorted(working, key=_order)]
    if not others:
        return f"{listed(refused)} {_not(refused)} work here, nor does any other"
    return f"{listed(refused)} {_not(refused)} work here; {listed(others)} {_verb(others)}"


def _order(check: BackendCheck) -> tuple[bool, int]:
    """Sort key by rank; backends without a rank come last."""
    return check.rank is None, check.rank or 0


def _verb(names: Sequence[str]) -> str:
    return "work" if len(names) > 1 else "works"


def _not(names: Sequence[str]) -> str:
    return "do not" if len(names) > 1 else "does not"
