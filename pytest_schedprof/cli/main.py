"""`schedprof`: run a command and turn errors into exit statuses; helpers that commands share."""

from __future__ import annotations

import argparse
import gc
import io
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TextIO

from pytest_schedprof import __version__
from pytest_schedprof.errors import SchedprofError, SettingsError, printable, quoted

COMMANDS = (
    "show",
    "open",
    "compare",
    "explain",
    "accept",
    "history",
    "bisect",
    "record",
    "doctor",
    "ci",
)
"""Each is a module: PURPOSE, DESCRIPTION, EXAMPLE, `add_arguments(parser)` and `run(arguments)`."""

FAILED, USAGE, STOP, INTERRUPTED, PIPED = 1, 2, 128, 130, 141

RARELY = 100_000
"""Objects after which cycles are looked for: records are many objects, and have none."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 for "no" or an error, 2 for a user's mistake."""
    gc.set_threshold(RARELY)
    words = (sys.argv[1:] if arguments is None else arguments) or ["show"]
    # The modules of the other commands, and what they import, take part of a second.
    parser = parser_of(words[:1] if words[0] in COMMANDS else COMMANDS)
    try:
        parsed = parser.parse_args(words)
    except SystemExit as end:
        if end.code == USAGE and words[0] == "bisect" and "--releases" not in " ".join(words):
            return STOP  # to `git bisect run` the other status is a bad commit
        raise
    try:
        status: int = parsed.run(parsed)
    except SchedprofError as error:
        complain(error)
        return USAGE if isinstance(error, SettingsError) else FAILED
    except OSError as error:
        if error.filename is None:  # what is left for standard output would fail again at the end
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader, such as `head`, has closed the pipe
            return PIPED
        name = "" if error.filename is None else f": {quoted(error.filename)}"
        complain(f"schedprof: {error.strerror or error}{name}")
        return USAGE  # of `compare` the other one says that something regressed
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def parser_of(names: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser of a command line that knows these commands."""
    parser = argparse.ArgumentParser("schedprof", description="Profiles of dask schedulers.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in names:
        module = import_module(f"{__package__}.{name}")
        command = commands.add_parser(
            name,
            help=module.PURPOSE,
            description=module.DESCRIPTION,
            epilog=module.EXAMPLE,
            formatter_class=argparse.RawDescriptionHelpFormatter,  # keeps the example's lines
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser


DEFAULT = ".schedprof/latest"
"""The run that commands take if none is given."""


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the option that names a run."""
    parser.add_argument(
        "--run",
        dest="directory",
        default=DEFAULT,
        metavar="DIR",
        help="a run, or a directory of runs, of which the newest is used; DIR/latest is the "
        f"newest too (default: {DEFAULT})",
    )


def say(text: object = "", file: TextIO | None = None) -> None:
    """Print text; what the terminal would obey or cannot show is escaped."""
    stream = file or sys.stdout or io.StringIO()  # it may be closed
    print(printable(str(text), stream.encoding or "utf-8"), file=stream, flush=True)


def complain(text: object) -> None:
    """Print text on standard error."""
    say(text, sys.stderr)


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add the option for the directory in which baselines are found by name."""
    parser.add_argument(
        "--dir",
        default=".schedprof",
        metavar="DIR",
        help="directory of runs and baselines (default: .schedprof)",
    )
