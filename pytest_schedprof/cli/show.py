"""`schedprof show`: print one test's result."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import add_run, say
from pytest_schedprof.report.terminal import test_lines
from pytest_schedprof.store.runs import find_run

PURPOSE = "print one test's result: verdicts, hottest functions, owners, costs, files"
DESCRIPTION = "Prints everything that a run recorded about one test."
EXAMPLE = """\
example: schedprof show 'test_shuffle[1000]' .schedprof/latest

exit status: 0 whatever the verdicts, 1 if the record cannot be read, 2 if TEST matches no test or
more than one"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("test", metavar="TEST", help="test ID, or a unique part of it")
    add_run(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show more functions")


def run(arguments: argparse.Namespace) -> int:
    test = find_run(Path(arguments.directory)).test(arguments.test)
    known = BackendRegistry().facts
    for line in test_lines(test.result, str(test.path), int(arguments.verbose), known):
        say(line.text)
    return 0
