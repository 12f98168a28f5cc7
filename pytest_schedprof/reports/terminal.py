"""Lines of the terminal: the summary of a session, and all of one test for `schedprof show`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_schedprof.analysis.recent import Recent
from pytest_schedprof.model.backend import KnownBackends
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.presentation.amounts import counted
from pytest_schedprof.presentation.files import RECORD, evidence_files, profile_files
from pytest_schedprof.presentation.limits import (
    LIMIT_WORDS,
    NOT_CHOSEN,
    describe,
    limit_words,
    skipped_words,
)
from pytest_schedprof.presentation.mattering import mattering
from pytest_schedprof.presentation.results import (
    baseline_names,
    cluster_words,
    environment_notes,
    left_out_words,
    main_versions,
    validating_tests,
)
from pytest_schedprof.presentation.seeds import by_seed
from pytest_schedprof.reports.comparisons import comparison_lines
from pytest_schedprof.reports.lines import BARS, VERDICT_MARKUP, Line, capped
from pytest_schedprof.reports.profile_lines import (
    HOT_FUNCTIONS,
    NO_RECENT_RUNS,
    brief_lines,
    profile_lines,
    seed_lines,
)

HOT_FUNCTIONS_VERBOSE = 25

FEW_TESTS = 3
"""With more tests, each has its hottest function only, and those without news are left out."""

MANY_TESTS = 20
"""With more tests, functions are shown under -vv only: a suite may have -v in its settings."""


def summary_lines(
    results: Sequence[Result],
    directory: str,
    *,
    verbosity: int,
    recent: Recent = NO_RECENT_RUNS,
    bars: str = BARS,
) -> Iterator[Line]:
    """Return all lines about a session's profiled tests; few under -q.

    Args:
        results: of its tests.
        directory: of the run.
        verbosity: pytest's.
        recent: series of the last runs in the same directory.
        bars: characters for series, the lowest first.
    """
    seeded, others = by_seed(results)
    if verbosity >= 0:
        yield from capped([line for test in seeded for line in seed_lines(test)], verbosity)
    if verbosity == 0 and len(others) > FEW_TESTS:
        yield from _mattering_lines(others)
    elif verbosity >= 0:
        yield from _all_lines(others, verbosity, recent, bars)
    yield from _limit_lines(results, verbosity)
    yield from _baseline_lines(results, verbosity)
    yield from _version_lines(results)
    tests = counted(len(results), "profiled test")
    yield Line(f"artifacts of {tests}: {directory}")


def _mattering_lines(results: Sequence[Result]) -> Iterator[Line]:
    """Return briefly the tests that matter, and how many others there are."""
    shown, left = mattering(results)
    for result in shown:
        yield from brief_lines(result)
    if left:
        warned = sum(any(each.warnings for each in result.backends) for result in left)
        told = f", {warned} with warnings" if warned else ""
        yield Line(f"{counted(len(left), 'more test')}{told}: -v shows all")


def _all_lines(
    results: Sequence[Result], verbosity: int, recent: Recent, bars: str
) -> Iterator[Line]:
    most = _functions_shown(verbosity, len(results))
    for result in results:
        yield from profile_lines(result, most, recent, bars)
    if not most:
        yield Line(f"-vv shows the functions of more than {MANY_TESTS} tests")


def test_lines(
    result: Result, directory: str, verbosity: int, known: KnownBackends
) -> Iterator[Line]:
    """Return all lines about one test, with the programs that open its files."""
    yield from profile_lines(result, _functions_shown(verbosity, 1))
    yield from _limit_lines([result], 1)
    if result.outcome == "failed":  # for other tests they are among the lines about limits
        yield from (Line(f"  {text}", {"red": True}) for text in result.troubles)
    yield from (Line(f"  skipped (needs {NOT_CHOSEN}): {text}") for text in result.unjudged)
    yield from _baseline_lines([result], verbosity)
    yield from _version_lines([result])
    yield from map(Line, _facts(result))
    yield Line(f"artifacts in {directory}:")
    yield from _file_lines(result, known)
    for backend in result.backends:
        if text := left_out_words(backend):
            yield Line(f"  {backend.backend}: {text}")


def unprofiled_lines(tests: Sequence[str], verbosity: int) -> Iterator[Line]:
    """Return lines about tests that ran no scheduler, and none of which had to run one."""
    if not tests:
        return
    yield Line(
        f"not profiled: {counted(len(tests), 'test')} ran no scheduler in the test's process, and "
        "no marker of their own demands one; -v lists them, --schedprof-strict fails them"
    )
    if verbosity > 0:
        yield from (Line(f"  {test}") for test in tests)


def _facts(result: Result) -> Iterator[str]:
    if result.cluster:
        yield f"cluster: {cluster_words(result.cluster)}"
    if environment := result.environment:
        told = [f"Python {environment.scheduler_python}", environment.scheduler_machine]
        told += main_versions(environment)
        yield f"measured: {result.started_at}, {', '.join(filter(None, told))}"


def _file_lines(result: Result, known: KnownBackends) -> Iterator[Line]:
    evidence = [file for each in result.evidence for file in evidence_files(each)]
    files = [*profile_files(result, known), *evidence, RECORD]
    width = max(len(file.name) for file in files)
    for file in files:
        yield Line(f"  {file.name:<{width}}  {file.opener}".rstrip())


def _baseline_lines(results: Sequence[Result], verbosity: int) -> Iterator[Line]:
    """Return what changed since the baseline, and between schedulers of the same code."""
    if names := baseline_names(results):
        comparisons = [each for result in results for each in result.comparisons]
        yield from comparison_lines(names[0], comparisons, verbosity, is_brief=True)
    if null := [each for result in results for each in result.null]:
        yield from comparison_lines("the same code (null arm)", null, verbosity, is_brief=True)


def _version_lines(results: Sequence[Result]) -> Iterator[Line]:
    told = [*environment_notes(results), *filter(None, [validating_tests(results)])]
    return (Line(f"note: {text}", {"yellow": True}) for text in told)


def _functions_shown(verbosity: int, tests: int) -> int:
    """Return how many functions of each backend to show."""
    if tests > MANY_TESTS and verbosity < 2:
        return 0
    return HOT_FUNCTIONS_VERBOSE if verbosity else HOT_FUNCTIONS


def _limit_lines(results: Sequence[Result], verbosity: int) -> Iterator[Line]:
    """Return how many limits came to which verdict, and those that are worth a line."""
    words = limit_words(results)
    if skipped := skipped_words(results):
        words.append(skipped)
    if words:
        verdicts = [limit.verdict for result in results for limit in result.limits]
        yield Line(f"limits: {', '.join(words)}", VERDICT_MARKUP[Verdict.worst(verdicts)])
    shown = [Verdict.FAIL, *([Verdict.INCONCLUSIVE] if verbosity >= 0 else [])]
    for verdict in [*shown, *([Verdict.PASS] if verbosity > 0 else [])]:
        yield from capped(list(_verdict_lines(results, verdict)), verbosity)
    yield from capped(list(_trouble_lines(results)), verbosity)


def _verdict_lines(results: Sequence[Result], verdict: Verdict) -> Iterator[Line]:
    for result in results:
        for limit in result.limits:
            if limit.verdict is verdict:
                text = f"  {LIMIT_WORDS[verdict]}: {describe(limit)} [{result.test_id}]"
                yield Line(text, VERDICT_MARKUP[verdict])


def _trouble_lines(results: Sequence[Result]) -> Iterator[Line]:
    """Return what went wrong with profiling; pytest shows it for tests that failed."""
    for result in results:
        if result.outcome != "failed":
            yield from (Line(f"  {t} [{result.test_id}]", {"red": True}) for t in result.troubles)
