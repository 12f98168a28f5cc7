"""`schedprof doctor`: check which backends work on a scheduler, and why others do not."""

from __future__ import annotations

import argparse
from typing import Any

from pytest_schedprof.cli.main import say

PURPOSE = "check which backends work on a scheduler, and why others do not"
DESCRIPTION = (
    "Makes a short recording with each backend on a scheduler, and says which backends work, "
    "why others do not, and what to do about it."
)
EXAMPLE = """\
example: schedprof doctor --backend pyspy --backend cputime tcp://127.0.0.1:8786

exit status: 0 if the chosen backends work, 1 if one does not or no scheduler answers, 2 for a
mistake on the command line"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "address",
        nargs="?",
        metavar="ADDRESS",
        help="address of a running scheduler such as tcp://127.0.0.1:8786 (default: start a "
        "scheduler on this machine)",
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help="a backend that must work for exit status 0; may be repeated (default: pyspy)",
    )
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="B.O=V",
        help="an option of a backend, such as pyspy.native=true; may be repeated",
    )
    parser.add_argument(
        "--timeout",
        default="10",
        metavar="SECONDS",
        help="seconds to wait for a connection, and for a backend to start or stop (default: 10)",
    )
    parser.add_argument("--json", action="store_true", help="print all findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    # --help needs neither distributed nor msgspec, which these load.
    from pytest_schedprof.backends.registry import FROM_OUTSIDE
    from pytest_schedprof.measuring.doctor import examine
    from pytest_schedprof.measuring.settings import read_value
    from pytest_schedprof.report.commands import DOCTOR_VERSION, as_json, doctor_text

    chosen = [
        name
        for text in arguments.backend or [FROM_OUTSIDE]
        for name in read_value("backend", text, "--backend")
    ]
    timeout = read_value("timeout", arguments.timeout, "--timeout")
    options: dict[str, dict[str, Any]] = {}
    for text in arguments.option:
        backend, name, value = read_value("option", text, "--option")
        options.setdefault(backend, {})[name] = value

    checkup = examine(arguments.address, chosen, options, timeout_s=timeout)
    first = {"schema_version": DOCTOR_VERSION, "works": checkup.works}
    say(as_json(checkup, **first) if arguments.json else doctor_text(checkup))
    return 0 if checkup.works else 1
