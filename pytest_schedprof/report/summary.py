"""Summary of a session as Markdown for a pull request, with what got worse first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import NOT_FAILED, BackendResult, Result
from pytest_schedprof.report.changes import condition_words, gravity, outcome_words
from pytest_schedprof.report.comparisons import comparison_markdown, explanation_markdown
from pytest_schedprof.report.markup import SIGNS, Escaped, Section, code, fitted, lines, plain, row
from pytest_schedprof.report.results import baseline_names, environment_notes
from pytest_schedprof.report.tables import dearest, describe, hottest, limit_words, skipped_words
from pytest_schedprof.report.words import MOST_EXPLAINED, counted

MOST_BYTES = 60_000
"""Size of a summary: GitHub refuses comments of more than 65,536 characters."""

HOT_FUNCTIONS = 3

TABLE = """
| | test | outcome | backend | tasks | CPU per task | hottest |
|---|---|---|---|--:|--:|---|"""


def run_markdown(
    results: Sequence[Result],
    place: str,
    unmatched: Sequence[str] = (),
    explained: Sequence[Explanation] = (),
) -> str:
    """Return a heading with all counts, then failures, then doubts, and the rest folded.

    Args:
        results: one for each profiled test of the session.
        place: the run's directory.
        unmatched: what is said of tests that only the baseline or only the session has.
        explained: why figures regressed.
    """
    sections = _sections(results, place, unmatched, explained)
    return fitted(list(sections), MOST_BYTES, code(place))


def _sections(
    results: Sequence[Result],
    place: str,
    unmatched: Sequence[str],
    explained: Sequence[Explanation],
) -> Iterator[Section]:
    yield Section(_heading(results), list(_facts(results, place)), "facts")
    yield Section("\n### Regressions", list(_compared(results, Verdict.FAIL)), "comparisons")
    why = [explanation_markdown(explanation) for explanation in explained[:MOST_EXPLAINED]]
    yield Section("\n### Why", why, "explanations")
    broken, doubts = (
        [
            f"- {code(result.test_id)}: {code(describe(limit))}"
            for result in results
            for limit in result.limits
            if limit.verdict is verdict
        ]
        for verdict in (Verdict.FAIL, Verdict.INCONCLUSIVE)
    )
    yield Section("\n### Broken limits\n", broken, "broken limits")
    failed = [
        f"- {code(result.test_id)}: {plain(result.outcome)}"
        for result in results
        if result.verdict is not Verdict.FAIL and _status(result) is Verdict.FAIL
    ]
    yield Section("\n### Tests that failed for another reason\n", failed, "tests")
    troubles = [
        f"- {code(result.test_id)}: {plain(text)}" for result in results for text in result.troubles
    ]
    yield Section("\n### Problems with profiling\n", troubles, "problems")
    yield Section("\n### Undecided limits\n", doubts, "undecided limits")
    items = [f"- {plain(text)}" for text in unmatched]
    yield Section("\n### New, vanished and renamed tests\n", items, "tests")
    undecided = list(_compared(results, Verdict.INCONCLUSIVE))
    yield _folded("Undecided comparisons", undecided, "comparisons")
    yield _folded("Other changes", list(_compared(results, Verdict.PASS)), "comparisons")
    rows = [row for result in results for row in _rows(result)]
    yield _folded(f"All profiled tests ({len(results)})", rows, "rows", TABLE)


def _folded(title: str, items: Sequence[str], noun: str, head: str = "") -> Section:
    return Section(
        f"\n<details><summary>{title}</summary>\n{head}", items, noun, tail="\n</details>"
    )


def _heading(results: Sequence[Result]) -> str:
    changes = ", ".join(outcome_words(_comparisons(results)))
    limits = ", ".join(limit_words(results))
    words = [changes, limits and f"limits: {limits}", counted(len(results), "profiled test")]
    verdict = Verdict.worst([_status(result) for result in results])
    return f"## {SIGNS[verdict]} Scheduler performance: {'; '.join(filter(None, words))}\n"


def _status(result: Result) -> Verdict:
    return result.verdict if result.outcome in NOT_FAILED else Verdict.FAIL


def _facts(results: Sequence[Result], place: str) -> Iterator[str]:
    """Return where the run is, what it was compared with, and what may be wrong with it."""
    yield f"- Artifacts: {code(place)}"
    yield from (f"- Compared with {code(name)}." for name in baseline_names(results))
    yield from (f"- {plain(text)}" for text in condition_words(_comparisons(results)))
    if skipped := skipped_words(results):
        yield f"- Limits: {skipped}"
    yield from (f"- Note: {plain(text)}" for text in environment_notes(results))


def _comparisons(results: Sequence[Result]) -> list[Comparison]:
    return [comparison for result in results for comparison in result.comparisons]


def _compared(results: Sequence[Result], verdict: Verdict) -> Iterator[str]:
    for comparison in sorted(_comparisons(results), key=gravity):
        if comparison.verdict is verdict and (text := "\n".join(comparison_markdown(comparison))):
            yield text


def _rows(result: Result) -> Iterator[str]:
    for backend in result.backends:
        window = backend.window
        cells = [
            plain(SIGNS[_status(result)]),
            code(result.test_id),
            plain(result.outcome),
            plain(backend.backend),
            plain(f"{window.tasks:,}"),
            # Backends that do not sample add to the CPU time.
            plain(f"{cost:.0f} us" if (cost := window.cpu_us_per_task) and backend.shares else ""),
            lines(_hot(backend)),
        ]
        yield row(cells)


def _hot(backend: BackendResult) -> Iterator[Escaped]:
    if backend.shares:
        for share in hottest(backend.shares.functions, HOT_FUNCTIONS):
            yield Escaped(f"{code(share.function)} {share.share.value:.0%}")
    elif backend.costs:
        yield from (code(cost.function) for cost in dearest(backend.costs.functions, HOT_FUNCTIONS))
