"""Pages into the directory of a run: one for it, one for each of its tests."""

from __future__ import annotations

from pathlib import Path

from pytest_schedprof.pages.of_run import PAGE, page_of_run
from pytest_schedprof.pages.of_test import page_of_test
from pytest_schedprof.pages.others import compared, other_of
from pytest_schedprof.pages.reading import RunFiles, read_run
from pytest_schedprof.pages.rendering import render_run, render_test
from pytest_schedprof.storage.run_directory import write


def write_pages(directory: Path, against: Path | None = None) -> Path:
    """The page of the run; those of its tests are linked from there.

    Raises:
        ArtifactError: if there is no run, or the pages cannot be written.
        BaselineError: if the other run has no test in common with it.
    """
    run, before = read_run(directory), read_run(against) if against else None
    if before is not None:
        run = compared(run, before)
    _write_tests(run, before)
    write(directory / PAGE, _encoded(render_run(page_of_run(run))))
    return directory / PAGE


def _write_tests(run: RunFiles, before: RunFiles | None) -> None:
    for test in run.tests:
        if test.result is not None:
            other = other_of(test, before)
            page = page_of_test(test.result, test.directory, run.path, other)
            write(test.directory / PAGE, _encoded(render_test(page)))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
