"""What a session found, as Markdown for a pull request: what got worse comes first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from pytest_schedprof.gates.judge import describe
from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.reports.exchange import SIGNS, comparison_markdown
from pytest_schedprof.reports.lines import Line
from pytest_schedprof.reports.markdown import Section, code, fitted, plain
from pytest_schedprof.reports.terminal import LIMIT_WORDS, dearest, hottest

ROOM = 60_000
"""Bytes; GitHub refuses a comment of more than 65,536 characters."""

HOT = 3

TABLE = """
| | test | outcome | backend | tasks | CPU per task | hottest |
|---|---|---|---|--:|--:|---|"""


def run_markdown(
    results: Sequence[Result], where: str, roll: Sequence[Line] = (), room: int = ROOM
) -> str:
    """A heading that says it all, what is bad, what is in doubt, and the rest folded.

    Args:
        results: of the session's profiled tests.
        where: the run's directory.
        roll: what there is to say of tests that the baseline or the session alone has.
        room: in bytes.
    """
    return fitted(list(_sections(results, where, roll)), room, code(where))


def _sections(results: Sequence[Result], where: str, roll: Sequence[Line]) -> Iterator[Section]:
    yield Section(_heading(results), list(_facts(results, where)), "facts")
    yield Section("\n### Regressions", list(_compared(results, Verdict.FAIL)), "comparisons")
    broken, doubts = (list(_limits(results, each)) for each in (Verdict.FAIL, Verdict.INCONCLUSIVE))
    yield Section("\n### Broken limits\n", broken, "broken limits")
    yield Section("\n### Trouble with profiling\n", list(_troubles(results)), "troubles")
    yield Section("\n### Undecided\n", doubts, "undecided limits")
    told = [f"- {plain(line.text.strip())}" for line in roll]
    yield Section("\n### Tests that came, went or were renamed\n", told, "tests")
    undecided = list(_compared(results, Verdict.INCONCLUSIVE))
    yield _folded("Comparisons that are undecided", undecided, "comparisons")
    yield _folded("What else changed", list(_compared(results, Verdict.PASS)), "comparisons")
    rows = [row for result in results for row in _rows(result)]
    yield _folded(f"All {len(results)} profiled tests", rows, "rows", TABLE)


def _folded(title: str, items: Sequence[str], noun: str, head: str = "") -> Section:
    return Section(
        f"\n<details><summary>{title}</summary>\n{head}", items, noun, tail="\n</details>"
    )


def _heading(results: Sequence[Result]) -> str:
    comparisons = [each for result in results for each in result.comparisons]
    changes = Counter(change.outcome for each in comparisons for change in each.changes)
    limits = Counter(limit.verdict for result in results for limit in result.limits)
    told = [
        ", ".join(f"{changes[each]} {each.value}" for each in Outcome if changes[each]),
        ", ".join(f"{limits[each]} {word}" for each, word in LIMIT_WORDS.items() if limits[each]),
    ]
    words = [told[0], told[1] and f"limits: {told[1]}", f"{len(results)} profiled tests"]
    verdict = Verdict.worst([result.verdict for result in results])
    return f"## {SIGNS[verdict]} Scheduler performance: {'; '.join(filter(None, words))}\n"


def _facts(results: Sequence[Result], where: str) -> Iterator[str]:
    """Where it was measured, what with, and what may be wrong with that."""
    yield f"- Artifacts: {code(where)}"
    for name in dict.fromkeys(result.baseline for result in results if result.baseline):
        yield f"- Compared with {code(name)}."
    alarms = sum(len(each.of(Outcome.REGRESSED)) for result in results for each in result.null)
    if any(result.null for result in results):
        yield f"- The same code on another scheduler (null arm): {alarms} false alarms."
    if unjudged := sum(len(result.unjudged) for result in results):
        yield f"- {unjudged} limits not judged, for no chosen backend measures what they bound"
    environments = [result.environment for result in results if result.environment]
    for text in dict.fromkeys(text for each in environments for text in each.differences):
        yield f"- Note: {plain(text)}"


def _compared(results: Sequence[Result], verdict: Verdict) -> Iterator[str]:
    """A table for each comparison of one verdict."""
    comparisons = [each for result in results for each in result.comparisons]
    for each in sorted(comparisons, key=_gravity):
        if each.verdict is verdict and (text := "\n".join(comparison_markdown(each))):
            yield text


def _gravity(comparison: Comparison) -> int:
    """What regressed more comes first."""
    return -len(comparison.of(Outcome.REGRESSED))


def _limits(results: Sequence[Result], verdict: Verdict) -> Iterator[str]:
    for result in results:
        for limit in result.limits:
            if limit.verdict is verdict:
                yield f"- {code(result.test_id)}: {code(describe(limit))}"


def _troubles(results: Sequence[Result]) -> Iterator[str]:
    for result in results:
        for text in result.troubles:
            yield f"- {code(result.test_id)}: {plain(text)}"


def _rows(result: Result) -> Iterator[str]:
    for backend in result.backends:
        window = backend.window
        cells = [
            SIGNS[Verdict.FAIL if result.outcome == "failed" else result.verdict],
            code(result.test_id),
            result.outcome,
            backend.backend,
            f"{window.tasks:,}",
            _cpu(backend),
            "<br>".join(_hot(backend)),
        ]
        yield f"| {' | '.join(cells)} |"


def _cpu(backend: BackendResult) -> str:
    """Under a backend without samples it is not the scheduler's alone."""
    cost = backend.window.cpu_us_per_task if backend.shares else None
    return f"{cost:.0f} us" if cost else ""


def _hot(backend: BackendResult) -> Iterator[str]:
    if backend.shares:
        for share in hottest(backend.shares.functions, HOT):
            yield f"{code(share.function)} {share.share.value:.0%}"
    elif backend.costs:
        yield from (code(cost.function) for cost in dearest(backend.costs.functions, HOT))
