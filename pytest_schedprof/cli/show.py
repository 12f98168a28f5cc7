"""`schedprof show`: one test's result on the terminal."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.runs import add_run

EXAMPLE = """\
example: schedprof show 'test_shuffle[1000]' .schedprof/latest

exit status: 0, whatever its verdicts; 1 if its record cannot be read, 2 if it is not clear which
test is meant"""


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "show",
        run,
        purpose="one test's result: verdicts, hottest functions, owners, costs, files",
        description="Prints all that a run knows of one test.",
        example=EXAMPLE,
    )
    parser.add_argument("test", metavar="TEST", help="its ID, or a part that no other test has")
    add_run(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="more functions")


def run(given: argparse.Namespace) -> int:
    """Print it."""
    from pytest_schedprof.reports.one_test import test_lines
    from pytest_schedprof.storage.runs import find_run

    test = find_run(Path(given.directory)).test(given.test)
    for line in test_lines(test.result, str(test.path), int(given.verbose)):
        print(line.text)
    return 0
