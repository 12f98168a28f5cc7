"""`schedprof prune`: removes old runs."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.errors import SettingsError

EXAMPLE = """\
example: schedprof prune .schedprof --keep 20 --dry-run

exit status: 0, also if there was nothing to remove; 1 if a run cannot be removed, 2 for a mistake
on the command line"""

MEGABYTE = 1e6


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "prune",
        run,
        purpose="removes all but the last runs",
        description="Removes the oldest runs of a directory. The newest one stays in any case, and "
        "so do baselines, runs that were renamed, sessions that still run, and all other files.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "directory",
        nargs="?",
        default=".schedprof",
        metavar="DIR",
        help="a directory of runs (default: .schedprof)",
    )
    parser.add_argument("--keep", required=True, metavar="N", help="how many runs to keep")
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def run(given: argparse.Namespace) -> int:
    """Remove them, and say which."""
    from pytest_schedprof.storage.pruning import remove, size, superfluous

    runs = superfluous(_directory(given.directory), _count(given.keep))
    total = 0
    for each in runs:
        total += (found := size(each))
        if not given.dry_run:
            remove(each)
        print(f"{each.path}: {len(each.record.tests)} tests, {found / MEGABYTE:.1f} MB", flush=True)
    what = "would be removed" if given.dry_run else "removed"
    print(f"{len(runs)} runs {what}, {total / MEGABYTE:.1f} MB")
    return 0


def _directory(place: str) -> Path:
    path = Path(place)
    if not path.is_dir():
        raise SettingsError(f"schedprof: there is no directory {place!r}")
    if (path / "run.json").exists():
        raise SettingsError(f"schedprof: {place!r} is a run: give the directory that it is in")
    return path


def _count(text: str) -> int:
    if not (text.isdecimal() and int(text)):
        raise SettingsError(f"schedprof: --keep must be a number of runs from 1 on, got {text!r}")
    return int(text)
