"""Output of commands: data as JSON, a checkup, and a history."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap

import msgspec

from pytest_schedprof.model.backend import (
    SECCOMP_FILTER,
    BackendCheck,
    Checkup,
    Machine,
    Privileges,
)
from pytest_schedprof.model.options import listed
from pytest_schedprof.model.run import History, Series
from pytest_schedprof.report.markup import BARS, Line, code, lines, plain, row, sparkline
from pytest_schedprof.report.trends import (
    ends_of,
    history_words,
    notes_of_series,
    series_by_test,
    series_name,
    setting_words,
    shown_series,
    values_of,
)
from pytest_schedprof.report.words import counted
from pytest_schedprof.store.records import indented

DOCTOR_VERSION = 1
WIDTH = 100
GIGABYTE = 1e9


def as_json(content: object, **more: object) -> str:
    """Return data as JSON, after more properties if they are given."""
    record = {**more, **msgspec.to_builtins(content)} if more else content
    return indented(record).decode()


def doctor_text(checkup: Checkup) -> str:
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
    machine, scheduler = checkup.here, checkup.scheduler
    started = ", started for this" if checkup.is_own else f", {counted(checkup.workers, 'worker')}"
    user = f"{scheduler.user or 'an unknown user'} (uid {scheduler.uid})"
    yield "scheduler", f"{checkup.address}, process {scheduler.pid} of {user}{started}"
    yield "platform", scheduler.platform
    yield "Python", f"{scheduler.implementation} {scheduler.python}, {scheduler.interpreter}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in scheduler.versions.items())
    for text in checkup.differences:
        yield "differs", text
    place = "in the main thread" if checkup.loop_in_main_thread else "not in the main thread"
    yield "event loop", _with_notes(place, "event loop", checkup)
    tick = f"{scheduler.tick_hz:g} Hz" if scheduler.tick_hz else "unknown"
    yield "kernel tick", _with_notes(tick, "kernel tick", checkup)
    yield "privileges", ", ".join(_privileges(checkup.privileges))
    yield "free disk", f"{_room(scheduler)} there, {_room(machine)} here"
    offset, doubt = checkup.clock.seconds * 1e3, checkup.clock.uncertainty * 1e3
    yield "clock", f"{offset:+.1f} ms from the one here, give or take {doubt:.1f} ms"


def _with_notes(text: str, fact: str, checkup: Checkup) -> str:
    """Append what a fact means for the backends."""
    notes = [backend.notes[fact] for backend in checkup.backends if fact in backend.notes]
    return f"{text}: {'; '.join(notes)}" if notes else text


def _privileges(privileges: Privileges) -> Iterator[str]:
    yield f"{privileges.container} container" if privileges.container else "no container"
    yield "CAP_SYS_PTRACE" if privileges.may_ptrace else "no CAP_SYS_PTRACE"
    yield "a seccomp filter" if privileges.seccomp == SECCOMP_FILTER else "no seccomp filter"
    yield from (f"{call} is refused ({error})" for call, error in privileges.refused_calls.items())
    if privileges.ptrace_scope >= 0:
        yield f"ptrace_scope {privileges.ptrace_scope}"
    if privileges.no_new_privileges:
        yield "no new privileges"
    if privileges.security_label:
        yield f"confined as {privileges.security_label}"


def _room(machine: Machine) -> str:
    return f"{machine.free_bytes / GIGABYTE:.1f} GB in {machine.directory}"


def _backend_lines(backends: Sequence[BackendCheck]) -> Iterator[str]:
    yield f"{'backend':<13}works"
    for backend in backends:
        did = f"yes, recorded and read in {backend.seconds:.2f} s"
        text = did if backend.works else f"no: {backend.reason}"
        yield from (f"{name:<13}{line}" for name, line in _cell(backend.name, text))
        yield from (f"{'':<15}- {remedy}" for remedy in backend.remedies)


def _verdict(checkup: Checkup) -> str:
    chosen = [backend.name for backend in checkup.backends if backend.is_chosen]
    refused = [
        backend.name for backend in checkup.backends if backend.is_chosen and not backend.works
    ]
    if not refused:
        return f"{listed(chosen)} {_verb(chosen)} here"
    working = [backend for backend in checkup.backends if backend.works]
    working.sort(key=lambda check: (check.rank is None, check.rank or 0))  # without a rank: last
    others = [check.name for check in working]
    if not others:
        return f"{listed(refused)} {_not(refused)} work here, nor does any other"
    return f"{listed(refused)} {_not(refused)} work here; {listed(others)} {_verb(others)}"


def _verb(names: Sequence[str]) -> str:
    return "work" if len(names) > 1 else "works"


def _not(names: Sequence[str]) -> str:
    return "do not" if len(names) > 1 else "does not"


HISTORY_VERSION = 1

NAME_WIDTH = 60

TABLE = ("| metric | first | last | change | history | |", "|---|--:|--:|--:|---|---|")


def history_text(history: History, *, every: bool = False, bars: str = BARS) -> str:
    """Return a few lines for each test, then the commits with steps.

    Args:
        every: also series of owners and functions in which nothing changed.
        bars: characters, the lowest first.
    """
    text: list[str] = []
    for test_id, settings in series_by_test(history.series):
        text.append(test_id)
        for setting, series in settings:
            shown = shown_series(series, every=every)
            text.append(f"  {setting_words(setting)}")
            text += _rows(shown, bars)
            if len(shown) < len(series):
                text.append(f"    {len(series) - len(shown)} more series without a change")
        text.append("")
    return "\n".join(Line(line).text for line in (*text, *history_words(history)))


def as_markdown(history: History, *, every: bool = False) -> str:
    """Return the series as tables, for a pull request or the summary of a CI job."""
    text: list[str] = []
    for test_id, settings in series_by_test(history.series):
        text += [f"### {code(test_id)}", ""]
        for setting, series in settings:
            text += [plain(setting_words(setting)), "", *TABLE]
            text += [_markdown_row(row) for row in shown_series(series, every=every)]
            text.append("")
    return "\n".join([*text, *(f"- {plain(line.strip())}" for line in history_words(history))])


def _rows(series: Sequence[Series], bars: str) -> Iterator[str]:
    width = min(max((len(series_name(history)) for history in series), default=0), NAME_WIDTH)
    for history in series:
        first, last, change = ends_of(history)
        figures = f"{first:>12} -> {last:<12}{change:>9}"
        yield f"    {series_name(history):<{width}}{figures}  {sparkline(values_of(history), bars)}"
        yield from (f"      {text}" for text in notes_of_series(history))


def _markdown_row(series: Series) -> str:
    figures = (*ends_of(series), sparkline(values_of(series), BARS))
    notes = lines(map(plain, notes_of_series(series)))
    return row([code(series_name(series)), *map(plain, figures), notes])
