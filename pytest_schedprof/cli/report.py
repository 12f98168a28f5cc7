"""`schedprof report`: pages of a run, to be opened in a browser."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.cli.commands import Commands, add_command

EXAMPLE = """\
examples: schedprof report
          schedprof report --history
          schedprof report .schedprof/20261121T101500-3fa2c1 --against ../main/.schedprof/latest

exit status: 0 if the pages were written, 1 if not, 2 for a mistake on the command line"""


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "report",
        run,
        purpose="pages of a run, to be opened in a browser",
        description="Writes index.html into the directory of a run, and one for each of its tests. "
        "They need no network and no server. A session of pytest makes them at its end; this "
        "makes them anew, or beside another run.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "run_directory",
        nargs="?",
        default=".schedprof/latest",
        metavar="DIR",
        help="a run, or a directory of runs of which the newest counts (default: %(default)s)",
    )
    parser.add_argument(
        "--against",
        metavar="DIR",
        help="another run, to show what changed since then, also in flame graphs",
    )

    parser.add_argument(
        "--history",
        nargs="?",
        const="",
        metavar="DIR_OR_URL",
        help="also how figures went over the runs there, with steps and trends (without a value: "
        "the runs beside this one)",
    )


def run(given: argparse.Namespace) -> int:
    """Write the pages, and print where they begin."""
    from pytest_schedprof.pages.writing import write_pages
    from pytest_schedprof.storage.runs import find_run

    directory = find_run(Path(given.run_directory)).path
    against = find_run(Path(given.against)).path if given.against else None
    is_beside = given.history == ""
    history = str(directory.parent) if is_beside else given.history or ""
    print(write_pages(directory, against, history))
    return 0
