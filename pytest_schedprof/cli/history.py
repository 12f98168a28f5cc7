"""`schedprof history`: how figures went from run to run, and at which commits they changed."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.errors import ArtifactError, SettingsError

if TYPE_CHECKING:
    from pytest_schedprof.model.history import History


LAST = 200
"""Runs that are looked at unless told otherwise: finding change points is quadratic in them."""

EXAMPLE = """\
example: schedprof history --test '*shuffle*' --metric bytecodes s3://bucket/schedprof

exit status: 0, whatever was found; 1 if nothing there can be read, 2 for a mistake on the command
line"""


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "history",
        run,
        purpose="how figures went from run to run, and at which commits they changed",
        description="Reads every run below a place, and lists each test's figures in the order of "
        "commits, with the steps that they took and the trends that they follow.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "place",
        nargs="?",
        default=".schedprof",
        metavar="DIR_OR_URL",
        help="where runs were kept; any URL that fsspec can list (default: .schedprof)",
    )
    parser.add_argument("--test", default="*", metavar="PATTERN", help="tests of these IDs")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="as in limits: cpu, bytecodes, share, ...; may be given again",
    )
    parser.add_argument(
        "--function",
        default="",
        metavar="PATTERN",
        help="these functions alone, as in limits, also where they cost little",
    )
    parser.add_argument("--branch", default="", metavar="NAME", help="runs of this branch alone")
    parser.add_argument(
        "--last",
        type=_count,
        default=LAST,
        metavar="N",
        help=f"only the newest runs, 0 for all (default: {LAST})",
    )
    parser.add_argument(
        "--all", action="store_true", help="also owners and functions in which nothing changed"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything as JSON")
    form.add_argument("--markdown", action="store_true", help="print tables in Markdown")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of runs")
    return int(text)


def run(given: argparse.Namespace) -> int:
    """Print what was found; what could not be read is told apart from it."""
    from pytest_schedprof.reports.history import as_json, as_markdown, as_text
    from pytest_schedprof.reports.sparkline import bars_for

    history = _history(given)
    for line in history.skipped:
        print(line, file=sys.stderr)
    every = given.all or bool(given.metric or given.function)
    if given.json:
        print(as_json(history))
    elif given.markdown:
        print(as_markdown(history, every=every))
    else:
        print(as_text(history, every=every, bars=bars_for(sys.stdout.encoding)))
    return 0


def _history(given: argparse.Namespace) -> History:
    from pytest_schedprof.analysis.history import Choice, series_of
    from pytest_schedprof.model.history import History
    from pytest_schedprof.storage.history import Archive

    _check_metrics(given.metric)
    archive = Archive(given.place)
    runs = archive.runs(branch=given.branch, last=given.last)
    results = [result for run in runs for result in run.results]
    if not results:
        lines = [f"schedprof: the runs in {given.place!r} have no results", *archive.skipped]
        raise ArtifactError("\n".join(lines))
    choice = Choice(given.test, frozenset(given.metric), given.function)
    series = series_of([(each.run, each.results) for each in runs], choice)
    if not series:
        known = ", ".join(sorted({result.test_id for result in results}))
        raise SettingsError(f"schedprof: nothing there is what was asked for; there is of: {known}")
    return History(len(runs), tuple(series), tuple(archive.skipped))


def _check_metrics(names: list[str]) -> None:
    from pytest_schedprof.model.metric import METRICS

    known = [name for name, metric in METRICS.items() if not metric.of_metric]
    for name in names:
        if name not in known:
            raise SettingsError(f"schedprof: --metric {name!r} is none of {', '.join(known)}")
