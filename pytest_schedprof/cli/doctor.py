"""`schedprof doctor`: which backends work on a scheduler, and why others do not."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.options import DEFAULT_BACKEND, option_named

EXAMPLE = """\
example: schedprof doctor --backend pyspy --backend cputime tcp://127.0.0.1:8786

exit status: 0 if the chosen backends work, 1 if one does not or no scheduler answers, 2 for a
mistake on the command line"""


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "doctor",
        run,
        purpose="which backends work on a scheduler, and why others do not",
        description="Records for a moment with each backend on a scheduler, and says which of "
        "them work there, why others do not, and what to do about it.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "address",
        nargs="?",
        metavar="ADDRESS",
        help="of a scheduler that runs already, as tcp://127.0.0.1:8786 (without one: a scheduler "
        "that is started here for it)",
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help="the backend that must work for exit status 0; may be given again (default: pyspy)",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="B.O=V",
        help="an option of a backend, as pyspy.send=true; may be given again",
    )
    parser.add_argument(
        "--timeout",
        default="10",
        metavar="SECONDS",
        help="what connecting, or starting or stopping a backend, may take (default: 10)",
    )
    parser.add_argument("--json", action="store_true", help="print all that was found as JSON")


def run(given: argparse.Namespace) -> int:
    """Print what was found."""
    chosen = [
        name
        for text in given.backend or [",".join(DEFAULT_BACKEND)]
        for name in option_named("backend").value(text, "--backend")
    ]
    timeout = option_named("timeout").value(given.timeout, "--timeout")
    options = _options(given.option)

    from pytest_schedprof.doctor import examine  # which loads distributed: --help need not
    from pytest_schedprof.reports.checkup import as_json, as_text

    checkup = examine(given.address, chosen, options, timeout_s=timeout)
    print(as_json(checkup) if given.json else as_text(checkup))
    return 0 if checkup.works else 1


def _options(texts: list[str]) -> dict[str, dict[str, Any]]:
    """Of each backend, by its name."""
    options: dict[str, dict[str, Any]] = {}
    for text in texts:
        backend, name, value = option_named("option").value(text, "--option")
        options.setdefault(backend, {})[name] = value
    return options
