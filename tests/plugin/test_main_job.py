"""Tests of marker, switch and fixture, also in coroutines and workers of pytest-xdist: a profiled
test passes or fails, and leaves artifacts.
"""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from support import BURNED, Project, shares_in

from pytest_schedprof.agent.names import SENT
from pytest_schedprof.model.limit import Verdict

TESTS = f"""
@pytest.mark.schedprof("share({BURNED}) <= 10%", backend="cputime")
def test_hot(schedprof_scheduler):
    burn(schedprof_scheduler, 0.7)

def test_plain():
    pass

@pytest.mark.schedprof("share(@transitions) <= 99%", backend="pyspy")
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(200), pure=False))

def outside(scheduler):
    def burn_outside(dask_scheduler):
        import time
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
    scheduler.client.run_on_scheduler(burn_outside)

@pytest.mark.schedprof(backend="pyspy")
def test_window(schedprof_scheduler):
    outside(schedprof_scheduler)
    with schedprof_scheduler.measure():
        burn(schedprof_scheduler, 0.3)
    outside(schedprof_scheduler)
    with schedprof_scheduler.measure(), schedprof_scheduler.measure():
        burn(schedprof_scheduler, 0.3)

@pytest.mark.schedprof("share({BURNED}) <= 10%", rounds=4, backend="cputime")
def test_rounds(schedprof_scheduler):
    burn(schedprof_scheduler, 0.3)
    print("a round")

@pytest.mark.schedprof(workers=2)
def test_two_workers(schedprof_scheduler):
    assert len(schedprof_scheduler.workers) == 2

@pytest.mark.schedprof("share(@comm) <= 1%", strict=True)
def test_too_few_samples(schedprof_scheduler):
    pass

@pytest.mark.schedprof("share(@comm) <= 1%")
def test_too_few_samples_shown_only(schedprof_scheduler):
    pass

@pytest.mark.skip
@pytest.mark.schedprof(rates=1)
def test_skipped(schedprof_scheduler):
    pass
"""

CLASS = """
pytestmark = pytest.mark.schedprof("share(@comm) <= 100%", "share(@gc) <= 100%", rate=50)

@pytest.mark.schedprof("share(@stealing) <= 100%", rate=70)
class TestIt:
    @pytest.mark.schedprof("share(@comm) <= 99%")
    def test_it(self, schedprof_scheduler):
        burn(schedprof_scheduler, 0.2)
"""


@pytest.mark.slow
def test_marked_tests_pass_or_fail_and_their_artifacts_say_what_was_seen(project: Project) -> None:
    project.write(CLASS, "test_class.py")
    project.write(TESTS)
    project.run("-k", "skipped").assert_outcomes(skipped=1, deselected=9)
    assert not (project.path / ".schedprof").exists()

    result = project.run("--junitxml=junit.xml", "-rA")
    result.assert_outcomes(passed=6, failed=3, skipped=1)
    broken = [line for line in result.outlines if line.startswith("schedprof: limit broken")]
    assert len(broken) == 2
    assert "holds" in broken[0]
    assert "busy samples" in broken[0]
    assert str(project.run_directory.relative_to(project.path)) in broken[0]
    result.stdout.fnmatch_lines(
        [
            "schedprof: limit inconclusive: share(@comm) <= 1%: * busy samples, at least 50 are*",
            "limits: *2 broken, ? inconclusive",
            "  inconclusive: share(@comm) <= 1%: * [[]test_it.py::test_too_few_samples_shown_only]",
        ]
    )
    junit = (project.path / "junit.xml").read_text()
    for part in ('failures="3"', 'errors="0"', 'name="schedprof_verdict" value="fail"'):
        assert part in junit

    results = project.results()
    assert not {"test_plain", "test_skipped"} & results.keys()
    hot = results["test_hot"]
    assert (hot.outcome, hot.verdict) == ("failed", Verdict.FAIL)

    record = results["test_tasks"]
    (backend,) = record.backends
    assert record.test_id == "test_it.py::test_tasks"
    assert backend.window.tasks == 200
    assert backend.window.segments[0].transitions > 200 * 4
    assert (record.cluster.kind, record.cluster.workers) == ("local", 4)
    assert "distributed" in record.environment.versions
    assert (backend.backend, backend.settings["rate_hz"]) == ("pyspy", 100.0)
    assert backend.artifacts == ("scheduler.pyspy.speedscope.json",)
    functions = {share.function for share in shares_in(record).functions}
    assert "asyncio.base_events:BaseEventLoop._run_once" in functions
    (entry,) = (test for test in project.run_record().tests if test.test_id == record.test_id)
    kept = project.run_directory / entry.directory / backend.artifacts[0]
    assert json.loads(kept.read_bytes())["profiles"]
    assert (project.path / ".schedprof" / ".gitignore").read_text().endswith("*\n")

    window = results["test_window"]
    names = {share.function.rpartition(":")[2] for share in shares_in(window).functions}
    assert any("burn_scheduler_cpu" in name for name in names)
    assert not any("burn_outside" in name for name in names)
    assert len(window.backends[0].window.segments) == 2
    assert window.backends[0].artifacts == (
        "scheduler.pyspy.speedscope.json",
        "scheduler.2.pyspy.speedscope.json",
    )

    rounds = results["test_rounds"]
    assert result.stdout.str().count("a round") == 4
    assert (rounds.backends[0].window.rounds, len(rounds.backends[0].window.segments)) == (4, 4)
    assert shares_in(rounds).inference == "rounds"

    (backend,) = results["TestIt::test_it"].backends
    assert {limit.limit for limit in backend.limits} == {
        "share(@gc) <= 100%",
        "share(@stealing) <= 100%",
        "share(@comm) <= 99%",
    }
    assert backend.settings["rate_hz"] == 70


@pytest.mark.slow
def test_the_command_line_profiles_unmarked_tests_that_use_the_fixture(project: Project) -> None:
    body = """
def test_burn(schedprof_scheduler):
    burn(schedprof_scheduler, 0.5)

def test_without_fixture():
    pass
"""
    result = project.run_test(body, "--schedprof=pyspy")
    result.assert_outcomes(passed=2)
    assert set(project.results()) == {"test_burn"}
    result.stdout.fnmatch_lines(["schedprof: pyspy; cluster local, artifacts in *"])
    functions = shares_in(project.result()).functions
    burned = [share for share in functions if share.function.endswith("burn_scheduler_cpu")]
    assert burned[0].function.startswith(("test_it:", f"{SENT}:"))  # it was sent by value
    assert burned[0] == max(functions, key=lambda share: share.self_share.value)
    assert burned[0].share.value == burned[0].self_share.value
    project.run().assert_outcomes(passed=2)
    assert set(project.results()) == {"test_burn"}  # of the first session alone
    nothing = "schedprof: no test was profiled: *"
    project.run("--schedprof", "-k", "without_fixture").stdout.fnmatch_lines([nothing])
    project.run("--schedprof=off", "-k", "without_fixture").stdout.no_fnmatch_line(nothing)


def test_off_profiles_nothing_and_gives_the_cluster_that_a_marker_asks_for(
    project: Project,
) -> None:
    result = project.run_test(
        f"""
@pytest.mark.schedprof("share({BURNED}) <= 1%", workers=2)
def test_marked(schedprof_scheduler):
    assert len(schedprof_scheduler.workers) == 2
    with schedprof_scheduler.measure():
        burn(schedprof_scheduler, 0.3)
""",
        "--schedprof=off",
        "--schedprof-save=main",
        "--schedprof-against=workers=3",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["schedprof: off, so nothing is saved or compared"])
    assert not (project.path / ".schedprof").exists()


CLEAN = """
PIDS = set()

def slow(x):
    time.sleep(0.3)
    return x

def hang(x):
    time.sleep(600)

@pytest.mark.parametrize("number", range(3))
def test_it(schedprof_scheduler, number):
    client = schedprof_scheduler.client
    def tasks(dask_scheduler):
        return len(dask_scheduler.tasks)
    assert client.run_on_scheduler(tasks) == 0
    client.publish_dataset(**{f"kept": client.submit(inc, number, pure=False)})
    client.map(slow, range(8), pure=False)  # neither awaited nor kept
    PIDS.add(schedprof_scheduler.pid)
    assert len(schedprof_scheduler.workers) == 4

def test_one_process(schedprof_scheduler):
    assert PIDS == {schedprof_scheduler.pid}
    assert schedprof_scheduler.pid != os.getpid()

def test_shuts_down(schedprof_scheduler):
    schedprof_scheduler.client.shutdown()

def test_occupies_a_worker(schedprof_scheduler):
    futures = schedprof_scheduler.client.map(hang, range(2), pure=False)
    while not any(schedprof_scheduler.client.processing().values()):
        time.sleep(0.01)

def test_closes_its_client(schedprof_scheduler):
    schedprof_scheduler.client.close()

@pytest.mark.schedprof
def test_finds_all_in_order(schedprof_scheduler):
    assert schedprof_scheduler.client.submit(inc, 1).result(timeout=200) == 2
    assert len(schedprof_scheduler.workers) == 4
"""


COROUTINES = f"""
@pytest.fixture
def anyio_backend():
    return "asyncio"

async def run(scheduler):
    async with scheduler.async_client() as client:
        assert await client.submit(inc, 1) == 2
        async with scheduler.measure():
            burn(scheduler, 0.3)  # a limit needs 50 samples

def judged(rounds):
    limit = "share({BURNED}) <= 10%"
    return pytest.mark.schedprof(limit, rounds=rounds, backend="cputime", rate=200)

ROUNDS = [pytest.param(marks=judged(rounds), id=str(rounds)) for rounds in (1, 3)]

@pytest.mark.asyncio
@pytest.mark.parametrize((), ROUNDS)
async def test_asyncio(schedprof_scheduler):
    await run(schedprof_scheduler)

@pytest.mark.anyio
@pytest.mark.parametrize((), ROUNDS)
async def test_anyio(schedprof_scheduler, anyio_backend):
    await run(schedprof_scheduler)
"""


@pytest.mark.slow
def test_scheduler_is_clean_for_each_test_and_coroutines_are_judged(project: Project) -> None:
    """A scheduler that a test has ruined is replaced."""
    project.write(CLEAN, "test_clean.py")
    project.run_test(COROUTINES).assert_outcomes(passed=8, failed=4)
    results = project.results()
    assert len(results) == 5
    del results["test_finds_all_in_order"]
    for name, record in results.items():
        assert len(record.backends[0].window.segments) == (3 if "3" in name else 1)
        (limit,) = record.limits
        assert limit.verdict.value == "fail"
        assert limit.findings[0].estimate.value > 0.8


IN_WORKERS = f"""
KEPT = pytest.mark.schedprof("share(distributed.stealing:*) <= 50%")
BROKEN = pytest.mark.schedprof("share({BURNED}) <= 10%")

@pytest.mark.parametrize("number", [pytest.param(n, marks=[KEPT, BROKEN][n % 2]) for n in range(2)])
def test_it(schedprof_scheduler, number):
    burn(schedprof_scheduler, 0.4)
    with open("pids", "a") as file:
        file.write(f"{{schedprof_scheduler.pid}}\\n")
"""

SAMPLED = ("--schedprof=cputime", "--schedprof-rate=200", "--schedprof-workers=1")


@pytest.mark.slow
def test_same_verdicts_in_one_run_with_a_scheduler_for_each_worker(project: Project) -> None:
    """Each worker runs each test, and keeps its own copy of it."""
    each = ("--dist=each", "--tx=2*popen")
    result = project.run_test(IN_WORKERS, *SAMPLED, *each, "--junitxml=junit.xml")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        ["test_it.py::test_it* *", "limits: 2 passed, 2 broken", "artifacts of 4 profiled tests: *"]
    )
    assert len(set((project.path / "pids").read_text().split())) == 2
    result.stdout.no_fnmatch_line("no page of the run*")
    assert len(list(project.run_directory.glob("tests/*/index.html"))) == 4
    record = project.run_record()
    assert sorted(entry.verdict.value for entry in record.tests) == ["fail", "fail", "pass", "pass"]
    assert len({entry.directory for entry in record.tests}) == 4
    suite = ElementTree.parse(project.path / "junit.xml").getroot()[0]
    assert (suite.get("failures"), suite.get("errors")) == ("2", "0")
    names = [node.get("name") for node in suite.iter("property")]
    assert names.count("schedprof_verdict") == names.count("schedprof_limit") == 4
    assert "limits: 2 passed, 2 broken; 4 profiled tests" in (
        project.run_directory / "summary.md"
    ).read_text(encoding="utf-8")


def test_scales_of_the_session_are_for_tests_that_ask(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof(backend="cputime")
def test_asks(schedprof_scheduler, schedprof_scale):
    print("ran at", schedprof_scale)

@pytest.mark.schedprof(backend="cputime")
def test_does_not(schedprof_scheduler):
    print("ran once")

def test_is_not_profiled(schedprof_scale):
    assert schedprof_scale == 10

@pytest.fixture
def graph(schedprof_scale):
    return range(schedprof_scale)

@pytest.mark.schedprof
def test_keeps_the_first_size(schedprof_scheduler, schedprof_scale, graph):
    pass
""",
        "--schedprof-scale=20,10",
        "-rP",
    )
    result.assert_outcomes(passed=3, errors=1)
    assert result.stdout.str().count("ran once") == 1
    result.stdout.fnmatch_lines(["ran at 10", "ran at 20"])
    (backend,) = project.results()["test_asks"].backends
    assert [segment.scale for segment in backend.window.segments] == [10, 20]
    result.stdout.fnmatch_lines(["*fixture 'graph' uses schedprof_scale, but is set up once *"])
