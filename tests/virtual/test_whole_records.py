"""Tests of what a session keeps and judges of all code that its scheduler ran."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Project

MOST_BYTES = 300_000

BODY = """
from distributed.diagnostics.plugin import SchedulerPlugin

class Watching(SchedulerPlugin):
    def transition(self, key, start, finish, *args, **more):
        if finish == "memory":
            self.seen = key

@pytest.mark.schedprof(
    "bytecodes(*:Watching.transition) <= 100",
    "bytecodes(@plugins) <= 100",
    "bytecodes(distributed.scheduler:<others*>) <= 100",
    "bytecodes(dask.utils:<others>) <= 0",
    "bytecodes(tornado.*:*) <= 10000",
)
def test_collections(schedprof_scheduler):
    import dask.array, dask.dataframe, pandas
    client = schedprof_scheduler.client
    client.register_plugin(Watching())
    x = dask.array.ones((40, 40), chunks=(4, 4))
    wait(client.persist((x + x.T).sum()))
    frame = pandas.DataFrame({"a": range(200), "b": range(200)})
    lazy = dask.dataframe.from_pandas(frame, npartitions=10)
    wait(client.persist(lazy.groupby("a").b.sum()))
"""


def records(project: Project) -> Iterator[Path]:
    return (project.path / ".schedprof").glob("2*/tests/*/result.json")


@pytest.mark.slow
def test_a_record_of_collections_is_small_and_has_everything(
    project: Project,
) -> None:
    run = project.run_test(
        BODY, "--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4",
        timeout_s=200,
    )  # fmt: skip
    run.assert_outcomes(failed=1)
    (path,) = records(project)
    assert path.stat().st_size < MOST_BYTES
    result = project.result()
    (backend,) = result.backends
    assert backend.costs is not None
    lines = {cost.function: cost for cost in backend.costs.functions}
    assert {"dask", "distributed", "tornado", "pandas"} <= {
        name.partition(":")[0].partition(".")[0] for name in lines
    }
    assert lines["dask.highlevelgraph:<others>"].owner == "graph-intake"
    (plugin,) = [line for line in lines.values() if line.owner == "plugins"]
    assert plugin.function.endswith(":Watching.transition")
    verdicts = {limit.limit.partition(" <=")[0]: limit.verdict.value for limit in result.limits}
    assert verdicts.pop("bytecodes(dask.utils:<others>)") == "fail"
    assert set(verdicts.values()) == {"pass"}
    assert len(verdicts) == 4
    page = (path.parent / "index.html").read_text()
    assert "Watching.transition" in page
