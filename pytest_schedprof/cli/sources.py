"""Load and compare the results that commands name."""

from __future__ import annotations

import argparse
from functools import partial

from pytest_schedprof.errors import BaselineError
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.parting import with_partings
from pytest_schedprof.model.comparison import Report
from pytest_schedprof.store.baselines import kept_run, load
from pytest_schedprof.store.runs import decided_in_run


def add_directory(parser: argparse.ArgumentParser) -> None:
    """Add the option for the directory in which baselines are found by name."""
    parser.add_argument(
        "--dir",
        default=".schedprof",
        metavar="DIR",
        help="directory of runs and baselines (default: .schedprof)",
    )


def load_both(before: str, after: str, directory: str, *, has_past: bool = False) -> Report:
    """Load two sets of results and compare them.

    Args:
        before: the earlier results.
        after: the later ones.
        directory: where baselines are found by name.
        has_past: whether thresholds come from the runs before, if the earlier results are a
            directory of runs.

    Raises:
        BaselineError: if one cannot be read, or they have no test in common.
    """
    other = load(after, directory)
    # A search compares its good end with itself too.
    apart = None if before == after else kept_run(after, directory)
    one = load(before, directory, other=apart)
    names = (one.name, other.name)
    earlier = one.earlier if has_past else None
    report = compare(one.results, other.results, names=names, earlier=earlier)
    if not report.comparisons:
        raise BaselineError(
            f"schedprof: {before!r} and {after!r} have no measured test in common "
            f"({len(one.results)} and {len(other.results)} tests)"
        )
    if not any(comparison.parting for comparison in report.comparisons):
        return report
    readers = (partial(decided_in_run, kept_run(spec, directory)) for spec in (before, after))
    return with_partings(report, *readers)
