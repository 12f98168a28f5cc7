"""Tests of marker, switch and fixture: a profiled test passes or fails, and leaves artifacts."""

from __future__ import annotations

import json

import pytest
from support import BURNED, Project, shares_in

from pytest_schedprof.agent.names import SENT
from pytest_schedprof.model.limit import Verdict


@pytest.mark.slow
def test_broken_limit_fails_the_test_once_with_one_line_of_facts(project: Project) -> None:
    result = project.run_test(
        f"""
        @pytest.mark.schedprof("share({BURNED}) <= 10%")
        def test_hot(schedprof_scheduler):
            burn(schedprof_scheduler, 1.0)

        def test_other():
            pass
        """.replace("\n        ", "\n"),
        "--junitxml=junit.xml",
    )
    result.assert_outcomes(failed=1, passed=1)
    lines = [line for line in result.outlines if line.startswith("schedprof: limit broken")]
    assert len(lines) == 1
    assert "holds" in lines[0]
    assert "busy samples" in lines[0]
    assert str(project.run_directory.relative_to(project.path)) in lines[0]
    junit = (project.path / "junit.xml").read_text()
    assert 'failures="1"' in junit
    assert 'errors="0"' in junit
    assert 'name="schedprof_verdict" value="fail"' in junit
    assert project.result().outcome == "failed"
    assert project.result().verdict is Verdict.FAIL


@pytest.mark.slow
def test_kept_limit_passes_and_the_artifacts_say_what_was_seen(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof("share(@transitions) <= 99%", backend="pyspy")
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(500), pure=False))
"""
    )
    result.assert_outcomes(passed=1)
    record = project.result()
    (backend,) = record.backends
    assert record.test_id == "test_it.py::test_tasks"
    assert record.backends[0].window.tasks == 500
    assert record.backends[0].window.segments[0].transitions > 500 * 4
    assert record.cluster is not None
    assert (record.cluster.kind, record.cluster.workers) == ("local", 4)
    assert record.environment is not None
    assert "distributed" in record.environment.versions
    assert (backend.backend, backend.settings["rate_hz"]) == ("pyspy", 100.0)
    assert backend.artifacts == ("scheduler.pyspy.speedscope.json",)
    functions = {each.function for each in shares_in(record).functions}
    assert "asyncio.base_events:BaseEventLoop._run_once" in functions
    (entry,) = project.run_record().tests
    kept = project.run_directory / entry.directory / backend.artifacts[0]
    assert json.loads(kept.read_bytes())["profiles"]
    assert (project.path / ".schedprof" / ".gitignore").read_text().endswith("*\n")


@pytest.mark.slow
def test_function_that_burns_the_cpu_holds_the_shares(project: Project) -> None:
    project.run_test(
        """
def test_burn(schedprof_scheduler):
    burn(schedprof_scheduler, 1.0)
""",
        "--schedprof=pyspy",
    )
    functions = shares_in(project.result()).functions
    burned = [each for each in functions if each.function.endswith("burn_scheduler_cpu")]
    assert burned[0].function.startswith(("test_it:", f"{SENT}:"))  # it was sent by value
    assert burned[0].share.value > 0.9
    assert burned[0].share.value == burned[0].self_share.value


@pytest.mark.slow
def test_unmarked_and_marked_tests_under_each_switch(project: Project) -> None:
    project.write(
        """
@pytest.mark.schedprof("share(@comm) <= 100%")
def test_marked(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)

def test_unmarked(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)

def test_without_fixture():
    pass
"""
    )
    project.run().assert_outcomes(passed=3)
    assert set(project.results()) == {"test_marked"}


def test_command_line_profiles_unmarked_tests_that_use_the_fixture(project: Project) -> None:
    result = project.run_test(
        """
def test_unmarked(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)

def test_without_fixture():
    pass
""",
        "--schedprof=pyspy",
    )
    result.assert_outcomes(passed=2)
    assert set(project.results()) == {"test_unmarked"}
    result.stdout.fnmatch_lines(["schedprof: pyspy at 100 Hz, cluster local, artifacts in *"])


def test_off_profiles_nothing_and_needs_no_limit_to_hold(project: Project) -> None:
    result = project.run_test(
        f"""
@pytest.mark.schedprof("share({BURNED}) <= 1%")
def test_marked(schedprof_scheduler):
    with schedprof_scheduler.measure():
        burn(schedprof_scheduler, 0.3)
""",
        "--schedprof=off",
    )
    result.assert_outcomes(passed=1)
    assert not (project.path / ".schedprof").exists()


def test_markers_of_function_class_and_module_add_up(project: Project) -> None:
    project.run_test(
        """
pytestmark = pytest.mark.schedprof("share(@comm) <= 100%", "share(@gc) <= 100%", rate=50)

@pytest.mark.schedprof("share(@stealing) <= 100%", rate=70)
class TestIt:
    @pytest.mark.schedprof("share(@comm) <= 99%")
    def test_it(self, schedprof_scheduler):
        burn(schedprof_scheduler, 0.2)
""",
        "--schedprof-limit=share(@dashboard) <= 100%",
    )
    (backend,) = project.result().backends
    assert {limit.limit for limit in backend.limits} == {
        "share(@dashboard) <= 100%",
        "share(@gc) <= 100%",
        "share(@stealing) <= 100%",
        "share(@comm) <= 99%",
    }
    assert backend.settings["rate_hz"] == 70


@pytest.mark.slow
def test_measure_narrows_the_window(project: Project) -> None:
    project.run_test(
        """
def outside(scheduler):
    def burn_outside(dask_scheduler):
        import time
        end = time.process_time() + 0.5
        while time.process_time() < end:
            pass
    scheduler.client.run_on_scheduler(burn_outside)

@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    outside(schedprof_scheduler)
    with schedprof_scheduler.measure():
        burn(schedprof_scheduler, 0.3)
    outside(schedprof_scheduler)
    with schedprof_scheduler.measure(), schedprof_scheduler.measure():
        burn(schedprof_scheduler, 0.3)
"""
    )
    record = project.result()
    (backend,) = record.backends
    names = {each.function.rpartition(":")[2] for each in shares_in(record).functions}
    assert any("burn_scheduler_cpu" in name for name in names)
    assert not any("burn_outside" in name for name in names)
    assert len(record.backends[0].window.segments) == 2
    assert backend.artifacts == (
        "scheduler.pyspy.speedscope.json",
        "scheduler.2.pyspy.speedscope.json",
    )


@pytest.mark.slow
def test_rounds_repeat_the_body_and_become_the_unit_of_inference(project: Project) -> None:
    result = project.run_test(
        f"""
@pytest.mark.schedprof("share({BURNED}) <= 10%", rounds=4)
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.4)
    print("a round")
""",
        "-rA",
    )
    result.assert_outcomes(failed=1)
    record = project.result()
    assert result.stdout.str().count("a round") == 4
    assert (record.backends[0].window.rounds, len(record.backends[0].window.segments)) == (4, 4)
    assert shares_in(record).inference == "rounds"


@pytest.mark.slow
def test_every_test_gets_a_clean_scheduler_in_the_same_process(project: Project) -> None:
    result = project.run_test(
        """
import threading
PIDS = set()

def slow(x):
    time.sleep(0.3)
    return x

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
"""
    )
    result.assert_outcomes(passed=4)


@pytest.mark.slow
def test_cluster_that_a_test_ruined_is_replaced(project: Project) -> None:
    result = project.run_test(
        """
def hang(x):
    time.sleep(60)

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
    assert schedprof_scheduler.client.submit(inc, 1).result(timeout=10) == 2
    assert len(schedprof_scheduler.workers) == 4
"""
    )
    result.assert_outcomes(passed=4)


def test_workers_and_strict_from_the_marker(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof(workers=2)
def test_two(schedprof_scheduler):
    assert len(schedprof_scheduler.workers) == 2

@pytest.mark.schedprof("share(@comm) <= 1%", strict=True)
def test_too_few_samples(schedprof_scheduler):
    pass

@pytest.mark.schedprof("share(@comm) <= 1%")
def test_too_few_samples_shown_only(schedprof_scheduler):
    pass
"""
    )
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        [
            "schedprof: limit inconclusive: share(@comm) <= 1%: * busy samples, at least 50 are*",
            "limits: 2 inconclusive",
        ]
    )


def test_off_still_gives_the_cluster_that_a_marker_asks_for(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof(workers=2)
def test_two(schedprof_scheduler):
    assert len(schedprof_scheduler.workers) == 2
""",
        "--schedprof=off",
    )
    result.assert_outcomes(passed=1)


def test_skipped_test_is_not_profiled(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.skip
@pytest.mark.schedprof(rates=1)
def test_it(schedprof_scheduler):
    pass
"""
    )
    result.assert_outcomes(skipped=1)
    assert not (project.path / ".schedprof").exists()


@pytest.mark.slow
def test_from_the_third_session_on_the_table_shows_how_figures_went(project: Project) -> None:
    project.write(
        """
@pytest.mark.schedprof(backend="counts", cluster="simulated", workers=2)
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""
    )
    for number in range(1, 4):
        told = [line for line in project.run().outlines if line.endswith(f" in {number} runs")]
        assert len(told) == (number == 3)
    assert told[0].startswith("    bytecodes ")


@pytest.mark.slow
def test_a_page_of_the_job_that_cannot_be_written_is_one_line_and_no_failure(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(project.path))
    result = project.run_test(
        """
@pytest.mark.schedprof(backend="counts", cluster="simulated", workers=2)
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""
    )
    assert result.ret == 0
    (line,) = [line for line in result.outlines if "GITHUB_STEP_SUMMARY" in line]
    assert line.startswith(f"schedprof: cannot append the summary to {str(project.path)!r}")
    assert (project.run_directory / "summary.md").exists()
