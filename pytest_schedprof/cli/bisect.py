"""`schedprof bisect`: for `git bisect run`, or a search among releases."""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct
from packaging.version import InvalidVersion, Version

from pytest_schedprof.cli.compare import load_both
from pytest_schedprof.cli.explain import gravest
from pytest_schedprof.cli.history import check_metric
from pytest_schedprof.cli.main import STOP, add_directory, complain, say
from pytest_schedprof.errors import (
    BaselineError,
    ClusterError,
    SettingsError,
    as_own,
    quoted,
)
from pytest_schedprof.judge.explanation import explanations, pairs_of
from pytest_schedprof.measuring.options import DEFAULT_BISECTED
from pytest_schedprof.model.comparison import Change, Outcome, Report
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.report.comparisons import explanation_lines, report_lines
from pytest_schedprof.report.words import WHOLE_NAME
from pytest_schedprof.store.baselines import load

PURPOSE = "find the commit, by `git bisect run`, or the release of a regression"
DESCRIPTION = (
    "Runs a pytest command with a temporary directory for its results, and compares them with a "
    "baseline, for `git bisect run`. With --releases: measures a test with one release after "
    "the other until the first bad one is left."
)
EXAMPLE = """\
example: git bisect start BAD GOOD
         git checkout GOOD && pytest --schedprof=counts --schedprof-save=good tests/test_x.py
         git bisect run schedprof bisect good -- pytest --schedprof=counts tests/test_x.py

exit status, as `git bisect run` reads it: 0 if nothing regressed, 1 if something did, 125 (skip
this commit) if the comparison is undecided or nothing was measured, 128 for a mistake (stop)

example: schedprof bisect --releases 2025.5.0..2026.8.0 tests/test_x.py -- --schedprof-workers=100

exit status: 0 if the release was found, 1 if nothing regressed or an end cannot be measured, 2 for
a mistake"""

USAGE = """\
schedprof bisect [--dir DIR] BASELINE -- COMMAND ...
       schedprof bisect --releases FIRST..LAST [OPTIONS] TEST [-- PYTEST-OPTION ...]"""

GOOD, BAD, SKIP = 0, 1, 125

PREFIX = "schedprof-bisect-"

TESTS_RAN = (0, 1)
"""Exit statuses of pytest with results: all tests passed, or some failed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = USAGE
    parser.add_argument(
        "baseline",
        metavar="BASELINE or TEST",
        help="a baseline of a good commit; or a test, for a search among releases",
    )
    command = parser.add_argument(
        "command",
        nargs="+",
        default=[],
        metavar="OPTION or COMMAND",
        help="after --: a pytest command; or pytest options, for a search",
    )
    # With `nargs="*"` options between TEST and -- would end the arguments.
    command.required = False
    parser.add_argument(
        "--releases", metavar="FIRST..LAST", help="search among these releases, or among A,B,C"
    )
    parser.add_argument(
        "--package", default="distributed", metavar="NAME", help="of the releases (%(default)s)"
    )
    parser.add_argument("--metric", default="", metavar="NAME", help="follow this metric")
    parser.add_argument(
        "--function", default="", metavar="PATTERN", help="follow a function, as module:name*"
    )
    add_directory(parser)


def run(arguments: argparse.Namespace) -> int:
    """Run the command and print what changed, or search among releases."""
    if arguments.releases is not None:
        with tempfile.TemporaryDirectory(prefix=PREFIX) as place:
            return run_releases(arguments, Path(place))
    try:
        if not arguments.command:
            raise SettingsError(
                "schedprof: nothing to run: give a pytest command after --, or --releases"
            )
        # Check it first: an error here must not skip every commit.
        load(arguments.baseline, arguments.dir)
        with tempfile.TemporaryDirectory(prefix=PREFIX) as place:
            return _judge(arguments, _measure(arguments.command, place), place)
    except Exception as error:  # any other status would blame the commit
        complain(f"schedprof: {error}" if isinstance(error, OSError) else as_own(error))
        return STOP


def _measure(command: list[str], place: str) -> int:
    """Run the command; return its exit status."""
    # Saving makes the session run the rounds that a comparison needs, as for the baseline.
    before = os.environ.get("PYTEST_ADDOPTS", "")
    options = f"{before} --schedprof-dir={shlex.quote(place)} --schedprof-save=measured".strip()
    try:
        done = subprocess.run(command, env={**os.environ, "PYTEST_ADDOPTS": options}, check=False)
    except OSError as error:
        raise SettingsError(
            f"schedprof: cannot run {command[0]!r}: {error.strerror}; give a pytest command "
            "after --"
        ) from error
    return done.returncode


def _judge(arguments: argparse.Namespace, status: int, place: str) -> int:
    if status not in TESTS_RAN:
        say(f"schedprof: the command exited with {status} and gave no results: skip this commit")
        return SKIP
    try:
        report = load_both(arguments.baseline, place, arguments.dir)
    except BaselineError as error:
        say(f"{error}: skip this commit")
        return SKIP
    say("\n".join(line.text for line in report_lines(report)))
    return {Verdict.PASS: GOOD, Verdict.FAIL: BAD, Verdict.INCONCLUSIVE: SKIP}[report.verdict]


INDEX_S, SESSION_S = 120.0, 3600.0

NAME = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")
VERSIONS = re.compile(r"^Available versions: (.*)$", re.MULTILINE)

PYTEST = "import sys; sys.path[:] = filter(None, sys.path); import pytest; sys.exit(pytest.main())"
"""Runs pytest; the working directory may be a checkout of the package."""

OURS = ("-p", "no:cacheprovider", "--color=no", "--schedprof-save=measured")

TELLING = [
    re.compile(rf"^{begin}\s*(\S.*)$", re.MULTILINE) for begin in ("E  ", "ERROR:", "schedprof:")
]
"""Lines of pytest's output that say what went wrong; the most telling ones first."""

MOST_WORDS = 200


class Figure(Struct, frozen=True):
    """The figure that regressed between the first and the last release; releases are told by it."""

    test_id: str
    backend: str
    change: Change

    def value(self, report: Report) -> float | None:
        """Return its value in results that are compared with the first release's; None if open."""
        for compared in report.comparisons:
            if (compared.test_id, compared.backend) != (self.test_id, self.backend):
                continue
            for change in compared.changes:
                if (change.metric, change.subject) == (self.change.metric, self.change.subject):
                    return None if change.outcome is Outcome.UNDECIDED else change.after
            if compared.changes or not compared.reasons:
                return self.change.before  # what did not change is not listed
        return None

    def is_bad(self, value: float) -> bool:
        """Return whether a value is beyond the middle between the first and the last one."""
        change = self.change
        middle = (change.before + change.after) / 2
        return (value - middle) * (change.after - change.before) >= 0


def figure_of(report: Report, metric: str = "", function: str = "") -> Figure | None:
    """Return the figure to follow: of the scheduler as a whole, or else what rose most.

    Args:
        report: the comparison of the first and the last release.
        metric: the only metric that counts; empty for all.
        function: a pattern of functions, the only ones that count; empty for all and the whole.
    """
    pattern = compile_pattern(function) if function else None
    figures = [
        Figure(comparison.test_id, comparison.backend, change)
        for comparison in report.comparisons
        for change in comparison.of(Outcome.REGRESSED)
        if metric in ("", change.metric) and (not pattern or pattern.fullmatch(change.subject))
    ]

    def order(figure: Figure) -> tuple[int, float, str]:
        change = figure.change
        if not change.subject and change.relative is not None:
            return 0, -change.relative, ""
        # Of functions the largest amount counts: small ones double easily.
        rank = METRICS[change.metric].rank or len(METRICS)
        return rank, -change.difference, change.subject

    return min(figures, key=order, default=None)


def first_bad(last: int, is_bad: Callable[[int], bool | None]) -> range:
    """Return the versions of which one is the first bad one, by binary search.

    All of them but the last could not be measured.

    Args:
        last: number of a version that is bad; number 0 is good.
        is_bad: measures a version; None if it cannot be measured.
    """
    good, bad, skipped = 0, last, set[int]()
    while between := [number for number in range(good + 1, bad) if number not in skipped]:
        number = between[len(between) // 2]
        answer = is_bad(number)
        if answer is None:
            skipped.add(number)
        elif answer:
            bad = number
        else:
            good = number
    return range(good + 1, bad + 1)


def run_releases(arguments: argparse.Namespace, place: Path) -> int:
    """Search, and print which release it is and why; status 1 if nothing regressed."""
    if arguments.metric:
        check_metric(arguments.metric)
    releases = releases_named(arguments.package, arguments.releases)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the session too

    def compared(number: int) -> Report:
        _measure_release(arguments, releases[number], place / str(number))
        return load_both(str(place / "0"), str(place / str(number)), arguments.dir)

    try:
        _measure_release(arguments, releases[0], place / "0")
        ends = compared(len(releases) - 1)
    except (ClusterError, BaselineError) as error:
        complain(f"{error}; this is an end of the range: choose another one")
        return 1
    if not (figure := figure_of(ends, arguments.metric, arguments.function)):
        complain(f"schedprof: nothing regressed between {releases[0]} and {releases[-1]}")
        return 1
    _tell(figure, releases[0], figure.change.before)
    _tell(figure, releases[-1], figure.change.after)

    def is_bad(number: int) -> bool | None:
        try:
            value = figure.value(compared(number))
        except (ClusterError, BaselineError) as error:
            complain(f"{error}; {releases[number]} is skipped")
            return None
        _tell(figure, releases[number], value)
        return None if value is None else figure.is_bad(value)

    suspects = first_bad(len(releases) - 1, is_bad)
    *skipped, bad = (f"{arguments.package} {releases[number]}" for number in suspects)
    say(f"the first bad release is {bad}" + (f", or one of {', '.join(skipped)}" * bool(skipped)))
    before, after = (str(place / str(number)) for number in (suspects[0] - 1, suspects[-1]))
    pairs = pairs_of(before, after, arguments.dir)
    every = [why for pair in pairs for why in explanations(pair)]
    for why in gravest(every)[:1] or every[:1]:
        for line in explanation_lines(why):
            say(line.text)
    return 0


def _tell(figure: Figure, release: str, value: float | None) -> None:
    change = figure.change
    amount = "undecided" if value is None else readable(value, METRICS[change.metric])
    name = f"{change.metric} of {change.subject or WHOLE_NAME} in {figure.test_id}"
    complain(f"schedprof: {release}: {amount} ({name})")


def _measure_release(arguments: argparse.Namespace, release: str, place: Path) -> None:
    """Run the test with a release, and leave the results in a directory.

    Raises:
        ClusterError: if there is no such release, or pytest gave no results.
        SettingsError: if it cannot be measured here, or the tests import another release.
    """
    from pytest_schedprof.clusters.environments import default_cache, interpreter_for, run

    backend, cluster = DEFAULT_BISECTED
    options = [f"--schedprof={backend}", f"--schedprof-cluster={cluster}"]
    options += [f"--schedprof-option={backend}.detail=true", *arguments.command, *OURS]
    try:
        python = interpreter_for(f"{arguments.package}=={release}", default_cache()).path
        options += [f"--schedprof-dir={place}"]
        command = [str(python), "-c", PYTEST, arguments.baseline, *options]
        deadline = time.monotonic() + SESSION_S
        seed = {"PYTHONHASHSEED": "0"}  # in releases that name tasks in another way too
        status, output = run(command, deadline=deadline, cwd=Path.cwd(), more=seed)
    except subprocess.TimeoutExpired:
        raise ClusterError(
            f"schedprof: with {release} pytest did not end in {SESSION_S:g} s"
        ) from None
    try:
        results = [result for result in load(str(place), str(place)).results if result.is_usable]
    except BaselineError:
        results = []
    if not results:
        lines = [line for pattern in TELLING for line in pattern.findall(output)]
        words = [*lines, *output.splitlines()[-1:], ""][0][:MOST_WORDS]
        raise ClusterError(f"schedprof: with {release} pytest exited with {status}: {words}")
    versions = results[0].environment.versions
    if not is_release(versions.get(arguments.package, release), release):
        raise SettingsError(
            f"schedprof: the test imports {arguments.package} {versions[arguments.package]} and "
            f"not {release}: move the test out of the checkout, or see which conftest.py or "
            "setting puts it on the path"
        )


def is_release(version: str, release: str) -> bool:
    """Whether a version is this release, which may be named without its last zeros."""
    try:
        return Version(version) == Version(release)
    except InvalidVersion:  # of a checkout
        return False


def releases_named(package: str, text: str) -> list[str]:
    """Return the releases that a text like `2025.5.0..2026.8.0` or `2025.5.0,2026.8.0` names.

    Raises:
        SettingsError: if it names no two releases in order.
        ClusterError: if the package index does not tell which there are.
    """
    if not NAME.fullmatch(package):
        raise SettingsError(f"schedprof: --package must be a package's name, got {quoted(package)}")
    is_range = ".." in text
    try:
        ends = [Version(word.strip()) for word in text.split(".." if is_range else ",")]
    except InvalidVersion:
        ends = []
    if len(set(ends)) < 2 or (is_range and len(ends) > 2) or ends[0] > ends[-1]:
        raise SettingsError(
            "schedprof: --releases must be FIRST..LAST, as 2025.5.0..2026.8.0, or several with "
            f"commas, the earliest first, got {quoted(text)}"
        )
    known = releases_of(package) if is_range else ends
    between = sorted({version for version in known if ends[0] <= version <= ends[-1]})
    if len(between) < 2:
        raise SettingsError(f"schedprof: {package} has no two releases in {quoted(text)}")
    return list(map(str, between))


def releases_of(package: str) -> list[Version]:
    """Return the releases that fit this Python, the oldest first; no pre-releases.

    Raises:
        ClusterError: if the index does not answer, or has no such package.
    """
    from pytest_schedprof.clusters.environments import run, uv_program

    # uv has no command for this, but runs pip without installing it.
    asking = ["tool", "run", f"--python={sys.executable}", "pip", "index", "versions", package]
    with tempfile.TemporaryDirectory(prefix="schedprof-index-") as place:
        deadline = time.monotonic() + INDEX_S
        try:
            status, output = run([uv_program(), *asking], deadline=deadline, cwd=Path(place))
        except subprocess.TimeoutExpired:
            status, output = None, f"no answer in {INDEX_S:g} s"
    listed = VERSIONS.search(output)
    if status != 0 or not listed:
        reason = (output.strip().splitlines() or ["no answer"])[-1]
        raise ClusterError(
            f"schedprof: the package index does not tell the releases of {package!r} ({reason}); "
            "name them yourself: --releases=A,B,C"
        )
    return sorted(map(Version, listed[1].split(",")))
