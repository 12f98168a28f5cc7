"""`schedprof calibrate`: measure how far figures scatter on this machine."""

from __future__ import annotations

import argparse
import re
from typing import Any

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.output import complain, say
from pytest_schedprof.cli.sources import add_directory
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.settings.options import DEFAULT_CALIBRATED, option_named

EXAMPLE = """\
example: schedprof calibrate --time 5min --backend cputime --backend counts

exit status: 0 on success, 1 if a backend does not work here or nothing can be written, 2 for a
mistake on the command line"""

LEAST_S, MOST_S = 5.0, 86400.0
UNITS = {"": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0}


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "calibrate",
        run,
        purpose="measure the noise of this machine, and which changes can be detected",
        description="Measures the same work repeatedly and compares it with itself: how often "
        "that gives a false alarm, and how small a change can be detected. Later comparisons of "
        "results from this machine use what was measured.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "--time",
        default="60s",
        metavar="TIME",
        help="time to spend, such as 90s or 10min; more time gives surer figures (default: 60s)",
    )
    parser.add_argument(
        "--backend",
        action="append",
        metavar="NAME",
        help=f"backend to calibrate; may be repeated (default: {', '.join(DEFAULT_CALIBRATED)})",
    )
    parser.add_argument("--rate", default="100", metavar="HZ", help="samples per second")
    parser.add_argument(
        "--cluster",
        choices=("simulated", "local"),
        default="simulated",
        help="kind of cluster that your tests use (default: simulated)",
    )
    add_directory(parser)
    parser.add_argument("--json", action="store_true", help="print the calibration as JSON")


def run(given: argparse.Namespace) -> int:
    """Measure, save and print; check first that it can be saved."""
    seconds, rate = _seconds(given.time), option_named("rate").value(given.rate, "--rate")
    backends = [
        name
        for text in given.backend or [",".join(DEFAULT_CALIBRATED)]
        for name in option_named("backend").value(text, "--backend")
    ]
    from pytest_schedprof.storage.calibration_file import check_place, save_calibration

    check_place(given.dir)
    from pytest_schedprof.measuring.calibrating import Wanted, calibrate
    from pytest_schedprof.reports.calibrate_output import as_json, as_text

    complain(f"schedprof: measuring for about {seconds:g} s")
    timeout: Any = option_named("timeout").default
    wanted = Wanted(tuple(dict.fromkeys(backends)), seconds, rate, given.cluster, timeout)
    calibration = calibrate(wanted)
    file = save_calibration(given.dir, calibration)
    say(as_json(calibration) if given.json else as_text(calibration, str(file)))
    return 0


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(s|min|h|)", text.strip())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not LEAST_S <= seconds <= MOST_S:
        raise SettingsError(
            f"schedprof: --time must be a time from {LEAST_S:g}s to a day, such as 90s or 10min, "
            f"got {text!r}"
        )
    return seconds
