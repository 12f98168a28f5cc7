"""`schedprof report`: write HTML pages of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import add_run, say
from pytest_schedprof.measuring.pages import write_pages
from pytest_schedprof.store.runs import find_run

PURPOSE = "write HTML pages of a run"
DESCRIPTION = (
    "Writes index.html into the directory of a run, and a page for each of its tests. The pages "
    "need no network and no server. pytest writes them at the end of a session; this command "
    "writes them again, or in comparison with another run."
)
EXAMPLE = """\
examples: schedprof report
          schedprof report --history
          schedprof report .schedprof/20261121T101500-3fa2c1 --against ../main/.schedprof/latest

exit status: 0 if the pages were written, 1 if not, 2 for a mistake on the command line"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--against",
        metavar="DIR",
        help="an earlier run; show what changed since then, also in flame graphs",
    )
    parser.add_argument(
        "--history",
        nargs="?",
        const="",
        metavar="DIR_OR_URL",
        help="also show figures over the runs there, with steps and trends (without a value: the "
        "runs beside this one)",
    )
    add_run(parser)


def run(arguments: argparse.Namespace) -> int:
    """Write the pages and print the path of the first one."""
    directory = find_run(Path(arguments.directory)).path
    against = find_run(Path(arguments.against)).path if arguments.against else None
    is_beside = arguments.history == ""
    history = str(directory.parent) if is_beside else arguments.history or ""
    known = BackendRegistry().facts
    say(write_pages(directory, against, history, known=known))
    return 0
