"""Tests of A/B sessions whose sides have the same code and other settings."""

from __future__ import annotations

import importlib.util

import pytest
from support import Project

from pytest_schedprof.cli.main import main
from pytest_schedprof.model.comparison import Outcome, Setting

AT_LEISURE = "--schedprof-budget=500"
"""Time for all rounds that decide, on a busy machine too."""

VIRTUAL = (
    *("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=4", AT_LEISURE),
)

LOCAL = ("--schedprof=counts", "--schedprof-workers=2")

WHOLE = ("transitions", "")

STEALING = "distributed.scheduler.work-stealing-interval"
TARGET = "distributed.worker.memory.target"
CONNECT = "distributed.comm.timeouts.connect"
"""Read by the scheduler, by hollow workers, and by the client."""

SATURATION = "distributed.scheduler.worker-saturation"

LOADED = """
@pytest.mark.schedprof(cluster_options={"duration": "1s", "nbytes": "1MB"})
def test_loaded(schedprof_scheduler):
    client = schedprof_scheduler.client
    loaded = client.map(inc, range(40), pure=False)
    wait(client.map(inc, loaded, pure=False))
"""

REDUCED = """
import dask.array as da

@pytest.mark.schedprof(cluster_options={"duration": "1s", "nbytes": "1MB"})
def test_reduced(schedprof_scheduler):
    da.ones((80, 80), chunks=10).sum(split_every=2).compute()
"""

TASKS = """
@pytest.mark.schedprof
def test_tasks(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""


@pytest.mark.slow
def test_decisions_with_another_setting_are_compared_and_the_setting_told(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    project.is_apart = True
    options = (*VIRTUAL, f"--schedprof-against=config:{SATURATION}=inf")
    result = project.run_test(REDUCED, *options)
    result.stdout.fnmatch_lines(
        [
            f"schedprof: against config:{SATURATION}=inf and the same code",
            f"compared with config:{SATURATION}=inf: *in 1 test",
            f"  settings that differ: {SATURATION} (inf before, 1.1 now)",
        ]
    )
    record = project.result()
    (comparison,) = record.comparisons
    assert comparison.reasons == ()
    assert comparison.settings == (Setting(SATURATION, "inf", "1.1"),)
    changes = {change.metric: change for change in comparison.changes}
    held = changes["held_by_all"]  # with inf all chunks are made before any is added up
    assert held.outcome is Outcome.IMPROVED
    assert held.before > 1.2 * held.after > 0
    (place,) = (project.run_directory / "tests").iterdir()
    assert f"settings that differ: {SATURATION}" in (place / "index.html").read_text()
    assert main(["compare", str(place / "against"), str(place)]) == result.ret


FUSED = """
import dask.array as da

@pytest.mark.schedprof
def test_fused(schedprof_scheduler):
    x = da.ones(10, chunks=1)
    for _ in range(3):
        x = x[::-1] + 1
    wait(schedprof_scheduler.client.persist(x))
"""


@pytest.mark.slow
def test_with_and_without_fusion_costs_are_of_a_round(project: Project) -> None:
    against = "--schedprof-against=config:optimization.fuse.active=false"
    result = project.run_test(FUSED, "--schedprof=counts", *VIRTUAL[1:], against)
    result.assert_outcomes(failed=1)  # the scheduler's whole improved, but fusing is new work
    note = "  costs are per round: the body made 70 tasks before, and 20 now; *"
    fusing = "*: bytecodes of dask.array.optimization:_optimize_slices: 0 before, *"
    result.stdout.fnmatch_lines([f"schedprof: regressed against {fusing}", note])
    (comparison,) = project.result().comparisons
    assert list(comparison.tasks or ()) == [70, 20]
    (whole,) = [change for change in comparison.changes if (change.metric, change.subject) == WHOLE]
    assert whole.outcome is Outcome.IMPROVED
    assert whole.before > 2 * whole.after
    (place,) = (project.run_directory / "tests").iterdir()
    assert note.strip(" *") in (place / "index.html").read_text()


@pytest.mark.slow
def test_another_number_of_workers_regresses_as_code_does(project: Project) -> None:
    result = project.run_test(LOADED, *VIRTUAL, "--schedprof-against=workers=8,threads=2")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "schedprof: regressed against 'workers=8,threads=2': *",
            "  settings that differ: workers (8 before, 4 now), threads (2 before, 1 now)",
        ]
    )
    (comparison,) = project.result().comparisons
    makespan = next(change for change in comparison.changes if change.metric == "makespan")
    assert makespan.after == pytest.approx(4 * makespan.before, rel=0.2)


@pytest.mark.slow
def test_a_local_cluster_with_other_settings_is_compared_too(project: Project) -> None:
    """The test's own process has the options of the side that it is asked by."""
    body = f"""
import dask
{TASKS}
    method = dask.config.get("array.rechunk.method")
    assert method == {{3: "p2p", 2: None}}[len(schedprof_scheduler.workers)]
"""
    options = ("--schedprof-against=config:array.rechunk.method=p2p,workers=3",)
    project.run_test(body, *LOCAL, "--schedprof-budget=150", *options)
    assert not project.result().troubles
    (comparison,) = project.result().comparisons
    assert comparison.settings == (
        Setting("array.rechunk.method", "p2p", "default"),
        Setting("workers", "3", "2"),
    )
    assert comparison.same > 100


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("uvloop") is None, reason="needs uvloop")
def test_another_event_loop_runs_the_other_scheduler(project: Project) -> None:
    against = "--schedprof-against=config:distributed.admin.event-loop=uvloop"
    project.run_test(TASKS, *LOCAL, against, "--schedprof-budget=3")
    (comparison,) = project.result().comparisons
    assert comparison.settings == (Setting("distributed.admin.event-loop", "uvloop", "asyncio"),)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "spec", "words"),
    [
        (LOCAL, "duration=5ms", "cluster 'local' has no option 'duration'"),
        (
            VIRTUAL,
            "config:distributed.admin.event-loop=uvloop",
            "distributed.admin.event-loop has no effect on cluster 'virtual'",
        ),
        (LOCAL, f"config:{STEALING}=banana", f"dask refuses config.{STEALING}=banana"),
        (VIRTUAL, f"config:{TARGET}=banana", f"dask refuses config.{TARGET}=banana"),
        (VIRTUAL, f"config:{CONNECT}=banana", f"dask refuses config.{CONNECT}=banana: KeyError"),
    ],
)
def test_a_setting_that_the_kind_of_cluster_lacks_is_told_by_the_test(
    project: Project,
    options: tuple[str, ...],
    spec: str,
    words: str,
) -> None:
    result = project.run_test(TASKS, *options, f"--schedprof-against={spec}")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([f"schedprof: {words}*"])
