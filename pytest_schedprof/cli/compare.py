"""`schedprof compare`: print what changed between two sets of results."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from pytest_schedprof.cli.main import add_directory, say
from pytest_schedprof.errors import ArtifactError, BaselineError
from pytest_schedprof.judge.acceptance import accepted_in, with_accepted
from pytest_schedprof.judge.compare import compare
from pytest_schedprof.judge.parting import with_partings
from pytest_schedprof.model.comparison import Report
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.report.commands import as_json
from pytest_schedprof.report.comparisons import as_markdown, report_lines
from pytest_schedprof.store.baselines import kept_run, load, run_after
from pytest_schedprof.store.runs import decided_in_run

PURPOSE = "show what changed between two runs or baselines"
DESCRIPTION = (
    "Compares two sets of results. Each is a baseline by name, path or URL, the directory of a "
    "run or of one of its tests, or a directory of runs, of which the newest is used whose session "
    "has ended and profiled a test; DIR/latest is the newest in any case. If A is a directory of "
    "runs, the runs before tell how much figures vary."
)
EXAMPLE = """\
examples: schedprof compare main .schedprof
          schedprof compare s3://bucket/baselines/main run/ --markdown >> "$GITHUB_STEP_SUMMARY"

exit status: 0 without a regression, 1 with one, 2 for a mistake or a file that cannot be read, 3
with --strict if anything is undecided"""

REGRESSED, UNDECIDED = 1, 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="A", help="the earlier results, or 'latest'")
    parser.add_argument("after", metavar="B", help="the later results")
    add_directory(parser)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument(
        "--markdown", action="store_true", help="print a summary for a pull request"
    )
    parser.add_argument("--strict", action="store_true", help="exit with 3 if undecided")
    parser.add_argument("-v", "--verbose", action="store_true", help="also show what is undecided")


def run(arguments: argparse.Namespace) -> int:
    try:
        report = load_both(arguments.before, arguments.after, arguments.dir, has_past=True)
        accepted = accepted_in(Path.cwd())
    except ArtifactError as error:  # whose status would say that something regressed
        raise BaselineError(str(error)) from error
    comparisons = (with_accepted(comparison, accepted) for comparison in report.comparisons)
    report = replace(report, comparisons=tuple(comparisons))
    if arguments.json:
        say(as_json(report, verdict=report.verdict))
    elif arguments.markdown:
        say(as_markdown(report))
    else:
        say("\n".join(line.text for line in report_lines(report, int(arguments.verbose))))
    if report.verdict is Verdict.FAIL:
        return REGRESSED
    return UNDECIDED if arguments.strict and report.verdict is Verdict.INCONCLUSIVE else 0


def load_both(before: str, after: str, directory: str, *, has_past: bool = False) -> Report:
    """Load two sets of results and compare them.

    Args:
        directory: where baselines are found by name.
        has_past: whether thresholds come from the runs before, if the earlier results are a
            directory of runs.

    Raises:
        BaselineError: if one cannot be read, or they have no test in common.
    """
    run = run_after(before, after, directory)
    one, other = load(before, directory, other=run), load(after, directory)
    names = (one.name, other.name)
    earlier = one.earlier if has_past else None
    report = compare(one.tests, other.tests, names=names, earlier=earlier)
    if not report.comparisons:
        raise BaselineError(
            f"schedprof: {before!r} and {after!r} have no measured test in common "
            f"({len(one.tests)} and {len(other.tests)} tests)"
        )
    if not any(comparison.parting for comparison in report.comparisons):
        return report
    runs = (kept_run(before, directory, run), kept_run(after, directory))
    return with_partings(report, *(partial(decided_in_run, place) for place in runs))
