"""Run distributed's own tests unmarked, then marked for each backend, and print what changes.

    python benchmarks/dasks_tests.py [--tests N] [--minutes M] [--backend NAME ...]
                                     [--file NAME ...] [--archive PATH]

The package index has no tests of distributed, but Debian's source package has those of release
2024.12.1. `apt-get` downloads it into a temporary directory and changes nothing on the machine. The
tests run on a copy of the distributed that is installed here. Those that fail there unmarked, such
as tests of another release's details, are left out. Of the tests whose cluster lives in other
processes, which are refused by design, only a few are selected.

A marked test may pass, or be refused by a single line of ours, which is printed. Exits with 1 if a
test that passes unmarked fails otherwise, twice, or if too many are refused. Under `counts` the
tests run in virtual time, as we recommend: to count slows a test, and some assert how long a task
lasts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import dasks_tests_plugin
import distributed
from dasks_tests_plugin import ORDER, Ending, Order, read_endings

SUITE = "trixie"
PACKAGE = "dask.distributed"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"

FILES = """
    active_memory_manager actor cancelled_state client events failed_workers locks nanny publish
    queues resources scheduler semaphore spans steal tls_functional utils_test variable
"""
"""Names of the files of tests, without `test_`."""

BACKENDS = ("cputime", "counts", "pyspy", "cprofile", "viztracer", "memray")

OPTIONS = {"counts": ["--schedprof-cluster=virtual"]}
"""Options of a backend's session."""

BY_CHANCE = "test_worksteal_many_thieves"
"""A test that passes by chance since the interval of stealing became ten times longer."""

MOST_REFUSED = 0.1
"""Fraction of the tests above which refusals fail this program."""

HANG_S = 60
"""Timeout of a test, and how long a session may outlive its time."""

REFUSED = re.compile(r"schedprof: [^\n]+")

INI = f"""
[pytest]
addopts = -q -p no:asyncio -p no:cacheprovider -p no:hypothesispytest -p dasks_tests_plugin
    --timeout={HANG_S} --assert=plain --continue-on-collection-errors -m "not slow and not avoid_ci"
filterwarnings = ignore:Unknown pytest.mark:pytest.PytestWarning
"""

CONFTEST = "from distributed.utils_test import *\n"


class Marked(NamedTuple):
    """What a backend did to the tests that pass unmarked."""

    passed: list[str]
    refused: Counter[str]
    """Number of tests by the line that refuses them."""
    broken: dict[str, str]
    """Text of the failure, by the test's ID."""
    ratio: float
    """Seconds of the tests that pass both ways, marked to unmarked."""


def mirror() -> str:
    """Return the URL of the Debian archive that this machine uses."""
    etc = Path("/etc/apt")
    files = [etc / "sources.list", *sorted((etc / "sources.list.d").glob("*"))]
    texts = [file.read_text(errors="replace") for file in files if file.is_file()]
    if address := re.search(r"\bhttps?://\S+/debian/?(?=\s)", "\n".join(texts)):
        return address[0]
    sys.exit("no Debian archive in /etc/apt: run this on Debian, or give --archive")


def download(directory: Path) -> Path:
    """Download the source package with apt, which verifies it; return the archive's path."""
    for name in ("lists/partial", "cache/archives/partial"):
        (directory / name).mkdir(parents=True)
    sources = directory / "sources.list"
    sources.write_text(f"deb-src [signed-by={KEYRING}] {mirror()} {SUITE} main\n")
    options = {
        "Dir::Etc::SourceList": sources,
        "Dir::Etc::SourceParts": "/dev/null",
        "Dir::State::Lists": directory / "lists",
        "Dir::Cache": directory / "cache",
        "APT::Sandbox::User": "root",
    }
    apt = [
        "apt-get",
        "-qq",
        *(word for option in options.items() for word in ("-o", "=".join(map(str, option)))),
    ]
    subprocess.run([*apt, "update"], check=True, timeout=300)
    fetch = [*apt, "source", "--tar-only", "--download-only", PACKAGE]
    subprocess.run(fetch, check=True, timeout=300, cwd=directory)
    return next(directory.glob("*.orig.tar.*"))


def unpack(archive: Path, directory: Path) -> None:
    """Put the tests into a copy of the installed distributed in the directory."""
    copied = directory / "distributed"
    shutil.copytree(Path(distributed.__file__).parent, copied)
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            root, _, name = member.name.partition("/")
            if name.startswith("distributed/tests/") and member.isfile():
                member.name = name
                tar.extract(member, directory, filter="data")
        print(f"tests of {root}, on distributed {version('distributed')}")
    (directory / "tox.ini").write_text(INI)
    (directory / "conftest.py").write_text(CONFTEST)


def run(directory: Path, files: Sequence[str], order: Order) -> dict[str, Ending]:
    """Run a session of pytest and return how its tests ended."""
    path = os.pathsep.join([str(directory), str(Path(dasks_tests_plugin.__file__).parent)])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "PYTHONPYCACHEPREFIX": str(directory / "compiled"),  # once for all sessions
        "PYTHONDONTWRITEBYTECODE": "",
        ORDER: json.dumps(order),
    }
    with open(directory / "log", "a") as log:
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "pytest",
                *OPTIONS.get(order.backend, []),
                *(order.chosen or files),
            ],
            cwd=directory,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            process.wait(order.seconds + 2 * HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return read_endings(Path(order.results))


class Trial:
    """The sessions of one run of this program."""

    def __init__(self, directory: Path, files: list[str], tests: int, seconds: float) -> None:
        self.directory = directory
        self.files = [f"distributed/tests/test_{name}.py" for name in files]
        self.seconds = seconds
        """Time of the unmarked session; a marked one has twice as much."""
        self.all = self._run(self._order("unmarked", seconds, most=tests))
        self.unmarked = {
            test_id: ending
            for test_id, ending in self.all.items()
            if ending.outcome == "passed" and not test_id.endswith(BY_CHANCE)
        }

    def _order(
        self,
        name: str,
        seconds: float,
        *,
        most: int = 0,
        chosen: tuple[str, ...] = (),
        backend: str = "",
    ) -> Order:
        results = str(self.directory / f"{name}.jsonl")
        return Order(results, seconds, most, list(chosen), backend)

    def _run(self, order: Order) -> dict[str, Ending]:
        return run(self.directory, self.files, order)

    def mark(self, backend: str) -> Marked:
        """Run the tests that pass unmarked, marked for a backend."""
        order = self._order(backend, 2 * self.seconds, chosen=tuple(self.unmarked), backend=backend)
        endings = self._run(order)
        if doubtful := tuple(_broken(endings)):  # another process may have disturbed it
            again = order._replace(results=f"{order.results}.again", chosen=list(doubtful))
            endings |= self._run(again)
        passed = [name for name, ending in endings.items() if ending.outcome == "passed"]
        refused = Counter(ending.text for ending in endings.values() if _is_refused(ending))
        return Marked(passed, refused, _broken(endings), self._ratio(endings, passed))

    def _ratio(self, endings: dict[str, Ending], passed: list[str]) -> float:
        unmarked = sum(self.unmarked[name].seconds for name in passed)
        return sum(endings[name].seconds for name in passed) / (unmarked or float("nan"))


def _is_refused(ending: Ending) -> bool:
    return ending.outcome == "failed" and bool(REFUSED.fullmatch(ending.text))


def _broken(endings: dict[str, Ending]) -> dict[str, str]:
    return {
        name: ending.text
        for name, ending in endings.items()
        if ending.outcome != "passed" and not _is_refused(ending)
    }


def report(trial: Trial, backend: str) -> bool:
    """Run the tests for a backend and print its line; return whether all is well."""
    marked = trial.mark(backend)
    refused = marked.refused.total()
    done = len(marked.passed) + refused + len(marked.broken)
    print(
        f"{backend:10s} {len(marked.passed):6d} {refused:8d} {len(marked.broken):7d} "
        f"{len(trial.unmarked) - done:8d} {marked.ratio:6.2f}",
        flush=True,
    )
    for line, times in marked.refused.items():
        print(f"    {times} x {line}")
    for name, text in marked.broken.items():
        print(f"    BROKEN {name}\n{text}")
    return done > 0 and not marked.broken and refused <= MOST_REFUSED * done


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=int, default=300, help="how many to select")
    parser.add_argument("--minutes", type=float, default=30, help="time for all sessions")
    parser.add_argument("--backend", action="append", choices=BACKENDS)
    parser.add_argument("--file", action="append", choices=FILES.split())
    parser.add_argument("--archive", type=Path, help="the source package, if it is here already")
    arguments = parser.parse_args()
    backends = arguments.backend or [
        name for name in BACKENDS if name != "memray" or find_spec(name)
    ]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        unpack(arguments.archive or download(directory / "apt"), directory)
        seconds = arguments.minutes * 60 / (1 + 2 * len(backends))
        trial = Trial(directory, arguments.file or FILES.split(), arguments.tests, seconds)
        print(f"{len(trial.unmarked)} of {len(trial.all)} tests pass unmarked")
        if not trial.unmarked:
            sys.exit((directory / "log").read_text())
        print("backend    passed  refused  broken  not run   time (unmarked: 1)")
        if not all([report(trial, backend) for backend in backends]):
            sys.exit("a marked test is broken, or too many are refused")


if __name__ == "__main__":
    main()
