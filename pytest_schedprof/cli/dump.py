"""`schedprof dump`: fetch the black box of a running scheduler."""

from __future__ import annotations

import argparse
from pathlib import Path

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.output import say

EXAMPLE = """\
example: schedprof dump tcp://10.0.0.1:8786

exit status: 0 when the run was written, 1 if the scheduler has no black box or does not answer,
2 for a mistake on the command line"""


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "dump",
        run,
        purpose="write the last minutes of a running scheduler, from its black box",
        description="Fetches what the black box of a scheduler holds, and writes it as a run on "
        "this machine, which all other commands can show. The scheduler must have been started "
        "with --preload pytest_schedprof.blackbox.",
        example=EXAMPLE,
    )
    parser.add_argument("address", metavar="ADDRESS", help="of the scheduler")
    parser.add_argument(
        "--dir",
        default=".schedprof",
        metavar="DIR",
        help="directory of runs to write to (default: %(default)s)",
    )


def run(given: argparse.Namespace) -> int:
    """Write the run, and print its directory."""
    from pytest_schedprof.blackbox.fetching import dump

    say(dump(given.address, Path(given.dir)))
    return 0
