"""`schedprof workload`: show what is in a recorded workload."""

from __future__ import annotations

import argparse

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.output import say

EXAMPLE = """\
example: schedprof workload monday.schedprof

exit status: 0, 1 if the file is no recorded workload, 2 if it cannot be read"""


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "workload",
        run,
        purpose="show what is in a recorded workload",
        description="Prints how many graphs, tasks and workers a recorded workload has, and how "
        "many tasks of each prefix, with medians of their durations and sizes.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "file",
        metavar="FILE",
        help="a file of schedprof record, a pattern of the files of one recording, or the name of "
        "a shipped workload",
    )


def run(given: argparse.Namespace) -> int:
    """Print the summary."""
    from pytest_schedprof.formats.workload_files import read_files
    from pytest_schedprof.reports.workload_output import lines_of

    for line in lines_of(read_files(given.file)):
        say(line)
    return 0
