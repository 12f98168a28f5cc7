"""Tests of every kind of end that a test on a virtual cluster can come to: what is left by it."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from support import Project

TIMEOUT_S = 6

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
        "tools": [monitoring.get_tool(each) for each in range(6)] if monitoring else [],
        "signals": {str(each): signal.getsignal(each) for each in signal.valid_signals()},
        "threads": sorted(
            each.name for each in threading.enumerate() if each.name.startswith("schedprof-")
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
        if BEFORE.get(name) != after.get(name)
    }
    with open("changed.jsonl", "a") as file:
        file.write(json.dumps([what, changed]) + "\\n")

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

BODIES = """
import collections, itertools, signal

def stay_in_c():
    collections.deque(itertools.repeat(None), maxlen=0)

def stay_in_python():
    while True:
        pass

def interrupt_and_stay(session):
    os.kill(session, signal.SIGINT)
    stay_in_python()

def lack_memory():
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (2**20, 2**20))
    bytes(2**30)

def work(client):
    wait(client.map(inc, range(20), pure=False))
"""

TEST = """
@pytest.mark.schedprof(backend="counts", timeout={timeout})
{mark}
def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    work(client)
    {body}

def test_next():
    pass
"""


class End(NamedTuple):
    """One kind of end."""

    body: str
    verdict: str
    said: str = ""
    """What stands in the output, with wildcards."""
    mark: str = ""


ON_SCHEDULER = "client.run_on_scheduler({})"
ON_LOOP = """
    async def use(scheduler):
        async with scheduler.async_client() as client:
            await client.gather(client.map(inc, range(20), pure=False))
            {}
            await client.gather(client.map(inc, range(20), pure=False))
    __import__("conftest").LOOP.run_until_complete(use(schedprof_scheduler))
"""
STILL = (
    f"*scheduler's process * let no thread run for {TIMEOUT_S} s of real time, and was ended: it "
)
ENDS = {
    "passed": End("pass", "passed"),
    "failed": End("assert client is None", "failed", "*assert client is None*"),
    "left": End(ON_SCHEDULER.format("lambda: os._exit(3)"), "failed", "*exited with 3*"),
    "killed": End(
        "os.kill(schedprof_scheduler.pid, 9); work(client)", "failed", "*killed by signal 9*"
    ),
    "stopped": End(
        "os.kill(schedprof_scheduler.pid, signal.SIGSTOP); work(client)",
        "failed",
        f"{STILL}was stopped by a signal*",
    ),
    "busy in C": End(
        ON_SCHEDULER.format("stay_in_c"), "failed", f"{STILL}was in stay_in_c (*test_it.py:*)*"
    ),
    "without memory": End(ON_SCHEDULER.format("lack_memory"), "failed"),
    "timed out": End(
        ON_SCHEDULER.format("stay_in_python"),
        "failed",
        "*did not let an interrupted test go on for*it was in stay_in_python*",
        "@pytest.mark.timeout(3, func_only=True)",
    ),
    "interrupted": End("signal.raise_signal(signal.SIGINT)", "interrupted", "*KeyboardInterrupt*"),
    "interrupted while it waits": End(
        ON_SCHEDULER.format("interrupt_and_stay, os.getpid()"),
        "interrupted",
        "*KeyboardInterrupt*",
    ),
    "on a loop of its own": End(ON_LOOP.format("pass"), "passed"),
    "killed on a loop of its own": End(
        ON_LOOP.format("os.kill(scheduler.pid, 9)"), "failed", "*killed by signal 9*"
    ),
}

pytestmark = [pytest.mark.usefixtures("apart"), pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.mark.parametrize("name", ENDS)
def test_an_end_leaves_nothing(project: Project, name: str) -> None:
    end = ENDS[name]
    (project.path / "conftest.py").write_text(STATE)
    body = BODIES + TEST.format(timeout=TIMEOUT_S, mark=end.mark, body=end.body)
    result = project.run_test(body, "--schedprof-cluster=virtual", "-p", "no:faulthandler")
    if end.verdict == "interrupted":
        assert result.ret == pytest.ExitCode.INTERRUPTED
    else:
        result.assert_outcomes(**{"passed": 1, end.verdict: 1 + (end.verdict == "passed")})
    if end.said:
        result.stdout.fnmatch_lines([end.said])
    changed: list[Any] = [
        json.loads(line) for line in (project.path / "changed.jsonl").read_text().splitlines()
    ]
    assert [each for _, each in changed] == [{}] * len(changed)


@pytest.mark.parametrize("name", ["stopped", "busy in C"])
def test_schedulers_in_real_time_are_watched_too(project: Project, name: str) -> None:
    end = ENDS[name]
    body = BODIES + TEST.format(timeout=TIMEOUT_S, mark=end.mark, body=end.body)
    result = project.run_test(body, "--schedprof-cluster=local", "--schedprof-workers=1")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines([end.said])
