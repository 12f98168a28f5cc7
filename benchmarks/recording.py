"""Measure what recording a workload costs the scheduler, and how large the file is.

    python benchmarks/recording.py [--pairs 12] [--tasks 4000]
    python benchmarks/recording.py --instructions [--pairs 2] [--tasks 1000]

Rounds with and without the recorder take turns on the scheduler of a simulated cluster. The figure
is the ratio of the CPU times of the scheduler's process, whose thread that packs and writes blocks
is included. Independent tasks are the cheapest for a scheduler, and so the dearest to record.

With --instructions valgrind counts them, which other load on the machine does not change. Rounds
take turns on a virtual cluster, where a task takes the same number each time. Blocks are packed and
written in the event loop's thread then, since callgrind counts threads apart. In the process of a
virtual cluster there are hollow workers too, but no messages are packed or sent. The scheduler of a
simulated cluster takes half as many instructions more under valgrind: slow as it is, it has less to
do at once. So that would be no fair comparison.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
from contextlib import closing, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from distributed import Client, wait
from figures import closing_line, interleaved, interval

from pytest_schedprof.backends.instructions import LAUNCHER
from pytest_schedprof.clusters.own import SimulatedCluster
from pytest_schedprof.clusters.virtual import VirtualCluster
from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.replay.fetching import record_workload

ASKED, ASKED_BYTES = 1.03, 40.0
WORKERS = 16


def inc(x: int) -> int:
    return x + 1


def quiet(dask_scheduler: Any = None) -> None:
    """Let garbage be collected between rounds only; runs in the scheduler."""
    gc.disable()
    gc.collect()


def cpu(dask_scheduler: Any = None) -> float:
    """Return the CPU time of the scheduler's process; runs there."""
    import time

    return time.process_time()


def run(client: Client, tasks: int, path: Path | None) -> float:
    """Run a round, and return its CPU time for each task."""
    client.run_on_scheduler(quiet)
    with nullcontext() if path is None else record_workload(client, path):
        before = client.run_on_scheduler(cpu)
        wait(client.map(inc, range(tasks), pure=False))
        after = client.run_on_scheduler(cpu)
    return float(after - before) / tasks


def begin_count(path: str, dask_scheduler: Any = None) -> None:
    """Count instructions, and record into a file if one is named; runs in the scheduler."""
    from pytest_schedprof.agent.instructions import START_INSTRUMENTATION, leave_out, request
    from pytest_schedprof.formats.workload import as_block
    from pytest_schedprof.replay.recorder import WorkloadRecorder
    from pytest_schedprof.replay.writing import FileWriter

    class AtOnce(FileWriter):
        """Packs and writes in the thread that is counted."""

        def write(self, block: dict[str, Any]) -> None:
            self.keep(as_block(block))

    dask_scheduler.recorder = None
    dask_scheduler.not_counted = leave_out()
    request(START_INSTRUMENTATION)
    if path:
        dask_scheduler.recorder = WorkloadRecorder(dask_scheduler, AtOnce(Path(path)))
        dask_scheduler.recorder.begin()


def end_count(dask_scheduler: Any = None) -> int:
    """End both, and return how many instructions there were in the event loop's thread."""
    from pytest_schedprof.agent.instructions import STOP_INSTRUMENTATION, dumped, request

    if dask_scheduler.recorder is not None:
        dask_scheduler.recorder.end()
    request(STOP_INSTRUMENTATION)
    for undo in dask_scheduler.not_counted:
        undo()
    lines = dumped().decode(errors="replace").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("totals:"))


def counted(client: Client, tasks: int, path: str) -> float:
    """Run a round, and return its instructions for each task."""
    client.run_on_scheduler(quiet)
    client.run_on_scheduler(begin_count, path)
    futures = client.map(inc, range(tasks), pure=False)
    wait(futures)
    del futures  # releases are recorded too
    return float(client.run_on_scheduler(end_count)) / tasks


def instructions(pairs: int, tasks: int) -> None:
    """Print what recording adds to the instructions of a task, after a pair that does not count."""
    arms = ["alone", "recorded"]
    costs: dict[str, list[float]] = {arm: [] for arm in arms}
    cluster = VirtualCluster(WORKERS, timeout_s=300, launcher=LAUNCHER)
    with (
        closing(cluster),
        tempfile.TemporaryDirectory() as directory,
        Client(cluster.address, timeout=300) as client,
    ):
        for number, arm in enumerate([*arms, *interleaved(arms, pairs)]):
            path = f"{directory}/{number}.schedprof" if arm == "recorded" else ""
            value = counted(client, tasks, path)
            if number >= len(arms):
                print(f"{arm}: {value:,.0f} instructions a task", flush=True)
                costs[arm].append(value)
    alone, recorded = median(costs["alone"]), median(costs["recorded"])
    print(f"recording adds {recorded - alone:,.0f} instructions a task")
    print(closing_line("instructions, ratio", recorded / alone, ASKED))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int)
    parser.add_argument("--tasks", type=int)
    parser.add_argument("--instructions", action="store_true")
    arguments = parser.parse_args()
    if arguments.instructions:
        instructions(arguments.pairs or 2, arguments.tasks or 1000)
    else:
        cpu_times(arguments.pairs or 12, arguments.tasks or 4000)
    return 0


def cpu_times(pairs: int, tasks: int) -> None:
    """Print the ratio of CPU times, and the bytes of a task."""
    costs: dict[str, list[float]] = {"alone": [], "recorded": []}
    sizes = []
    cluster = SimulatedCluster(WORKERS, timeout_s=60)
    try:
        with tempfile.TemporaryDirectory() as directory, Client(cluster.address) as client:
            run(client, tasks, None)
            for number, arm in enumerate(interleaved(list(costs), pairs)):
                path = Path(directory) / f"{number}.schedprof" if arm == "recorded" else None
                costs[arm].append(run(client, tasks, path))
                if path is not None:
                    tasks = sum(1 for _ in read_workload(path.read_bytes()).tasks())
                    sizes.append(path.stat().st_size / tasks)
    finally:
        cluster.close()
    ratios = [b / a for a, b in zip(costs["alone"], costs["recorded"], strict=True)]
    low, high = interval(ratios)
    print(f"us of CPU a task: {1e6 * median(costs['alone']):.0f} alone, "
          f"{1e6 * median(costs['recorded']):.0f} recorded")  # fmt: skip
    print(f"ratio of each pair, median: {median(ratios):.3f} ({low:.3f} to {high:.3f})")
    print(
        closing_line("ratio of medians", median(costs["recorded"]) / median(costs["alone"]), ASKED)
    )
    print(closing_line("bytes a task", median(sizes), ASKED_BYTES))


if __name__ == "__main__":
    sys.exit(main())
