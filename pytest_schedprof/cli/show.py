"""`schedprof show`: list the tests of a run, or print one test's result."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import add_run, say
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.formats.workload import SHIPPED, read_file
from pytest_schedprof.model.workload import Result, Workload
from pytest_schedprof.report.commands import as_json
from pytest_schedprof.report.terminal import entry_lines, test_lines
from pytest_schedprof.store.runs import find_run

PURPOSE = "list the tests of a run, or print one: verdicts, hottest functions, costs, files"
DESCRIPTION = (
    "Prints a line for each test of a run, or everything that was recorded about one test, or what "
    "is in a recorded workload."
)
EXAMPLE = """\
examples: schedprof                                   the tests of the newest run
          schedprof show test_shuffle
          schedprof show monday.schedprof             graphs, tasks and workers of a workload

exit status: 0 whatever the verdicts, 1 if a file cannot be read, 2 if TEST matches no test or more
than one"""

WORKLOAD = ".schedprof"
"""End of the name of a recorded workload."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "test", nargs="?", default="", metavar="TEST", help="test ID, or a unique part of it"
    )
    add_run(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show more functions")
    parser.add_argument("--json", action="store_true", help="print the record")


def run(arguments: argparse.Namespace) -> int:
    if arguments.test.endswith(WORKLOAD):
        if arguments.json:
            raise SettingsError("schedprof: --json prints a run or a test, and no workload")
        name = arguments.test.removesuffix(WORKLOAD)
        is_shipped = name in SHIPPED and not Path(arguments.test).exists()
        say("\n".join(lines_of(read_file(name if is_shipped else arguments.test))))
        return 0
    kept = find_run(Path(arguments.directory))
    test = kept.test(arguments.test) if arguments.test else None
    if arguments.json:
        say(as_json(test.result if test else kept.record))
    else:
        known = BackendRegistry().facts
        lines = (
            test_lines(test.result, str(test.path), int(arguments.verbose), known)
            if test
            else entry_lines(kept.record.tests)
        )
        say("\n".join(line.text for line in lines))
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
        seconds = (
            f"{median(result.seconds for result in results):10.4f}" if results else f"{'-':>10}"
        )
        size = f"{median(result.nbytes for result in results):12.0f}" if results else f"{'-':>12}"
        erred = sum(result.is_error for result in results)
        lines.append(f"{count:8}  {seconds}  {size}  {erred:5}  {prefix}")
    if len(counts) > MOST:
        lines.append(f"and {len(counts) - MOST} more prefixes")
    return lines
