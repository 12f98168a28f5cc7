"""Tests of every kind of end that a test on a virtual cluster can come to: what is left by it."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import Any

import pytest
from support import Project

STATE = """
import asyncio, json, os, random, signal, sys, threading, time, uuid
import dask.sizeof, distributed
import pytest
from distributed import client, utils
from tornado.ioloop import IOLoop

PLACES = {
    "time": time, "os": os, "uuid": uuid, "random": random, "sizeof": dask.sizeof, "utils": utils,
    "client": client, "Client": distributed.Client, "Future": distributed.Future,
    "Scheduler": distributed.Scheduler, "Condition": threading.Condition,
    "Thread": threading.Thread, "Event": threading.Event, "Loop": asyncio.BaseEventLoop,
}

def attributes():
    return {
        f"{owner}.{name}": id(value)
        for owner, place in PLACES.items()
        for name, value in vars(place).items()
    }

def hooks():
    monitoring = getattr(sys, "monitoring", None)
    return {
        "trace": sys.gettrace(),
        "profile": sys.getprofile(),
        "trace of threads": threading.gettrace(),
        "profile of threads": threading.getprofile(),
        "tools": [monitoring.get_tool(number) for number in range(6)] if monitoring else [],
        "signals": {str(number): signal.getsignal(number) for number in signal.valid_signals()},
        "threads": sorted(
            thread.name for thread in threading.enumerate() if thread.name.startswith("schedprof-")
        ),
    }

# A shell that starts pytest in the background has it ignore this signal.
signal.signal(signal.SIGINT, signal.default_int_handler)

LOOP = asyncio.new_event_loop()

def clocks():
    async def differences():
        loop = asyncio.get_running_loop()
        clocks = (loop.time, time.monotonic), (IOLoop.current().time, time.time)
        return [abs(clock() - true()) < 60 for clock, true in clocks]
    return {"clocks of a loop": LOOP.run_until_complete(differences())}

BEFORE = {**attributes(), **hooks(), **clocks()}

def compare(what):
    after = {**attributes(), **hooks(), **clocks()}
    changed = {
        name: repr(after.get(name))
        for name in BEFORE | after
        # Which a process for tests in turns has for good, from the first of them on.
        if BEFORE.get(name) != after.get(name) and name != "Client.__hash__"
    }
    write("changed.jsonl", what, changed)

def write(name, *what):
    with open(name, "a") as file:
        file.write(json.dumps(what) + "\\n")

def pytest_runtest_logreport(report):
    if report.failed:
        texts = [report.longreprtext, *(text for _, text in report.sections)]
        write("failures.jsonl", report.nodeid, "\\n".join(texts))

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item):
    result = yield
    compare(item.name)
    return result

@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_unconfigure(config):
    result = yield
    compare("session")
    return result
"""

TESTS = """
import collections, itertools, signal
from pytest_schedprof.clusters.own import OwnCluster
from pytest_schedprof.clusters.virtual import VirtualCluster

def stay_in_c():
    collections.deque(itertools.repeat(None), maxlen=0)

def interrupt_and_stay(session, number):
    os.kill(session, number)
    while True:
        time.sleep(1)

def lack_memory():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))
    bytes(2**30)

def work(scheduler):
    wait(scheduler.client.map(inc, range(20), pure=False))

async def work_on_loop(scheduler, end):
    async with scheduler.async_client() as client:
        await client.gather(client.map(inc, range(20), pure=False))
        end(scheduler)
        await client.gather(client.map(inc, range(20), pure=False))

def on_loop(end):
    def use_loop(scheduler):
        __import__("conftest").LOOP.run_until_complete(work_on_loop(scheduler, end))
    return use_loop

def on_scheduler(*call):
    return lambda scheduler: scheduler.client.run_on_scheduler(*call)

def send(number):
    return lambda scheduler: os.kill(scheduler.pid, number)

ENDS = {
    "passes": work,
    "fails": lambda scheduler: pytest.fail("of its own"),
    "leaves": on_scheduler(lambda: os._exit(3)),
    "is killed": send(signal.SIGKILL),
    "lacks memory": on_scheduler(lack_memory),
    "is on a loop": on_loop(lambda scheduler: None),
    "is killed on a loop": on_loop(send(signal.SIGKILL)),
    "is stopped": send(signal.SIGSTOP),
    "stays in C": on_scheduler(stay_in_c),
    # The signal of pytest-timeout: it comes when the scheduler is busy, on any machine.
    "times out": on_scheduler(interrupt_and_stay, os.getpid(), signal.SIGALRM),
    "is interrupted": lambda scheduler: signal.raise_signal(signal.SIGINT),
    "is interrupted while it waits": on_scheduler(interrupt_and_stay, os.getpid(), signal.SIGINT),
}
PATIENCE_S = {
    # What runs is given a core within that time on any machine; what stands still never answers.
    **dict.fromkeys(list(ENDS)[7:], 15),
    "is stopped": 5, "stays in C": 5,
}

@pytest.fixture(autouse=True)
def little_patience(request, monkeypatch):
    # With schedulers that stand still; how long their start may take stays as it is.
    limit_s = PATIENCE_S.get(request.node.name.removeprefix("test_it[")[:-1])
    for kind in (OwnCluster, VirtualCluster) if limit_s else ():
        watch = lambda cluster, patience_s, watch=kind.watch: watch(cluster, limit_s)
        monkeypatch.setattr(kind, "watch", watch)

@pytest.mark.timeout(200, func_only=True)
@pytest.mark.schedprof
@pytest.mark.parametrize("end", ENDS)
def test_it(schedprof_scheduler, end):
    work(schedprof_scheduler)
    ENDS[end](schedprof_scheduler)
    work(schedprof_scheduler)

def test_next():
    pass
"""

STILL = "*scheduler's process * let no thread run for 5 s of real time, and was ended: it was"
STANDING = {"is stopped": f"{STILL} stopped by a signal*", "stays in C": f"{STILL} in stay_in_c (*"}
FAILURES = {
    "fails": "*of its own*",
    "leaves": "*exited with 3*",
    "is killed": "*killed by signal 9*",
    "lacks memory": "*",
    "is killed on a loop": "*killed by signal 9*",
    **STANDING,
    "times out": "*did not let an interrupted test go on for*it was in interrupt_and_stay*",
}
"""What is said of each test that fails, with wildcards."""

pytestmark = [pytest.mark.usefixtures("apart"), pytest.mark.slow, pytest.mark.timeout(900)]


def lines(project: Project, name: str) -> dict[str, Any]:
    """Return what the sessions of a project wrote about each test."""
    return dict(json.loads(line) for line in (project.path / name).read_text().splitlines())


def run(project: Project, *options: str) -> pytest.RunResult:
    (project.path / "conftest.py").write_text(STATE)
    project.plugins = ("timeout",)
    options = (*options, "--schedprof=counts", "--schedprof-cluster=virtual")
    return project.run_test(
        TESTS, "-p", "no:faulthandler", "--schedprof-workers=2", *options, timeout_s=800
    )


def test_an_end_leaves_nothing(project: Project) -> None:
    run(project, "-k", "not interrupted").assert_outcomes(
        passed=3, failed=len(FAILURES), deselected=2
    )
    failures = lines(project, "failures.jsonl")
    assert failures.keys() == {f"test_it.py::test_it[{end}]" for end in FAILURES}
    for end, pattern in FAILURES.items():
        assert fnmatchcase(failures[f"test_it.py::test_it[{end}]"], pattern), end
    changed = lines(project, "changed.jsonl")
    assert len(changed) == 12
    assert set(map(str, changed.values())) == {"{}"}, changed


@pytest.mark.parametrize("end", ["is interrupted", "is interrupted while it waits"])
def test_an_interrupt_leaves_nothing(project: Project, end: str) -> None:
    result = run(project, f"test_it.py::test_it[{end}]")
    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["*KeyboardInterrupt*"])
    assert lines(project, "changed.jsonl") == {"session": {}}


def test_schedulers_in_real_time_are_watched_too(project: Project) -> None:
    project.is_apart = False
    options = ("--schedprof-cluster=local", "--schedprof-workers=1", "-k", "stopped or next")
    result = project.run_test(TESTS, "--schedprof=counts", *options)
    result.assert_outcomes(passed=1, failed=1, deselected=11)
    result.stdout.fnmatch_lines([STANDING["is stopped"]])
