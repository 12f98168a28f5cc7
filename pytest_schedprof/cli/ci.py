"""`schedprof ci`: the steps of a job in GitHub Actions."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from pytest_schedprof.cli.annotations import annotations_of, as_commands, remarks_of
from pytest_schedprof.cli.commands import Commands, add_command, add_run, complain, say
from pytest_schedprof.cli.github import NOTE, TOKENS, GitHub, baseline_name
from pytest_schedprof.cli.sources import add_directory
from pytest_schedprof.errors import ArtifactError, ForgeError, SettingsError
from pytest_schedprof.judge.explanation import Pairs, why_regressed
from pytest_schedprof.store.places import read_kept
from pytest_schedprof.store.runs import find_run

EXAMPLE = """\
examples: schedprof ci baseline
          schedprof ci test --backends counts --pytest 'tests/scheduler -x'
          schedprof ci annotate
          schedprof ci comment --link https://example.com/pages

The job is known by GitHub's own variables. On the default branch a baseline is saved, elsewhere it
is compared with; docs/ci.md shows whole jobs, also for GitLab and Jenkins.

exit status: 0, of `test` pytest's own, 1 if GitHub or a file refuses, 2 for a mistake"""

NAME = "schedprof"

MOST_EXPLAINED = 10
"""Tests of which is told in which lines they became slower."""


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "ci",
        run,
        purpose="the steps of a job in GitHub Actions",
        description="Fetches the baseline of the default branch, runs the tests, marks the lines "
        "that became slower, and comments on the pull request.",
        example=EXAMPLE,
    )
    steps = parser.add_subparsers(required=True, metavar="STEP")

    def add_step(name: str, purpose: str) -> argparse.ArgumentParser:
        step = steps.add_parser(name, help=purpose, description=f"{purpose.capitalize()}.")
        step.set_defaults(step=STEPS[name])
        return step

    def add_name(step: argparse.ArgumentParser) -> None:
        purpose = "tells apart several jobs for one pull request (default: %(default)s)"
        step.add_argument("--name", default=NAME, metavar="NAME", help=purpose)

    baseline = add_step("baseline", "fetch the baseline of the default branch")
    add_name(baseline)
    add_directory(baseline)
    test = add_step(
        "test", "run pytest: save a baseline on the default branch, compare with it elsewhere"
    )
    test.add_argument(
        "--backends", default="", metavar="NAMES", help="as --schedprof of pytest (default: none)"
    )
    test.add_argument(
        "--pytest", default="", metavar="ARGUMENTS", help="more arguments for pytest, as one text"
    )
    test.add_argument(
        "--baseline",
        default="",
        metavar="URL",
        help="save and find the baseline there, such as s3://bucket/main, instead of an artifact",
    )
    add_directory(test)
    annotate = add_step("annotate", "mark the lines that became slower")
    add_directory(annotate)
    add_run(annotate, "run_directory")
    comment = add_step("comment", "comment on the pull request, or edit the comment")
    add_name(comment)
    comment.add_argument("--link", default="", metavar="URL", help="of pages and profiles")
    add_run(comment, "run_directory")


def run(given: argparse.Namespace) -> int:
    """Run the step."""
    status: int = given.step(given, GitHub(os.environ))
    return status


def fetch(given: argparse.Namespace, github: GitHub) -> int:
    """Fetch the baseline; without one the tests only run."""
    if github.is_reference:
        say("this is the default branch: its baseline is saved and compared with nothing")
        return 0
    place = _place(github, given.dir)
    try:
        count = github.fetch_baseline(given.name, place)
    except ForgeError as error:
        raise _with_note(error) from error
    if count:
        say(f"baseline of {github.default_branch}: {count} files in {place}")
    else:
        _notice(f"{github.default_branch} has no baseline yet: nothing is compared")
    return 0


def test(given: argparse.Namespace, github: GitHub) -> int:
    """Run pytest and return its status."""
    place = _place(github, given.dir)
    options = [f"--schedprof={given.backends}"] if given.backends else []
    options += [f"--schedprof-dir={given.dir}", *_with_baseline(given, github, place)]
    try:
        options += shlex.split(given.pytest)
    except ValueError as error:
        raise SettingsError(f"schedprof: --pytest {given.pytest!r}: {error}") from error
    command = [sys.executable, "-m", "pytest", *options]
    say(shlex.join(command))
    environ = {name: value for name, value in os.environ.items() if name not in TOKENS}
    status = subprocess.run(command, env=environ, check=False).returncode
    output = os.environ.get("GITHUB_OUTPUT")
    if output and github.is_reference and place.is_dir():
        with open(output, "a", encoding="utf-8") as file:
            file.write(f"baseline={place}\n")
    return status


def _with_baseline(given: argparse.Namespace, github: GitHub, place: Path) -> Iterator[str]:
    if github.is_reference:
        yield f"--schedprof-save={given.baseline or place.name}"
    elif given.baseline or place.is_dir():
        yield f"--schedprof-compare={given.baseline or place.name}"


def annotate(given: argparse.Namespace, github: GitHub) -> int:
    """Print the annotations of a run; none if none was made, which the tests have told."""
    try:
        kept = find_run(Path(given.run_directory))
    except ArtifactError as error:
        complain(error)
        return 0
    tests = kept.tests()
    regressed = [test for test in tests if test.result.has_regressed][:MOST_EXPLAINED]
    why = why_regressed(regressed, Pairs(kept.path, given.dir))
    remarks = remarks_of([test.result for test in tests], why)
    for line in as_commands(list(annotations_of(remarks, github.checkout, Path.cwd()))):
        say(line)
    return 0


def comment(given: argparse.Namespace, github: GitHub) -> int:
    """Write the comment; a token that may not write is told, and fails nothing."""
    if github.request is None:
        say("the job is for no pull request: nothing to comment on")
        return 0
    try:
        done = github.put_comment(given.name, _summary(given.run_directory), given.link)
    except ForgeError as error:
        if not error.is_refused:
            raise
        _notice(str(_with_note(error)))
        return 0
    say(f"{done} on pull request {github.request}")
    return 0


STEPS = {"baseline": fetch, "test": test, "annotate": annotate, "comment": comment}


def _summary(directory: str) -> str:
    """Return the summary of a run; empty if none was made."""
    try:
        return read_kept(find_run(Path(directory)).path / "summary.md").decode("utf-8", "replace")
    except ArtifactError as error:
        complain(error)
        return ""


def _place(github: GitHub, directory: str) -> Path:
    """Return the directory of the default branch's baseline."""
    return Path(directory) / "baselines" / baseline_name(github.default_branch)


def _with_note(error: ForgeError) -> ForgeError:
    return ForgeError(f"{error}; {NOTE}", error.status) if error.is_refused else error


def _notice(text: str) -> None:
    """Say something that the page of the job shows too."""
    from pytest_schedprof.cli.annotations import command

    say(command("notice", text))
