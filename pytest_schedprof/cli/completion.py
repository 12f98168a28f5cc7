"""`schedprof completion`: print a completion script for a shell."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pytest_schedprof.cli.commands import Commands, add_command, say
from pytest_schedprof.errors import SchedprofError

EXAMPLE = """\
examples: source <(schedprof completion bash)
          schedprof completion zsh > ~/.zfunc/_schedprof
          schedprof completion fish > ~/.config/fish/completions/schedprof.fish

exit status: 0; 1 if shtab is not installed, 2 for a mistake on the command line"""

SHELLS = ("bash", "zsh", "fish")

FILES = ("A", "B", "FILE", "SOURCE")
DIRECTORIES = ("DIR", "DIR_OR_URL")
"""Metavars of arguments that are files or directories."""


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "completion",
        run,
        purpose="print a completion script for a shell",
        description="Prints a script that makes a shell complete commands, options and files.",
        example=EXAMPLE,
    )
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(arguments: argparse.Namespace) -> int:
    """Print the script."""
    try:
        import shtab
    except ImportError:
        raise SchedprofError(
            "schedprof: this needs the package shtab: pip install 'pytest-schedprof[completion]'"
        ) from None
    for action in _actions(arguments.parser):
        if action.metavar in (*FILES, *DIRECTORIES):
            is_file = action.metavar in FILES
            action.complete = shtab.FILE if is_file else shtab.DIRECTORY  # type: ignore[attr-defined]
    say(shtab.complete(arguments.parser, arguments.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield the arguments of all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action
