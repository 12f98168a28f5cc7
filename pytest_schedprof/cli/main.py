"""`schedprof`: run the command and turn errors into exit statuses."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pytest_schedprof import __version__
from pytest_schedprof.cli import (
    bisect,
    ci,
    compare,
    completion,
    doctor,
    explain,
    export,
    history,
    open_run,
    prune,
    record,
    report,
    show,
    workload,
)
from pytest_schedprof.cli.commands import complain
from pytest_schedprof.errors import SchedprofError, SettingsError, quoted

COMMANDS = (
    show,
    open_run,
    report,
    compare,
    explain,
    history,
    bisect,
    export,
    prune,
    record,
    workload,
    doctor,
    ci,
    completion,
)
"""Modules with `add_to(commands)`, which adds a parser and sets its `run(arguments)`."""

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 for "no" or an error, 2 for a user's mistake."""
    given = parser_of_all().parse_args(arguments)
    try:
        status: int = given.run(given)
    except SchedprofError as error:
        complain(error)
        return USAGE if isinstance(error, SettingsError) else FAILED
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as error:  # a path on which the system can do nothing, such as one too long
        complain(f"schedprof: {error.strerror}: {quoted(error.filename)}")
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def parser_of_all() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser("schedprof", description="Profiles of dask schedulers.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.set_defaults(parser=parser)  # `schedprof completion` needs all of it
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return parser
