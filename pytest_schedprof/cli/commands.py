"""Helpers that add the commands of `schedprof` and their arguments to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    purpose: str,
    description: str,
    example: str,
) -> argparse.ArgumentParser:
    """Add a command and return its parser; the line breaks of the example are kept."""
    parser = commands.add_parser(
        name,
        help=purpose,
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


DEFAULT = ".schedprof/latest"
"""The run that commands take if none is given."""


def add_run(parser: argparse.ArgumentParser, name: str = "directory") -> None:
    """Add the argument for a run; call it after adding all other arguments."""
    parser.add_argument(
        name,
        nargs="?",
        default=DEFAULT,
        metavar="DIR",
        help="a run, or a directory of runs, of which the newest is used; DIR/latest is the "
        f"newest too (default: {DEFAULT})",
    )
