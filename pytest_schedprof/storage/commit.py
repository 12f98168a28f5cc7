"""Asks git for the commit of a directory. It never fails: what git does not say is not known."""

from __future__ import annotations

import os
import subprocess
from datetime import datetime, timezone
from pathlib import Path

from pytest_schedprof.model.commit import Commit

TIMEOUT_S = 5
"""For each question; on a network drive git may take minutes."""

CI_BRANCHES = (
    "GITHUB_HEAD_REF",  # of a pull request, where the next is 12/merge
    "GITHUB_REF_NAME",
    "CI_COMMIT_REF_NAME",
    "BUILDKITE_BRANCH",
    "CIRCLE_BRANCH",
    "BITBUCKET_BRANCH",
    "BUILD_SOURCEBRANCHNAME",
)
"""Where CI services, which check out a commit and no branch, keep the branch's name."""


def commit_of(directory: Path) -> Commit | None:
    """The commit that is checked out there; None without git, a repository or a commit."""
    found = _git(directory, "log", "-1", "--format=%H %ct")
    sha, _, seconds = (found or "").partition(" ")
    if not seconds.isdecimal():
        return None
    time = datetime.fromtimestamp(int(seconds), timezone.utc).isoformat()
    branch = _git(directory, "symbolic-ref", "--quiet", "--short", "HEAD") or _branch_in_ci()
    # Untracked files are no sign of a change: caches and results lie about everywhere.
    is_dirty = _git(directory, "status", "--porcelain", "--untracked-files=no") != ""
    return Commit(sha, branch, time, is_dirty)


def _branch_in_ci() -> str:
    return next(filter(None, map(os.environ.get, CI_BRANCHES)), "")


def _git(directory: Path, *arguments: str) -> str | None:
    """What git prints; None if there is no answer."""
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.decode("utf-8", "replace").strip()
