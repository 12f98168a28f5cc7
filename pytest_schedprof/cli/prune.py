"""`schedprof prune`: remove old runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.cli.main import Commands, add_command, say
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.model.options import Reader, positive
from pytest_schedprof.store.runs import removable, remove, size

EXAMPLE = """\
example: schedprof prune .schedprof --keep 20 --dry-run

exit status: 0 even if there was nothing to remove, 1 if a run cannot be removed, 2 for a mistake
on the command line"""

MEGABYTE = 1e6


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "prune",
        run,
        purpose="remove all but the newest runs",
        description="Removes the oldest runs of a directory. The newest run is always kept, and so "
        "are baselines, renamed runs, sessions that are still running, and all other files.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "directory",
        nargs="?",
        default=".schedprof",
        metavar="DIR",
        help="a directory of runs (default: .schedprof)",
    )
    parser.add_argument("--keep", required=True, metavar="N", help="number of runs to keep")
    parser.add_argument("--dry-run", action="store_true", help="only print what would be removed")


def run(arguments: argparse.Namespace) -> int:
    """Remove runs and print which."""
    keep = Reader(positive(int), "a number of runs, at least 1").value("--keep", arguments.keep)
    runs = removable(_directory(arguments.directory), keep)
    total = 0
    for run in runs:
        total += (count := size(run))
        if not arguments.dry_run:
            remove(run)
        say(f"{run.path}: {len(run.record.tests)} tests, {count / MEGABYTE:.1f} MB")
    what = "would be removed" if arguments.dry_run else "removed"
    say(f"{len(runs)} runs {what}, {total / MEGABYTE:.1f} MB")
    return 0


def _directory(place: str) -> Path:
    path = Path(place)
    if not path.is_dir():
        raise SettingsError(f"schedprof: there is no directory {place!r}")
    if (path / "run.json").exists():
        raise SettingsError(f"schedprof: {place!r} is a run: give the directory that contains it")
    return path
