"""The other side of a test: what it is held against, with its samples if they are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pytest_schedprof.comparison.compare import compare
from pytest_schedprof.errors import BaselineError
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.pages.reading import AGAINST, RunFiles, TestFiles, read_side


@dataclass(frozen=True, slots=True)
class Other:
    """A record of the same test, and where its files are."""

    name: str
    directory: Path
    result: Result

    def backend(self, one: BackendResult) -> BackendResult | None:
        """The same backend in the same mode: samples of another mean something else."""
        found = (
            each
            for each in self.result.backends
            if (each.backend, each.mode) == (one.backend, one.mode)
        )
        return next(found, None)


def other_of(test: TestFiles, run: RunFiles | None = None) -> Other | None:
    """Of another run, if there is one; else the other side of a test that ran in turns."""
    if run is not None:
        return next(
            (
                Other(run.path.name, each.directory, each.result)
                for each in reversed(run.tests)  # of several attempts the last that can be used
                if each.result
                and each.result.is_usable
                and each.entry.test_id == test.entry.test_id
            ),
            None,
        )
    side = read_side(test.directory) if test.result else None
    if side is None or test.result is None:
        return None
    return Other(test.result.baseline or AGAINST, test.directory / AGAINST, side)


def compared(run: RunFiles, before: RunFiles) -> RunFiles:
    """The run as if it had been compared with another one.

    Raises:
        BaselineError: if they have no test in common.
    """
    names = (before.path.name, run.path.name)
    report = compare(before.results, run.results, names=names)
    if not report.comparisons:
        raise BaselineError(
            f"schedprof: {str(before.path)!r} and {str(run.path)!r} have no test in common that "
            f"was measured in both ({len(before.results)} and {len(run.results)} tests)"
        )
    return replace(run, tests=_with(run.tests, report.comparisons, names[0]))


def _with(
    tests: Sequence[TestFiles], comparisons: Sequence[Comparison], name: str
) -> tuple[TestFiles, ...]:
    return tuple(
        replace(
            test,
            result=replace(
                test.result,
                baseline=name,
                comparisons=tuple(c for c in comparisons if c.test_id == test.entry.test_id),
            ),
        )
        if test.result
        else test
        for test in tests
    )
