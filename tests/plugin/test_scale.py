"""Tests of tests at several scales; `tests/virtual` has limits on how their costs grow."""

from __future__ import annotations

from support import Project


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
