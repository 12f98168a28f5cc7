"""`schedprof workload`: show what is in a recorded workload, and make others of it."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.output import say
from pytest_schedprof.errors import SettingsError, quoted

if TYPE_CHECKING:
    from pytest_schedprof.model.workload import Workload

EXAMPLE = """\
examples: schedprof workload monday.schedprof --page monday.html
          schedprof workload monday.schedprof --from 10s --until 60s --only 'sum*' -o part.schedprof
          schedprof workload monday.schedprof --tasks 3 --workers 2 -o busier.schedprof
          schedprof workload monday.schedprof tuesday.schedprof --anonymise -o both.schedprof

Files of one recording are put together, and others merged. Then tasks are cut out, copied, and
their names hidden. Shown or written is what comes of it.

exit status: 0, 1 if a file is no recorded workload, 2 if it cannot be read or written"""


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "workload",
        run,
        purpose="show, cut, scale, merge and anonymise recorded workloads",
        description="Prints how many graphs, tasks and workers a recorded workload has, and how "
        "many tasks of each prefix, with medians of their durations and sizes. Options make "
        "another workload of it.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="a recorded workload: a file of schedprof record, or the name of a shipped one",
    )
    parser.add_argument("-o", "--output", metavar="FILE", help="write the workload to a new file")
    parser.add_argument("--page", metavar="FILE", help="write a page with pictures (HTML)")
    _add_merge(parser)
    _add_cut(parser)
    _add_scale(parser)
    parser.add_argument_group("anonymise").add_argument(
        "--anonymise",
        action="store_true",
        help="name prefixes and resources by letters, and do not tell when it was recorded",
    )


def _add_merge(parser: argparse.ArgumentParser) -> None:
    parser.add_argument_group("merge").add_argument(
        "--by-clock",
        action="store_true",
        help="keep the time between several files; without it all begin at the same time",
    )


def _add_cut(parser: argparse.ArgumentParser) -> None:
    cut = parser.add_argument_group("cut")
    cut.add_argument(
        "--from", dest="begin", metavar="TIME", help="leave out graphs before: 10s, 5min"
    )
    cut.add_argument("--until", metavar="TIME", help="leave out what came after")
    cut.add_argument("--only", default="*", metavar="PATTERN", help="keep tasks of such prefixes")


def _add_scale(parser: argparse.ArgumentParser) -> None:
    scale = parser.add_argument_group("scale")
    scale.add_argument("--tasks", default="1", metavar="N", help="have each graph so many times")
    scale.add_argument("--workers", default="1", metavar="N", help="have each worker so many times")
    scale.add_argument(
        "--apart", metavar="TIME", help="time from one copy of the graphs to the next (default: 0s)"
    )


def run(given: argparse.Namespace) -> int:
    """Print the summary, and write what is asked for."""
    from pytest_schedprof.reports.workload_output import lines_of

    workload = _changed(_read(given), given)
    if given.output:
        _write(Path(given.output), workload)
    if given.page:
        _write_page(Path(given.page), workload, _names(given))
    for line in lines_of(workload):
        say(line)
    return 0


def _names(given: argparse.Namespace) -> str:
    """Return what the page is about, without directories."""
    from pytest_schedprof.model.words import listed

    return listed([Path(name).name for name in ([given.output] if given.output else given.files)])


def _read(given: argparse.Namespace) -> Workload:
    """Return all files as one workload."""
    from pytest_schedprof.editing.merging import merge
    from pytest_schedprof.formats.workload_files import read_files
    from pytest_schedprof.model.parts import recordings

    workloads = recordings(read_files(name) for name in given.files)
    try:
        return merge(workloads, by_clock=given.by_clock)
    except ValueError:
        raise SettingsError(
            "schedprof: --by-clock needs to know when the workloads were recorded, and one of "
            "them does not tell it"
        ) from None


def _changed(workload: Workload, given: argparse.Namespace) -> Workload:
    from pytest_schedprof.editing.copies import scale
    from pytest_schedprof.editing.names import anonymise

    workload = _cut(workload, given)
    tasks, workers = _number("--tasks", given.tasks), _number("--workers", given.workers)
    workload = scale(workload, tasks=tasks, workers=workers, apart=_seconds("--apart", given.apart))
    return anonymise(workload) if given.anonymise else workload


def _cut(workload: Workload, given: argparse.Namespace) -> Workload:
    from pytest_schedprof.editing.cutting import cut

    begin, end = _seconds("--from", given.begin), _seconds("--until", given.until, math.inf)
    if (begin, end, given.only) == (0.0, math.inf, "*"):
        return workload
    part = cut(workload, begin=begin, end=end, only=given.only)
    if not any(graph.tasks for graph in part.graphs):
        raise SettingsError(
            f"schedprof: no task is left: --from, --until and --only leave out all of "
            f"{workload.seconds:.1f} s"
        )
    return part


def _seconds(option: str, text: str | None, default: float = 0.0) -> float:
    from pytest_schedprof.model.words import read_seconds

    try:
        return default if text is None else read_seconds(text)
    except ValueError:
        raise SettingsError(
            f"schedprof: {option} must be a time such as 10s, 5min or 2h, got {quoted(text)}"
        ) from None


MOST_COPIES = 10_000


def _number(option: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if not 0 < number <= MOST_COPIES:
        raise SettingsError(
            f"schedprof: {option} must be a whole number from 1 to {MOST_COPIES}, "
            f"got {quoted(text)}"
        )
    return number


def _write(path: Path, workload: Workload) -> None:
    from pytest_schedprof.formats.workload import write_workload
    from pytest_schedprof.storage.run_directory import write

    if path.exists():
        raise SettingsError(f"schedprof: the workload cannot be written to {path}: File exists")
    write(path, write_workload(workload))


def _write_page(path: Path, workload: Workload, name: str) -> None:
    from pytest_schedprof.pages.rendering import render_workload
    from pytest_schedprof.pages.workload_page import page_of_workload
    from pytest_schedprof.storage.run_directory import write

    page = render_workload(page_of_workload(workload, name))
    write(path, page.encode("utf-8", "backslashreplace"))
