"""Measure how many real performance commits of dask and distributed the shipped workloads find.

    python benchmarks/backtest.py [--corpus DIR ...] [--only COMMIT ...] [--output TABLE.md]
    python benchmarks/backtest.py --null RELEASE ... [--seeds 0 1 2 3]
    python benchmarks/backtest.py --checkout DISTRIBUTED [--file NAME ...]

Each patch is a commit that made the scheduler, graph intake or the client cheaper. An environment
of the release that has it is made by the plugin's own cache. In a copy of that environment the
patch is reversed: a real regression. A patch that does not reverse cleanly is refused. The shipped
workloads (`shipped.py`) run in the release and in the copy with `--schedprof` alone, and both runs
are compared.

- failed: workloads whose test fails in the copy, of those that were compared.
- first line, first three, anywhere: in how many of these the function at fault is the first one
  that the test's failure names, one of the first three, or any: causes come first, then figures.
  At fault is a function that the patch changes, or that the lines name which it removed: a
  regression gets these back.
- null: workloads of the release that fail when they run once more there: false alarms. Releases
  take the hash seeds of `--seeds` in turns; with `--null` each runs with every seed.
- broken: workloads that failed in a session for another reason, or ran no task. They are no passes:
  the exit status is 1 then, as it is with a patch that was refused.

With `--checkout`, a repository of distributed, the workloads are its own tests instead, as
each release had them: whole files of them, unchanged, in virtual time under `counts`. Tests that
fail in a release are left out.

A directory of patches has a README.md with a table as in `corpus.py`, or each patch has a line
`Release: 2025.4.0` before its first file, or `--release` gives one for all. Sessions whose results
`--keep` already has do not run again, so an interrupted run goes on, and other code can judge them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path

from corpus import Patch, PatchError, changed_functions, read_corpus, reverse

from pytest_schedprof.clusters.environments import default_cache, interpreter_for, run
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.model.comparison import Change, Comparison, Outcome
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import by_test
from pytest_schedprof.store.records import read_record
from pytest_schedprof.workloads import WORKLOADS
from pytest_schedprof.workloads.test_shipped import SIZE

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared" / "corpus"
MAKING_S = 900.0

SETTINGS = ("--schedprof", "--schedprof-timeout=90")  # for a busy machine
SHIPPED = "shipped.py"
PYTEST = (
    "-m",
    "pytest",
    "-q",
    "-p",
    "no:cacheprovider",
    "--rootdir=.",
    "-c",
    os.devnull,
)

COLUMNS = "commit | what it did | failed | first line | first three | anywhere | best line | null"
HEADINGS = (*COLUMNS.split(" | "), "seconds")
PLACES = {"in the first line": 1, "in the first three": 3, "anywhere": 10**9}
"""The last place of a figure, by the words for where it is."""


class NotRunError(Exception):
    """A patch cannot be tried; the text says why."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is run, and how."""

    tasks: int
    session_s: float
    """For each session; workloads that are finished by then count."""
    options: tuple[str, ...] = ()
    """Further options of pytest."""
    seed: str = "random"
    """Hash seed of the tests' process."""
    checkout: Path | None = None
    """Repository of distributed, if its own tests are the workloads."""
    files: tuple[str, ...] = ()
    """Names of the files of these tests, without `test_`."""


@dataclass(frozen=True, slots=True)
class Side:
    """The results of one session."""

    name: str
    whole: tuple[Result, ...]
    """Of workloads that did their work."""
    expected: frozenset[str] = frozenset(WORKLOADS)
    """Names of the workloads that must be whole."""

    @property
    def broken(self) -> list[str]:
        """Those that are not."""
        whole = {workload_of(result.test_id) for result in self.whole}
        return [f"{workload} ({self.name})" for workload in sorted(self.expected - whole)]

    def against(self, other: Side) -> list[Comparison]:
        """Compare another side with this one, workload by workload."""
        comparisons = compare(by_test(self.whole), by_test(other.whole)).comparisons
        return [comparison for comparison in comparisons if comparison.same or comparison.changes]


@dataclass(frozen=True, slots=True)
class Release:
    """A release that ran."""

    bounds: Bounds
    """With its hash seed."""
    first: Side


@dataclass(frozen=True, slots=True)
class Failure:
    """A workload whose test a reversed patch lets fail."""

    workload: str
    changes: tuple[Change, ...]
    """The figures of the causes and those that regressed, in the order in which they are told."""
    place: float
    """Of the first one of a function at fault; infinite if there is none."""

    def __str__(self) -> str:
        change = self.changes[int(self.place) - 1 if self.place < inf else 0]
        name = change.subject.partition(":")[2] or "the whole"
        relative = f"{change.relative:+.0%}" if change.relative is not None else "new"
        return f"{change.metric} of `{name}` {relative} (`{self.workload}`)"


@dataclass(slots=True)
class Row:
    """What came out for one patch, or for a release alone."""

    name: str
    what: str
    failures: list[Failure] = field(default_factory=list)
    compared: int = 0
    """Number of workloads with figures of both sides."""
    null: list[Comparison] = field(default_factory=list)
    """Empty if another patch has the same release."""
    broken: list[str] = field(default_factory=list)
    seconds: float = 0.0
    refused: str = ""
    """Why nothing was run."""

    @property
    def best(self) -> Failure | None:
        """The failure that names the function at fault the soonest, if any test fails."""
        return min(self.failures, key=lambda failure: failure.place, default=None)

    def within(self, place: int) -> int:
        """Return how many failures name the function at fault up to this place."""
        return sum(failure.place <= place for failure in self.failures)

    def cells(self) -> tuple[str, ...]:
        """Texts of the row, as in `HEADINGS`."""
        failed = f"{len(self.failures)} of {self.compared}" if self.compared else ""
        places = [str(self.within(most)) if self.failures else "" for most in PLACES.values()]
        broken = f"broken: {', '.join(self.broken)}" if self.broken else ""
        best = str(self.best or ("**missed**" if self.compared else ""))
        return (
            self.name,
            self.what,
            failed,
            *places,
            "; ".join(filter(None, [best, broken, self.refused])),
            f"{len(alarms(self.null))} of {len(self.null)}" if self.null else "",
            f"{self.seconds:.0f}",
        )


def workload_of(test_id: str) -> str:
    """Return the workload's name in the ID of a test; another test is one itself."""
    file, _, name = test_id.partition("::")
    return name.partition("[")[2].removesuffix("]") if file == SHIPPED else name


def is_whole(result: Result) -> bool:
    """Whether a workload did its work: it neither failed nor ran no task."""
    return result.is_usable and all(backend.window.tasks for backend in result.backends)


@dataclass(frozen=True, slots=True)
class Trials:
    """Tries patches; the runs of a release are shared by its patches."""

    place: Path
    bounds: Bounds
    seeds: Sequence[str]
    releases: dict[str, Release] = field(default_factory=dict)

    def of(self, patch: Patch) -> Row:
        """Run the workloads with a patch reversed and return what was found."""
        row = Row(f"`{patch.path.stem}` {patch.number}".strip(), patch.what)
        start = time.monotonic()
        try:
            self._reversed(patch, row)
        except (NotRunError, SchedprofError) as error:
            row.refused = str(error).partition("\n")[0]
        row.seconds = time.monotonic() - start
        return row

    def _reversed(self, patch: Patch, row: Row) -> None:
        place = self.place / patch.path.stem
        good, bad = environments(patch, place)
        if patch.release not in self.releases:
            seed = self.seeds[len(self.releases) % len(self.seeds)]
            self.releases[patch.release] = self._release(good, patch.release, seed, row)
        release = self.releases[patch.release]
        seed = release.bounds.seed
        side = session(bad, place / f"run-{seed}", release.bounds, release=patch.release)
        compared = release.first.against(side)
        row.compared = len(compared)
        row.broken += side.broken
        functions = changed_functions(patch, site_of(good), site_of(bad))
        row.failures = [
            failure(comparison, patch, functions) for comparison in compared if alarms([comparison])
        ]

    def _release(self, interpreter: Path, name: str, seed: str, row: Row) -> Release:
        """Run the workloads twice in a release; the second run is a null arm of this row."""
        bounds = replace(self.bounds, seed=seed)
        own = self.place / f"release-{name}-{seed}"
        first, second = (
            session(interpreter, own / side, bounds, release=name) for side in ("first", "second")
        )
        row.null = first.against(second)
        row.broken = [*first.broken, *second.broken]
        return Release(bounds, first)

    def null(self, name: str) -> Iterator[Row]:
        """Yield what came out for a release compared with itself, with each hash seed."""
        interpreter = interpreter_for(f"distributed=={name}", default_cache(), MAKING_S).path
        for seed in self.seeds:
            row, start = Row(name, f"the same code, hash seed {seed}"), time.monotonic()
            try:
                self._release(interpreter, name, seed, row)
            except NotRunError as error:
                row.refused = str(error)
            row.seconds = time.monotonic() - start
            yield row


def environments(patch: Patch, place: Path) -> tuple[Path, Path]:
    """Return the interpreters of the release and of its copy with the patch reversed."""
    good = interpreter_for(f"distributed=={patch.release}", default_cache(), MAKING_S).path
    copy = place / "reversed"
    bad = copy / good.relative_to(good.parents[1])
    if copy.exists():
        return good, bad
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as temporary:
        made = Path(temporary) / "reversed"
        shutil.copytree(good.parents[1], made, symlinks=True)
        try:
            reverse(patch, site_of(made / good.relative_to(good.parents[1])))
        except PatchError as error:
            raise NotRunError(str(error)) from error
        made.rename(copy)
    return good, bad


def site_of(interpreter: Path) -> Path:
    """Return the directory of packages that belongs to an environment's interpreter."""
    (site,) = interpreter.parents[1].glob("lib/python*/site-packages")
    return site


def session(
    interpreter: Path,
    place: Path,
    bounds: Bounds,
    *options: str,
    packages: Path | None = None,
    release: str = "",
) -> Side:
    """Run the workloads with an interpreter, unless they have run, and return their results.

    Packages of the given directory are imported before all others. The release is that of
    distributed's own tests.
    """
    output_file = place / "said.txt"
    if not output_file.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        words = own_tests(place, bounds, release) if bounds.checkout else shipped(place, bounds)
        command = [str(interpreter), *PYTEST, *words, *SETTINGS, *options, *bounds.options]
        deadline = time.monotonic() + bounds.session_s
        try:
            more = {"PYTHONHASHSEED": bounds.seed}
            if packages is not None:
                more["PYTHONPATH"] = str(packages)
            _, said = run(command, deadline=deadline, cwd=place, more=more)
        except subprocess.TimeoutExpired:
            said = f"did not end in {bounds.session_s:g} s"
        output_file.write_text(said)
    written = sorted(place.glob(".schedprof/2*/tests/*/result.json"))
    results = (read_record(path, Result) for path in written)
    expected = frozenset[str]() if bounds.checkout else frozenset(WORKLOADS)
    side = Side(place.name, tuple(result for result in results if is_whole(result)), expected)
    if not side.whole:
        last = (output_file.read_text().strip().splitlines() or ["no output"])[-1]
        raise NotRunError(f"no workload ran in {place.name}: {last}")
    return side


def shipped(place: Path, bounds: Bounds) -> list[str]:
    """Put the shipped workloads into a directory; return the words for pytest."""
    shutil.copy(HERE / SHIPPED, place)
    return ["--noconftest", SHIPPED, f"--schedprof-scale={bounds.tasks}"]


def own_tests(place: Path, bounds: Bounds, release: str) -> list[str]:
    """Put distributed's own tests of a release into a directory; return the words for pytest."""
    names = [f"test_{name}.py" for name in bounds.files]
    for name in names:
        blob = f"{release}:distributed/tests/{name}"
        shown = subprocess.run(
            ["git", "-C", str(bounds.checkout), "show", blob], capture_output=True, check=True
        )
        (place / name).write_bytes(shown.stdout)
    (place / "conftest.py").write_text("from distributed.utils_test import *\n")
    unneeded = ["-p", "no:asyncio", "-p", "no:randomly", "-p", "no:warnings", "-m"]
    return [*unneeded, "not slow and not avoid_ci", "--schedprof-cluster=virtual", *names]


def alarms(compared: Sequence[Comparison]) -> list[Comparison]:
    """Return the comparisons that let a test fail."""
    return [comparison for comparison in compared if comparison.of(Outcome.REGRESSED)]


def failure(comparison: Comparison, patch: Patch, changed: frozenset[str]) -> Failure:
    """Return what a failing test tells of the function at fault."""
    causes = {
        cause.function: Change(
            cause.metric, cause.function, "", Outcome.REGRESSED, cause.before, cause.after, 0, 0
        )
        for cause in comparison.causes
    }
    regressed = comparison.of(Outcome.REGRESSED)
    changes = (*causes.values(), *(change for change in regressed if change.subject not in causes))
    places = (
        place
        for place, change in enumerate(changes, start=1)
        if is_at_fault(change.subject, patch, changed)
    )
    return Failure(workload_of(comparison.test_id), changes, next(places, inf))


def is_at_fault(function: str, patch: Patch, changed: frozenset[str]) -> bool:
    """Whether a patch changes a function or one around it, or removed lines that name it."""
    own = {function, *(function[:at] for at in ends_of_outer(function))}
    return bool(own & changed) or function.rpartition(":")[2].rpartition(".")[2] in patch.words


def ends_of_outer(subject: str) -> Iterator[int]:
    """Yield where the name of each function around a nested one ends."""
    at = subject.find(".<locals>.")
    while at >= 0:
        yield at
        at = subject.find(".<locals>.", at + 1)


def table(rows: Sequence[Row]) -> str:
    """Render the rows, and the sums below them, as Markdown."""
    lines = [HEADINGS, ("---",) * len(HEADINGS), *(row.cells() for row in rows)]
    rendered = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"{rendered}\n\n{sums(rows)}\n"


def sums(rows: Sequence[Row]) -> str:
    """Say how many commits and tests were caught, and how many null arms raised an alarm."""
    patches = [row for row in rows if row.compared]
    within = {words: [row.within(most) for row in patches] for words, most in PLACES.items()}
    commits = ", ".join(f"{sum(map(bool, rows))} {words}" for words, rows in within.items())
    tests = ", ".join(f"{sum(rows)} {words}" for words, rows in within.items())
    failing = [len(row.failures) for row in patches]
    nulls = [arm for row in rows for arm in row.null]
    broken, refused = sum(len(row.broken) for row in rows), sum(bool(row.refused) for row in rows)
    return (
        f"Commits that let a test fail: {sum(map(bool, failing))} of {len(patches)}; a test names "
        f"the function at fault {commits}.\n"
        f"Failing tests: {sum(failing)}; they name the function at fault {tests}.\n"
        f"Null arms that regressed: {len(alarms(nulls))} of {len(nulls)}. "
        f"Broken workloads: {broken}. Refused: {refused}."
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, nargs="+", default=[SHARED])
    parser.add_argument("--release", default="", help="release of patches that name none")
    parser.add_argument("--only", nargs="+", default=(), metavar="COMMIT")
    parser.add_argument("--null", nargs="+", metavar="RELEASE", help="no patches, but null arms")
    parser.add_argument("--checkout", type=Path, help="distributed, to run its own tests")
    parser.add_argument("--file", nargs="+", default=["scheduler"], help="names of their files")
    parser.add_argument("--seeds", nargs="+", default=["random"], help="hash seeds")
    parser.add_argument("--tasks", type=int, default=SIZE)
    parser.add_argument("--most", type=float, default=900.0, help="seconds of a session")
    parser.add_argument("--option", action="append", default=[], help="option of pytest")
    parser.add_argument("--keep", type=Path, help="directory for results and environments")
    parser.add_argument("--output", type=Path, help="file for the table")
    command_line = parser.parse_args(arguments)
    for corpus in command_line.corpus:
        if not corpus.is_dir() and not command_line.null:
            parser.error(f"there is no directory {corpus}; give --corpus DIR")
    bounds = Bounds(
        command_line.tasks,
        command_line.most,
        tuple(command_line.option),
        checkout=command_line.checkout,
        files=tuple(command_line.file),
    )
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="backtest-") as temporary:
        trials = Trials(
            (command_line.keep or Path(temporary)).absolute(), bounds, command_line.seeds
        )
        for row in tried(trials, command_line):
            rows.append(row)
            print(" | ".join(row.cells()), flush=True)
            if command_line.output:  # after each one, because all of them take long
                command_line.output.write_text(table(rows))
    print(f"\n{table(rows)}")
    sys.exit(any(row.broken or row.refused for row in rows))


def tried(trials: Trials, command_line: argparse.Namespace) -> Iterator[Row]:
    """Yield a row for each release whose null arms are asked for, or else for each patch."""
    for release in command_line.null or ():
        yield from trials.null(release)
    if not command_line.null:
        for patch in read_corpus(
            [corpus.absolute() for corpus in command_line.corpus], command_line.release
        ):
            if (
                not command_line.only
                or patch.path.stem in command_line.only
                or patch.number in command_line.only
            ):
                yield trials.of(patch)


if __name__ == "__main__":
    main()
