"""`schedprof bisect`: run a command, compare what it measured, and tell `git bisect run`."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.sources import add_directory, load_both
from pytest_schedprof.errors import BaselineError, SettingsError

EXAMPLE = """\
example: git bisect start BAD GOOD
         git checkout GOOD && pytest --schedprof=counts --schedprof-save=good tests/test_x.py
         git bisect run schedprof bisect good -- pytest --schedprof=counts tests/test_x.py

exit status, as `git bisect run` reads it: 0 if nothing regressed, 1 if something did, 125 (skip
this commit) if that is undecided or the command measured nothing, 128 and more to stop"""

GOOD, BAD, SKIP, STOP = 0, 1, 125, 128

TESTS_RAN = (0, 1)
"""Statuses of pytest after which there are results: all passed, or some failed."""


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "bisect",
        run,
        purpose="for `git bisect run`: whether a commit costs more than a baseline",
        description="Runs a pytest command with a directory of its own for the results, and "
        "compares them with a baseline.",
        example=EXAMPLE,
    )
    parser.add_argument("baseline", metavar="BASELINE", help="of a commit that is good")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="a pytest command, after --")
    add_directory(parser)


def run(given: argparse.Namespace) -> int:
    """Run the command and print what changed."""
    from pytest_schedprof.storage.baselines import load

    try:
        load(given.baseline, given.dir)  # a mistake must not have every commit skipped
        with tempfile.TemporaryDirectory(prefix="schedprof-bisect-") as place:
            return _judge(given, _measure(given.command, place), place)
    except SettingsError as error:
        print(error, file=sys.stderr)
        return STOP


def _measure(command: list[str], place: str) -> int:
    """The command's own status."""
    # To save means to take the rounds that a comparison needs, as the baseline's session did.
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
    from pytest_schedprof.reports.changes import report_lines

    if status not in TESTS_RAN:
        print(f"schedprof: the command ended with {status} and is no measure: skip this commit")
        return SKIP
    try:
        report = load_both(given.baseline, place, given.dir)
    except BaselineError as error:
        print(f"{error}: skip this commit")
        return SKIP
    print("\n".join(line.text for line in report_lines(report)))
    return {Verdict.PASS: GOOD, Verdict.FAIL: BAD, Verdict.INCONCLUSIVE: SKIP}[report.verdict]
