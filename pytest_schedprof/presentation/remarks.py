"""What of a run is worth a remark at a line of code, the gravest first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from pytest_schedprof.model.comparison import Comparison, Outcome
from pytest_schedprof.model.explanation import Explanation, Part
from pytest_schedprof.model.remark import Remark
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.presentation.changes import regressions, undecided
from pytest_schedprof.presentation.explanation import sentence, told
from pytest_schedprof.presentation.limits import describe

MOST_FUNCTIONS = 3
"""Functions that are told for each figure that regressed."""


def remarks_of(results: Sequence[Result], explained: Sequence[Explanation]) -> list[Remark]:
    """Return failures, then doubts.

    Args:
        results: one for each profiled test of the run.
        explained: why figures regressed.
    """
    found = [remark for result in results for remark in _of_test(result, explained)]
    return sorted(found, key=lambda each: each.verdict is not Verdict.FAIL)


def _of_test(result: Result, explained: Sequence[Explanation]) -> Iterator[Remark]:
    for comparison in (each for each in result.comparisons if each.is_binding):
        if comparison.verdict is Verdict.FAIL:
            yield from _regressed(comparison, explained)
        elif comparison.reasons:  # not for single figures, of which there are some in each run
            text = f"undecided: {undecided(comparison)}"
            yield Remark(Verdict.INCONCLUSIVE, result.test_id, text)
    for limit in result.limits:
        if limit.verdict is not Verdict.PASS:
            subject = _named(finding.subject for finding in limit.findings[:1])
            yield Remark(limit.verdict, result.test_id, describe(limit), subject)
    yield from (Remark(Verdict.INCONCLUSIVE, result.test_id, text) for text in result.troubles)


def _regressed(comparison: Comparison, explained: Sequence[Explanation]) -> Iterator[Remark]:
    """Yield the functions that explain a regression; what regressed most if none is known."""
    measured = (comparison.test_id, comparison.backend)
    mine = [each for each in explained if (each.test_id, each.backend) == measured]
    if found := [remark for each in mine for remark in _rises(each)]:
        yield from found
        return
    subject = _named(change.subject for change in comparison.of(Outcome.REGRESSED))
    text = f"regressed: {regressions(comparison)}"
    yield Remark(Verdict.FAIL, comparison.test_id, text, subject)


def _rises(found: Explanation) -> Iterator[Remark]:
    for part in [each for each in told(found) if each.amount > 0][:MOST_FUNCTIONS]:
        text = f"{found.metric} per task: {sentence(found, part).replace('`', '')}"
        file, first, last = _place(part)
        yield Remark(Verdict.FAIL, found.test_id, text, part.function, file, first, last)


def _place(part: Part) -> tuple[str, int, int]:
    """Return the file and the dearest lines of a function; no lines if they are not known."""
    if part.source is None:
        return "", 0, 0
    if not part.source.places:
        return part.source.file, 0, 0
    dearest = part.source.places[0]
    return part.source.file, dearest.first, dearest.last


def _named(subjects: Iterable[str]) -> str:
    """Return the first that is a function, not an owner or the whole; empty if none is."""
    return next((each for each in subjects if ":" in each), "")
