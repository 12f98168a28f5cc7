"""Tests of what sessions in virtual time measure and judge, and of why they cannot go on.

Growth by the number of workers, tasks and prefixes; what workers spill to disk; records of all
code that a scheduler ran; and what it does from time to time.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from support import Project

from pytest_schedprof.agent import counts
from pytest_schedprof.agent.choice import MOST_ALONE
from pytest_schedprof.agent.decisions import WORLD

GROWTH = """
def let_arrive(scheduler, count):
    scheduler.plan(0, "arrive", range(len(scheduler.workers), count))
    scheduler.client.wait_for_workers(count)

@pytest.mark.schedprof("growth(bytecodes) <= 0.05", scale=[10, 40, 160], workers=1)
def test_workers(schedprof_scheduler, schedprof_scale):
    let_arrive(schedprof_scheduler, schedprof_scale)
    with schedprof_scheduler.measure():
        wait(schedprof_scheduler.client.map(inc, range(400), pure=False))

@pytest.mark.schedprof(
    "growth(bytecodes, distributed.versions:error_message*) <= 1.2",
    "growth(bytecodes, distributed.scheduler:Scheduler.add_worker) <= 1.2",
    scale=[20, 40, 80], workers=1,
)
def test_arrivals(schedprof_scheduler, schedprof_scale):
    let_arrive(schedprof_scheduler, schedprof_scale)
    wait(schedprof_scheduler.client.map(inc, range(5), pure=False))

@pytest.mark.schedprof(
    "growth(bytecodes) <= 1.05", "growth(transitions) <= 1.05", scale=[50, 200], workers=4
)
def test_tasks(schedprof_scheduler, schedprof_scale):
    wait(schedprof_scheduler.client.map(inc, range(schedprof_scale), pure=False))

@pytest.mark.schedprof("growth(transitions) <= 0.05", scale=[4, 40], workers=20)
def test_prefixes(schedprof_scheduler, schedprof_scale):
    client = schedprof_scheduler.client
    names = [f"{chr(97 + n % 20)}{chr(97 + n // 20)}" for n in range(schedprof_scale)]
    numbers = range(80 // schedprof_scale)
    wait([future for name in names
          for future in client.map(inc, numbers, key=name, pure=False)])
"""


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_growth_is_exact(project: Project) -> None:
    options = ("--schedprof=counts", "--schedprof-cluster=virtual")
    project.run_test(GROWTH, *options, timeout_s=800).assert_outcomes(passed=3, failed=1)
    limits = {name: result.backends[0].limits for name, result in project.results().items()}

    # Of the same tasks, so the exponent is 0 if nothing depends on the number of workers.
    estimate = limits["test_workers"][0].findings[0].estimate
    assert 0 < estimate.value < 0.05
    assert estimate.low == estimate.high == estimate.value

    # The scheduler compares the versions of a newcomer with those of all workers.
    compared, joined = limits["test_arrivals"]
    assert (compared.verdict.value, joined.verdict.value) == ("fail", "pass")
    assert 1.5 < compared.findings[0].estimate.value < 2


SPILLING = """
def spilling(*limits, memory="500MB", **options):
    options = {"nbytes": "100MB", "memory_limit": memory, **options}
    return pytest.mark.schedprof(*limits, cluster_options=options, workers=1, rounds=1)

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
def test_what_does_not_fit_into_memory_is_spilled(project: Project) -> None:
    body = SPILLING.replace("MORE", 'memory="1GB"')
    options = ("--schedprof=decisions", "--schedprof-cluster=virtual")
    result = project.run_test(body, *options, "--schedprof-save=main")
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*broken: spilled <= 699999999B*"])
    result.stdout.no_fnmatch_line("*broken: spilled <= 700MB*")
    costs = {name: result.backends[0].costs for name, result in project.results().items()}
    spilled = {name: cost.whole["spilled"] for name, cost in costs.items() if cost}
    assert spilled["test_some"] == 700e6  # of ten results of 100 MB, 60 % of 500 MB hold three
    assert spilled["test_large"] == spilled["test_switched_off"] == 0
    assert spilled["test_used"] > 1_400e6  # what is read again is spilled again
    assert spilled["test_more"] == 400e6

    body = SPILLING.replace("MORE", '"spilled <= baseline * 1.02"')
    result = project.run_test(body, *options, "--schedprof-compare=main", "-k", "more")
    result.assert_outcomes(failed=1, deselected=4)
    result.stdout.fnmatch_lines(["*regressed*spilled*400 MB*700 MB*"])


COLLECTIONS = """
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
    x = dask.array.ones((20, 20), chunks=(4, 4))
    wait(client.persist((x + x.T).sum()))
    frame = pandas.DataFrame({"a": range(200), "b": range(200)})
    lazy = dask.dataframe.from_pandas(frame, npartitions=10)
    wait(client.persist(lazy.groupby("a").b.sum()))
"""


@pytest.mark.slow
def test_a_record_of_collections_is_small_and_has_everything(project: Project) -> None:
    run = project.run_test(
        COLLECTIONS, "--schedprof=counts", "--schedprof-cluster=virtual", "--schedprof-workers=4",
    )  # fmt: skip
    run.assert_outcomes(failed=1)
    (path,) = project.run_directory.glob("tests/*/result.json")
    assert path.stat().st_size < 300_000
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


BALANCE = "distributed.stealing:WorkStealing.balance"
IDENTITY = "distributed.scheduler:Scheduler.identity"
HEARTBEAT = "distributed.scheduler:Scheduler.heartbeat_worker"
BY_THE_CLOCK = {BALANCE, IDENTITY, HEARTBEAT}
OF_HEARTBEATS = "distributed.scheduler:heartbeat_interval"
"""What only heartbeats call."""

PERIODIC = """
def work(scheduler):
    wait(scheduler.client.map(inc, range(40), pure=False))
    scheduler.client.scheduler_info(n_workers=-1)

def counted(duration, **options):
    limits = [f"calls({name}) <= 1000000" for name in NAMES]
    return pytest.mark.schedprof(
        *limits, backend="counts", cluster_options={"duration": duration}, **options
    )

@counted("1s", cluster="virtual", workers=2)
def test_virtual(schedprof_scheduler):
    work(schedprof_scheduler)

@counted("16s", cluster="virtual", workers=8)
def test_long(schedprof_scheduler):
    work(schedprof_scheduler)

@counted("50ms", cluster="simulated", workers=2, rounds=1)
def test_simulated(schedprof_scheduler):
    work(schedprof_scheduler)
"""


@pytest.mark.slow
def test_periodic_work_is_counted_where_time_is_virtual(project: Project) -> None:
    project.run_test(PERIODIC.replace("NAMES", f"{sorted(BY_THE_CLOCK)}")).assert_outcomes(passed=3)
    calls = {}
    for name, result in project.results().items():
        (backend,) = result.backends
        assert backend.costs
        functions = backend.costs.functions
        calls[name] = {f.function: f.total["calls"] for f in functions if f.total.get("calls")}

    # 20 seconds, in which stealing looks at its workers every second, for 40 tasks.
    assert calls["test_virtual"][BALANCE] in (20, 21)
    assert calls["test_virtual"][IDENTITY] > 5  # every two seconds
    assert 2 * 20 <= calls["test_virtual"][HEARTBEAT] < MOST_ALONE
    assert OF_HEARTBEATS not in calls["test_virtual"]

    assert calls["test_long"][HEARTBEAT] == MOST_ALONE

    assert calls["test_simulated"]
    assert not BY_THE_CLOCK & calls["test_simulated"].keys()


def test_it_is_not_counted_among_thousands_of_workers() -> None:
    few, many = (
        SimpleNamespace(extensions={WORLD: object()}, workers=range(number))
        for number in (counts.MOST_WORKERS, counts.MOST_WORKERS + 1)
    )
    left_out, alone = counts.clockwork_of(many)
    assert BALANCE in left_out
    assert HEARTBEAT in alone
    assert counts.clockwork_of(few) == (counts.NOT_COUNTED, counts.HEARTBEATS)


STUCK = """
import asyncio, queue

def corrupt(dask_scheduler=None):
    for task in dask_scheduler.tasks.values():
        task.processing_on = None

@pytest.mark.schedprof(
    cluster_options={"duration": "1s", "config.distributed.scheduler.validate": "true"}
)
def test_broken(schedprof_scheduler):
    future = schedprof_scheduler.client.submit(inc, 1, key="mine")
    time.sleep(0.5)
    schedprof_scheduler.client.run_on_scheduler(corrupt)
    wait(future)

@pytest.mark.schedprof(cluster_options={"horizon": "1m", "duration": "10s"})
def test_endless(schedprof_scheduler):
    while True:
        wait(schedprof_scheduler.client.submit(inc, 1, pure=False))

def test_stuck(schedprof_scheduler):
    wait(schedprof_scheduler.client.submit(inc, 1, key="mine", workers=["nobody"]))

@pytest.mark.asyncio
async def test_stuck_coroutine(schedprof_scheduler):
    async with schedprof_scheduler.async_client() as client:
        await client.submit(inc, 1, key="mine", workers=["nobody"])

@pytest.mark.asyncio
@pytest.mark.schedprof(cluster_options={"horizon": "2m"})
async def test_endless_coroutine(schedprof_scheduler):
    async with schedprof_scheduler.async_client() as client:
        while True:
            await client.submit(inc, 1, pure=False)
            await asyncio.sleep(30)

def test_times_out(schedprof_scheduler):
    schedprof_scheduler.client.submit(inc, 1, workers=["nobody"]).result(timeout=1)

def test_hangs(schedprof_scheduler):
    with schedprof_scheduler.measure():
        queue.SimpleQueue().get()

def test_next(schedprof_scheduler):
    wait(schedprof_scheduler.client.submit(inc, 1))

def test_uses_a_result(schedprof_scheduler):
    assert schedprof_scheduler.client.submit(inc, 1, key="the-total").result() > 1
"""

MESSAGES = [
    "*the cluster's own state is broken, after * of virtual time: *",
    "*has not ended after 60 s of virtual time, its horizon*",
    "*story of 'mine', in virtual seconds:",
    "*released -> waiting*",
    "*a deadlock*'mine' is no-worker*",
    "*has not ended after 120 s of virtual time, its horizon*",
    "*the test waits for something that cannot happen any more*",
    "E *schedprof: no worker computed 'the-total', *(__gt__)*=local*",
]


@pytest.mark.slow
def test_why_a_cluster_cannot_go_on(project: Project) -> None:
    """The state broke, a test has reached its horizon, or nothing can happen any more.

    One more uses a result, which no worker has computed. The session goes on after each.
    """
    options = ("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=2")
    result = project.run_test(STUCK, *options)
    result.assert_outcomes(failed=8, passed=1)
    result.stdout.fnmatch_lines(MESSAGES)
    result.stdout.no_fnmatch_line("*What slows a test least*")
