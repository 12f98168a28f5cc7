"""Tests of what `schedprof doctor` prints about its findings."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from pytest_schedprof.model.backend import BackendCheck, Checkup, ClockOffset, Machine, Privileges
from pytest_schedprof.report.commands import as_json, doctor_text

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
    assert set(Checkup.__slots__) <= set(record)
