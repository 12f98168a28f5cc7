"""Tests of tests at several scales, and of limits on how their costs grow."""

from __future__ import annotations

import pytest
from support import Project

BODY = """
@pytest.mark.schedprof("growth(bytecodes) <= 1.05", "growth(calls, @transitions) <= 1.05",
                       backend="counts", scale=[50, 100, 200], cluster="virtual", workers=8)
def test_grows(schedprof_scheduler, schedprof_scale):
    print("ran at", schedprof_scale)
    wait(schedprof_scheduler.client.map(inc, range(schedprof_scale), pure=False))
"""

PLANTED = """
SOURCE = '''
def handle_task_finished(self, key, worker, stimulus_id, **kwargs):
    for task in self.tasks.values():  # what nobody sees in a small test
        task.key
    return self.handle_as_ever(key=key, worker=worker, stimulus_id=stimulus_id, **kwargs)
'''

def plant(dask_scheduler, source):
    import distributed.scheduler as module
    Scheduler = module.Scheduler
    Scheduler.handle_as_ever = Scheduler.handle_task_finished
    names = dict()
    exec(compile(source, module.__file__, "exec"), module.__dict__, names)
    planted = names["handle_task_finished"]
    planted.__qualname__ = "Scheduler.handle_task_finished"
    Scheduler.handle_task_finished = planted
    dask_scheduler.stream_handlers["task-finished"] = dask_scheduler.handle_task_finished

@pytest.fixture(autouse=True)
def planted(schedprof_scheduler):
    schedprof_scheduler.client.run_on_scheduler(plant, source=SOURCE)
"""


@pytest.mark.slow
def test_todays_scheduler_grows_as_its_work_and_a_linear_scan_for_each_task_is_caught(
    project: Project,
) -> None:
    project.write(BODY, "test_as_it_is.py")
    project.write(PLANTED + BODY.replace("test_grows", "test_planted"), "test_with_a_scan.py")
    result = project.run("-rP")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["ran at 50", "ran at 100", "ran at 200"])
    result.stdout.fnmatch_lines(
        ["*limit broken: growth(bytecodes) <= 1.05: *grows as scale [*][*] 1.*"]
    )
    (backend,) = project.results()["test_grows"].backends
    assert [(segment.scale, segment.tasks) for segment in backend.window.segments] == [
        (scale, scale) for scale in (50, 100, 200)
    ]
    assert [limit.findings[0].estimate.value for limit in backend.limits] == pytest.approx(
        [1, 1], abs=0.05
    )


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
    result.stdout.fnmatch_lines(["*fixture 'graph' uses schedprof_scale, but is set up once *"])
