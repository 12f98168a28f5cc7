"""Ask git about the commits of a checkout, and check some of them out elsewhere."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pytest_schedprof.bisecting.session import UnmeasuredError
from pytest_schedprof.errors import SchedprofError, SettingsError, quoted

TIMEOUT_S = 300.0

LOCAL = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")
"""Variables by which git, where it runs this, would name another repository."""

CAREFUL = ("-c", "core.hooksPath=/dev/null", "-c", "advice.detachedHead=false")
"""The user's hooks are for the user's own checkouts."""


@dataclass(frozen=True, slots=True)
class Commit:
    """What people want to know of a commit."""

    short: str
    subject: str
    author: str
    date: str
    parents: str
    """Their names, with spaces."""


class Repository:
    """A checkout of the user, which is only read."""

    def __init__(self, checkout: Path) -> None:
        """Find the repository.

        Raises:
            SettingsError: if there is none, or no git.
        """
        self.path = checkout
        if not checkout.is_dir():
            raise SettingsError(
                f"schedprof: there is no directory {quoted(str(checkout))}; give a checkout with "
                "--checkout=DIR"
            )
        try:
            self.path = Path(self.ask("rev-parse", "--show-toplevel"))
        except GitError as error:
            raise SettingsError(
                f"schedprof: {quoted(str(checkout))} is no checkout of git ({error}); give one "
                "with --checkout=DIR"
            ) from error

    def ask(self, *arguments: str) -> str:
        """Return what git prints.

        Raises:
            GitError: if it fails; its text is the last line of what git said.
            SettingsError: if there is no git.
        """
        variables = {name: value for name, value in os.environ.items() if name not in LOCAL}
        variables |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_LFS_SKIP_SMUDGE": "1"}
        try:
            process = subprocess.run(
                ["git", "-C", str(self.path), *CAREFUL, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env=variables,
                timeout=TIMEOUT_S,
                check=False,
            )
        except FileNotFoundError:
            raise SettingsError("schedprof: git is not here, and --commits needs it") from None
        except subprocess.TimeoutExpired:
            raise GitError(f"git {arguments[0]} did not answer in {TIMEOUT_S:g} s") from None
        if process.returncode:
            said = process.stderr.decode(errors="replace").strip().splitlines() or ["no reason"]
            raise GitError(f"git {arguments[0]}: {said[-1].removeprefix('fatal: ')}")
        return process.stdout.decode("utf-8", "replace").strip()

    def commit(self, revision: str) -> str:
        """Return the full name of a commit.

        Raises:
            SettingsError: if there is none of that name.
        """
        try:
            return self.ask(
                "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}"
            )
        except (GitError, ValueError) as error:
            raise SettingsError(
                f"schedprof: {quoted(revision)} is no commit of {str(self.path)!r}; give "
                "--commits=GOOD..BAD with a commit, a tag or a branch on each side"
            ) from error

    def between(self, good: str, bad: str) -> list[str]:
        """Return the commits from the good to the bad one, both included, the oldest first.

        Of a merge only the side into which was merged counts, so that they are in one line.

        Raises:
            SettingsError: if the bad one does not follow upon the good one.
        """
        try:
            self.ask("merge-base", "--is-ancestor", good, bad)
        except GitError as error:
            raise SettingsError(
                f"schedprof: {good[:10]} is no ancestor of {bad[:10]}, so no commit between them "
                "can be searched for; exchange them, or give their merge base as GOOD: git "
                f"merge-base {good[:10]} {bad[:10]}"
            ) from error
        later = self.ask("rev-list", "--first-parent", "--reverse", f"{good}..{bad}").split()
        return [good, *later]

    def about(self, commit: str) -> Commit:
        """Return what people want to know of a commit."""
        form = "--format=%h%x00%s%x00%an%x00%aI%x00%P"
        return Commit(*self.ask("log", "-1", form, commit).split("\0"))

    def merged(self, commit: str) -> str:
        """Return the range of the commits that a merge brought, empty for any other commit."""
        parents = self.about(commit).parents.split()
        if len(parents) < 2:
            return ""
        base = self.ask("merge-base", *parents[:2])
        return f"{base[:10]}..{parents[1][:10]}"

    def files(self, commit: str) -> list[str]:
        """Return the paths of all files of a commit."""
        return self.ask("ls-tree", "-r", "-z", "--full-tree", "--name-only", commit).split("\0")

    def text(self, commit: str, path: str) -> str:
        """Return the content of a file, an empty text if there is none."""
        try:
            return self.ask("show", f"{commit}:{path}")
        except GitError:
            return ""

    def touching(self, good: str, bad: str, path: str, first: int, last: int) -> list[str]:
        """Return the commits that changed lines of a file, or lines that these were made of.

        Args:
            good: the commits after this one are told.
            bad: the commit that has the lines.
            path: of the file.
            first: line, from 1 on.
            last: line.
        """
        lines = f"-L{first},{last}:{path}"
        options = ("--no-patch", "--format=%H", "--first-parent", lines)
        try:
            return self.ask("log", *options, f"{good}..{bad}").split()
        except GitError:
            return []

    @contextmanager
    def tree(self, commit: str, place: Path) -> Iterator[Path]:
        """Check a commit out in a directory of its own, which is removed on exit."""
        self._remove(place)
        try:
            self._add(place, commit)
            yield place
        finally:
            self._remove(place)

    def _add(self, place: Path, commit: str) -> None:
        try:
            self.ask("worktree", "add", "--detach", "--force", str(place), commit)
        except GitError as error:
            raise UnmeasuredError(f"it cannot be checked out: {error}", is_lasting=False) from error

    def _remove(self, place: Path) -> None:
        shutil.rmtree(place, ignore_errors=True)
        if not place.exists():
            self.ask("worktree", "prune")  # forgets only those whose directory is gone


class GitError(SchedprofError):
    """Git could not do what it was asked for."""
