"""Helpers that add the commands of `schedprof` and their arguments to the parser."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TextIO, TypeAlias

from pytest_schedprof.errors import printable
from pytest_schedprof.store.run_directory import write

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


def say(text: object = "", file: TextIO | None = None) -> None:
    """Print text; what the terminal would obey or cannot show is escaped."""
    stream = file or sys.stdout
    print(printable(str(text), stream.encoding or "utf-8"), file=stream, flush=True)


def complain(text: object) -> None:
    """Print text on standard error."""
    say(text, sys.stderr)


def write_output(output: str, content: bytes) -> None:
    """Write the file that a user named.

    Raises:
        ArtifactError: if it cannot be written.
    """
    path = Path(output).resolve()
    if path.exists() and not path.is_file():  # such as /dev/null, or a pipe
        path.write_bytes(content)
    else:
        write(path, content)
