"""`schedprof workload`: show what is in a recorded workload."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from statistics import median

from pytest_schedprof.cli.main import say
from pytest_schedprof.formats.workload import read_file
from pytest_schedprof.model.workload import Result, Workload

PURPOSE = "show what is in a recorded workload"
DESCRIPTION = (
    "Prints how many graphs, tasks and workers a recorded workload has, and how many tasks of "
    "each prefix, with medians of their durations and sizes."
)
EXAMPLE = """\
example: schedprof workload monday.schedprof

exit status: 0, 1 if the file is no recorded workload, 2 if it cannot be read"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a file of schedprof record, or the name of a shipped workload",
    )


def run(arguments: argparse.Namespace) -> int:
    for line in lines_of(read_file(arguments.file)):
        say(line)
    return 0


MOST = 20
"""Prefixes that are listed."""


def lines_of(workload: Workload) -> list[str]:
    counts = Counter(task.group.prefix for task in workload.tasks())
    joined = [event for event in workload.workers if event.has_joined]
    head = [
        f"recorded {workload.begun or 'at some time'} with distributed {workload.distributed}, "
        f"{workload.seconds:.1f} s" + (", the end is cut off" if workload.is_cut else ""),
        f"{len(workload.graphs)} graphs, {sum(counts.values())} tasks, {len(counts)} prefixes",
        f"{len(joined)} workers joined with {sum(event.threads for event in joined)} threads, "
        f"{len(workload.workers) - len(joined)} left",
    ]
    return [*head, *_table(workload, counts)]


def _table(workload: Workload, counts: Counter[str]) -> list[str]:
    ended: dict[str, list[Result]] = defaultdict(list)
    for task in workload.tasks():
        if task.number in workload.results:
            ended[task.group.prefix].append(workload.results[task.number])
    lines = [f"{'tasks':>8}  {'median s':>10}  {'median bytes':>12}  {'erred':>5}  prefix"]
    for prefix, count in counts.most_common(MOST):
        results = ended[prefix]
        seconds = f"{median(one.seconds for one in results):10.4f}" if results else f"{'-':>10}"
        size = f"{median(one.nbytes for one in results):12.0f}" if results else f"{'-':>12}"
        erred = sum(result.is_error for result in results)
        lines.append(f"{count:8}  {seconds}  {size}  {erred:5}  {prefix}")
    if len(counts) > MOST:
        lines.append(f"and {len(counts) - MOST} more prefixes")
    return lines
