"""Find the lines of a job's checkout that remarks are about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_schedprof.model.remark import Annotation, Remark
from pytest_schedprof.model.verdict import Verdict
from pytest_schedprof.searching.places import Lines, files_of, lines_of

INSTALLED = ("site-packages", "dist-packages")
"""Directories whose files belong to no project, even if they are in its checkout."""


def annotations_of(remarks: Iterable[Remark], root: Path, working: Path) -> Iterator[Annotation]:
    """Yield each remark with its place: a function in the checkout, or else the test.

    Of several remarks that belong to functions elsewhere, a test gets only the first.

    Args:
        remarks: the gravest first.
        root: of the checkout.
        working: the directory in which the tests ran.
    """
    at_tests: set[tuple[str, Verdict]] = set()
    for remark in remarks:
        found = _of_function(remark, root, working)
        if found is None:
            is_told = remark.function and (remark.test_id, remark.verdict) in at_tests
            if is_told:
                continue
            at_tests.add((remark.test_id, remark.verdict))
            found = _of_test(remark, root, working)
        yield found


def _of_function(remark: Remark, root: Path, working: Path) -> Annotation | None:
    """Return the place of the function; None if it is not in the checkout."""
    if remark.file:
        path = Path(remark.file)
        if lines := _known_lines(remark, path, root):
            return _at(remark, path, root, lines)
    module, _, name = remark.function.partition(":")
    for base in (working, root) if name else ():
        for path in (base / file for file in files_of(module)):
            if _is_own(path, root) and (lines := _defined(path, name)):
                return _at(remark, path, root, lines)
    return None


def _known_lines(remark: Remark, path: Path, root: Path) -> Lines | None:
    """Return the lines of a function in the file that the scheduler had loaded."""
    if not _is_own(path, root):
        return None
    if remark.first:
        return remark.first, remark.last
    return _defined(path, remark.function.partition(":")[2])


def _of_test(remark: Remark, root: Path, working: Path) -> Annotation:
    """Return the place of the test; the first line of its file if it is not found."""
    file, *names = remark.test_id.partition("[")[0].split("::")
    for base in (working, *working.parents):
        if _is_own(base / file, root):
            lines = _defined(base / file, ".".join(names))
            return _at(remark, base / file, root, lines or (1, 1))
    return Annotation(remark, file, 1, 1)


def _is_own(path: Path, root: Path) -> bool:
    """Whether it is a file of the checkout."""
    try:
        below = path.resolve().relative_to(root.resolve())
    except (OSError, ValueError):
        return False
    return path.is_file() and not any(each in INSTALLED for each in below.parts)


def _at(remark: Remark, path: Path, root: Path, lines: Lines) -> Annotation:
    file = path.resolve().relative_to(root.resolve()).as_posix()
    return Annotation(remark, file, *lines)


def _defined(path: Path, name: str) -> Lines | None:
    """Return the first line of a function: an annotation of all its lines would hide them."""
    try:
        found = lines_of(path.read_text(encoding="utf-8", errors="replace"), [name]).get(name)
    except OSError:
        return None
    return (found[0], found[0]) if found else None
