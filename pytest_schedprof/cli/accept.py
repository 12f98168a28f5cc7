"""`schedprof accept`: let a rise pass that a pull request makes on purpose."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.cli.main import add_run, say
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.judge.acceptance import FILE, accept, accepted_in, unused, written
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.store.run_directory import AGAINST, write
from pytest_schedprof.store.runs import find_run

PURPOSE = "let the rises of a test pass, with a reason"
DESCRIPTION = (
    f"Writes what rose in a test, or in all tests of a run, into {FILE} in the working directory, "
    "to be reviewed and committed. A comparison passes these figures up to what they are now."
)
EXAMPLE = """\
examples: schedprof accept test_shuffle --reason "keys are checked on arrival"
          schedprof accept --reason "keys are checked on arrival"     all tests that regressed
          schedprof accept --prune

exit status: 0 on success, 1 if nothing new regressed or a record cannot be read, 2 for a mistake"""

MOST_NAMED = 3
"""Tests that are named when their figures are accepted."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("test", nargs="?", metavar="TEST", help="test ID, or a unique part of it")
    parser.add_argument("--reason", metavar="TEXT", help="why the test may cost more")
    parser.add_argument(
        "--prune", action="store_true", help="remove what the tests of the run no longer needed"
    )
    add_run(parser)


def run(arguments: argparse.Namespace) -> int:
    if bool(arguments.reason and arguments.reason.strip()) is arguments.prune:
        raise SettingsError("schedprof: give either --reason with a text, or --prune")
    kept = find_run(Path(arguments.directory))
    tests = [kept.test(arguments.test)] if arguments.test else kept.tests()
    # What is accepted is a rise since a baseline: the other side of a test in turns is none.
    results = [test.result for test in tests if not (test.path / AGAINST).exists()]
    comparisons = [
        comparison
        for result in results
        for comparison in result.comparisons
        if comparison.is_binding
    ]
    known = accepted_in(Path.cwd())
    if arguments.prune:
        left = unused(known, comparisons)
        figures = [figure for figure in known if figure not in left]
        action = f"{len(left)} removed"
    else:
        commit = kept.record.commit.short if kept.record.commit else ""
        figures = accept(known, comparisons, arguments.reason.strip(), commit)
        new = set(figures) - set(known)
        if not new:
            why = "no figure regressed against a baseline"
            if any(comparison.of(Outcome.REGRESSED) for comparison in comparisons):
                why = "what regressed is accepted already"
            say(f"nothing to accept in {arguments.test or str(kept.path)}: {why}")
            return 1
        names = sorted({figure.test for figure in new})
        subject = ", ".join(names) if len(names) <= MOST_NAMED else f"{len(names)} tests"
        action = f"{len(new)} accepted of {subject}"
    file = (Path.cwd() / FILE).resolve()  # a link stays one
    if figures:
        write(file, written(figures).encode())
    else:
        file.unlink(missing_ok=True)
    say(f"{FILE}: {action}, {len(figures)} in all")
    return 0
