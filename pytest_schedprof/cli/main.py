"""`schedprof`: finds the command and turns errors into exit statuses."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from pytest_schedprof import __version__
from pytest_schedprof.cli import (
    bisect,
    calibrate,
    compare,
    completion,
    doctor,
    export,
    history,
    open_run,
    prune,
    report,
    show,
)
from pytest_schedprof.errors import SchedprofError, SettingsError

COMMANDS = (
    show,
    open_run,
    report,
    compare,
    history,
    bisect,
    export,
    prune,
    doctor,
    calibrate,
    completion,
)
"""Modules with `add_to(commands)`, which gives their parser a `run(arguments)` for its default."""

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status: 0 for yes, 1 for no or for trouble, 2 for a mistake of the user's."""
    given = parser_of_all().parse_args(arguments)
    try:
        status: int = given.run(given)
    except SchedprofError as error:
        print(error, file=sys.stderr)
        return USAGE if isinstance(error, SettingsError) else FAILED
    except BrokenPipeError:  # who reads it, as `head` does, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def parser_of_all() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser("schedprof", description="Profiles of dask schedulers.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        command.add_to(commands)
    return parser
