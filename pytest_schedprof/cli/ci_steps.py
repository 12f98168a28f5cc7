"""What each step of `schedprof ci` does."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_schedprof.cli.output import complain, say
from pytest_schedprof.errors import ArtifactError, ForgeError, SettingsError

if TYPE_CHECKING:
    from pytest_schedprof.forges.contract import Forge
    from pytest_schedprof.model.remark import Annotation

MOST_EXPLAINED = 10
"""Tests of which is told in which lines they became slower."""


def fetch(given: argparse.Namespace) -> int:
    """Fetch the baseline; without one the tests only run."""
    from pytest_schedprof.forges.fetching import fetch_baseline

    forge = _forge()
    if forge.job.is_reference:
        say("this is the default branch: its baseline is saved and compared with nothing")
        return 0
    place = _place(forge, given.dir)
    try:
        count = fetch_baseline(forge, given.name, place)
    except ForgeError as error:
        raise _with_note(error, forge) from error
    if count:
        say(f"baseline of {forge.job.default_branch}: {count} files in {place}")
    else:
        _notice(f"{forge.job.default_branch} has no baseline yet: nothing is compared")
    return 0


def test(given: argparse.Namespace) -> int:
    """Run pytest and return its status."""
    from pytest_schedprof.forges.here import TOKENS

    forge = _forge()
    command = [sys.executable, "-m", "pytest", *_options(forge, given), *_words(given.pytest)]
    say(shlex.join(command))
    environ = {name: value for name, value in os.environ.items() if name not in TOKENS}
    status = subprocess.run(command, env=environ, check=False).returncode
    place = _place(forge, given.dir)
    if forge.job.is_reference and place.is_dir():
        _output("baseline", str(place))
    return status


def _options(forge: Forge, given: argparse.Namespace) -> Iterator[str]:
    if given.backends:
        yield f"--schedprof={given.backends}"
    yield f"--schedprof-dir={given.dir}"
    place = _place(forge, given.dir)
    if forge.job.is_reference:
        yield f"--schedprof-save={given.baseline or place.name}"
    elif given.baseline or place.is_dir():
        yield f"--schedprof-compare={given.baseline or place.name}"


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SettingsError(f"schedprof: --pytest {text!r}: {error}") from error


def annotate(given: argparse.Namespace) -> int:
    """Print or write the annotations."""
    from pytest_schedprof.reports.annotations import as_code_quality, as_commands
    from pytest_schedprof.storage.run_directory import write

    found = _annotations(given)
    if given.code_quality:
        write(Path(given.code_quality).resolve(), f"{as_code_quality(found)}\n".encode())
        return 0
    for line in as_commands(found):
        say(line)
    return 0


def _annotations(given: argparse.Namespace) -> list[Annotation]:
    """Return the annotations of a run; none if none was made, which the tests have told."""
    from pytest_schedprof.explaining.sides import Pairs, why_regressed
    from pytest_schedprof.forges.checkout import annotations_of
    from pytest_schedprof.presentation.remarks import remarks_of
    from pytest_schedprof.storage.runs import find_run

    checkout = _forge().job.checkout
    try:
        run = find_run(Path(given.run_directory))
    except ArtifactError as error:
        complain(error)
        return []
    tests = run.tests()
    regressed = [each for each in tests if each.result.has_regressed][:MOST_EXPLAINED]
    why = why_regressed(regressed, Pairs(run.path, given.dir))
    remarks = remarks_of([each.result for each in tests], why)
    return list(annotations_of(remarks, checkout, Path.cwd()))


def comment(given: argparse.Namespace) -> int:
    """Write the comment; a token that may not write is told, and fails nothing."""
    from pytest_schedprof.forges.commenting import put_comment

    forge = _forge()
    if forge.job.request is None:
        say("the job is for no pull request: nothing to comment on")
        return 0
    try:
        done = put_comment(forge, given.name, _summary(given.run_directory), given.link)
    except ForgeError as error:
        if not error.is_refused:
            raise
        _notice(str(_with_note(error, forge)))
        return 0
    say(f"{done} on pull request {forge.job.request}")
    return 0


def _summary(directory: str) -> str:
    """Return the summary of a run; empty if none was made."""
    from pytest_schedprof.storage.reading import read_kept
    from pytest_schedprof.storage.runs import find_run

    try:
        return read_kept(find_run(Path(directory)).path / "summary.md").decode("utf-8", "replace")
    except ArtifactError as error:
        complain(error)
        return ""


def _forge() -> Forge:
    from pytest_schedprof.forges.here import forge_of

    return forge_of(os.environ)


def _place(forge: Forge, directory: str) -> Path:
    """Return the directory of the default branch's baseline."""
    from pytest_schedprof.forges.fetching import baseline_name

    return Path(directory) / "baselines" / baseline_name(forge.job.default_branch)


def _with_note(error: ForgeError, forge: Forge) -> ForgeError:
    return ForgeError(f"{error}; {forge.note}", error.status) if error.is_refused else error


def _notice(text: str) -> None:
    """Say something that the page of a job in GitHub Actions shows too."""
    from pytest_schedprof.reports.annotations import command

    say(command("notice", text) if os.environ.get("GITHUB_ACTIONS") else text)


def _output(name: str, value: str) -> None:
    """Set an output of the step in GitHub Actions."""
    if file := os.environ.get("GITHUB_OUTPUT"):
        with open(file, "a", encoding="utf-8") as opened:
            opened.write(f"{name}={value}\n")
