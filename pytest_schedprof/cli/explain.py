"""`schedprof explain`: say which functions and lines changed a test's figures."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable
from pathlib import Path

from pytest_schedprof.cli.main import add_directory, say
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.judge.explanation import Pair, Pairs, explanations, pairs_of
from pytest_schedprof.model.comparison import Outcome
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.metric import DIVIDED, METRICS
from pytest_schedprof.report.commands import as_json
from pytest_schedprof.report.comparisons import explanation_lines
from pytest_schedprof.store.runs import find_run

PURPOSE = "say why a test's figures changed: which functions, callers and lines"
DESCRIPTION = (
    "Divides the change of a test's figures among functions: called more often, dearer, new or "
    "gone. Shows the lines of their sources that changed or ran more often."
)
EXAMPLE = """\
examples: schedprof explain                      the tests of the newest run that regressed
          schedprof explain test_shuffle         one test of it
          schedprof explain main .schedprof      two runs or baselines, all tests
          schedprof explain test_shuffle main .schedprof

exit status: 0 on success, 1 if the results cannot be read, 2 for a mistake"""

MOST_TESTS = 10

MATTERS = 0.001
"""Relative change of the whole from which on a test is explained that was not named."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "names", nargs="*", metavar="[TEST] [A B]", help="a test, and two runs or baselines"
    )
    add_directory(parser)
    parser.add_argument(
        "--metric", default="", help="metric to explain (default: the best there is)"
    )
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("-q", "--quiet", action="store_true", help="print no sources")


def run(arguments: argparse.Namespace) -> int:
    _check(arguments)
    pairs = _pairs(arguments)
    every = [why for pair in pairs for why in explanations(pair, arguments.metric) if why.parts]
    regressed = {
        (comparison.test_id, change.metric)
        for _, side in pairs
        for comparison in side.result.comparisons
        for change in comparison.of(Outcome.REGRESSED)
    }
    reasons = every if len(arguments.names) % 2 else gravest(every, regressed)
    if arguments.json:
        say(as_json(reasons))
        return 0
    for why in reasons[:MOST_TESTS]:
        for line in explanation_lines(why, with_source=not arguments.quiet):
            say(line.text)
    if len(reasons) > MOST_TESTS:
        say(f"{len(reasons) - MOST_TESTS} more tests changed: name one")
    if not reasons:
        say("nothing changed that can be divided among functions")
    return 0


def gravest(
    every: Iterable[Explanation], regressed: Collection[tuple[str, str]] = ()
) -> list[Explanation]:
    """Return those that tell of a change which matters, the largest rise first.

    Args:
        regressed: tests and metrics of which a function regressed, however little the whole did.
    """

    def least(why: Explanation) -> float:  # more than identical code differs
        return max(MATTERS, METRICS[why.metric].scatter) * why.before

    reasons = [
        why
        for why in every
        if (why.test_id, why.metric) in regressed or abs(why.amount) > least(why)
    ]
    return sorted(reasons, key=lambda why: -why.amount / (why.before or 1.0))


def _check(arguments: argparse.Namespace) -> None:
    if len(arguments.names) > 3:
        raise SettingsError(
            f"schedprof: {arguments.names[3]!r} is too much: give a test, and two runs or baselines"
        )
    if arguments.metric and arguments.metric not in DIVIDED:
        raise SettingsError(
            f"schedprof: metric {arguments.metric!r} is not divided among functions; known: "
            f"{', '.join(DIVIDED)}"
        )


def _pairs(arguments: argparse.Namespace) -> list[Pair]:
    """Return what is to be explained, by how many names were given."""
    if len(arguments.names) < 2:
        return _in_newest_run(arguments)
    *test, before, after = arguments.names
    pairs = pairs_of(before, after, arguments.dir)
    if not test:
        return pairs
    chosen = [pair for pair in pairs if test[0] == pair[1].result.test_id] or [
        pair for pair in pairs if test[0] in pair[1].result.test_id
    ]
    if len(chosen) == 1:
        return chosen
    named = ", ".join(pair[1].result.test_id for pair in (chosen or pairs)[:10]) or "none"
    trouble = "is ambiguous" if chosen else f"is not in both {before!r} and {after!r}"
    raise SettingsError(f"schedprof: test {test[0]!r} {trouble}: {named}")


def _in_newest_run(arguments: argparse.Namespace) -> list[Pair]:
    run = find_run(Path(arguments.dir, "latest"))
    pairs = Pairs(run.path, arguments.dir)
    if arguments.names:
        return [pairs.of(run.test(arguments.names[0]))]
    tests = list(run.tests())
    compared = [test for test in tests if test.result.comparisons]
    return [pairs.of(test) for test in compared or tests]  # an error if none was compared
