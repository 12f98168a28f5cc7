"""Runs that commands name."""

from __future__ import annotations

import argparse

DEFAULT = ".schedprof/latest"


def add_run(parser: argparse.ArgumentParser, name: str = "directory") -> None:
    """The argument for a run, after all others."""
    parser.add_argument(
        name,
        nargs="?",
        default=DEFAULT,
        metavar="DIR",
        help="a run, or a directory of runs, of which the newest counts; `latest` in it means the "
        f"same (default: {DEFAULT})",
    )
