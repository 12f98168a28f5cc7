"""Lines of the terminal: the summary of a session, and all of one test for `schedprof show`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.analysis.recent import Recent, label_of
from pytest_schedprof.model.backend import KnownBackends
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.model.result import BackendResult, MeasuredCosts, Result, SampledShares
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.presentation.amounts import counted
from pytest_schedprof.presentation.costs import CostColumn, cost_table, whole_costs
from pytest_schedprof.presentation.files import (
    RECORD,
    evidence_files,
    evidence_notes,
    profile_files,
)
from pytest_schedprof.presentation.functions import hottest
from pytest_schedprof.presentation.limits import (
    LIMIT_WORDS,
    NOT_CHOSEN,
    describe,
    limit_words,
    skipped_words,
)
from pytest_schedprof.presentation.results import (
    baseline_names,
    cluster_words,
    headline,
    left_out_words,
    main_versions,
    validating_tests,
    version_differences,
)
from pytest_schedprof.presentation.seeds import SeededTest, by_seed, outcomes_of, ranges_of
from pytest_schedprof.presentation.spans import SpanTable, span_table
from pytest_schedprof.reports.comparisons import comparison_lines
from pytest_schedprof.reports.lines import BARS, VERDICT_MARKUP, Line, sparkline

HOT_FUNCTIONS = 5
HOT_FUNCTIONS_VERBOSE = 25
MANY_TESTS = 20
"""With more tests, functions are shown under -vv only: a suite may have -v in its settings."""

OWNERS_SHOWN = 5
LEAST_SPAN = 0.1
"""Part of a figure that the bars of its series span at least."""

COST_WIDTH = 16
"""Columns of a cost."""

NO_RECENT_RUNS: Recent = {}


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
    if verbosity >= 0:
        seeded, others = by_seed(results)
        most = _functions_shown(verbosity, len(others))
        for test in seeded:
            yield from _seed_lines(test)
        for result in others:
            yield from _profile_lines(result, most, recent, bars)
        if not most:
            yield Line(f"-vv shows the functions of more than {MANY_TESTS} tests")
    yield from _limit_lines(results, verbosity)
    yield from _baseline_lines(results, verbosity)
    yield from _version_lines(results)
    tests = counted(len(results), "profiled test")
    yield Line(f"artifacts of {tests}: {directory}")


def test_lines(
    result: Result, directory: str, verbosity: int, known: KnownBackends
) -> Iterator[Line]:
    """Return all lines about one test, with the programs that open its files."""
    yield from _profile_lines(result, _functions_shown(verbosity, 1))
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
    """Return lines about tests marked by module, class or conftest that ran no scheduler."""
    if not tests:
        return
    what = counted(len(tests), "test") + (" is" if len(tests) == 1 else " are")
    yield Line(
        f"not profiled: {what} marked by a module, class or conftest, but ran no scheduler in "
        "the test's process; -v lists them, --schedprof-strict fails them"
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
        yield from comparison_lines(names[0], comparisons, verbosity)
    if null := [each for result in results for each in result.null]:
        yield from comparison_lines("the same code (null arm)", null, verbosity)


def _version_lines(results: Sequence[Result]) -> Iterator[Line]:
    told = [*version_differences(results), *filter(None, [validating_tests(results)])]
    return (Line(f"note: {text}", {"yellow": True}) for text in told)


def _functions_shown(verbosity: int, tests: int) -> int:
    """Return how many functions of each backend to show."""
    if tests > MANY_TESTS and verbosity < 2:
        return 0
    return HOT_FUNCTIONS_VERBOSE if verbosity else HOT_FUNCTIONS


def _profile_lines(
    result: Result, most: int, recent: Recent = NO_RECENT_RUNS, bars: str = BARS
) -> Iterator[Line]:
    """Return what each backend measured of a test, and which evidence there is."""
    yield Line(f"{result.test_id}  {result.outcome}", {"bold": True})
    for backend in result.backends:
        yield Line(f"  {label_of(backend)}: {headline(backend)}")
        if series := recent.get((result.test_id, label_of(backend))):
            yield Line(f"    {_series(*series, bars)}")
        yield from _backend_lines(backend, most)
        if most > HOT_FUNCTIONS and (spans := span_table(backend, result.test_id)):
            yield from _span_lines(spans)
    yield from _evidence_lines(result.evidence)


def _seed_lines(test: SeededTest) -> Iterator[Line]:
    """Return how a test ended under its seeds, and which values its figures had."""
    yield Line(f"{test.name}  {outcomes_of(test)}", {"bold": True})
    for label, ranges in ranges_of(test).items():
        yield Line(f"  {label}: {', '.join(ranges)}")


def _backend_lines(backend: BackendResult, most: int) -> Iterator[Line]:
    if backend.shares:
        yield from _share_lines(backend.shares, most)
    if backend.costs:
        yield from cost_lines(backend.costs, backend.window.tasks, most)
    yield from (Line(f"  warning: {text}", {"yellow": True}) for text in backend.warnings)


def _span_lines(table: SpanTable) -> Iterator[Line]:
    """Return what belongs to which spans of a test."""
    width = max(len(row.name) for row in table.rows)
    heads = _right_aligned(f"{column}/task" for column in table.columns)
    yield Line(f"  {'spans':<{width}}   tasks {heads}  part of {table.of}", {"light": True})
    for row in table.rows:
        part = f"{row.part} ({row.bounds})" if row.bounds else row.part
        amounts = _right_aligned(row.amounts)
        yield Line(f"  {row.name:<{width}} {row.tasks or '':>7} {amounts}  {part}")


def _evidence_lines(evidence: Sequence[Evidence]) -> Iterator[Line]:
    if kept := [each.kind for each in evidence if not each.missing]:
        yield Line(f"  evidence: {', '.join(kept)}")
    yield from (Line(f"  note: {text}", {"yellow": True}) for text in evidence_notes(evidence))


def _series(metric: str, values: Sequence[float], bars: str) -> str:
    first, last = (readable(value, METRICS[metric]) for value in (values[0], values[-1]))
    return f"{metric} {sparkline(values, bars, LEAST_SPAN)} {first} -> {last} in {len(values)} runs"


def _share_lines(shares: SampledShares, most: int) -> Iterator[Line]:
    hot = hottest(shares.functions, most)
    if not hot:
        return
    width = _owner_width(each.owner for each in hot)
    head = f"    share  (95% bounds)        self  {'owner':<{width}}  function"
    yield Line(head, {"light": True})
    for each in hot:
        bounds = f"({each.share.low:.1%} - {each.share.high:.1%})"
        yield Line(
            f"  {each.share.value:>7.1%}  {bounds:<17} {each.self_share.value:>6.1%}  "
            f"{each.owner:<{width}}  {each.function}"
        )
    owners = shares.owners[:OWNERS_SHOWN]
    yield Line("  owners: " + ", ".join(f"{o.owner} {o.share.value:.0%}" for o in owners))


def cost_lines(costs: MeasuredCosts, tasks: int, most: int) -> Iterator[Line]:
    """Return a table of the most expensive functions, and what the whole scheduler cost."""
    table = cost_table(costs, tasks, most)
    if table.columns:
        width = _owner_width(row.owner for row in table.rows)
        heads = _right_aligned(each.head("/task") for each in table.columns)
        yield Line(f"  {heads}  {'owner':<{width}}  function", {"light": True})
        for row in table.rows:
            amounts = _right_aligned(row.amounts)
            yield Line(f"  {amounts}  {row.owner:<{width}}  {row.name}")
    if whole := [_whole(*each) for each in whole_costs(costs, tasks)]:
        yield Line("  whole scheduler: " + ", ".join(whole))


def _whole(column: CostColumn, text: str) -> str:
    return f"{column.metric} {text}" + ("" if column.row.is_peak else "/task")


def _owner_width(owners: Iterable[str]) -> int:
    return max(map(len, ("owner", *owners)))


def _right_aligned(cells: Iterable[str]) -> str:
    return "".join(f"{cell:>{COST_WIDTH}}" for cell in cells)


def _limit_lines(results: Sequence[Result], verbosity: int) -> Iterator[Line]:
    """Return how many limits came to which verdict, and those that are worth a line."""
    words = limit_words(results)
    if skipped := skipped_words(results):
        words.append(skipped)
    if words:
        verdicts = [limit.verdict for result in results for limit in result.limits]
        yield Line(f"limits: {', '.join(words)}", VERDICT_MARKUP[Verdict.worst(verdicts)])
    shown = [Verdict.FAIL, *([Verdict.INCONCLUSIVE] if verbosity >= 0 else [])]
    for result in results:
        yield from _verdict_lines(result, [*shown, *([Verdict.PASS] if verbosity > 0 else [])])
        if result.outcome != "failed":  # for failed tests pytest shows them
            yield from (Line(f"  {t} [{result.test_id}]", {"red": True}) for t in result.troubles)


def _verdict_lines(result: Result, shown: Sequence[Verdict]) -> Iterator[Line]:
    for limit in result.limits:
        if limit.verdict in shown:
            text = f"  {LIMIT_WORDS[limit.verdict]}: {describe(limit)} [{result.test_id}]"
            yield Line(text, VERDICT_MARKUP[limit.verdict])
