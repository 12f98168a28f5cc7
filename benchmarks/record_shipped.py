"""Record the workloads of real collections that the package ships.

    python benchmarks/record_shipped.py DIRECTORY [--only recorded_shuffle]

Each runs on two processes with two threads each, on this machine: a merge of data frames by
shuffling, a rechunk of an array with a filter over the borders of its chunks, and a search for a
parameter whose next values depend on the results so far. Clients keep their results until the
recording ends, so that a replay at any speed does all of the work. It needs the package's extra
`examples`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import dask
import dask.array
import dask.dataframe
from dask.delayed import delayed
from distributed import Client, LocalCluster, as_completed, wait

from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.replay.fetching import record_workload

PROCESSES, THREADS = 2, 2
MOST_BYTES = 200_000

PARTITIONS = 28
SIDE, CHUNK = 4_800, 400
VALUES, GENERATIONS, FOLDS = 12, 8, 8


def shuffle(client: Client) -> Any:
    """Merge two time series by a column that is no index, and sum up by name."""
    end = f"2000-01-{PARTITIONS + 1:02}"
    frames = [
        dask.datasets.timeseries("2000-01-01", end, freq="2min", partition_freq="1D", seed=seed)
        for seed in (1, 2)
    ]
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        merged = frames[0].merge(frames[1], on="id", how="inner")
        return client.persist(merged.groupby("name_x").x_x.sum(split_out=4))


def rechunk(client: Client) -> Any:
    """Change the chunks of an array, smooth it over their borders, and average it."""
    with dask.config.set({"array.rechunk.method": "tasks"}):
        array = dask.array.random.default_rng(1).random((SIDE, SIDE), chunks=(CHUNK, SIDE // 4))
        smooth = array.rechunk((SIDE // 4, CHUNK)).map_overlap(
            smoothed, depth=2, boundary="reflect"
        )
        return client.persist([smooth.mean(axis=0), smooth.rechunk(CHUNK).std()])


def smoothed(block: Any) -> Any:
    """Average each value with its neighbours."""
    return (block + block.cumsum(axis=0) - block.cumsum(axis=1)) / 3


def sweep(client: Client) -> Any:
    """Search the best parameter: results decide which values are tried next."""
    held = [client.compute(trial(value / VALUES)) for value in range(VALUES)]
    best: list[tuple[float, float]] = []
    results = as_completed(held, with_results=True)
    for _, (error, value) in results:
        best = sorted([*best, (error, value)])[:3]
        if len(held) < VALUES * GENERATIONS:
            near = best[len(held) % len(best)][1] + (len(held) % 7 - 3) / (10 * VALUES)
            held.append(client.compute(trial(near)))
            results.add(held[-1])
    return held


def trial(value: float) -> Any:
    """Return the error of a parameter, averaged over several parts of the data."""
    data = [delayed(load)(fold) for fold in range(FOLDS)]
    errors = [delayed(fit)(part, value) for part in data]
    return delayed(average)(errors, value)


def load(fold: int) -> Any:
    """Make a part of the data."""
    import numpy

    return numpy.random.default_rng(fold).random(200_000)


def fit(data: Any, value: float) -> float:
    """Return the error of a parameter on a part of the data."""
    return float(((data**3 - value) ** 2).mean())


def average(errors: Sequence[float], value: float) -> tuple[float, float]:
    """Return the average of the errors, and the parameter."""
    return sum(errors) / len(errors), value


WORK: dict[str, Callable[[Client], Any]] = {
    "recorded_shuffle": shuffle,
    "recorded_rechunk": rechunk,
    "recorded_sweep": sweep,
}


def record(client: Client, name: str, path: Path) -> None:
    """Run the work twice, and record the second time: workers have then imported all they need."""
    _run(client, name)
    with record_workload(client, path):
        held = _run(client, name)
        client.run_on_scheduler(_passed)
    del held


def _run(client: Client, name: str) -> Any:
    start = time.monotonic()
    held = WORK[name](client)
    wait(held)
    print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
    return held


def _passed(dask_scheduler: Any = None) -> None:
    """Do nothing on the scheduler, which has then taken in what came before."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--only", choices=WORK, default=None)
    arguments = parser.parse_args()
    cluster = LocalCluster(n_workers=PROCESSES, threads_per_worker=THREADS, dashboard_address=":0")
    with cluster, Client(cluster) as client:
        client.wait_for_workers(PROCESSES)
        for name in [arguments.only] if arguments.only else WORK:
            path = arguments.directory / f"{name}.schedprof"
            record(client, name, path)
            workload, size = read_workload(path.read_bytes()), path.stat().st_size
            print(f"{path}: {sum(1 for _ in workload.tasks())} tasks, {size} bytes")
            if size > MOST_BYTES:
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
