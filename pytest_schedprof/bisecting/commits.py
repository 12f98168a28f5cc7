"""The commits of a checkout as versions to search."""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pytest_schedprof.bisecting.repository import Repository
from pytest_schedprof.bisecting.session import Runnable, UnmeasuredError, environment_for
from pytest_schedprof.environments.making import BUILD_FILES, Packages, environment_of, run
from pytest_schedprof.errors import ClusterError, SettingsError, quoted
from pytest_schedprof.searching.places import files_of, lines_of

PROBE = """
import sys
sys.path[:] = filter(None, sys.path)
import importlib
importlib.import_module(sys.argv[1])
"""

IMPORTING_S, MAKING_S = 60.0, 900.0

PACKAGE = re.compile(r"(?:src/)?([A-Za-z_]\w*)/__init__\.py")
NAME = re.compile(r"^name\s*=\s*[\"']([^\"']+)[\"']", re.MULTILINE)

NO_PACKAGES = frozenset({"tests", "test", "docs", "doc", "examples", "benchmarks", "scripts"})

MOST_FUNCTIONS = 12
"""Functions whose history is asked for: git reads every commit of a file for each of them."""


class Commits:
    """The commits of a range, of one package."""

    noun = "commit"

    def __init__(self, repository: Repository, names: Sequence[str], package: str = "") -> None:
        self.names = names
        self._repository = repository
        self.package = package or _package(repository, names[-1])

    def label(self, number: int) -> str:
        """Return the short name and the subject."""
        told = self._repository.about(self.names[number])
        return f"{told.short} {told.subject}"

    def about(self, number: int) -> Sequence[str]:
        """Return the author and the date, and of a merge how to search what it brought."""
        told = self._repository.about(self.names[number])
        merged = self._repository.merged(self.names[number])
        more = (f"it is a merge: search what it brought with --commits={merged}",) if merged else ()
        return (f"by {told.author} on {told.date}", *more)

    def suspicion(self, functions: Mapping[str, float]) -> Mapping[int, float]:
        """Suspect commits that touch the text of these functions, as it is in the bad commit."""
        good, bad = self.names[0], self.names[-1]
        numbers = {name: number for number, name in enumerate(self.names)}
        found: dict[int, float] = {}
        for path, first, last, amount in self._places(functions):
            for commit in self._repository.touching(good, bad, path, first, last):
                if commit in numbers:
                    found[numbers[commit]] = found.get(numbers[commit], 0.0) + amount
        return found

    def _places(self, functions: Mapping[str, float]) -> Iterator[tuple[str, int, int, float]]:
        bad = self.names[-1]
        for function in list(functions)[:MOST_FUNCTIONS]:
            module, _, name = function.partition(":")
            if module.partition(".")[0] != self.package:
                continue
            for path in files_of(module):
                for first, last in lines_of(self._repository.text(bad, path), {name}).values():
                    yield path, first, last, functions[function]

    @contextmanager
    def ready(self, number: int, place: Path) -> Iterator[Runnable]:
        """Check a commit out; if it cannot be imported as it is, install it."""
        cache = place / "environment"
        with self._repository.tree(self.names[number], place / "tree") as tree:
            try:
                yield self._runnable(tree, cache)
            finally:
                shutil.rmtree(cache, ignore_errors=True)

    def _runnable(self, tree: Path, cache: Path) -> Runnable:
        root = tree / "src" if (tree / "src" / self.package).is_dir() else tree
        version = Runnable(Path(sys.executable), self.package, tree, (str(root),))
        trouble = self._imports(version)
        if not trouble:
            return version
        if not any((tree / name).is_file() for name in BUILD_FILES):
            raise UnmeasuredError(f"it cannot be imported: {trouble}")
        return self._installed(tree, cache)

    def _installed(self, tree: Path, cache: Path) -> Runnable:
        """Make an environment with the commit: some packages have to be built."""
        wanted = Packages((), (str(tree),))
        try:
            python = environment_of(wanted, cache, time.monotonic() + MAKING_S)
        except ClusterError as error:
            raise UnmeasuredError(str(error).removeprefix("schedprof: ")) from error
        version = Runnable(python, self.package, tree)
        if trouble := self._imports(version):
            raise UnmeasuredError(f"it cannot be imported: {trouble}")
        return version

    def _imports(self, version: Runnable) -> str:
        """Return why a version cannot be imported, empty if it can."""
        command = [str(version.python), "-c", PROBE, version.package]
        status, said = run(
            command,
            deadline=time.monotonic() + IMPORTING_S,
            cwd=version.root,
            more=environment_for(version),
        )
        return (said.strip().splitlines() or ["it said nothing"])[-1] if status else ""


def _package(repository: Repository, commit: str) -> str:
    """Return the name of the package that a checkout has.

    Raises:
        SettingsError: if there is none, or several.
    """
    found = {name[1] for each in repository.files(commit) if (name := PACKAGE.fullmatch(each))}
    found -= NO_PACKAGES
    named = NAME.search(repository.text(commit, "pyproject.toml"))
    if named and (own := re.sub(r"[-.]+", "_", named[1])) in found:
        return own
    if len(found) != 1:
        raise SettingsError(
            f"schedprof: {quoted(str(repository.path))} has "
            f"{'packages ' + ', '.join(sorted(found)) if found else 'no package'}; name the one "
            "that the scheduler imports with --package=NAME"
        )
    return found.pop()
