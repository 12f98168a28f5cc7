"""Helpers of the tests that run pytest inside pytest, or real clusters."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import psutil
import pytest

from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.control.control import Control
from pytest_schedprof.model.result import Result, SampledShares
from pytest_schedprof.model.run import Run
from pytest_schedprof.store.records import read_record

INI = """
[pytest]
addopts = -p no:cacheprovider -p no:hypothesispytest -p no:pytest_cov -p no:pytest_forked
    -p no:randomly -p no:repeat -p no:rerunfailures -p no:zarr
filterwarnings =
    error
    ignore:Creating scratch directories:UserWarning
asyncio_default_fixture_loop_scope = function
"""

HEADER = """
import os, time
import pytest
from distributed import wait

def inc(x):
    return x + 1

# It is sent by value, so the processes of clusters need not import this file and its imports.
inc.__qualname__ = "sent.inc"

# On a slow machine the cluster of gen_cluster takes longer to start than distributed allows.
PATIENT = {"timeout": 300, "config": {"distributed.comm.timeouts.connect": "300s"}}

def burn(scheduler, seconds=1.0):
    # Work that the scheduler itself does, so that its samples are the same on any machine.
    def burn_scheduler_cpu(dask_scheduler, seconds):
        import time
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass
    scheduler.client.run_on_scheduler(burn_scheduler_cpu, seconds=seconds)
"""

AUTOLOAD = "PYTEST_DISABLE_PLUGIN_AUTOLOAD"

ALONE = ("-p", "pytest_schedprof.plugin.hooks", "-W", "ignore::pytest.PytestConfigWarning")
"""Arguments of a session without other plugins, which take most of the time in which it starts.

The settings of those are unknown to it.
"""

QUICK = {AUTOLOAD: "1", "PYTEST_ADDOPTS": " ".join(ALONE)}
"""The same as variables of the environment, for commands that run pytest."""

INTERRUPTIBLE = (
    "import signal, sys, pytest; "
    "signal.signal(signal.SIGINT, signal.default_int_handler); "
    f"sys.exit(pytest.main(['-s', *{ALONE}]))"
)
"""Program of a session that handles Ctrl-C even if this one was started in the background."""

BURNED = "*:*burn_scheduler_cpu"
"""Pattern for the function that `burn` runs."""


def descendants() -> set[psutil.Process]:
    """Return the running processes that this one has started.

    Fork servers are left out, and what has ended without its server having heard of it.
    """
    children = psutil.Process().children(recursive=True)
    return {child for child in children if runs(child) and not _is_server(child)}


def runs(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:  # it has ended
        return False


def _is_server(process: psutil.Process) -> bool:
    """Return whether it is a fork server; what it forked has the same command line."""
    parent = process.parent()
    return _serves(process) and not (parent is not None and _serves(parent))


def _serves(process: psutil.Process) -> bool:
    return "clusters.fork_server" in str(command_line(process))


def command_line(process: psutil.Process) -> list[str]:
    """Return its words; none of a process that has ended and is only to be waited for."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class LibraryKeeper:
    """Keep the libraries that sessions in this process imported, for those of later tests too.

    pytester removes imported modules, so that each project imports its own: after a session what
    that imported, and at the end of a test all that its sessions imported. Libraries that are
    imported again would have other classes, and importing them takes half a second.
    """

    kept: ClassVar[dict[str, ModuleType]] = {}

    def __init__(self, project: Path) -> None:
        self.directory_of_tests = project.parent

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self) -> None:
        for name, module in sys.modules.items():
            file = getattr(module, "__file__", None)
            if file and not Path(file).is_relative_to(self.directory_of_tests):
                self.kept[name] = module

    @classmethod
    def put_back(cls) -> None:
        for name, module in cls.kept.items():
            sys.modules.setdefault(name, module)


BUSY = "import time\nend = time.monotonic() + 1800\nwhile time.monotonic() < end: pass"


@contextmanager
def busy_machine(processes: int = 2) -> Iterator[None]:
    """Keep so many processors busy, for half an hour at most."""
    # Elsewhere: what runs in the directory of a project is taken for a session's.
    busy = [subprocess.Popen([sys.executable, "-c", BUSY], cwd="/") for _ in range(processes)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


OF_THIS_SESSION = ("GITHUB_STEP_SUMMARY", "PYTEST_CURRENT_TEST")


def python(
    *arguments: str, cwd: Path | None = None, status: int | None = 0, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run an interpreter with these variables; it must end with `status`, if that is not None."""
    environ = {name: text for name, text in os.environ.items() if name not in OF_THIS_SESSION}
    process = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**environ, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=1500,
    )
    assert status in (None, process.returncode), process.stdout + process.stderr
    return process


def environment_behind(place: Path) -> Path:
    """Make an environment that has the packages of this one; return where its own go."""
    venv.create(place, with_pip=False, symlinks=True)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "behind.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})"
    )
    return site


class Kept:
    """A directory in which one session was run, and what it left there."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def run_directory(self) -> Path:
        """The directory of the only run."""
        (directory,) = (self.path / ".schedprof").glob("2*")
        return directory

    def run_record(self) -> Run:
        """Read run.json."""
        return read_record(self.run_directory / "run.json", Run)

    def results(self) -> dict[str, Result]:
        """Read every result.json, by the name of its test without the file."""
        paths = (self.run_directory / "tests").glob("*/result.json")
        results = [read_record(path, Result) for path in paths]
        return {result.test_id.partition("::")[2]: result for result in results}

    def result(self) -> Result:
        """Read the only result."""
        (result,) = self.results().values()
        return result


class Finished(Kept):
    """A session in a process of its own that has ended; all tests of a module look at it."""

    def __init__(
        self, path: Path, files: dict[str, str], *arguments: str, **variables: str
    ) -> None:
        super().__init__(path)
        (path / "pytest.ini").write_text(INI)
        for name, body in files.items():
            (path / name).write_text(HEADER + body)
        variables = {AUTOLOAD: "1", **variables}
        session = ("-m", "pytest", "-v", *ALONE, *arguments)
        self.process = python(*session, cwd=path, status=None, **variables)
        assert "INTERNALERROR" not in self.process.stdout + self.process.stderr
        self.lines = self.process.stdout.splitlines()
        self.stdout = pytest.LineMatcher(self.lines)

    @property
    def outcomes(self) -> dict[str, str]:
        """The outcome of each test, by its name without the file."""
        matches = map(OUTCOME.match, self.lines)
        return {match[1]: match[2].lower() for match in matches if match}


OUTCOME = re.compile(r"[^ :]+\.py::(.+) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)")


RACE = """
@gen_cluster(client=True)
async def test_race(c, s, a, b):
    for number in range(30):
        future = c.submit(int, number, workers=[a.address])
        await wait(future)
        key = future.key
        future.release()
        await asyncio.sleep(0.01)
        assert key not in a.data
"""
"""A test that looks too early if a message is late. It needs `asyncio` and names of distributed."""


class Project(Kept):
    """A user's project with the plugin installed, based on pytester."""

    is_apart = False
    """Whether its sessions run in processes of their own.

    Starting a process takes longer than most tests, so only tests that need it set this.
    """
    plugins: tuple[str, ...] = ()
    """Names of other people's plugins that sessions in processes of their own load."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        super().__init__(pytester.path)
        self.pytester = pytester
        pytester.makeini(INI)

    def write(self, body: str, name: str = "test_it.py") -> None:
        """Write a test file; its imports and `burn` are provided."""
        (self.path / name).write_text(HEADER + body)

    def run(self, *arguments: str, timeout_s: float = 1500) -> pytest.RunResult:
        """Run a session of pytest, which must end in time and leave no process behind."""
        if self.is_apart:
            others = [argument for name in self.plugins for argument in ("-p", name)]
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv(AUTOLOAD, "1")
                try:
                    result = self.pytester.runpytest_subprocess(
                        *ALONE, *others, *arguments, timeout=timeout_s
                    )
                except self.pytester.TimeoutExpired as error:
                    output = [self.path / name for name in ("stdout", "stderr")]
                    pytest.fail(f"{error}\n" + "\n".join(path.read_text() for path in output))
        else:
            keeper = LibraryKeeper(self.path)
            result = self.pytester.runpytest_inprocess(*arguments, plugins=[keeper])
            keeper.put_back()
            assert result.duration < timeout_s
        assert "INTERNALERROR" not in result.stdout.str() + result.stderr.str()
        wait_for(lambda: not self.processes(), "processes of the run to end")
        return result

    def refusal(self, *arguments: str) -> str:
        """Run a session that a mistake on its command line ends; return the line that tells it."""
        result = self.run(*arguments)
        assert result.ret == pytest.ExitCode.USAGE_ERROR
        (line,) = filter(str.strip, result.errlines)
        return line

    @contextmanager
    def running(self, ready: str) -> Iterator[subprocess.Popen[str]]:
        """Run pytest in a process of its own; yield it when it has printed `ready`."""
        with subprocess.Popen(
            [sys.executable, "-c", INTERRUPTIBLE],
            stdout=subprocess.PIPE,
            cwd=self.path,
            env={**os.environ, AUTOLOAD: "1"},
            text=True,
        ) as process:
            assert process.stdout is not None
            assert any(ready in line for line in process.stdout)
            yield process
        wait_for(lambda: not self.processes(), "processes of the run to end")

    def processes(self) -> list[psutil.Process]:
        """Clusters, profilers and watchdogs of this project's runs, found by their directory."""
        return [process for process in psutil.process_iter() if self._is_mine(process)]

    def _is_mine(self, process: psutil.Process) -> bool:
        try:
            return bool(process.cwd() == str(self.path)) and process.pid != os.getpid()
        except (psutil.Error, OSError):
            return False  # it is a zombie, or belongs to another user

    def run_test(self, body: str, *arguments: str, timeout_s: float = 1500) -> pytest.RunResult:
        """Write a test file and run it."""
        self.write(body)
        return self.run(*arguments, timeout_s=timeout_s)


@contextmanager
def somebodys_scheduler(path: Path, *arguments: str) -> Iterator[str]:
    """Start a scheduler as a user does with `dask scheduler`, and yield its address."""
    file = path / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard"]
    with subprocess.Popen(
        [*command, "--port", "0", "--scheduler-file", str(file), *arguments],
        stderr=subprocess.DEVNULL,
        cwd=path,
    ) as process:
        try:
            wait_for(lambda: file.exists() and file.read_text().endswith("}"), "the scheduler")
            yield json.loads(file.read_text())["address"]
            assert process.poll() is None, "somebody else's scheduler was ended"
        finally:
            process.terminate()


def recorded(
    control: Control, backend: Backend, work: Callable[..., Any], *arguments: Any
) -> RawProfile:
    """What a backend recorded while the scheduler ran a function."""
    recording = backend.start(control, timeout_s=200)
    control.call(work, *arguments)
    return recording.stop(timeout_s=200)


def burn_scheduler_cpu(seconds: float, dask_scheduler: Any = None) -> None:
    """Burn CPU time in the scheduler, as `burn` of test files lets it do."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def shares_in(result: Result) -> SampledShares:
    """The shares sampled by the only backend of a result."""
    (backend,) = result.backends
    assert backend.shares is not None
    return backend.shares


def wait_for(condition: Callable[[], bool], state: str, timeout_s: float = 200) -> None:
    """Poll until the condition holds; for conditions that cannot notify."""
    assert settle(condition, timeout_s), f"waited {timeout_s:g} s for {state}"


def settle(condition: Callable[[], bool], timeout_s: float) -> bool:
    """Poll until the condition holds; return whether it did so in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
