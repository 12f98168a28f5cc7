"""A test and a run as a whole: headlines, tables of tests, facts of machine and settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.model.backend import FileKind, KnownBackends, artifacts_of, kind_of
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import GRAVEST_FIRST, Verdict
from pytest_schedprof.model.metric import BYTECODES, CALLS, CPU, INSTRUCTIONS
from pytest_schedprof.model.result import (
    IN_PROCESS,
    NOT_FAILED,
    VALIDATED,
    WHOLE,
    BackendResult,
    Environment,
    Result,
)
from pytest_schedprof.model.run import Run
from pytest_schedprof.report.changes import is_changed, regressions, scheduler_seconds, undecided
from pytest_schedprof.report.tables import busy_time, describe
from pytest_schedprof.report.words import HASH_SHOWN, Fact, counted, size_of
from pytest_schedprof.store.runs import TestFiles

TOLD_PART = 0.1
"""Part of the time of busy samples without a processor from which on it is told."""


def headline(backend: BackendResult, thousands: str = "") -> str:
    """Return what a backend measured, in a line, with this separator of thousands."""
    window, words = backend.window, []
    if backend.shares:
        words.append(counted(backend.shares.busy_samples, "busy sample", thousands))
    words.append(f"{counted(window.tasks, 'task', thousands)} in {window.seconds:.2f} s")
    if cost := window.cpu_us_per_task:
        digits = f"{thousands}.0f" if cost >= 1 else ".2g"
        words.append(f"{cost:{digits}} us of scheduler CPU per task")
    if window.seconds:
        words.append(f"{window.cpu_seconds / window.seconds:.0%} of a core")
    if window.hash:
        words.append(
            _hash_words([segment.hash[:HASH_SHOWN] for segment in window.segments], window.hash)
        )
    return ", ".join(words)


def backend_headline(backend: BackendResult) -> str:
    """Return what a backend measured, and how much of it its samples divide."""
    rounds = backend.window.rounds
    more = f", {counted(rounds, 'round')}" if rounds > 1 else ""
    busy, whole = busy_time(backend).cpu, backend.window.cpu_us_per_task or 0.0
    part = (
        f"; {busy:,.0f} us of it in busy samples, which are divided below"
        if busy and round(busy) < round(whole)
        else ""
    )
    return f"{headline(backend, thousands=',')}{more}{part}"


def _hash_words(rounds: Sequence[str], together: str) -> str:
    """Return the hash of the rounds, as a comparison tells it if they are the same."""
    if len(rounds) == 1:
        return f"hash {rounds[0]}"
    if len(set(rounds)) == 1:
        return f"hash {rounds[0]} in each round"
    return f"hash {together[:HASH_SHOWN]} of all rounds together"


def notes_of(backend: BackendResult) -> tuple[str, ...]:
    """Return the doubt and the warnings, and what was not kept.

    A doubt that is a warning too is told once.
    """
    doubt = (f"not used for limits and comparisons: {backend.doubt}",) if backend.doubt else ()
    warnings = (text for text in backend.warnings if text != backend.doubt)
    return (*doubt, *warnings, *filter(None, [waited_words(backend), left_out_words(backend)]))


def waited_words(backend: BackendResult) -> str:
    """Say how much of its samples' time the scheduler had no processor; empty if it was little."""
    part = busy_time(backend).waited_part
    if part < TOLD_PART:
        return ""
    return (
        f"the machine was overloaded: in {part:.0%} of its busy time the scheduler waited for a "
        "processor. Costs have wider bounds for it; a backend that samples CPU time needs none"
    )


def left_out_words(backend: BackendResult) -> str:
    """Say how much of a backend's files was not kept; empty if all was."""
    if not backend.left_out:
        return ""
    return f"recordings of {size_of(backend.left_out)} not kept, by --schedprof-keep"


def environment_notes(results: Iterable[Result]) -> list[str]:
    """Return how versions differ, each note once."""
    return list(
        dict.fromkeys(text for result in results for text in result.environment.differences)
    )


def validating_tests(results: Iterable[Result]) -> str:
    """Return how many tests had a scheduler in their process that validated itself, or nothing."""
    count = sum(
        result.environment.configuration.get("validate") == VALIDATED
        for result in results
        if result.cluster.kind == IN_PROCESS
    )
    if not count:
        return ""
    return (
        f"in {counted(count, 'test')} the scheduler validated its state (validate=True, as "
        "gen_cluster sets it): figures include that, mostly in @transitions"
    )


def baseline_names(results: Iterable[Result]) -> list[str]:
    """Return what the tests were compared with."""
    return list(dict.fromkeys(result.baseline for result in results if result.baseline))


def main_versions(environment: Environment) -> list[str]:
    """Return the versions of distributed and dask, as far as they are known."""
    versions = environment.versions
    return [f"{name} {versions[name]}" for name in ("distributed", "dask") if name in versions]


def started_fact(started_at: str) -> Fact:
    return Fact("started", started_at[:19].replace("T", " ") + " UTC")


def machine_facts(environment: Environment) -> Iterator[Fact]:
    """Return where the scheduler ran, and of what versions."""
    versions = [*main_versions(environment), f"Python {environment.scheduler_python}"]
    yield Fact("versions", ", ".join(versions))
    yield Fact("machine", environment.scheduler_machine or environment.machine)


def facts_of_test(result: Result) -> Iterator[Fact]:
    """Return when and where a test was measured."""
    yield started_fact(result.started_at)
    yield Fact("cluster", result.cluster.size)
    yield from machine_facts(result.environment)


def facts_of_settings(result: Result) -> Iterator[Fact]:
    """Return the options of the backends, the packages and the scheduler's configuration."""
    yield Fact("pytest-schedprof", result.schedprof_version)
    for backend in result.backends:
        options = ", ".join(f"{key}={value}" for key, value in backend.settings.items())
        yield Fact(backend.backend, options or "no options")
    environment = result.environment
    yield Fact("platform", environment.scheduler_platform)
    yield from (Fact(*item) for item in environment.versions.items())
    yield from (Fact("differs", text) for text in environment.differences)
    yield from (Fact(*item) for item in environment.configuration.items())


def facts_of_run(run: Run, results: Sequence[Result]) -> Iterator[Fact]:
    """Return when and where a run was measured, and of which commit."""
    yield started_fact(run.started_at)
    if commit := run.commit:
        dirty = ", with changes that are not committed" if commit.is_dirty else ""
        branch = f" on {commit.branch}" if commit.branch else ""
        yield Fact("commit", f"{commit.sha[:12]}{branch}{dirty}")
    if run.exit_status is None:
        yield Fact("pytest", "has not ended: the session was killed, or is still running")
    elif run.exit_status:
        yield Fact("pytest", f"ended with exit status {run.exit_status}")
    if results:
        yield from machine_facts(results[0].environment)
        yield Fact("cluster", "; ".join(dict.fromkeys(result.cluster.size for result in results)))


def counts_of_run(verdicts: Sequence[Verdict], results: Sequence[Result]) -> str:
    """Return the number of tests, of each verdict, and of limits."""
    counts = Counter(verdicts)
    of_verdicts = [f"{counts[verdict]} {verdict}" for verdict in Verdict if counts[verdict]]
    limits = counted(sum(len(result.limits) for result in results), "limit")
    return " · ".join([str(len(verdicts)), *of_verdicts, limits])


def profile_files(result: Result, known: KnownBackends) -> dict[str, FileKind | None]:
    """Return the files of all backends with their kinds."""
    return {
        name: kind_of(name, artifacts_of(backend.backend, known))
        for backend in result.backends
        for name in backend.artifacts
    }


def pictures_first(names: Sequence[str]) -> list[str]:
    """Return the names of files with those of data last."""
    return sorted(names, key=lambda name: name.endswith(".json"))


def evidence_notes(evidence: Sequence[Evidence]) -> Iterator[str]:
    """Return why kinds of evidence are missing, then what else there is to note."""
    for reason in dict.fromkeys(piece.missing for piece in evidence if piece.missing):
        kinds = ", ".join(piece.kind for piece in evidence if piece.missing == reason)
        yield f"no {kinds}: {reason}"
    yield from dict.fromkeys(text for piece in evidence for text in piece.notes)


MANY = 20
"""Tests from which on a page shows their files."""

CHANGES_SHOWN = 20

Group = tuple[str, int, list[tuple[Verdict, int]], int, float]
"""A file, its number of tests, that of each verdict, that of tests in which something changed, and
the scheduler's CPU seconds."""


def groups_of(tests: Sequence[TestFiles]) -> list[Group]:
    """Return the files, the gravest verdicts first; nothing for a few tests or a single file."""
    files: dict[str, list[TestFiles]] = {}
    for test in tests:
        files.setdefault(test.entry.test_id.partition("::")[0], []).append(test)
    if len(tests) <= MANY or len(files) == 1:
        return []
    return sorted((_group(*file) for file in files.items()), key=_group_gravity)


def _group(file: str, tests: Sequence[TestFiles]) -> Group:
    counts = Counter(map(status_of, tests))
    verdicts = [(verdict, counts[verdict]) for verdict in GRAVEST_FIRST if counts[verdict]]
    results = [test.result for test in tests if test.result]
    seconds = sum(map(scheduler_seconds, results))
    return file, len(tests), verdicts, sum(map(is_changed, results)), seconds


def _group_gravity(group: Group) -> tuple[int, int, float]:
    _, _, verdicts, _, seconds = group
    counts = dict(verdicts)
    return -counts.get(Verdict.FAIL, 0), -counts.get(Verdict.INCONCLUSIVE, 0), -seconds


def status_of(test: TestFiles) -> Verdict:
    """Return the verdict, or a failure if the test failed for another reason."""
    return test.verdict if test.entry.outcome in NOT_FAILED else Verdict.FAIL


def gravity_of(test: TestFiles) -> int:
    """Sort broken tests first, and tests of one verdict in the order in which they ran."""
    return GRAVEST_FIRST.index(status_of(test))


def reason_of(test: TestFiles) -> str:
    """Return why a test failed or came to no verdict, in one line; empty if it passed."""
    status, result, outcome = status_of(test), test.result, test.entry.outcome
    by_itself = "the test failed" if outcome == "failed" else f"the test was {outcome}"
    by_itself = "" if outcome in WHOLE else by_itself
    if status is Verdict.PASS or result is None:
        return by_itself
    limits = [limit for limit in result.limits if limit.verdict is status]
    compared = [
        comparison
        for comparison in result.comparisons
        if comparison.is_binding and comparison.verdict is status
    ]
    sentence = regressions if status is Verdict.FAIL else undecided
    reasons = [*map(describe, limits), *map(sentence, compared), *result.troubles]
    return next(filter(None, reasons), by_itself).partition("\n")[0]


def cpu_of(result: Result | None) -> float:
    """Return the scheduler's CPU time per task, by the backend that slowed it down least."""
    figures = (backend.window.cpu_us_per_task for backend in result.backends) if result else ()
    return min((figure for figure in figures if figure is not None), default=0.0)


OF_COST = (BYTECODES, INSTRUCTIONS, CPU, CALLS)
"""Metrics by which a test's cost is said to have changed, the surest first."""


def cost_change(result: Result | None) -> float | None:
    """Return by which part a test's whole cost changed; None if that is not known."""
    comparisons = result.comparisons if result else ()
    wholes = {whole.metric: whole for comparison in comparisons for whole in comparison.wholes}
    known = (wholes[metric].relative for metric in OF_COST if metric in wholes)
    return next(known, None)


def limits_held(result: Result) -> str:
    """Return how many limits hold, of how many; empty without limits."""
    held = sum(limit.verdict is Verdict.PASS for limit in result.limits)
    return f"{held} of {len(result.limits)}" if result.limits else ""


def kinds_of(test: TestFiles) -> Iterator[str]:
    """Yield what the test is found by: `fail`, `inconclusive`, `pass`, `changed`."""
    yield status_of(test).value
    if test.result and is_changed(test.result):
        yield "changed"


def of_kind(tests: Iterable[TestFiles], kind: str) -> list[TestFiles]:
    return [test for test in tests if kind in kinds_of(test)]


def tasks_of(result: Result) -> int:
    """Return the tasks of the backend that saw most of them."""
    return max((backend.window.tasks for backend in result.backends), default=0)
