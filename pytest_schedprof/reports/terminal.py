"""The summary at the end of a pytest session, as lines with their markup."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from pytest_schedprof.analysis.owners import NOT_SCHEDULER
from pytest_schedprof.gates.judge import describe
from pytest_schedprof.model.result import BackendResult, FunctionShare, Result
from pytest_schedprof.model.verdict import Verdict

HOT_FUNCTIONS = 5
HOT_FUNCTIONS_VERBOSE = 25
OWNERS_SHOWN = 5

PLUMBING = NOT_SCHEDULER | {"event-loop", "connections", "other"}
"""Owners whose functions surround all others: they hold high shares and say nothing."""

_MARKUP = {
    Verdict.PASS: {"green": True},
    Verdict.FAIL: {"red": True},
    Verdict.INCONCLUSIVE: {"yellow": True},
}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the terminal."""

    text: str
    markup: dict[str, bool] = field(default_factory=dict)


def summary_lines(results: Sequence[Result], directory: str, *, verbosity: int) -> Iterator[Line]:
    """Everything the session has to say of its profiled tests; one line under -q."""
    if verbosity >= 0:
        for result in results:
            yield from _test_lines(result, verbosity)
    yield from _limit_lines(results)
    yield Line(f"artifacts of {len(results)} profiled tests: {directory}")


def _test_lines(result: Result, verbosity: int) -> Iterator[Line]:
    yield Line(f"{result.test_id}  {result.outcome}", {"bold": True})
    for backend in result.backends:
        yield Line(f"  {_headline(result, backend)}")
        yield from _table(backend, HOT_FUNCTIONS_VERBOSE if verbosity else HOT_FUNCTIONS)
        yield from (Line(f"  warning: {text}", {"yellow": True}) for text in backend.warnings)


def _headline(result: Result, backend: BackendResult) -> str:
    mode = f" ({backend.mode})" if backend.mode else ""
    window = result.window
    cost = window.cpu_us_per_task
    return (
        f"{backend.backend}{mode}: {backend.busy_samples} busy samples, {window.tasks} tasks in "
        f"{window.seconds:.2f} s" + (f", {cost:.0f} us of scheduler CPU per task" if cost else "")
    )


def _table(backend: BackendResult, most: int) -> Iterator[Line]:
    hot = hottest(backend, most)
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
    owners = backend.owners[:OWNERS_SHOWN]
    yield Line("  owners: " + ", ".join(f"{o.owner} {o.share.value:.0%}" for o in owners))


def hottest(backend: BackendResult, most: int) -> list[FunctionShare]:
    """The functions that a reader wants to see; plumbing counts by its own time alone."""

    def heat(each: FunctionShare) -> float:
        return (each.self_share if each.owner in PLUMBING else each.share).value

    return [each for each in sorted(backend.functions, key=heat, reverse=True) if heat(each)][:most]


def _limit_lines(results: Sequence[Result]) -> Iterator[Line]:
    counts: Counter[Verdict] = Counter(limit.verdict for r in results for limit in r.limits)
    if not counts:
        return
    worst = Verdict.worst(list(counts))
    words = {Verdict.PASS: "passed", Verdict.FAIL: "broken", Verdict.INCONCLUSIVE: "inconclusive"}
    text = ", ".join(f"{counts[each]} {word}" for each, word in words.items() if counts[each])
    yield Line(f"limits: {text}", _MARKUP[worst])
    for result in results:
        for limit in result.limits:
            if limit.verdict is not Verdict.PASS:
                text = f"  {words[limit.verdict]}: {describe(limit)} [{result.test_id}]"
                yield Line(text, _MARKUP[limit.verdict])
