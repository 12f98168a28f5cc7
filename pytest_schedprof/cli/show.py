"""`schedprof show`: list the tests of a run, or print one test's result."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import add_run, say
from pytest_schedprof.report.commands import as_json
from pytest_schedprof.report.terminal import entry_lines, test_lines
from pytest_schedprof.store.runs import find_run

PURPOSE = "list the tests of a run, or print one: verdicts, hottest functions, costs, files"
DESCRIPTION = "Prints everything that a run recorded about one test, or a line for each test."
EXAMPLE = """\
examples: schedprof                                       the tests of the newest run
          schedprof show 'test_shuffle[1000]' .schedprof/latest

exit status: 0 whatever the verdicts, 1 if the record cannot be read, 2 if TEST matches no test or
more than one"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("test", nargs="?", metavar="TEST", help="test ID, or a unique part of it")
    add_run(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="show more functions")
    parser.add_argument("--json", action="store_true", help="print the record")


def run(arguments: argparse.Namespace) -> int:
    kept = find_run(Path(arguments.directory))
    if arguments.test is None:
        lines = entry_lines(kept.record.tests)
        say(as_json(kept.record) if arguments.json else "\n".join(line.text for line in lines))
        return 0
    test = kept.test(arguments.test)
    if arguments.json:
        say(as_json(test.result))
        return 0
    known = BackendRegistry().facts
    for line in test_lines(test.result, str(test.path), int(arguments.verbose), known):
        say(line.text)
    return 0
