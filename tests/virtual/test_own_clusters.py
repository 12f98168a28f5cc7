"""Tests that make their own clusters, in virtual time: each session counts the same."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from support import QUICK, RACE, Project, busy_machine, python

from pytest_schedprof.cli.main import main
from pytest_schedprof.model.result import IN_PROCESS, OWN_VIRTUAL
from pytest_schedprof.plugin.calm import options_of_python

VIRTUALLY = ("--schedprof=counts", "--schedprof-cluster=virtual", "-p", "no:randomly")

HEAD = """
import asyncio, threading, time, unittest
from distributed import Client, Event, LocalCluster, Nanny, Security, Worker, wait
from distributed.utils_test import gen_cluster
"""

PLAIN = """
@gen_cluster(client=True)
async def test_plain(c, s, a, b):
    assert await c.submit(int, 1) == 1
"""

# Only sessions that are commands can begin again.
pytestmark = pytest.mark.usefixtures("apart")


SAME = """
@gen_cluster(client=True, nthreads=[("", 1)] * 3)
async def test_moves(c, s, *workers):
    first = c.map(inc, range(40), workers=workers[0].address, allow_other_workers=True)
    await wait(c.map(lambda x, y: x + y, first, first[::-1], pure=False))
    await workers[0].close()
    await s.retire_workers([workers[1].address])
    assert sum(await c.gather(first)) == 820

@gen_cluster(client=True)
async def test_files(c, s, a, b, tmp_path):
    (tmp_path / "made").mkdir()

@gen_cluster(client=True)
async def test_threads(c, s, a, b):
    event = Event()
    waiting = [c.submit(lambda i: event.wait(), i) for i in range(2)]
    await asyncio.sleep(0.5)
    await event.set()
    await c.gather(waiting)

def test_in_a_thread():
    with Client(processes=False, n_workers=2, threads_per_worker=2, dashboard_address=":0") as c:
        assert c.submit(inc, 1).result() == 2
        time.sleep(10)
        assert sum(c.gather(c.map(inc, range(50)))) == 1275
        thread = threading.Thread(target=inc, args=(1,))
        thread.start()
        try:
            thread.start()
        except RuntimeError:  # as only once it can be started; nobody waits for another one
            thread.join()
"""


def counted(project: Project) -> dict[str, Any]:
    """Whatever was counted in the tests of the last session, with the functions in folds."""
    results = project.results()
    assert {result.cluster.kind for result in results.values()} == {OWN_VIRTUAL}
    costs = {name: result.backends[0].costs for name, result in results.items()}
    for part in costs.values():
        assert part
        part.whole.pop("cpu")  # which is time
    return {name: (part.functions, part.folded, part.whole) for name, part in costs.items() if part}


def test_each_session_counts_the_same(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write(HEAD + "def inc(x):\n    return x + 1\n" + SAME)
    monkeypatch.setenv("PYTHONHASHSEED", "1")
    project.run(*VIRTUALLY, "--schedprof-check", "--schedprof-save=main").assert_outcomes(passed=4)
    before = counted(project)
    assert set(before) == {"test_moves", "test_files", "test_threads", "test_in_a_thread"}
    named, folded, _ = before["test_in_a_thread"]  # which sleeps for ten seconds
    calls = {cost.function: cost.total["calls"] for cost in (*named, *folded)}
    assert calls["distributed.stealing:WorkStealing.balance"] >= 10, "the clock calls it"
    shutil.rmtree(project.run_directory)  # the baseline stays
    monkeypatch.setenv("PYTHONHASHSEED", "2")
    with busy_machine():
        again = project.run(*VIRTUALLY, "--schedprof-compare=main")
    again.assert_outcomes(passed=4)
    assert counted(project) == before
    again.stdout.fnmatch_lines(["schedprof: begins again, in a process for tests in virtual time"])
    shutil.rmtree(project.run_directory)
    project.plugins = ("xdist",)
    apart = project.run(*VIRTUALLY, "-n2", "--schedprof-compare=main")
    apart.assert_outcomes(passed=4)
    apart.stdout.fnmatch_lines(["compared with main: [0-9]* the same in 4 tests"])
    assert counted(project) == before


AFTER = """
import gc

class Number(int):
    pass

def test_leaves_much():
    kept = []
    @gen_cluster(client=True)
    async def body(c, s, a, b):
        import concurrent.futures, numpy
        kept.append([await c.scatter(Number(1)), kept])
        value = c.submit(lambda x: concurrent.futures.ALL_COMPLETED, numpy.ones(3))
        await c.compute(dask.delayed(Number)(2))
        assert await value
    body()

@gen_cluster(client=True)
async def test_comes_later(c, s, a, b):
    import concurrent.futures, numpy
    await c.scatter(Number(1))
    await c.submit(lambda x: concurrent.futures.ALL_COMPLETED, numpy.ones(3))
    assert await c.compute(dask.delayed(Number)(2)) == 2
    gc.collect()
"""


@pytest.mark.slow
def test_a_test_counts_the_same_whichever_came_before(project: Project) -> None:
    project.write("import dask\n" + HEAD + AFTER)
    project.run(*VIRTUALLY, "--schedprof-save=main").assert_outcomes(passed=2)
    after_another = counted(project)["test_comes_later"]
    shutil.rmtree(project.run_directory)
    alone = project.run(*VIRTUALLY, "-k", "later", "--schedprof-compare=main")
    alone.stdout.fnmatch_lines(["compared with main: [0-9]* the same in 1 test"])
    assert counted(project)["test_comes_later"] == after_another


SIDES = """
import os, pytest

@pytest.mark.schedprof("calls(@worker) <= 1", "calls(@client) <= 1000")
@gen_cluster(client=True)
async def test_tasks(c, s, a, b):
    await c.gather(c.map(int, range(10)))
    for _ in range(int(os.environ["STORIES"])):
        a.state.story("none")

@gen_cluster()
async def test_no_task(s, a, b):
    for _ in range(int(os.environ["STORIES"])):
        a.state.story("none")
"""


@pytest.mark.slow
def test_code_of_workers_is_counted_and_limited(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.write(HEAD + SIDES)
    monkeypatch.setenv("STORIES", "1")
    before = project.run(*VIRTUALLY, "--schedprof-save=main")
    before.assert_outcomes(passed=1, failed=1)
    before.stdout.fnmatch_lines(["schedprof: limit broken: calls(@worker) <= 1: @worker takes *"])
    before.stdout.fnmatch_lines(["limits: 1 passed, 1 broken"])
    monkeypatch.setenv("STORIES", "500")
    after = project.run(*VIRTUALLY, "--schedprof-compare=main", "-k", "no_task")
    after.assert_outcomes(failed=1)
    story = "distributed.worker_state_machine:WorkerState.story"
    after.stdout.fnmatch_lines(
        [
            f"*regressed against 'main': bytecodes of {story}: * per round *",
            "*costs are per round: the body made no tasks*",
            f"  regressed * worker * {story}",
        ]
    )
    capsys.readouterr()
    assert main(["explain", "test_it.py::test_no_task"]) == 0
    lines = capsys.readouterr().out
    assert " now per round (+" in lines
    assert f"`{story}` is called 500 instead of 1 times per round" in lines


DIFFERENT = """
times = []

@gen_cluster(client=True)
async def test_longer(c, s, a, b):
    times.append(1)
    await asyncio.sleep(sum(times))
    await c.submit(inc, 1)
"""


def test_a_check_names_the_first_event_that_differs(project: Project) -> None:
    session = project.run_test(HEAD + DIFFERENT, *VIRTUALLY, "--schedprof-check")
    session.assert_outcomes(failed=1)
    session.stdout.fnmatch_lines(
        [
            "schedprof: two runs of the test differ from event * on:",
            "  both:   at 2.* s, MainThread: *",
            "  first:  at 2.* s, MainThread: calls test_longer",
            "  second: at 2.* s, MainThread: *",
        ]
    )


FAILED_BEFORE = """
class TestCase(unittest.TestCase):
    def test_unit(self):
        with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
            self.assertEqual(client.submit(inc, 1).result(), 3)
"""

PARTS = """
@gen_cluster(client=True)
async def test_parts(c, s, a, b, subtests):
    times.append(1)
    with subtests.test("first"):
        await asyncio.sleep(sum(times))
        await c.submit(inc, 1)
"""


def test_a_check_is_of_a_test_that_passed_and_concludes_no_record(project: Project) -> None:
    """One of unittest that failed has its failure once; reports of parts come from its runs too."""
    parts = PARTS if pytest.version_tuple >= (9,) else ""
    body = f"{HEAD}\ntimes = []\n{FAILED_BEFORE}{parts}"
    session = project.run_test(body, *VIRTUALLY, "--schedprof-check")
    outcomes = session.parseoutcomes()
    assert (outcomes["failed"], outcomes.get("errors", 0)) == (1 + bool(parts), 0)
    results = project.results()
    assert {name: result.outcome for name, result in results.items()} == {
        "TestCase::test_unit": "failed",
        **({"test_parts": "failed"} if parts else {}),
    }


@pytest.mark.slow
def test_a_seed_draws_what_is_late_and_a_failure_tells_what_must_come_together(
    project: Project,
) -> None:
    project.write(HEAD + RACE)
    session = project.run(*VIRTUALLY, "--schedprof-seeds=3", "--schedprof-check")
    outcomes = session.parseoutcomes()
    assert outcomes["failed"] >= 1, "each seed has 60 chances"
    session.stdout.fnmatch_lines(
        [
            "E *schedprof: under seed *: it passes with nothing drawn, and fails if",
            "E * at * is * ms late",
            "E *A race of the test, which looks too early: it passes if it waits for a second "
            "before line 36 of test_it.py.",
        ]
    )
    results = project.results().items()
    first, *others = sorted(name for name, result in results if result.outcome == "failed")
    shared = [line for line in session.outlines if f"it fails where {first} does" in line]
    assert sum(line.startswith("E ") for line in shared) == len(others)  # a CI shows them twice
    seed = f"--schedprof-cluster-option=seed={first.partition('seed')[2].rstrip(']')}"
    again = project.run(*VIRTUALLY, "--schedprof-seeds=2", seed, f"test_it.py::{first}")
    again.assert_outcomes(failed=1)
    story = [line for line in session.outlines if " ms late" in line]
    assert {line for line in again.outlines if " ms late" in line} <= {*story}


LEAVES = """
runs = []

def test_leaves():
    runs.append(1)
    with Client(processes=False, n_workers=1, dashboard_address=":0") as client:
        client.submit(inc, 1).result()
    if len(runs) > 1:
        pytest.skip("not again")
    raise AssertionError
"""


def test_a_failure_stays_one_if_the_test_skips_while_its_cause_is_sought(project: Project) -> None:
    seed = "--schedprof-cluster-option=seed=1"
    session = project.run_test(HEAD + LEAVES, *VIRTUALLY, seed)
    session.assert_outcomes(failed=1)
    session.stdout.fnmatch_lines(["E *schedprof: under seed 1: it does not fail each time: *"])


OTHER_RACES = """
from code_at_fault import ask_in_order

@gen_cluster(client=True)
async def test_order(c, s, a, b):
    for _ in range(10):
        await ask_in_order(c)

@gen_cluster(client=True)
async def test_clock(c, s, a, b):
    for _ in range(10):
        await asyncio.wait_for(c.submit(int, pure=False), 0.02)
"""

AT_FAULT = """
import asyncio

async def ask_in_order(client):
    of_worker = asyncio.ensure_future(client.run(int, ))
    await client.scheduler.ncores()
    assert not of_worker.done()  # its way is longer
    await of_worker
"""


@pytest.mark.slow
def test_a_race_of_the_code_and_one_against_a_clock_are_told_apart(project: Project) -> None:
    project.write(AT_FAULT, "code_at_fault.py")
    project.write(HEAD + OTHER_RACES)
    session = project.run(*VIRTUALLY, "--schedprof-seeds=2")
    assert session.parseoutcomes()["failed"] >= 2
    session.stdout.fnmatch_lines(
        [
            "E *A race of the code: the order alone matters, however short the delays are.",
            "E *A race against a clock (a sleep, a time-out, a heartbeat): it passes if nothing "
            "is more than 5 ms late.",
        ]
    )


REFUSED = """
@gen_cluster(client=True, Worker=Nanny, nthreads=[("", 1)])
async def test_nanny(c, s, a):
    assert await c.submit(int, 1) == 1

def test_processes(tmp_path):
    (tmp_path / "made").mkdir()
    with LocalCluster(n_workers=1, dashboard_address=":0") as cluster, Client(cluster) as client:
        assert client.submit(int, 1).result() == 1

class TestCase(unittest.TestCase):
    def test_unit(self):
        with LocalCluster(n_workers=1, dashboard_address=":0") as cluster:
            self.assertEqual(len(cluster.workers), 1)

@gen_cluster(client=True)
async def test_own_socket(c, s, a, b):
    reader, writer = await asyncio.open_connection("127.0.0.1", s.http_server.port)
    writer.write(b"GET /health HTTP/1.0\\r\\n\\r\\n")
    assert b"200" in await reader.readline()
    writer.close()
"""


def test_what_cannot_be_virtual_runs_as_ordinary_and_is_told(project: Project) -> None:
    """Other tests of the project keep their clock."""
    clock = "import time\ndef test_clock(): assert time.time() < 1_800_000_000\n"
    (project.path / "test_clock.py").write_text(clock)
    project.write(HEAD + REFUSED + PLAIN)
    session = project.run(*VIRTUALLY, "-v")
    session.assert_outcomes(passed=6)
    assert set(project.results()) == {"test_plain"}
    session.stdout.fnmatch_lines(
        [
            "not in virtual time: 1 test ran as ordinary: it connects to dask by sockets *",
            "  test_it.py::test_own_socket",
            "not in virtual time: 3 tests ran as ordinary: it starts another process; *",
            "  test_it.py::test_nanny",
            "  test_it.py::test_processes",
            "  test_it.py::TestCase::test_unit",
        ]
    )
    session.stderr.no_fnmatch_line("*Failed to remove*")


ENCRYPTED = """
@gen_cluster(client=True, scheduler="tls://127.0.0.1", security=Security.temporary())
async def test_encrypted(c, s, a, b):
    sent = b"0" * 5_000_000  # more than there is room for
    future = await c.scatter(sent, workers=[a.address])
    assert await c.submit(len, future, workers=[b.address]) == 5_000_000
    assert await c.submit(bytes, 5_000_000) == bytes(5_000_000)
    await a.close()

@gen_cluster(client=True)
async def test_scatter(c, s, a, b):
    await c.scatter([1, 2, 3])
"""


@pytest.mark.slow
def test_encrypted_connections_and_what_dask_counts_begin_anew(project: Project) -> None:
    session = project.run_test(HEAD + ENCRYPTED, *VIRTUALLY, "--schedprof-check")
    session.assert_outcomes(passed=2)
    assert len(counted(project)) == 2


BLOCKED = """
import os

def block():
    if time.time() >= 1_800_000_000:
        os.read(os.pipe()[0], 1)

@gen_cluster(client=True)
async def test_in_its_own_thread(c, s, a, b):
    block()

@gen_cluster(client=True)
async def test_in_a_task(c, s, a, b):
    await c.submit(block)

@gen_cluster(client=True, timeout=1000)
async def test_never(c, s, a, b):
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
"""


@pytest.mark.slow
def test_what_waits_in_real_time_runs_as_ordinary_and_a_standstill_is_told_at_once(
    project: Project,
) -> None:
    session = project.run_test(HEAD + BLOCKED + PLAIN, *VIRTUALLY)
    session.assert_outcomes(passed=3, failed=1)
    assert set(project.results()) == {"test_never", "test_plain"}
    session.stdout.fnmatch_lines(["*StuckError: schedprof: all threads of the test wait*"])
    session.stdout.fnmatch_lines(["*lock.acquire()*"])
    session.stdout.fnmatch_lines(
        ["not in virtual time: 2 tests ran as ordinary: it waits in real time; *"]
    )


@pytest.mark.parametrize(
    ("words", "program", "options"),
    [
        ("-W error -Xdev -m pytest", "pytest/__main__.py", "-W error -Xdev"),
        ("/bin/pytest", "/bin/pytest", ""),
        ("/bin/coverage run -m pytest", "pytest/__main__.py", None),
        ("/bin/coverage run /bin/pytest", "/bin/pytest", None),
        ("-c pass", "-c", None),
    ],
)
def test_a_command_line_of_pytest_alone_has_options_of_python(
    words: str, program: str, options: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", *words.split(), "test_it.py"])
    monkeypatch.setattr(sys, "argv", [program, "test_it.py"])
    assert options_of_python() == (None if options is None else options.split())


ALONE_AGAIN = """
import psutil

def test_children():
    states = [child.status() for child in psutil.Process().children()]
    assert psutil.STATUS_ZOMBIE not in states
"""


def test_a_process_that_begins_again_is_as_the_first_one_would_be(project: Project) -> None:
    """No process is left, and a file that has the name of a module of Python's is not imported."""
    (project.path / "queue.py").write_text("raise ImportError")
    project.write(HEAD + PLAIN + ALONE_AGAIN)
    arguments = (*VIRTUALLY, "--import-mode=importlib")
    script = str(Path(sys.executable).with_name("pytest"))
    listed = python(script, *arguments, "--collect-only", "-q", cwd=project.path, status=0, **QUICK)
    assert listed.stdout.count("test_plain") == 1
    python(script, *arguments, cwd=project.path, status=0, **QUICK)
    assert set(counted(project)) == {"test_plain"}


def test_a_marker_alone_starts_no_worker_of_xdist_for_virtual_time(project: Project) -> None:
    project.plugins = ("xdist",)
    marker = '@pytest.mark.schedprof(cluster="virtual", backend="counts")'
    session = project.run_test(HEAD + marker + PLAIN, "-n1")
    session.assert_outcomes(passed=1)
    session.stdout.fnmatch_lines(["not in virtual time: *: workers of pytest-xdist are started*"])


def test_a_session_that_cannot_begin_again_says_so(project: Project) -> None:
    project.is_apart = False
    # Coverage leaves counts no hook in here.
    options = ("--schedprof=cputime", "--schedprof-check", *VIRTUALLY[1:])
    session = project.run_test(HEAD + "@pytest.mark.schedprof" + PLAIN, *options)
    session.assert_outcomes(passed=1)
    session.stdout.fnmatch_lines(
        [
            "not in virtual time: tests that make their own clusters: only *",
            "--schedprof-check: nothing was checked, *",
        ]
    )
    assert project.result().cluster.kind == IN_PROCESS
    unmarked = project.run_test(HEAD + PLAIN, *options)
    unmarked.assert_outcomes(passed=1)
    unmarked.stdout.fnmatch_lines(
        ["schedprof: no test was profiled: not in virtual time: *: only a command line of pytest *"]
    )
