"""`schedprof`: run the command and turn errors into exit statuses."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module

from pytest_schedprof import __version__
from pytest_schedprof.cli.commands import complain
from pytest_schedprof.errors import SchedprofError, SettingsError, quoted

COMMANDS = {
    "show": "show",
    "open": "open_run",
    "report": "report",
    "compare": "compare",
    "explain": "explain",
    "history": "history",
    "bisect": "bisect",
    "export": "export",
    "prune": "prune",
    "record": "record",
    "workload": "workload",
    "doctor": "doctor",
    "ci": "ci",
    "completion": "completion",
}
"""The module of each command: its `add_to(commands)` adds a parser, and sets `run(arguments)`."""

FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return its exit status: 0, 1 for "no" or an error, 2 for a user's mistake."""
    words = sys.argv[1:] if arguments is None else arguments
    is_simple = bool(words) and words[0] in COMMANDS and words[0] != "completion"
    # The modules of the other commands, and what they import, take part of a second.
    parsed = parser_of(words[:1] if is_simple else COMMANDS).parse_args(words)
    try:
        status: int = parsed.run(parsed)
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


def parser_of(names: Iterable[str]) -> argparse.ArgumentParser:
    """Return the parser of a command line that knows these commands."""
    parser = argparse.ArgumentParser("schedprof", description="Profiles of dask schedulers.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    parser.set_defaults(parser=parser)  # `schedprof completion` needs all of it
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name in names:
        import_module(f"{__package__}.{COMMANDS[name]}").add_to(commands)
    return parser
