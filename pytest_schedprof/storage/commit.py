"""Ask git for the commit of a directory. Never fails: without an answer the commit is unknown."""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from pytest_schedprof.model.run import Commit

TIMEOUT_S = 5
"""Time limit for each call of git, which may take minutes on a network drive."""

CI_BRANCHES = (
    "GITHUB_HEAD_REF",  # the branch of a pull request, where GITHUB_REF_NAME is 12/merge
    "GITHUB_REF_NAME",
    "CI_COMMIT_REF_NAME",
    "BUILDKITE_BRANCH",
    "CIRCLE_BRANCH",
    "BITBUCKET_BRANCH",
    "BUILD_SOURCEBRANCHNAME",
)
"""Variables in which CI services name the branch; they check out a commit and no branch."""


def commit_of(directory: Path) -> Commit | None:
    """Return the commit that is checked out; None without git, a repository or a commit."""
    found = _git(directory, "log", "-1", "--format=%H %ct")
    sha, _, seconds = (found or "").partition(" ")
    if not seconds.isdecimal():
        return None
    time = datetime.fromtimestamp(int(seconds), UTC).isoformat()
    branch = _git(directory, "symbolic-ref", "--quiet", "--short", "HEAD") or _branch_in_ci()
    # Untracked files do not count as changes: caches and results are everywhere.
    is_dirty = _git(directory, "status", "--porcelain", "--untracked-files=no") != ""
    return Commit(sha, branch, time, is_dirty)


def _branch_in_ci() -> str:
    return next(filter(None, map(os.environ.get, CI_BRANCHES)), "")


def _git(directory: Path, *arguments: str) -> str | None:
    """Return what git prints; None if it fails."""
    command = ["git", "--no-optional-locks", "-C", str(directory), *arguments]
    try:
        process = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=True
        )
    except Exception:  # without git it is an OSError; a test may have patched Popen to raise any
        return None
    return process.stdout.decode("utf-8", "replace").strip()
