"""`schedprof calibrate`: what a comparison on this machine can tell, measured."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.sources import add_directory
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.options import option_named

EXAMPLE = """\
example: schedprof calibrate --time 5min --backend cputime --backend counts

exit status: 0 if it was measured, 1 if a backend does not work here or nothing can be written, 2
for a mistake on the command line"""

BACKENDS = ("cputime", "counts")
LEAST_S, MOST_S = 5.0, 86400.0
UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "calibrate",
        run,
        purpose="how far figures stray on this machine, and what changes can be seen",
        description="Measures the same work again and again and compares it with itself: how "
        "often that is called a regression, and how small a change can be seen. Comparisons of "
        "what is measured on such a machine go by it from then on.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "--time",
        default="60s",
        metavar="TIME",
        help="to be spent, as 90s or 10min: the longer the surer (default: 60s)",
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help=f"may be given again (default: {', '.join(BACKENDS)})",
    )
    parser.add_argument("--rate", default="100", metavar="HZ", help="samples a second")
    parser.add_argument(
        "--cluster",
        choices=("simulated", "local"),
        default="simulated",
        help="as your tests have it (default: simulated)",
    )
    add_directory(parser)
    parser.add_argument("--json", action="store_true", help="print what was measured as JSON")


def run(given: argparse.Namespace) -> int:
    """Measure, keep and print; what cannot be kept is not measured."""
    seconds, rate = _seconds(given.time), option_named("rate").value(given.rate, "--rate")
    backends = [
        name
        for text in given.backend or [",".join(BACKENDS)]
        for name in option_named("backend").value(text, "--backend")
    ]
    from pytest_schedprof.storage.calibration import check_place, save_calibration

    check_place(given.dir)
    from pytest_schedprof.calibration import Wanted, calibrate
    from pytest_schedprof.reports.calibration import as_json, as_text

    print(f"schedprof: measuring for about {seconds:g} s", file=sys.stderr)
    timeout: Any = option_named("timeout").default
    wanted = Wanted(tuple(dict.fromkeys(backends)), seconds, rate, given.cluster, timeout)
    calibration = calibrate(wanted)
    file = save_calibration(given.dir, calibration)
    print(as_json(calibration) if given.json else as_text(calibration, str(file)))
    return 0


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(s|min|h|)", text.strip())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not LEAST_S <= seconds <= MOST_S:
        raise SettingsError(
            f"schedprof: --time must be a time from {LEAST_S:g}s to a day, as 90s or 10min, "
            f"got {text!r}"
        )
    return seconds
