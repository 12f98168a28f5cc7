"""Lines of the terminal: the summary of a session, and all of one test for `schedprof show`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from math import inf

from pytest_schedprof.judge.series import label_of
from pytest_schedprof.model.backend import KnownBackends, kind_of
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.metric import BYTECODES, CPU, METRICS, readable
from pytest_schedprof.model.result import WHOLE, BackendResult, MeasuredCosts, Result, SampledShares
from pytest_schedprof.model.run import TestEntry
from pytest_schedprof.report.changes import is_notable, notable_tests
from pytest_schedprof.report.comparisons import comparison_lines
from pytest_schedprof.report.markup import VERDICT_MARKUP, Line, capped
from pytest_schedprof.report.results import (
    baseline_names,
    cpu_of,
    environment_notes,
    evidence_notes,
    headline,
    left_out_words,
    main_versions,
    profile_files,
    validating_tests,
)
from pytest_schedprof.report.tables import (
    LIMIT_WORDS,
    cost_table,
    describe,
    hottest,
    limit_words,
    skipped_words,
    whole_costs,
)
from pytest_schedprof.report.words import by_seed, counted, outcomes_of, ranges_of
from pytest_schedprof.store.run_directory import RESULT_FILE

HOT_FUNCTIONS = 5
"""Functions of each backend that are shown."""

OWNERS_SHOWN = 5
COST_WIDTH = 16
"""Columns of a cost."""

TASK = "/task"


def profile_lines(result: Result, most: int) -> Iterator[Line]:
    """Return what each backend measured of a test, with so many functions, and its evidence."""
    yield _title(result)
    for backend in result.backends:
        yield Line(f"  {label_of(backend)}: {headline(backend)}")
        if backend.shares:
            yield from _share_lines(backend.shares, most)
        if backend.costs:
            yield from cost_lines(backend.costs, backend.window.tasks, most)
        yield from _warning_lines(backend)
    yield from _evidence_lines(result.evidence)


def brief_lines(result: Result) -> Iterator[Line]:
    """Return the headline of each backend, and its hottest function."""
    yield _title(result)
    for backend in result.backends:
        yield Line(f"  {label_of(backend)}: {headline(backend)}")
        if backend.shares:
            for hot in hottest(backend.shares.functions, 1):
                bounds = f"({hot.share.low:.1%} - {hot.share.high:.1%})"
                yield Line(f"    {hot.share.value:.1%} {bounds} in {hot.function}")
        if backend.costs:
            yield from _whole_lines(backend.costs, backend.window.tasks)
        yield from _warning_lines(backend)


def _title(result: Result) -> Line:
    return Line(f"{result.test_id}  {result.outcome}", {"bold": True})


def _warning_lines(backend: BackendResult) -> Iterator[Line]:
    return (Line(f"  warning: {text}", {"yellow": True}) for text in backend.warnings)


def _evidence_lines(evidence: Sequence[Evidence]) -> Iterator[Line]:
    if kept := [piece.kind for piece in evidence if not piece.missing]:
        yield Line(f"  evidence: {', '.join(kept)}")
    yield from (Line(f"  note: {text}", {"yellow": True}) for text in evidence_notes(evidence))


def _share_lines(shares: SampledShares, most: int) -> Iterator[Line]:
    hot = hottest(shares.functions, most)
    if not hot:
        return
    width = _owner_width(share.owner for share in hot)
    head = f"    share  (95% bounds)        self  {'owner':<{width}}  function"
    yield Line(head, {"light": True})
    for share in hot:
        bounds = f"({share.share.low:.1%} - {share.share.high:.1%})"
        yield Line(
            f"  {share.share.value:>7.1%}  {bounds:<17} {share.self_share.value:>6.1%}  "
            f"{share.owner:<{width}}  {share.function}"
        )
    owners = shares.owners[:OWNERS_SHOWN]
    yield Line("  owners: " + ", ".join(f"{o.owner} {o.share.value:.0%}" for o in owners))


def cost_lines(costs: MeasuredCosts, tasks: int, most: int) -> Iterator[Line]:
    """Return a table of the most expensive functions, and what the whole scheduler cost."""
    table = cost_table(costs, tasks, most, TASK)
    *metrics, _, _ = table.heads
    if metrics:
        width = _owner_width(owner for *_, owner, _ in table.rows)
        heads = _right_aligned(metrics)
        yield Line(f"  {heads}  {'owner':<{width}}  function", {"light": True})
        for *amounts, owner, name in table.rows:
            yield Line(f"  {_right_aligned(amounts)}  {owner:<{width}}  {name}")
    yield from _whole_lines(costs, tasks)


def _whole_lines(costs: MeasuredCosts, tasks: int) -> Iterator[Line]:
    whole = [
        f"{label.removesuffix(TASK)} {amount}{TASK if label.endswith(TASK) else ''}"
        for label, amount in whole_costs(costs, tasks, TASK)
    ]
    if whole:
        yield Line("  whole scheduler: " + ", ".join(whole))


def _owner_width(owners: Iterable[str]) -> int:
    return max(map(len, ("owner", *owners)))


def _right_aligned(cells: Iterable[str]) -> str:
    return "".join(f"{cell:>{COST_WIDTH}}" for cell in cells)


HOT_FUNCTIONS_VERBOSE = 25

FEW_TESTS = 3
"""With more tests, each has a line, or its headlines if it is notable; many are left out."""

MANY_TESTS = 20
"""With more tests, -v gives each a line, and -vv functions: a suite may have -v in its settings."""


def summary_lines(results: Sequence[Result], directory: str, *, verbosity: int) -> Iterator[Line]:
    """Return all lines about a session's profiled tests; few under -q.

    Args:
        directory: of the run.
        verbosity: pytest's.
    """
    seeded, others = by_seed(results)
    if verbosity >= 0:
        yield from capped([*_seed_lines(seeded)], verbosity)
        if most := _functions_shown(verbosity, len(others)):
            for result in others:
                yield from profile_lines(result, most)
        else:
            yield from _notable_lines(others, is_all=verbosity > 0)
    yield from _limit_lines(results, verbosity)
    yield from _baseline_lines(results, verbosity)
    yield from _version_lines(results)
    tests = counted(len(results), "profiled test")
    yield Line(f"artifacts of {tests}: {directory}")


def _seed_lines(tests: Mapping[str, Mapping[int, Result]]) -> Iterator[Line]:
    """Return what each test came to under all its seeds; tests that passed under all come last."""

    def is_passed(test: str) -> bool:
        return all(result.outcome == "passed" for result in tests[test].values())

    for test in sorted(tests, key=is_passed):  # many lines may be left out
        yield Line(f"{test}  {outcomes_of(tests[test])}", {"bold": True})
        for label, ranges in ranges_of(tests[test].values()).items():
            yield Line(f"  {label}: {', '.join(ranges)}")


def _notable_lines(results: Sequence[Result], *, is_all: bool) -> Iterator[Line]:
    """Return briefly the tests that matter, and a line for each other one, or for the hottest."""
    shown, left = (results, []) if is_all else notable_tests(results)
    for result in filter(is_notable, shown):
        yield from brief_lines(result)
    if calm := [result for result in shown if not is_notable(result)]:
        yield Line(f"{'CPU/task':>12}  test", {"light": True})
        for result in calm:
            cpu = cpu_of(result) / 1e6
            cost = readable(cpu, METRICS[CPU]) if cpu else ""  # there may have been no task
            yield Line(f"{cost:>12}  {result.test_id}")
    if left:
        warned = sum(any(backend.warnings for backend in result.backends) for result in left)
        more = f", {warned} with warnings" if warned else ""
        yield Line(f"{counted(len(left), 'more test')}{more}: -v shows all")


def test_lines(
    result: Result, directory: str, verbosity: int, known: KnownBackends
) -> Iterator[Line]:
    """Return all lines about one test, with the programs that open its files."""
    yield from profile_lines(result, _functions_shown(verbosity, 1))
    yield from _limit_lines([result], 1, shown_by_pytest=())
    yield from _baseline_lines([result], verbosity)
    yield from _version_lines([result])
    yield from map(Line, _facts(result))
    yield Line(f"artifacts in {directory}:")
    names = [*(name for piece in result.evidence for name in piece.artifacts), RESULT_FILE]
    kinds = profile_files(result, known) | {name: kind_of(name) for name in names}
    width = max(map(len, kinds))
    for name, kind in kinds.items():
        yield Line(f"  {name:<{width}}  {kind.opener if kind else ''}".rstrip())
    for backend in result.backends:
        if text := left_out_words(backend):
            yield Line(f"  {backend.backend}: {text}")


def entry_lines(entries: Sequence[TestEntry]) -> Iterator[Line]:
    """Return a line for each test of a run, with what a task cost."""
    yield Line(f"{'verdict':<13}{'CPU/task':>10}{'bytecodes/task':>16}  test")
    for entry in entries:
        cells = [f"{_least(entry, CPU):>10}", f"{_least(entry, BYTECODES):>16}"]
        verdict = entry.verdict if entry.outcome in WHOLE else entry.outcome
        yield Line(f"{verdict:<13}{''.join(cells)}  {entry.test_id}")


def _least(entry: TestEntry, metric: str) -> str:
    """Return a figure by the backend that slowed the scheduler down least; empty if none has it."""
    known = [figures[metric] for figures in entry.figures.values() if metric in figures]
    return readable(min(known), METRICS[metric]) if known else ""


def unprofiled_lines(tests: Mapping[str, str], verbosity: int) -> Iterator[Line]:
    """Return lines about tests that were not profiled, although they may have been.

    Args:
        tests: why each could not run in virtual time; empty for one that had no scheduler.
    """
    groups: dict[str, list[str]] = {}
    for test, refusal in tests.items():
        groups.setdefault(refusal, []).append(test)
    for refusal, names in sorted(groups.items()):
        number = counted(len(names), "test")
        if refusal:
            text = f"not in virtual time: {number} ran as ordinary: {refusal}; -v lists them"
        else:
            text = (
                f"not profiled: {number} ran no scheduler in the test's process, and no marker of "
                "their own demands one; -v lists them, --schedprof-strict fails them"
            )
        yield Line(text)
        if verbosity > 0:
            yield from (Line(f"  {test}") for test in names)


def _facts(result: Result) -> Iterator[str]:
    yield f"cluster: {result.cluster.size}"
    environment = result.environment
    facts = [f"Python {environment.scheduler_python}", environment.scheduler_machine]
    facts += main_versions(environment)
    yield f"measured: {result.started_at}, {', '.join(filter(None, facts))}"


def _baseline_lines(results: Sequence[Result], verbosity: int) -> Iterator[Line]:
    """Return what changed since the baseline."""
    if names := baseline_names(results):
        comparisons = [comparison for result in results for comparison in result.comparisons]
        yield from comparison_lines(names[0], comparisons, verbosity, is_brief=True)


def _version_lines(results: Sequence[Result]) -> Iterator[Line]:
    notes = [*environment_notes(results), *filter(None, [validating_tests(results)])]
    return (Line(f"note: {text}", {"yellow": True}) for text in notes)


def _functions_shown(verbosity: int, tests: int) -> int:
    """Return how many functions of each backend to show."""
    if tests > (FEW_TESTS, MANY_TESTS, inf)[min(max(verbosity, 0), 2)]:
        return 0
    return HOT_FUNCTIONS_VERBOSE if verbosity > 0 else HOT_FUNCTIONS


def _limit_lines(
    results: Sequence[Result], verbosity: int, shown_by_pytest: Collection[str] = ("failed",)
) -> Iterator[Line]:
    """Return how many limits came to which verdict, and those that are worth a line.

    Args:
        shown_by_pytest: outcomes of tests whose broken limits and troubles are shown elsewhere.
    """
    words = limit_words(results)
    if skipped := skipped_words(results):
        words.append(skipped)
    if words:
        verdicts = [limit.verdict for result in results for limit in result.limits]
        yield Line(f"limits: {', '.join(words)}", VERDICT_MARKUP[Verdict.worst(verdicts)])
    shown = [Verdict.FAIL, *([Verdict.INCONCLUSIVE] if verbosity >= 0 else [])]
    for verdict in [*shown, *([Verdict.PASS] if verbosity > 0 else [])]:
        lines = [
            f"  {LIMIT_WORDS[verdict]}: {describe(limit)} [{result.test_id}]"
            for result in results
            if verdict is not Verdict.FAIL or result.outcome not in shown_by_pytest
            for limit in result.limits
            if limit.verdict is verdict
        ]
        yield from capped([Line(line, VERDICT_MARKUP[verdict]) for line in lines], verbosity)
    for result in results if verbosity > 0 else ():
        yield from (Line(f"  skipped: {limit} [{result.test_id}]") for limit in result.unjudged)
    troubles = [
        Line(f"  {trouble} [{result.test_id}]", {"red": True})
        for result in results
        if result.outcome not in shown_by_pytest
        for trouble in result.troubles
    ]
    yield from capped(troubles, verbosity)
