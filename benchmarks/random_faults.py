"""Do harm to sessions at random, and look at what is left.

    python benchmarks/random_faults.py [--faults 1000] [--first 0] [--jobs 2] [--minutes M]
    python benchmarks/random_faults.py --kills 20

The number of a fault decides which backend records on which cluster, which process comes to harm,
how, and when. With `--kills` there are so many under each backend, and all are kills. Each session
has two tests. Required of every one: it ends in time; five seconds
after its end no process of it runs or stands still; it leaves no temporary file; a test after the
one that was harmed passes, and finds its process as it was; what records there are can be read.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

sys.path.append(str(Path(__file__).parents[1] / "tests"))
sys.path.append(str(Path(__file__).parents[1] / "tests/faults"))

from harness import Session, no_room
from support import HEADER, INI, Kept, runs, settle

BACKENDS = ("counts", "cprofile", "cputime", "memray", "pyspy", "stalls", "viztracer")
CLUSTERS = ("local", "simulated", "virtual", "in-process")
VIRTUAL_ONLY = "decisions"

LATEST_S = 4.0
"""A session without harm takes about as long on a quiet machine."""

EARLY = 0.25
"""Part of the faults whose moment counts from the begin of the session, not of its cluster."""

TIMEOUT_S = 30
ENDING_S = 150.0
LEFT_S = 5.0
"""How long processes may take to end after their session."""

NUMBERS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "end": signal.SIGTERM}
OF_SESSION = {"kill": signal.SIGKILL, "end": signal.SIGTERM, "interrupt": signal.SIGINT}
NO_ROOM = "no room"

TO_PASS = ("test_hooks", "test_next")
"""Tests that pass whatever happened before they began."""

TESTS = """
import _thread, random, sys, threading
from distributed.utils_test import gen_cluster

def hooks():
    tools = [sys.monitoring.get_tool(n) for n in range(6)] if hasattr(sys, "monitoring") else []
    return [
        sys.gettrace(), sys.getprofile(), threading.gettrace(), threading.getprofile(), tools,
        time.time, time.monotonic, time.sleep, random.random, threading.Lock,
        threading.Condition.wait, threading.Thread.join, _thread.start_new_thread,
    ]

BEFORE = hooks()
MARK = pytest.mark.schedprof(backend=BACKEND)

if IN_PROCESS:
    @MARK
    @gen_cluster(client=True)
    async def test_it(c, s, a, b):
        await c.gather(c.map(inc, range(200), pure=False))
else:
    @MARK
    def test_it(schedprof_scheduler):
        for _ in range(4):
            wait(schedprof_scheduler.client.map(inc, range(50), pure=False))

def test_hooks():
    assert hooks() == BEFORE

@MARK
def test_next(schedprof_scheduler):
    assert schedprof_scheduler.client.submit(inc, 1).done() is not None
"""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one fault is, all of it drawn from its number."""

    number: int
    backend: str
    cluster: str
    is_early: bool
    """Whether its moment counts from the begin of the session, not of the scheduler's process."""
    seconds: float
    """From that begin to the harm."""
    role: float
    """Which of the roles that run then, as a part of all in the order of their names."""
    harm: float
    is_kill: bool = False

    @classmethod
    def draw(cls, number: int) -> Plan:
        draw = random.Random(number)
        cluster = draw.choice(CLUSTERS)
        known = (*BACKENDS, VIRTUAL_ONLY) if cluster == "virtual" else BACKENDS
        is_early = cluster == "in-process" or draw.random() < EARLY
        seconds = draw.uniform(0, LATEST_S)
        backend = draw.choice(known)
        return cls(number, backend, cluster, is_early, seconds, draw.random(), draw.random())

    @classmethod
    def draw_kill(cls, number: int) -> Plan:
        """Draw a kill, under the next of the backends."""
        plan = cls.draw(number)
        backend = (*BACKENDS, VIRTUAL_ONLY)[number % (len(BACKENDS) + 1)]
        cluster = "virtual" if backend == VIRTUAL_ONLY else plan.cluster
        return replace(plan, backend=backend, cluster=cluster, is_kill=True)


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of one fault."""

    plan: Plan
    what: str
    """Which process came to which harm."""
    faults: tuple[str, ...]
    """What was required and is not so."""
    output: str


def harmed(plan: Plan, deadline: float) -> Ending | None:
    """Run one session that comes to harm, unless it is too late for that."""
    if time.monotonic() > deadline:
        return None
    with tempfile.TemporaryDirectory(prefix="random-fault-") as place:
        project = Kept(Path(place))
        (project.path / "tox.ini").write_text(INI)
        is_in_process = plan.cluster == "in-process"
        tests = TESTS.replace("IN_PROCESS", str(is_in_process)).replace(
            "BACKEND", f"{plan.backend!r}"
        )
        (project.path / "test_it.py").write_text(HEADER + tests)
        cluster = "local" if is_in_process else plan.cluster
        arguments = (f"--schedprof-cluster={cluster}", f"--schedprof-timeout={TIMEOUT_S}", "-v")
        session = Session(project, arguments, "")
        try:
            if not plan.is_early:
                settle(lambda: session.process.poll() is not None or begun(session), ENDING_S)
            time.sleep(plan.seconds)  # the moment is drawn, and nothing is to be waited for
            fault = harm(session, plan)
            to_pass = [test for test in TO_PASS if f"::{test}" not in session.output]
            faults = tuple(faults_of(session, fault, to_pass))
            return Ending(plan, fault, faults, session.output)
        finally:
            session.close()


def begun(session: Session) -> bool:
    """Whether the scheduler has a process."""
    return bool(session.with_role("scheduler"))


def harm(session: Session, plan: Plan) -> str:
    """Do harm to the processes of one role; return what it was, nothing if the session was over."""
    roles = sorted({*map(session.role, session.processes())} - {"other"})
    if session.process.poll() is not None or not roles:
        return ""
    role = roles[int(plan.role * len(roles))]
    harms = sorted([*(OF_SESSION if role == "session" else NUMBERS), NO_ROOM])
    name = "kill" if plan.is_kill else harms[int(plan.harm * len(harms))]
    if name == NO_ROOM:
        no_room(role, 3000)(session)
    else:
        for process in session.with_role(role):
            try:
                process.send_signal({**NUMBERS, **OF_SESSION}[name])
            except psutil.NoSuchProcess:
                pass  # it ended by itself
    return f"{name}: {role}"


def faults_of(session: Session, fault: str, tests: Sequence[str]) -> Iterator[str]:
    """Yield what is not as it must be after the harm; the tests have not begun before."""
    if not settle(lambda: session.process.poll() is not None, ENDING_S):
        yield f"the session did not end in {ENDING_S:g} s"
        return
    settle(lambda: not any(map(runs, session.processes())), LEFT_S)
    for process in session.processes():
        if runs(process):
            yield f"left: {session.role(process)} {process.status()}"
    left = {path.name for path in session.temporary.iterdir()} - {"dask-scratch-space"}
    if left and fault not in ("kill: session", f"{NO_ROOM}: session"):
        yield f"temporary: {sorted(left)}"
    try:
        session.project.results() if any(session.project.path.glob(".schedprof/2*")) else {}
    except Exception as error:
        yield f"a record cannot be read: {error!r}"
    output = session.output
    if fault.endswith(": session"):
        return
    yield from (words for words in ("INTERNALERROR", "please report") if words in output)
    for test in tests if NO_ROOM not in fault else ():  # which lasts
        if f"::{test} PASSED" not in output:
            yield f"{test} did not pass"


def main() -> int:
    """Do harm to many sessions, and say what was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--faults", type=int, default=1000, help="number of sessions")
    parser.add_argument("--kills", type=int, help="instead: kills under each backend")
    parser.add_argument("--first", type=int, default=0, help="number of the first one")
    parser.add_argument("--jobs", type=int, default=2, help="sessions at one time")
    parser.add_argument("--minutes", type=float, default=240, help="begin no session after these")
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    draw, count = Plan.draw, arguments.faults
    if arguments.kills is not None:
        draw, count = Plan.draw_kill, arguments.kills * (len(BACKENDS) + 1)
    plans = map(draw, range(arguments.first, arguments.first + count))
    seen: Counter[str] = Counter()
    bad = 0
    pool = ThreadPoolExecutor(arguments.jobs)
    try:
        for ending in pool.map(lambda plan: harmed(plan, deadline), plans):
            if ending is None:
                continue
            seen[ending.what or "after its end"] += 1
            if ending.faults:
                bad += 1
                print(f"{ending.plan}\n  {ending.what}: {'; '.join(ending.faults)}", flush=True)
                print("".join(f"    | {line}\n" for line in ending.output.splitlines()[-25:]))
    finally:
        pool.shutdown(cancel_futures=True)
    for fault, count in sorted(seen.items()):
        print(f"{count:5} {fault}")
    total = sum(seen.values())
    print(f"{total} faults, {bad} with something that must not be: {'NOT ' if bad else ''}reached")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
