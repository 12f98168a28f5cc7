"""The summary at the end of a pytest session, as lines with their markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_schedprof.analysis.owners import NOT_SCHEDULER, PLUMBING
from pytest_schedprof.analysis.recent import Recent, label_of
from pytest_schedprof.gates.judge import describe
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.metric import METRICS, Metric, readable
from pytest_schedprof.model.result import (
    BackendResult,
    FunctionCost,
    FunctionShare,
    MeasuredCosts,
    Result,
    SampledShares,
)
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.reports.changes import comparison_lines
from pytest_schedprof.reports.lines import Line
from pytest_schedprof.reports.sparkline import BARS, sparkline

HOT_FUNCTIONS = 5
HOT_FUNCTIONS_VERBOSE = 25
OWNERS_SHOWN = 5
LEAST_SPAN = 0.1
"""Part of a figure that the bars of its series span at the least."""

_MARKUP = {
    Verdict.PASS: {"green": True},
    Verdict.FAIL: {"red": True},
    Verdict.INCONCLUSIVE: {"yellow": True},
}


NONE_BEFORE: Recent = {}


def summary_lines(
    results: Sequence[Result],
    directory: str,
    *,
    verbosity: int,
    recent: Recent = NONE_BEFORE,
    bars: str = BARS,
) -> Iterator[Line]:
    """Everything the session has to say of its profiled tests; one line under -q.

    Args:
        results: of its tests.
        directory: of the run.
        verbosity: as pytest has it.
        recent: series of the last runs in the same place.
        bars: characters for series, the lowest first.
    """
    if verbosity >= 0:
        for result in results:
            yield from profile_lines(result, verbosity, recent, bars)
    yield from limit_lines(results, verbosity)
    yield from baseline_lines(results, verbosity)
    yield from version_lines(results)
    yield Line(f"artifacts of {len(results)} profiled tests: {directory}")


def baseline_lines(results: Sequence[Result], verbosity: int) -> Iterator[Line]:
    """What changed since the baseline, if the session had one."""
    names = [result.baseline for result in results if result.baseline]
    if names:
        comparisons = [each for result in results for each in result.comparisons]
        yield from comparison_lines(names[0], comparisons, verbosity)
    if null := [each for result in results for each in result.null]:
        yield from comparison_lines("the same code (null arm)", null, verbosity)


def version_lines(results: Sequence[Result]) -> Iterator[Line]:
    """Once for all tests: results of versions that differ are not those of either."""
    environments = [result.environment for result in results if result.environment]
    for text in dict.fromkeys(text for each in environments for text in each.differences):
        yield Line(f"note: {text}", {"yellow": True})


def profile_lines(
    result: Result, verbosity: int, recent: Recent = NONE_BEFORE, bars: str = BARS
) -> Iterator[Line]:
    """What each backend measured of a test, and what there is to open."""
    yield Line(f"{result.test_id}  {result.outcome}", {"bold": True})
    most = HOT_FUNCTIONS_VERBOSE if verbosity else HOT_FUNCTIONS
    for backend in result.backends:
        yield Line(f"  {_headline(backend)}")
        if series := recent.get((result.test_id, label_of(backend))):
            yield Line(f"    {_series(*series, bars)}")
        if backend.shares:
            yield from _share_table(backend.shares, most)
        if backend.costs:
            yield from _cost_table(backend.costs, backend.window.tasks, most)
        yield from (Line(f"  warning: {text}", {"yellow": True}) for text in backend.warnings)
    yield from _evidence_lines(result.evidence)


def _evidence_lines(evidence: Sequence[Evidence]) -> Iterator[Line]:
    """What there is to open, and why what was asked for is not."""
    if kept := [each.kind for each in evidence if not each.missing]:
        yield Line(f"  evidence: {', '.join(kept)}")
    reasons = dict.fromkeys(each.missing for each in evidence if each.missing)
    for reason in reasons:
        kinds = ", ".join(each.kind for each in evidence if each.missing == reason)
        yield Line(f"  note: no {kinds}: {reason}", {"yellow": True})
    for text in dict.fromkeys(text for each in evidence for text in each.notes):
        yield Line(f"  note: {text}", {"yellow": True})


def _headline(backend: BackendResult) -> str:
    window = backend.window
    cost = window.cpu_us_per_task
    samples = f"{backend.shares.busy_samples} busy samples, " if backend.shares else ""
    words = [f"{samples}{window.tasks} tasks in {window.seconds:.2f} s"]
    if cost:
        words.append(f"{cost:.0f} us of scheduler CPU per task")
    if window.seconds:
        words.append(f"{window.cpu_seconds / window.seconds:.0%} of a core")
    return f"{label_of(backend)}: {', '.join(words)}"


def _series(metric: str, values: Sequence[float], bars: str) -> str:
    """How one figure went, up to now; a change of a thousandth is no mountain."""
    first, last = (readable(value, METRICS[metric]) for value in (values[0], values[-1]))
    return f"{metric} {sparkline(values, bars, LEAST_SPAN)} {first} -> {last} in {len(values)} runs"


def _share_table(shares: SampledShares, most: int) -> Iterator[Line]:
    hot = hottest(shares.functions, most)
    if not hot:
        return
    width = max(len("owner"), *(len(each.owner) for each in hot))
    yield Line(
        f"    share  (95% bounds)        self  {'owner':<{width}}  function", {"light": True}
    )
    for each in hot:
        bounds = f"({each.share.low:.1%} - {each.share.high:.1%})"
        yield Line(
            f"  {each.share.value:>7.1%}  {bounds:<17} {each.self_share.value:>6.1%}  "
            f"{each.owner:<{width}}  {each.function}"
        )
    owners = shares.owners[:OWNERS_SHOWN]
    yield Line("  owners: " + ", ".join(f"{o.owner} {o.share.value:.0%}" for o in owners))


def hottest(functions: Sequence[FunctionShare], most: int) -> list[FunctionShare]:
    """The functions that a reader wants to see; plumbing counts by its own time alone."""

    def heat(each: FunctionShare) -> float:
        return (each.self_share if each.owner in PLUMBING else each.share).value

    return [each for each in sorted(functions, key=heat, reverse=True) if heat(each)][:most]


def _cost_table(costs: MeasuredCosts, tasks: int, most: int) -> Iterator[Line]:
    """One column for each metric that any function has, per task unless it is a peak."""
    hot = dearest(costs.functions, most)
    metrics = [
        name
        for name, metric in METRICS.items()
        if any(name in each.total for each in hot) and (tasks or metric.is_peak)
    ]
    if metrics:
        width = max(len("owner"), *(len(each.owner) for each in hot))
        heads = "".join(f"{_head(name):>16}" for name in metrics)
        yield Line(f"  {heads}  {'owner':<{width}}  function", {"light": True})
        for each in hot:
            cells = (_cell(each.total.get(name, 0), METRICS[name], tasks) for name in metrics)
            row = "".join(f"{cell:>16}" for cell in cells)
            yield Line(f"  {row}  {each.owner:<{width}}  {each.function}")
    if words := [_whole(name, amount, tasks) for name, amount in costs.whole.items()]:
        yield Line("  whole: " + ", ".join(filter(None, words)))


def _head(name: str) -> str:
    return name if METRICS[name].is_peak else f"{name}/task"


def _cell(amount: float, metric: Metric, tasks: int) -> str:
    return readable(amount if metric.is_peak else amount / tasks, metric)


def dearest(functions: Sequence[FunctionCost], most: int) -> list[FunctionCost]:
    """The scheduler's functions that cost most; the record has them in order."""
    return [each for each in functions if each.owner not in NOT_SCHEDULER][:most]


def _whole(name: str, amount: float, tasks: int) -> str:
    metric = METRICS[name]
    if metric.is_peak:
        return f"{name} {readable(amount, metric)}"
    return f"{name} {readable(amount / tasks, metric)}/task" if tasks and name != "cpu" else ""


LIMIT_WORDS = {Verdict.PASS: "passed", Verdict.FAIL: "broken", Verdict.INCONCLUSIVE: "inconclusive"}


def limit_lines(results: Sequence[Result], verbosity: int) -> Iterator[Line]:
    """How many limits came to which verdict, and each that is worth a line."""
    counts: Counter[Verdict] = Counter(limit.verdict for r in results for limit in r.limits)
    parts = [f"{counts[each]} {word}" for each, word in LIMIT_WORDS.items() if counts[each]]
    if unjudged := sum(len(result.unjudged) for result in results):
        parts.append(f"{unjudged} not judged, for no chosen backend measures what they bound")
    if parts:
        yield Line(f"limits: {', '.join(parts)}", _MARKUP[Verdict.worst(list(counts))])
    shown = [Verdict.FAIL, *([Verdict.INCONCLUSIVE] if verbosity >= 0 else [])]
    for result in results:
        yield from _verdict_lines(result, [*shown, *([Verdict.PASS] if verbosity > 0 else [])])
        if result.outcome != "failed":  # of others, pytest shows it
            yield from (Line(f"  {t} [{result.test_id}]", {"red": True}) for t in result.troubles)


def _verdict_lines(result: Result, shown: Sequence[Verdict]) -> Iterator[Line]:
    for limit in result.limits:
        if limit.verdict in shown:
            text = f"  {LIMIT_WORDS[limit.verdict]}: {describe(limit)} [{result.test_id}]"
            yield Line(text, _MARKUP[limit.verdict])
