"""`schedprof capacity`: find out how many workers and tasks a scheduler carries."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.output import complain, say
from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.settings.values import cluster_option, positive

if TYPE_CHECKING:
    from pytest_schedprof.model.capacity import Asked, Capacity

EXAMPLE = """\
example: schedprof capacity --shape tree_reduction --forecast 10000 -o capacity

exit status: 0 on success, 1 if a cluster or the workload cannot run or nothing can be written,
2 for a mistake on the command line"""

SHAPE = "many_tiny_tasks"
WORKERS = "100,200,500,1000,2000"

OPTIONS = (
    ("--workers", WORKERS, "N,N,N", "numbers of workers to measure, three at least"),
    ("--threads", "1", "N", "threads of each worker"),
    ("--tasks", "3", "N", "tasks of a round for each thread"),
    ("--repeats", "2", "N", "clusters of each size, one after the other"),
    ("--forecast", "5000,10000", "N,N", "numbers of workers to forecast"),
    ("--durations", "100ms,1s,10s,1min", "TIME,TIME", "how long tasks take, for which to tell "
     "how many threads saturate the scheduler"),
    ("--max-stall", "3s", "TIME", "longest callback of the event loop that is accepted, in CPU "
     "time; distributed itself warns from 3s on"),
    ("--max-lag", "1s", "TIME", "how late the event loop may be for a timer, in CPU time"),
    ("--against", "", "WHAT", "measure another scheduler in turns: as --schedprof-against"),
)  # fmt: skip
"""Options with a value: name, default, name of the value, and purpose."""

LEAST_SIZES, MOST_WORKERS, MOST_THREADS, MOST_FORECAST = 3, 20_000, 1000, 10**7
SEVERAL = ("--workers", "--forecast")
UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "": 1.0, "min": 60.0, "h": 3600.0}
PAGE, RECORD = "capacity.html", "capacity.json"


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "capacity",
        run,
        purpose="measure how many workers and tasks a scheduler carries, and forecast more",
        description="Measures what a task costs the scheduler on simulated clusters of several "
        "sizes, and forecasts larger ones, with bounds: how many tasks a second it carries, how "
        "many threads saturate it, and with how many workers its event loop stalls too long.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "--cluster",
        choices=("simulated", "virtual"),
        default="simulated",
        help="simulated: a scheduler in real time, whose workers wait for it; virtual: in virtual "
        "time, without connections, for more workers than fit here otherwise (default: simulated)",
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--shape", default=SHAPE, metavar="NAME", help=f"workload ({SHAPE})")
    what.add_argument("--workload", metavar="FILE", help="a file of schedprof record, instead")
    for name, default, metavar, purpose in OPTIONS:
        told = f"{purpose} (default: {default})" if default else purpose
        parser.add_argument(name, default=default, metavar=metavar, help=told)
    parser.add_argument(
        "--cluster-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="option of the simulated clusters, such as duration=50ms; may be repeated",
    )
    parser.add_argument(
        "--by-load",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="also look for the highest rate of tasks by raising the load, on a simulated cluster "
        "of the smallest size; about a minute more (default: yes)",
    )
    parser.add_argument("-o", "--output", metavar="DIR", help=f"write {PAGE} and {RECORD} there")
    parser.add_argument("--json", action="store_true", help="print all figures as JSON")


def run(given: argparse.Namespace) -> int:
    """Measure, print and write; check first whatever can be checked."""
    from pytest_schedprof.storage.run_directory import check_room, make_directory

    asked = _asked(given)
    if given.output is not None:
        make_directory(Path(given.output))
        check_room(Path(given.output) / PAGE)
    from pytest_schedprof.measuring.capacity import find_capacity
    from pytest_schedprof.reports.capacity_output import as_json, as_text

    capacity = find_capacity(asked, complain)
    if given.output is not None:
        _write(Path(given.output), capacity)
    say(as_json(capacity) if given.json else as_text(capacity))
    return 0


def _write(directory: Path, capacity: Capacity) -> None:
    from pytest_schedprof.pages.capacity_page import page_of_capacity
    from pytest_schedprof.pages.rendering import render_capacity
    from pytest_schedprof.reports.capacity_output import as_json
    from pytest_schedprof.storage.run_directory import write

    page = render_capacity(page_of_capacity(capacity))
    write(directory / PAGE, page.encode("utf-8", "backslashreplace"))
    write(directory / RECORD, as_json(capacity).encode())


def _asked(given: argparse.Namespace) -> Asked:
    """Return what the options say."""
    from pytest_schedprof.model.capacity import Asked, Bounds

    workers = _numbers(given.workers, "--workers", MOST_WORKERS)
    if len(workers) < LEAST_SIZES:
        raise SettingsError(
            f"schedprof: --workers must have {LEAST_SIZES} different sizes at least, such as "
            f"{WORKERS}: fewer do not tell how a cost grows; got {quoted(given.workers)}"
        )
    return Asked(
        shape=given.shape,
        file=given.workload or "",
        workers=workers,
        threads=_number(given.threads, "--threads", MOST_THREADS),
        tasks=_number(given.tasks, "--tasks", MOST_THREADS),
        repeats=_number(given.repeats, "--repeats", MOST_THREADS),
        sizes=_numbers(given.forecast, "--forecast", MOST_FORECAST),
        durations=tuple(sorted({_time(t, "--durations") for t in given.durations.split(",")})),
        bounds=Bounds(_time(given.max_stall, "--max-stall"), _time(given.max_lag, "--max-lag")),
        against=given.against,
        cluster=given.cluster,
        by_load=given.by_load,
        options=dict(_option(each) for each in given.cluster_option),
    )


def _option(text: str) -> tuple[str, str]:
    try:
        return cluster_option(text)
    except ValueError:
        raise SettingsError(
            f"schedprof: --cluster-option must be NAME=VALUE, got {quoted(text)}"
        ) from None


def _numbers(text: str, option: str, most: int) -> tuple[int, ...]:
    return tuple(sorted({_number(each, option, most) for each in text.split(",")}))


def _number(text: str, option: str, most: int) -> int:
    try:
        value: int = positive(int, most)(text.strip())
    except (ValueError, OverflowError):
        raise SettingsError(
            f"schedprof: {option} must be a whole number from 1 to {most}"
            + (", or several with commas" if option in SEVERAL else "")
            + f"; got {quoted(text)}"
        ) from None
    return value


def _time(text: str, option: str) -> float:
    found = re.fullmatch(r"([0-9]*\.?[0-9]+)\s*(us|ms|s|min|h|)", text.strip())
    seconds = float(found[1]) * UNITS[found[2]] if found else 0.0
    if not 1e-4 <= seconds <= 1e6:
        raise SettingsError(
            f"schedprof: {option} must be a time from 100us to 1000000s, such as 50ms or 2s, "
            f"got {quoted(text)}"
        )
    return seconds
