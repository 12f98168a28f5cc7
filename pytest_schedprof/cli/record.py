"""`schedprof record`: record the workload of a running scheduler."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from pytest_schedprof.cli.main import say
from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.model.options import Reader, positive

PURPOSE = "record the workload of a running scheduler"
DESCRIPTION = (
    "Records what clients ask a scheduler for, and what each task took, until you press Ctrl-C. "
    "Neither code nor data is recorded, and keys are replaced by numbers. pytest-schedprof must "
    "be installed where the scheduler runs."
)
EXAMPLE = """\
example: schedprof record tcp://10.0.0.1:8786 -o monday.schedprof --seconds 3600

exit status: 0 when the recording has ended, 1 if the scheduler cannot record, 2 for a mistake
on the command line"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("address", metavar="ADDRESS", help="of the scheduler")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="file to write")
    parser.add_argument("--seconds", metavar="N", help="end after N seconds")
    parser.add_argument(
        "--anonymise",
        action="store_true",
        help="name prefixes and resources by letters, and do not tell when it was recorded",
    )


def run(arguments: argparse.Namespace) -> int:
    from pytest_schedprof.replay.fetching import connect, record_workload

    seconds = float("inf")
    if arguments.seconds is not None:
        seconds = Reader(positive(float), "a positive number").value("--seconds", arguments.seconds)
    client = connect(arguments.address)
    recording = record_workload(client, arguments.output, anonymous=arguments.anonymise)
    with client, recording as path:
        say(f"recording {arguments.address} into {path}; Ctrl-C ends it")
        _wait(client, seconds)
    _tell(path)
    return 0


POLL_S = 0.2


def _wait(client: object, seconds: float) -> None:
    """Wait until it is time, until Ctrl-C, or until the scheduler has gone."""
    until = time.monotonic() + seconds
    try:
        while time.monotonic() < until and getattr(client, "status", "") == "running":
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        pass


def _tell(path: Path) -> None:
    content = path.read_bytes()
    workload = read_workload(content, str(path))
    tasks = sum(len(graph.tasks) for graph in workload.graphs)
    per_task = f", {len(content) / tasks:.0f} bytes a task" if tasks else ""
    say(f"{path}: {len(workload.graphs)} graphs, {tasks} tasks{per_task}")
