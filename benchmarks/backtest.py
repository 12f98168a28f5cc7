"""Measure how many real performance commits of distributed the shipped workloads find.

    python benchmarks/backtest.py [--corpus DIR] [--only COMMIT ...] [--output TABLE.md]

Each patch of the corpus is a commit that made the scheduler cheaper. An environment of the release
that has it is made by the plugin's own cache. In a copy of that environment the patch is reversed:
a real regression. The shipped workloads (`shipped.py`) run twice in the release and once in the
copy, on clusters in virtual time, with the settings that docs/ci.md recommends. The second run of
the release and the run of the copy are compared with the first.

- caught: at least one workload regressed.
- compared: workloads that gave figures of both sides, of all that are shipped.
- named: the regressed function is one that the patch changes, or that the lines name which the
  patch removed ("function"), or is in a file that the patch changes ("file").
- null: workloads that regressed in the second run of the release: false alarms.

With `--cluster simulated` the workloads run in real time: the release and its copy in turns, with a
null arm, which is the release once more. There both schedulers have the client of the session. So
if the patch changes the client, or the client of one side cannot use the scheduler of the other
one, the workloads run as above.

A directory of patches has a README.md with a table as in `corpus.py`, or each patch has a line
`Release: 2025.4.0` before its first file, or `--release` gives one for all.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corpus import Patch, changed_functions, module_of, read_corpus

from pytest_schedprof.environments.interpreter import interpreter_for
from pytest_schedprof.environments.making import default_cache, run
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.model.comparison import Change, Comparison, Outcome
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.remote.compatibility import INCOMPATIBLE
from pytest_schedprof.storage.records import read_record
from pytest_schedprof.workloads import WORKLOADS

HERE = Path(__file__).parent
SHARED = HERE.parents[1] / "shared" / "corpus"
MAKING_S = 900.0

CLIENT = "distributed/client.py"

VIRTUAL, SIMULATED = "virtual", "simulated"

EXACT: Mapping[str, tuple[str, ...]] = {
    VIRTUAL: (
        "--schedprof=counts",
        "--schedprof-cluster=virtual",
        "--schedprof-rounds=1",
        "--schedprof-cluster-option=duration=exponential(500ms)",
    ),
    SIMULATED: ("--schedprof=counts", "--schedprof-cluster=simulated"),
}
"""What the workloads are measured with, by the kind of cluster."""

SETTINGS = (
    "--schedprof-workers=20",
    "--schedprof-timeout=90",  # for a busy machine
)
PYTEST = (
    "-m",
    "pytest",
    "--noconftest",
    "-q",
    "-p",
    "no:cacheprovider",
    "--rootdir=.",
    "-c",
    os.devnull,
)

HEADINGS = ("commit", "what it did", "caught", "by what", "named", "compared", "null", "seconds")

FUNCTION, FILE, ELSEWHERE = "function", "file", "no"
NAMED = (FUNCTION, FILE, ELSEWHERE)
"""How well a regressed figure names the cause, the best first."""


class NotRunError(Exception):
    """A patch cannot be tried; the text says why."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is run."""

    tasks: int
    budget_s: float
    """For each workload."""
    patch_s: float
    """For each patch; workloads that are finished by then count."""
    options: tuple[str, ...] = ()
    """Further options of pytest."""
    cluster: str = VIRTUAL


@dataclass(frozen=True, slots=True)
class Found:
    """A figure that regressed."""

    workload: str
    change: Change
    named: str
    is_changed: bool
    """Whether the patch changes this function itself."""

    def __str__(self) -> str:
        change = self.change
        name = change.subject.partition(":")[2] or change.subject or "the scheduler as a whole"
        relative = f"{change.relative:+.0%}" if change.relative is not None else "new"
        return f"{change.metric} of `{name}` {relative} (`{self.workload}`)"

    @property
    def rank(self) -> tuple[int, bool, float]:
        """Order of the figures: those that name the cause first, then the largest rise."""
        relative = self.change.relative
        rise = float("inf") if relative is None else relative
        return NAMED.index(self.named), not self.is_changed, -rise


@dataclass(slots=True)
class Row:
    """What came out for one patch."""

    patch: Patch
    found: list[Found] = field(default_factory=list)
    compared: int = 0
    """Number of workloads with figures of both sides."""
    workloads: int = 0
    nulls: int = 0
    false_alarms: int = 0
    seconds: float = 0.0
    note: str = ""

    def cells(self) -> tuple[str, ...]:
        """Texts of the row, as in `HEADINGS`."""
        best = min(self.found, key=lambda each: each.rank, default=None)
        more = f" and {len(self.found) - 1} more" if len(self.found) > 1 else ""
        caught = "**yes**" if best else "no" if self.compared else "not run"
        by_what = "; ".join(filter(None, [f"{best}{more}" if best else "", self.note]))
        return (
            f"`{self.patch.path.stem}` {self.patch.number}".strip(),
            self.patch.what,
            caught,
            by_what,
            best.named if best else "",
            f"{self.compared} of {self.workloads}",
            f"{self.false_alarms} of {self.nulls}" if self.nulls else "as above",
            f"{self.seconds:.0f}",
        )


def try_patch(patch: Patch, place: Path, bounds: Bounds) -> Row:
    """Run the workloads with a patch reversed and return what was found."""
    row, begun = Row(patch), time.monotonic()
    place.mkdir(parents=True)
    try:
        good, bad = environments(patch, place)
        results, nulls = measured(good, bad, place, bounds, row)
        functions = changed_functions(patch, site_of(good), site_of(bad))
        row.workloads = len(WORKLOADS)
        row.compared = sum(any(map(is_compared, each.comparisons)) for each in results)
        row.found = [each for result in results for each in regressed(result, patch, functions)]
        row.nulls = sum(map(is_compared, nulls))
        row.false_alarms = sum(each.verdict is Verdict.FAIL for each in nulls)
    except (NotRunError, SchedprofError) as error:
        row.note = str(error).partition("\n")[0]
    row.seconds = time.monotonic() - begun
    return row


def environments(patch: Patch, place: Path) -> tuple[Path, Path]:
    """Return the interpreters of the release and of its copy with the patch reversed."""
    wanted = f"distributed=={patch.release}"
    good = interpreter_for(wanted, default_cache(), MAKING_S).path
    copy = place / "reversed"
    shutil.copytree(good.parents[1], copy, symlinks=True)
    bad = copy / good.relative_to(good.parents[1])
    program = shutil.which("patch")
    if program is None:
        raise NotRunError("the program `patch` is not installed here")
    command = [program, "--reverse", "--strip=1", "--batch", f"--input={patch.path}"]
    status, said = run(command, deadline=time.monotonic() + 60, cwd=site_of(bad))
    if status:
        raise NotRunError(f"the patch does not apply in reverse to {patch.release}: {said.strip()}")
    return good, bad


def site_of(interpreter: Path) -> Path:
    """Return the directory of packages that belongs to an environment's interpreter."""
    (site,) = interpreter.parents[1].glob("lib/python*/site-packages")
    return site


def measured(
    good: Path, bad: Path, place: Path, bounds: Bounds, row: Row
) -> tuple[list[Result], list[Comparison]]:
    """Return the results of the regression, and the comparisons of the release with itself."""
    deadline = time.monotonic() + bounds.patch_s
    results: list[Result] = []
    said = INCOMPATIBLE
    if bounds.cluster == SIMULATED and CLIENT not in row.patch.files:
        budget = f"--schedprof-budget={bounds.budget_s:g}"
        against = (f"--schedprof-against={good}", "--schedprof-null", budget)
        results, said = session(bad, place / "turns", deadline, bounds, *against)
    if INCOMPATIBLE in said:
        row.note = "as two runs" if bounds.cluster == SIMULATED else ""
        return as_runs(good, bad, place, deadline, bounds, row.patch.release)
    if not results:
        raise NotRunError((said.strip().splitlines() or ["no output"])[-1])
    return results, [each for result in results for each in result.null]


def as_runs(
    good: Path, bad: Path, place: Path, deadline: float, bounds: Bounds, release: str
) -> tuple[list[Result], list[Comparison]]:
    """Run the release twice and the regression once; compare the latter two with the first.

    Patches of one release share its runs, which are compared for the first of them only.
    """
    own = place.parent / f"release-{release}"
    save, compare = (f"--schedprof-{word}={own / 'saved'}" for word in ("save", "compare"))
    again: list[Result] = []
    if not own.exists():
        session(good, own / "first", deadline, bounds, save)
        again, _ = session(good, own / "second", deadline, bounds, compare)
    results, said = session(bad, place / "run", deadline, bounds, compare)
    if not results:
        raise NotRunError((said.strip().splitlines() or ["no output"])[-1])
    return results, [each for result in again for each in result.comparisons]


def session(
    interpreter: Path,
    place: Path,
    deadline: float,
    bounds: Bounds,
    *options: str,
    more: Mapping[str, str] | None = None,
) -> tuple[list[Result], str]:
    """Run the workloads with an interpreter; return their results and what pytest said.

    Args:
        interpreter: of the environment.
        place: new directory for the results.
        deadline: when they must have ended.
        bounds: how much is run.
        options: of pytest.
        more: environment variables.
    """
    place.mkdir(parents=True)
    shutil.copy(HERE / "shipped.py", place)
    settings = (*EXACT[bounds.cluster], *SETTINGS, f"--schedprof-scale={bounds.tasks}")
    command = [str(interpreter), *PYTEST, "shipped.py", *settings, *options, *bounds.options]
    try:
        _, said = run(
            command, deadline=deadline, cwd=place, more={"PYTHONHASHSEED": "0", **(more or {})}
        )
    except subprocess.TimeoutExpired:
        said = "did not end in time"
    (place / "said.txt").write_text(said)
    return [each for each in results_in(place) if each.comparisons], said


def results_in(place: Path) -> list[Result]:
    """Return the results of the session that ran in a directory."""
    written = place.glob(".schedprof/2*/tests/*/result.json")
    return [read_record(path, Result) for path in sorted(written)]


def is_compared(comparison: Comparison) -> bool:
    """Return whether any figure was compared: too few rounds, or other work, leave none."""
    return bool(comparison.same or comparison.changes)


def regressed(result: Result, patch: Patch, functions: frozenset[str]) -> Iterator[Found]:
    """Yield the figures of a workload that regressed."""
    workload = result.test_id.partition("[")[2].removesuffix("]")
    for comparison in result.comparisons:
        for change in comparison.of(Outcome.REGRESSED):
            yield found(workload, change, patch, functions)


def found(workload: str, change: Change, patch: Patch, functions: frozenset[str]) -> Found:
    """Tell whether a figure's subject is the cause, a function in its file, or another one."""
    subject = change.subject
    own = {subject, *(subject[:at] for at in ends_of_outer(subject))}
    is_changed = bool(own & functions)
    return Found(
        workload, change, FUNCTION if is_changed else how_named(subject, patch), is_changed
    )


def how_named(subject: str, patch: Patch) -> str:
    """Tell the same of a function that the patch does not change: it may call it no more."""
    module, _, qualname = subject.partition(":")
    if qualname.rpartition(".")[2] in patch.words:
        return FUNCTION
    return FILE if module in {module_of(file) for file in patch.files} else ELSEWHERE


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
    caught = [row for row in rows if row.found]
    named = sum(any(each.named == FUNCTION for each in row.found) for row in caught)
    nulls, alarms = sum(row.nulls for row in rows), sum(row.false_alarms for row in rows)
    return (
        f"{rendered}\n\n{len(caught)} of {len(rows)} commits caught, {named} of them by the "
        f"function at fault; {alarms} of {nulls} null arms regressed.\n"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, default=SHARED)
    parser.add_argument("--release", default="", help="release of patches that name none")
    parser.add_argument("--only", nargs="+", default=(), metavar="COMMIT")
    parser.add_argument("--cluster", choices=EXACT, default=VIRTUAL)
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--budget", type=float, default=45.0, help="seconds of a workload")
    parser.add_argument("--most", type=float, default=900.0, help="seconds of a patch")
    parser.add_argument("--option", action="append", default=[], help="option of pytest")
    parser.add_argument("--keep", type=Path, help="new directory for results and environments")
    parser.add_argument("--output", type=Path, help="file for the table")
    given = parser.parse_args(arguments)
    if not given.corpus.is_dir():
        parser.error(f"there is no directory {given.corpus}; give --corpus DIR")
    bounds = Bounds(given.tasks, given.budget, given.most, tuple(given.option), given.cluster)
    patches = [
        each
        for each in read_corpus(given.corpus.absolute(), given.release)
        if not given.only or each.path.stem in given.only or each.number in given.only
    ]
    with tempfile.TemporaryDirectory(prefix="backtest-") as temporary:
        place = (given.keep or Path(temporary)).absolute()
        rows = []
        for patch in patches:
            rows.append(try_patch(patch, place / patch.path.stem, bounds))
            print(" | ".join(rows[-1].cells()), flush=True)
            if given.output:  # after each patch, because all of them take long
                given.output.write_text(table(rows))
    print(f"\n{table(rows)}")


if __name__ == "__main__":
    main()
