"""`schedprof open`: open a run in the browser."""

from __future__ import annotations

import argparse
import webbrowser
from pathlib import Path

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import add_run, say
from pytest_schedprof.store.run_directory import PAGE
from pytest_schedprof.store.runs import find_run

PURPOSE = "open a run in the browser"
DESCRIPTION = (
    "Opens the page of a run or of a test, and prints its path. pytest has written the pages at "
    "the end of the session; they are written again with --write, and in comparison or with a "
    "history."
)
EXAMPLE = """\
examples: schedprof open
          schedprof open test_shuffle
          schedprof open --against ../main/.schedprof/latest
          schedprof open --write --history        for a job that uploads them

exit status: 0 if there is a page now, 1 if it cannot be written, 2 for a mistake"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("test", nargs="?", metavar="TEST", help="test ID, or a unique part of it")
    add_run(parser)
    parser.add_argument("--no-browser", action="store_true", help="only print the path")
    parser.add_argument("--write", action="store_true", help="write the pages again, and open none")
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
        help="also show figures over the runs there, with steps (without a value: the runs "
        "beside this one)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the pages if there are none or they are to change, and open one."""
    run = find_run(Path(arguments.directory))
    page = (run.test(arguments.test).path if arguments.test else run.path) / PAGE
    is_to_change = arguments.write or arguments.against or arguments.history is not None
    if is_to_change or not page.exists():
        _write(run.path, arguments.against, arguments.history)
    say(page)
    if not (arguments.write or arguments.no_browser):
        webbrowser.open(page.absolute().as_uri())
    return 0


def _write(run: Path, other: str | None, history: str | None) -> None:
    from pytest_schedprof.measuring.pages import write_pages  # imports the templates

    against = find_run(Path(other)).path if other else None
    place = str(run.parent) if history == "" else history or ""
    write_pages(run, against, place, known=BackendRegistry().facts)
