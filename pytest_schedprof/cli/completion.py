"""`schedprof completion`: what a shell needs to complete the command line."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.errors import SchedprofError

EXAMPLE = """\
examples: source <(schedprof completion bash)
          schedprof completion zsh > ~/.zfunc/_schedprof
          schedprof completion fish > ~/.config/fish/completions/schedprof.fish

exit status: 0; 1 if shtab is not installed, 2 for a mistake on the command line"""

SHELLS = ("bash", "zsh", "fish")

FILES = ("A", "B", "FILE")
DIRECTORIES = ("DIR", "DIR_OR_URL")
"""What arguments are called that name files."""


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "completion",
        run,
        purpose="a script with which a shell completes these commands",
        description="Prints a script for a shell, which completes commands, options and files.",
        example=EXAMPLE,
    )
    parser.add_argument("shell", choices=SHELLS, help="whose script to print")


def run(given: argparse.Namespace) -> int:
    """Print it."""
    from pytest_schedprof.cli.main import parser_of_all

    try:
        import shtab
    except ImportError:
        raise SchedprofError(
            "schedprof: shtab is not installed, which writes the scripts: "
            "pip install 'pytest-schedprof[completion]'"
        ) from None
    parser = parser_of_all()
    for action in _actions(parser):
        if action.metavar in (*FILES, *DIRECTORIES):
            is_file = action.metavar in FILES
            action.complete = shtab.FILE if is_file else shtab.DIRECTORY  # type: ignore[attr-defined]
    print(shtab.complete(parser, given.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Of all commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for each in action.choices.values():
                yield from _actions(each)
        else:
            yield action
