"""Tests that make their own clusters, in virtual time: which they are, and in which process.

Locks must be replaced before dask is imported, which pytest itself may do before any plugin, and
sets of strings must have one order. So the session begins again, in a process of its own for that,
when such a test is collected.
"""

from __future__ import annotations

import gc
import os
import shlex
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from inspect import iscoroutinefunction
from itertools import count, pairwise
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof.clusters.fork_server import SERVERS
from pytest_schedprof.model.result import VIRTUAL
from pytest_schedprof.plugin.stash import NOT_CALM, TMP_FILES
from pytest_schedprof.virtual import threads
from pytest_schedprof.virtual.relay import Event, RefusalError, Relay, difference
from pytest_schedprof.virtual.threads import LAUNCH, PYTEST
from pytest_schedprof.virtual.weather import Weather

if TYPE_CHECKING:
    from pytest_schedprof.measuring.plan import Plan

LOOPS = frozenset({"loop", "loop_in_thread"})
"""Fixtures of distributed's that run an event loop."""

MODULE = "__main__.py"
"""Name of the file that `python -m pytest` runs."""

SCRIPTS = ("pytest", "py.test")
"""Names of the scripts that are pytest."""

WITH_VALUES = ("-W", "-X", "--check-hash-based-pycs")
"""Options of Python whose value may be the next word."""

IN_WORKER = (
    "workers of pytest-xdist are started for them only with --schedprof-cluster=virtual, or its "
    "setting in the ini file"
)


def is_suited(item: pytest.Item) -> bool:
    """Whether a test without the fixture is to run in virtual time, as far as one can see.

    Its module has a name of distributed's: other tests of a project keep their clock. The loop of a
    coroutine test is made by another plugin, and that of a fixture by it, before the test begins.
    """
    function, module = getattr(item, "function", None), getattr(item, "module", None)
    if module is None or iscoroutinefunction(function):
        return False
    if not LOOPS.isdisjoint(getattr(item, "fixturenames", ())):
        return False
    return any(map(_is_of_distributed, [*vars(module).values()]))


def _is_of_distributed(value: object) -> bool:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    return isinstance(name, str) and f"{name}.".startswith(("distributed.", "dask.distributed."))


def begin_again(config: pytest.Config) -> None:
    """Replace this process by one in which tests can run in virtual time, if that is possible."""
    if threads.is_installed:
        return
    program, *arguments = sys.argv
    options = options_of_python()
    is_own = [*config.invocation_params.args] == arguments  # else a session within a session
    if hasattr(config, "workeroutput"):
        config.stash[NOT_CALM] = config.workeroutput["schedprof_not_calm"] = IN_WORKER
        return
    is_free = sys.flags.ignore_environment or sys.platform == "win32"  # of the order of sets
    if options is None or not is_own or is_free:
        config.stash[NOT_CALM] = "only a command line of pytest can begin again in its own process"
        return
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.suspend_global_capture(in_=True)
    sys.stdout.write("schedprof: begins again, in a process for tests in virtual time\n")
    sys.stdout.flush()
    name = PYTEST if Path(program).name == MODULE else os.path.abspath(program)
    SERVERS.end()
    threads.replace_process([*options, "-c", LAUNCH, name, *arguments])


def launch_workers(specs: Sequence[Any]) -> None:
    """Let the workers of pytest-xdist on this machine be processes for tests in virtual time."""
    for spec in specs:
        if spec.popen and sys.platform != "win32":
            python = shlex.split(spec.python) if spec.python else [sys.executable]
            spec.python = shlex.join([*python, "-c", LAUNCH])


def options_of_python() -> list[str] | None:
    """Return the options of Python in this command line of pytest; None if it is another one."""
    words = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    name = Path(sys.argv[0]).name
    ends = (["-m", PYTEST], [f"-m{PYTEST}"]) if name == MODULE else (words[-1:],)
    size = next((len(end) for end in ends if end and words[-len(end) :] == end), 0)
    options = words[: len(words) - size]
    is_pytest = size and (name == MODULE or name in SCRIPTS)
    is_plain = all(
        (word[0] == "-" and word[:2] not in ("-m", "-c")) or before in WITH_VALUES
        for before, word in pairwise(["", *options])
    )
    return options if is_pytest and is_plain else None


def is_possible(plan: Plan) -> bool:
    """Whether a test without the fixture can run in virtual time: by its process and backends."""
    is_meant = plan.settings.cluster == VIRTUAL and threads.is_installed
    return is_meant and all(backend.is_reproduced for backend in plan.backends)


def tmp_files(item: pytest.Item) -> frozenset[Path]:
    """Return what is in the directory `tmp_path` of a test, if it has one."""
    place = getattr(item, "funcargs", {}).get("tmp_path")
    return frozenset(place.iterdir() if isinstance(place, Path) and place.is_dir() else ())


def forget_runs(item: pytest.Item) -> None:
    """Forget what earlier runs of the body left: files, and how a test of unittest ended."""
    with warnings.catch_warnings(action="ignore"):  # of what it could not close
        if vars(item).pop("_excinfo", None):
            gc.collect()
    before = item.stash[TMP_FILES]
    for left in tmp_files(item) - before:
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left, ignore_errors=True)
        else:
            with suppress(OSError):
                left.unlink()


def check(item: pytest.Item, seed: int | None) -> str:
    """Run the body of a test twice; return in words where the runs differ, if they do."""
    journals: tuple[list[Event], list[Event]] = ([], [])
    for journal in journals:
        forget_runs(item)
        with clean_process(), virtual_time(seed, journal):
            item.runtest()
    return difference(*journals)


@contextmanager
def clean_process() -> Iterator[None]:
    """Let the body find nothing that earlier tests left; this is not to be recorded.

    Garbage is collected before, and none in between. Of what is alive only that is looked at which
    is younger than the last test: all else, such as what is imported, would take longer than many
    a test. But some of it dies later, in cycles.
    """
    from pytest_schedprof.virtual.calm import prepare
    from pytest_schedprof.virtual.sameness import forget_earlier_tests

    prepare()
    forget_earlier_tests()
    if next(_tests) % EVERY == 0:
        gc.unfreeze()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


_tests = count()

EVERY = 50
"""Tests after which all that is alive is looked at."""


@contextmanager
def virtual_time(
    drawn: Weather | int | None = None, journal: list[Event] | None = None
) -> Iterator[Relay]:
    """Let the body run in virtual time, and write what happens in a journal, if there is one.

    Raises:
        RefusalError: if the body did what cannot be there; it is to run again, as ordinary.
    """
    from pytest_schedprof.virtual.calm import calm

    refusal = ""
    weather = Weather(drawn) if isinstance(drawn, int) else drawn
    try:
        with calm(journal, weather) as world:
            try:
                yield world.relay
            finally:
                refusal = world.refusal
    except (KeyboardInterrupt, pytest.exit.Exception):
        raise
    except BaseException:
        if not refusal:
            raise
    if refusal:
        with warnings.catch_warnings(action="ignore"):  # of what it could not close
            gc.collect()
        raise RefusalError(refusal)
