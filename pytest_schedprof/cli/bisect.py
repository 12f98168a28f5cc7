"""`schedprof bisect`: for `git bisect run`, or a search among releases."""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.output import complain, say
from pytest_schedprof.cli.sources import add_directory, load_both
from pytest_schedprof.errors import BaselineError, SettingsError

EXAMPLE = """\
example: git bisect start BAD GOOD
         git checkout GOOD && pytest --schedprof=counts --schedprof-save=good tests/test_x.py
         git bisect run schedprof bisect good -- pytest --schedprof=counts tests/test_x.py

exit status, as `git bisect run` reads it: 0 if nothing regressed, 1 if something did, 125 (skip
this commit) if the comparison is undecided or nothing was measured, 128 for a mistake (stop)

example: schedprof bisect --releases 2025.5.0..2026.8.0 tests/test_x.py -- --schedprof-workers=100

exit status: 0 if the release was found, 1 if nothing regressed or an end cannot be measured, 2 for
a mistake"""

USAGE = """\
schedprof bisect [--dir DIR] BASELINE -- COMMAND ...
       schedprof bisect --releases FIRST..LAST [OPTIONS] TEST [-- PYTEST-OPTION ...]"""

GOOD, BAD, SKIP, STOP = 0, 1, 125, 128

TESTS_RAN = (0, 1)
"""Exit statuses of pytest with results: all tests passed, or some failed."""


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "bisect",
        run,
        purpose="find the commit, by `git bisect run`, or the release of a regression",
        description="Runs a pytest command with a temporary directory for its results, and "
        "compares them with a baseline, for `git bisect run`. With --releases: measures a test "
        "with one release after the other until the first bad one is left.",
        example=EXAMPLE,
    )
    parser.usage = USAGE
    parser.add_argument(
        "baseline",
        metavar="BASELINE or TEST",
        help="a baseline of a good commit; or a test, for a search among releases",
    )
    command = parser.add_argument(
        "command",
        nargs="+",
        default=[],
        metavar="OPTION or COMMAND",
        help="after --: a pytest command; or pytest options, for a search",
    )
    # With `nargs="*"` options between TEST and -- would end the arguments.
    command.required = False
    parser.add_argument(
        "--releases", metavar="FIRST..LAST", help="search among these releases, or among A,B,C"
    )
    parser.add_argument(
        "--package", default="distributed", metavar="NAME", help="of the releases (%(default)s)"
    )
    parser.add_argument("--metric", default="", metavar="NAME", help="follow this metric")
    parser.add_argument(
        "--function", default="", metavar="PATTERN", help="follow a function, as module:name*"
    )
    add_directory(parser)


def run(given: argparse.Namespace) -> int:
    """Run the command and print what changed, or search among releases."""
    if given.releases is not None:
        from pytest_schedprof.cli.bisect_releases import run_releases

        return run_releases(given)
    if not given.command:
        raise SettingsError(
            "schedprof: nothing to run: give a pytest command after --, or --releases"
        )
    from pytest_schedprof.storage.baselines import load

    try:
        load(given.baseline, given.dir)  # check it first: an error here must not skip every commit
        with tempfile.TemporaryDirectory(prefix="schedprof-bisect-") as place:
            return _judge(given, _measure(given.command, place), place)
    except SettingsError as error:
        complain(error)
        return STOP


def _measure(command: list[str], place: str) -> int:
    """Run the command; return its exit status."""
    # Saving makes the session run the rounds that a comparison needs, as for the baseline.
    given = os.environ.get("PYTEST_ADDOPTS", "")
    options = f"{given} --schedprof-dir={place} --schedprof-save=measured".strip()
    try:
        done = subprocess.run(command, env={**os.environ, "PYTEST_ADDOPTS": options}, check=False)
    except OSError as error:
        raise SettingsError(
            f"schedprof: cannot run {command[0]!r}: {error.strerror}; give a pytest command "
            "after --"
        ) from error
    return done.returncode


def _judge(given: argparse.Namespace, status: int, place: str) -> int:
    from pytest_schedprof.model.verdict import Verdict
    from pytest_schedprof.reports.comparisons import report_lines

    if status not in TESTS_RAN:
        say(f"schedprof: the command exited with {status} and gave no results: skip this commit")
        return SKIP
    try:
        report = load_both(given.baseline, place, given.dir)
    except BaselineError as error:
        say(f"{error}: skip this commit")
        return SKIP
    say("\n".join(line.text for line in report_lines(report)))
    return {Verdict.PASS: GOOD, Verdict.FAIL: BAD, Verdict.INCONCLUSIVE: SKIP}[report.verdict]
