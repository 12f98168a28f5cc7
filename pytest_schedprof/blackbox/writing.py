"""Writes a packed ring as an ordinary run, with its pages.

As a program it reads the ring from its standard input, and prints the run's directory.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from pytest_schedprof.analysis.recent import figures_of
from pytest_schedprof.backends.builtin.cputime import CpuTimeBackend
from pytest_schedprof.backends.builtin.stalls import StallsBackend
from pytest_schedprof.backends.contract import facts_of
from pytest_schedprof.blackbox.packed import unpack
from pytest_schedprof.blackbox.result import (
    SAMPLES_FILE,
    SLICES_FILE,
    Record,
    result_of,
    samples_of,
    slices_of,
)
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.model.run import StoredResult
from pytest_schedprof.pages.writing import write_pages
from pytest_schedprof.storage.pruning import removable, remove
from pytest_schedprof.storage.records import encode, write_run
from pytest_schedprof.storage.run_directory import RESULT_FILE, RunDirectory, new_run_id, write

PATIENCE = 19
"""Niceness: a scheduler on the same core goes first."""


KNOWN = {each.name: facts_of(each) for each in (CpuTimeBackend, StallsBackend)}


def write_ring(content: bytes, directory: Path) -> Path:
    """Write a ring as a run; return its directory.

    Raises:
        ArtifactError: it could not be written; nothing of it is left.
        ValueError: what was packed cannot be read.
    """
    record = unpack(content)
    run = RunDirectory(directory, new_run_id())
    try:
        run.prepare()
        _write_files(record, run)
        write_pages(run.path, known=KNOWN)
    except SchedprofError:
        shutil.rmtree(run.path, ignore_errors=True)
        raise
    return run.path


def _write_files(record: Record, run: RunDirectory) -> None:
    result = result_of(record)
    place = run.new_test(result.test_id)
    if samples := samples_of(record):
        write(place / SAMPLES_FILE, samples)
    write(place / SLICES_FILE, slices_of(record))
    write(place / RESULT_FILE, encode(result))
    stored = StoredResult(str(place), result, figures_of(result))
    write_run(run, time.time(), 0, [stored], run.path)


def make_room(directory: Path, keep: int) -> None:
    """Remove the oldest runs, so that with the next one there are so many."""
    for old in removable(directory, keep):
        remove(old)


def main(directory: Path, keep: int) -> int:
    """Write the ring that comes in; return an exit status."""
    os.nice(PATIENCE)
    try:
        if keep > 1:
            make_room(directory, keep - 1)
        path = write_ring(sys.stdin.buffer.read(), directory)
        make_room(directory, keep)
    except SchedprofError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
