"""`schedprof ci`: the steps of a job in GitHub Actions or GitLab."""

from __future__ import annotations

import argparse

from pytest_schedprof.cli.ci_steps import annotate, comment, fetch, test
from pytest_schedprof.cli.commands import Commands, add_command, add_run
from pytest_schedprof.cli.sources import add_directory

EXAMPLE = """\
examples: schedprof ci baseline
          schedprof ci test --backends counts --pytest 'tests/scheduler -x'
          schedprof ci annotate --code-quality gl-code-quality-report.json
          schedprof ci comment --link https://example.com/pages

The job is known by the forge's own variables. On the default branch a baseline is saved, elsewhere
it is compared with; docs/ci.md shows whole jobs.

exit status: 0, of `test` pytest's own, 1 if the forge or a file refuses, 2 for a mistake"""

NAME = "schedprof"


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "ci",
        run,
        purpose="the steps of a job in GitHub Actions or GitLab",
        description="Fetches the baseline of the default branch, runs the tests, marks the lines "
        "that became slower, and comments on the pull request.",
        example=EXAMPLE,
    )
    steps = parser.add_subparsers(required=True, metavar="STEP")
    _add_baseline(steps)
    _add_test(steps)
    _add_annotate(steps)
    _add_comment(steps)


def run(given: argparse.Namespace) -> int:
    """Run the step."""
    status: int = given.step(given)
    return status


def _add_baseline(steps: Commands) -> None:
    what = "fetch the baseline of the default branch"
    parser = steps.add_parser("baseline", help=what, description=f"{what.capitalize()}.")
    parser.set_defaults(step=fetch)
    _add_name(parser)
    add_directory(parser)


def _add_test(steps: Commands) -> None:
    what = "run pytest: save a baseline on the default branch, compare with it elsewhere"
    parser = steps.add_parser("test", help=what, description=f"{what.capitalize()}.")
    parser.set_defaults(step=test)
    parser.add_argument(
        "--backends", default="", metavar="NAMES", help="as --schedprof of pytest (default: none)"
    )
    parser.add_argument(
        "--pytest", default="", metavar="ARGUMENTS", help="more arguments for pytest, as one text"
    )
    parser.add_argument(
        "--baseline",
        default="",
        metavar="URL",
        help="save and find the baseline there, such as s3://bucket/main, instead of an artifact",
    )
    add_directory(parser)


def _add_annotate(steps: Commands) -> None:
    what = "mark the lines that became slower"
    parser = steps.add_parser("annotate", help=what, description=f"{what.capitalize()}.")
    parser.set_defaults(step=annotate)
    parser.add_argument(
        "--code-quality",
        metavar="FILE",
        help="write GitLab's report of code quality (default: print GitHub's workflow commands)",
    )
    add_directory(parser)
    add_run(parser, "run_directory")


def _add_comment(steps: Commands) -> None:
    what = "comment on the pull request, or edit the comment"
    parser = steps.add_parser("comment", help=what, description=f"{what.capitalize()}.")
    parser.set_defaults(step=comment)
    _add_name(parser)
    parser.add_argument("--link", default="", metavar="URL", help="of pages and profiles")
    add_run(parser, "run_directory")


def _add_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name",
        default=NAME,
        metavar="NAME",
        help="tells apart several jobs for one pull request (default: %(default)s)",
    )
