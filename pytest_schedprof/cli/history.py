"""`schedprof history`: show figures run after run, and the commits at which they changed."""

from __future__ import annotations

import argparse
import sys
from itertools import islice
from pathlib import Path

from pytest_schedprof.cli.main import complain, say
from pytest_schedprof.errors import ArtifactError, SettingsError, without_secrets
from pytest_schedprof.judge.explanation import why_stepped
from pytest_schedprof.judge.series import NEWEST_RUNS, Choice, series_in
from pytest_schedprof.model.metric import OF_BACKENDS
from pytest_schedprof.model.run import History
from pytest_schedprof.report.commands import HISTORY_VERSION, as_json, as_markdown, history_text
from pytest_schedprof.report.comparisons import explanation_lines
from pytest_schedprof.report.markup import bars_for
from pytest_schedprof.store.runs import Archive, results_of

EXPLAINED = 5
"""Steps that are explained: the newest of those with kept runs on both sides."""

PURPOSE = "show figures run after run, and the commits at which they changed"
DESCRIPTION = (
    "Reads all runs below a directory or URL, and lists each test's figures in the order of "
    "commits, with their steps."
)
EXAMPLE = """\
example: schedprof history --test '*shuffle*' --metric bytecodes s3://bucket/schedprof

exit status: 0 with or without changes, 1 if nothing can be read, 2 for a mistake on the command
line"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "place",
        nargs="?",
        default=".schedprof",
        metavar="DIR_OR_URL",
        help="a directory of runs, or any URL that fsspec can list (default: .schedprof)",
    )
    parser.add_argument("--test", default="*", metavar="PATTERN", help="only tests of these IDs")
    parser.add_argument(
        "--metric",
        action="append",
        default=[],
        metavar="NAME",
        help="only this metric, named as in limits: cpu, bytecodes, share, ...; may be repeated",
    )
    parser.add_argument(
        "--function",
        default="",
        metavar="PATTERN",
        help="only functions that match, as in limits, even if they cost little",
    )
    parser.add_argument("--branch", default="", metavar="NAME", help="only runs of this branch")
    parser.add_argument(
        "--last",
        type=_count,
        default=NEWEST_RUNS,
        metavar="N",
        help=f"only the newest runs, 0 for all (default: {NEWEST_RUNS})",
    )
    parser.add_argument(
        "--all", action="store_true", help="also show owners and functions without changes"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print everything as JSON")
    form.add_argument("--markdown", action="store_true", help="print tables in Markdown")


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of runs")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """Print the history; list runs that could not be read on standard error."""
    history = _history(arguments)
    for problem in history.skipped:
        complain(problem)
    every = arguments.all or bool(arguments.metric or arguments.function)
    if arguments.json:
        say(as_json(history, schema_version=HISTORY_VERSION))
    elif arguments.markdown:
        say(as_markdown(history, every=every))
    else:
        bars = bars_for(getattr(sys.stdout, "encoding", None))  # it may be closed
        say(history_text(history, every=every, bars=bars))
        if any(series.steps for series in history.series):
            for why in islice(why_stepped(history.series, Path(arguments.place)), EXPLAINED):
                say("")
                for line in explanation_lines(why, with_source=False):
                    say(line.text)
    return 0


def check_metric(name: str) -> None:
    """Refuse the name of a metric that no backend measures.

    Raises:
        SettingsError: lists the metrics.
    """
    if name not in OF_BACKENDS:
        raise SettingsError(
            f"schedprof: --metric {name!r} is unknown; known: {', '.join(OF_BACKENDS)}"
        )


def _history(arguments: argparse.Namespace) -> History:
    for name in arguments.metric:
        check_metric(name)
    archive = Archive(arguments.place)
    runs = archive.runs(branch=arguments.branch, last=arguments.last)
    choice = Choice(arguments.test, frozenset(arguments.metric), arguments.function)
    series = tuple(series_in(archive, runs, choice))
    if series:
        return History(len(runs), series, tuple(archive.skipped))
    tests = {test_id for stored in runs for test_id in stored.files}
    readable = [name for name in sorted(tests) if any(results_of(runs, name, archive.skipped))]
    if not readable:
        place = without_secrets(arguments.place)
        lines = [f"schedprof: the runs in {place!r} have no results", *archive.skipped]
        raise ArtifactError("\n".join(dict.fromkeys(lines)))
    raise SettingsError(f"schedprof: no figure matches; tests with results: {', '.join(readable)}")
