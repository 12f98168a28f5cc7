"""Measure pages of runs with more and more tests: their size, and how fast a browser opens them.

    python benchmarks/pages.py RUN [--tests 20 50 200]

The tests of a run are repeated under other names until there are as many as asked for, and their
pages written anew. Chromium then opens the page of the run three times, from disk and without a
network; the program prints the shortest time until it has loaded, relative to the first row too.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from itertools import cycle, islice
from pathlib import Path

from msgspec.structs import replace
from playwright.sync_api import Browser, sync_playwright

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.measuring.pages import write_pages
from pytest_schedprof.model.run import TestEntry
from pytest_schedprof.store.records import encode
from pytest_schedprof.store.run_directory import RESULT_FILE, RUN_FILE
from pytest_schedprof.store.runs import KeptRun, find_run

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPENED = "performance.getEntriesByType('navigation')[0].loadEventEnd"


def repeated(run: KeptRun, tests: int, path: Path) -> Path:
    """Return a run in which the tests of another one are repeated."""
    tests_with_results = [test for test in run.attempts() if test.result]
    entries = []
    for number, test in enumerate(islice(cycle(tests_with_results), tests)):
        assert test.result is not None
        name, place = f"{test.entry.test_id}-{number}", path / f"tests/{number}"
        place.mkdir(parents=True)
        for file in test.directory.iterdir():
            if file.is_file() and file.suffix != ".html":
                (place / file.name).hardlink_to(file)
        (place / RESULT_FILE).unlink()
        (place / RESULT_FILE).write_bytes(encode(replace(test.result, test_id=name)))
        entries.append(entry_of(test.entry, name, number))
    (path / RUN_FILE).write_bytes(encode(replace(run.record, tests=tuple(entries))))
    return path


def entry_of(entry: TestEntry, name: str, number: int) -> TestEntry:
    return replace(entry, test_id=name, directory=f"tests/{number}")


def seconds_to_open(browser: Browser, page: Path) -> float:
    """Return the shortest of three times."""
    times = []
    for _ in range(3):
        window = browser.new_page()
        window.goto(page.as_uri())
        window.wait_for_function(f"{OPENED} > 0")
        times.append(float(window.evaluate(OPENED)) / 1000)
        window.close()
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--tests", type=int, nargs="+", default=[20, 50, 200])
    arguments = parser.parse_args()
    run, known = find_run(arguments.run.resolve()), BackendRegistry().facts
    program = next(filter(None, map(shutil.which, NAMES)))
    first = 0.0
    print("tests  written in CPU  all pages  page of the run  opened in  relative")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for tests in arguments.tests:
            # Beside the run, because hard links cannot leave its file system.
            with tempfile.TemporaryDirectory(dir=arguments.run.resolve().parent) as place:
                copy = repeated(run, tests, Path(place) / "run")
                began = time.process_time()
                page = write_pages(copy, known=known)
                spent = time.process_time() - began
                size = sum(page.stat().st_size for page in copy.rglob("*.html"))
                opened = seconds_to_open(browser, page)
                first = first or opened
                print(
                    f"{tests:5}  {spent:12.1f} s  {size / 1e6:6.1f} MB  "
                    f"{page.stat().st_size / 1e3:12.0f} kB  {opened:7.2f} s  {opened / first:8.1f}"
                )
        browser.close()


if __name__ == "__main__":
    main()
