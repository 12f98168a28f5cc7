"""Tests of the metric `spilled`: what workers write to disk, because their memory is limited."""

from __future__ import annotations

import pytest
from support import Project

OPTIONS = (
    "--schedprof=decisions",
    "--schedprof-cluster=virtual",
    "--schedprof-workers=1",
    "--schedprof-rounds=1",
)

BODY = """
def spilling(*limits, memory="500MB", **options):
    options = {"nbytes": "100MB", "memory_limit": memory, **options}
    return pytest.mark.schedprof(*limits, cluster_options=options)

def keep(scheduler):
    kept = scheduler.client.map(inc, range(10), pure=False)
    wait(kept)
    return kept

@spilling("spilled <= 700MB", "spilled <= 699999999B")
def test_some(schedprof_scheduler):
    kept = keep(schedprof_scheduler)

@spilling("spilled <= 0B", memory="4GB")
def test_large(schedprof_scheduler):
    kept = keep(schedprof_scheduler)

@spilling("spilled <= 0B", **{"config.distributed.worker.memory.target": "0"})
def test_switched_off(schedprof_scheduler):
    kept = keep(schedprof_scheduler)

@spilling(duration="10ms; sum: 10ms")
def test_used(schedprof_scheduler):
    kept = keep(schedprof_scheduler)
    wait([schedprof_scheduler.client.submit(sum, [future], pure=False) for future in kept])

@spilling(MORE)
def test_more(schedprof_scheduler):
    kept = keep(schedprof_scheduler)
"""


@pytest.mark.slow
def test_what_does_not_fit_into_memory_is_spilled(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHASHSEED", "0")  # so one round is enough
    body = BODY.replace("MORE", 'memory="1GB"')
    result = project.run_test(body, *OPTIONS, "--schedprof-save=main")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*broken: spilled <= 699999999B*"])
    result.stdout.no_fnmatch_line("*broken: spilled <= 700MB*")
    costs = {name: result.backends[0].costs for name, result in project.results().items()}
    spilled = {name: cost.whole["spilled"] for name, cost in costs.items() if cost}
    assert spilled["test_some"] == 700e6  # of ten results of 100 MB, 60 % of 500 MB hold three
    assert spilled["test_large"] == spilled["test_switched_off"] == 0
    assert spilled["test_used"] > 1_400e6  # what is read again is spilled again
    assert spilled["test_more"] == 400e6

    body = BODY.replace("MORE", '"spilled <= baseline * 1.02"')
    result = project.run_test(body, *OPTIONS, "--schedprof-compare=main", "-k", "more")
    result.assert_outcomes(failed=1, deselected=4)
    result.stdout.fnmatch_lines(["*regressed*spilled*400 MB*700 MB*"])
