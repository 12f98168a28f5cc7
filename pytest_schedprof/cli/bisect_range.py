"""`schedprof bisect --commits` and `--releases`: find the commit or release of a regression."""

from __future__ import annotations

import argparse
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from pytest_schedprof.cli.output import complain, say
from pytest_schedprof.cli.sources import load_both
from pytest_schedprof.errors import SettingsError, quoted

if TYPE_CHECKING:
    from pytest_schedprof.bisecting.asked import Asked
    from pytest_schedprof.bisecting.finding import Found
    from pytest_schedprof.bisecting.versions import Versions
    from pytest_schedprof.reports.lines import Line

FOUND, NOTHING = 0, 1

DISTRIBUTED = "distributed"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of a search, which `git bisect run` does not use."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--releases",
        metavar="FIRST..LAST",
        help="search among releases from the package index, each in an environment of its own",
    )
    what.add_argument("--commits", metavar="GOOD..BAD", help="search among commits of --checkout")
    parser.add_argument("--checkout", default=".", metavar="DIR", help="a checkout (default: .)")
    parser.add_argument(
        "--package",
        metavar="NAME",
        help="package to search (default: distributed for --releases, or the checkout's only one)",
    )
    parser.add_argument("--metric", default="", metavar="NAME", help="follow this metric")
    parser.add_argument(
        "--function", default="", metavar="PATTERN", help="follow a function, as module:name*"
    )
    parser.add_argument(
        "--start-over", action="store_true", help="measure again what was measured before"
    )


def run_range(given: argparse.Namespace) -> int:
    """Search, and print what was found."""
    from pytest_schedprof.bisecting.finding import EndsError, Finding
    from pytest_schedprof.bisecting.journal import Journal
    from pytest_schedprof.storage.run_directory import locked

    asked = _asked(given)
    asked.check()
    versions, place = _versions(given, asked)
    _heed_signals()
    journal = Journal(place, is_anew=asked.is_anew)
    with locked(journal.place):
        compare = partial(load_both, directory=given.dir)
        try:
            found = Finding(versions, asked, journal, compare, _tell).find()
        except EndsError as error:
            complain(error)
            return NOTHING
        except KeyboardInterrupt:
            complain("schedprof: interrupted; the same command goes on where this one stopped")
            raise
    _say_found(found, versions, given.dir)
    return FOUND


def _asked(given: argparse.Namespace) -> Asked:
    from pytest_schedprof.bisecting.asked import Asked
    from pytest_schedprof.settings.options import DEFAULT_BISECTED

    backend, cluster = DEFAULT_BISECTED
    return Asked(
        test=given.baseline,
        options=(
            f"--schedprof={backend}",
            f"--schedprof-cluster={cluster}",
            f"--schedprof-option={backend}.detail=true",
            *given.command,
        ),
        metric=given.metric,
        function=given.function,
        directory=Path(given.dir),
        is_anew=given.start_over,
    )


def _versions(given: argparse.Namespace, asked: Asked) -> tuple[Versions, Path]:
    """Return the versions, and the directory for their results."""
    if given.releases is not None:
        from pytest_schedprof.bisecting.releases import releases_between

        releases = releases_between(given.package or DISTRIBUTED, given.releases)
        return releases, asked.place(releases.noun, releases.package)
    from pytest_schedprof.bisecting.commits import Commits
    from pytest_schedprof.bisecting.repository import Repository

    repository = Repository(Path(given.checkout))
    good, dots, bad = given.commits.partition("..")
    if not (good and dots and bad) or bad.startswith("."):
        raise SettingsError(f"schedprof: --commits must be GOOD..BAD, got {quoted(given.commits)}")
    names = repository.between(*map(repository.commit, (good, bad)))
    if len(names) < 2:
        raise SettingsError(
            f"schedprof: there is no commit in {quoted(given.commits)}: both are {names[0][:10]}"
        )
    commits = Commits(repository, names, given.package or "")
    return commits, asked.place(commits.noun, commits.package, str(repository.path))


def _heed_signals() -> None:
    """End in an orderly way also when terminated, or in the background of a shell."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _tell(text: str) -> None:
    complain(f"schedprof: {text}")


def _say_found(found: Found, versions: Versions, directory: str) -> None:
    from pytest_schedprof.bisecting.words import found_lines

    say("\n".join(found_lines(found, versions)))
    say(_explained(found, versions, directory))


def _explained(found: Found, versions: Versions, directory: str) -> str:
    """Return what changed between the last good and the first bad version."""
    from pytest_schedprof.reports.comparisons import report_lines

    report = load_both(str(found.before), str(found.after), directory)
    before, after = map(versions.label, (found.search.good, found.search.bad))
    report = replace(report, before=before, after=after)
    lines = [*report_lines(report), *_reasons(found, directory)]
    return "\n".join(line.text for line in lines)


def _reasons(found: Found, directory: str) -> Iterator[Line]:
    """Yield why the figures differ: functions, lines and sources."""
    from pytest_schedprof.cli.explain import gravest
    from pytest_schedprof.explaining.sides import explanations, pairs_of
    from pytest_schedprof.reports.explanations import explanation_lines

    pairs = pairs_of(str(found.before), str(found.after), directory)
    every = [each for pair in pairs for each in explanations(pair)]
    for each in gravest(every)[:1] or every[:1]:
        yield from explanation_lines(each)
