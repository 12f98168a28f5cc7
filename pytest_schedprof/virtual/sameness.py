"""What is the same in each run of a test in virtual time, though it differs between processes.

Sets of dask's objects have an order that is no address, psutil reads the same, and random numbers,
names and counters begin anew. What earlier tests of a process filled is emptied.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import _lru_cache_wrapper, lru_cache, partial
from inspect import getclosurevars
from itertools import count
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary

import psutil
from dask.utils import Dispatch

from pytest_schedprof.agent.patches import replace
from pytest_schedprof.virtual import threads
from pytest_schedprof.virtual.relay import Relay
from pytest_schedprof.virtual.threads import steady_hash

STEADY = 2**27
"""What psutil reads in turns, in bytes or seconds; counters stand still."""


def steady_hashes() -> None:
    """Give objects that dask keeps in sets, whose hashes are addresses, other ones for good."""
    from distributed import Client
    from distributed.comm.core import Comm
    from distributed.core import ConnectionPool, Server, rpc

    from pytest_schedprof.virtual.orders import hash_by_names

    kinds: tuple[Any, ...] = (Client, Comm, ConnectionPool, Server, rpc)
    for kind in kinds:
        kind.__hash__ = steady_hash
    hash_by_names()


def _same(steady: object, _relay: Relay) -> object:
    return steady


def steady_readings() -> None:
    """Let psutil read the same in each run of a test in turns."""
    readings: tuple[tuple[Any, str, Callable[[], Any]], ...] = (
        (psutil.Process, "memory_info", psutil.Process().memory_info),
        (psutil.Process, "cpu_percent", float),
        (psutil, "cpu_times", psutil.cpu_times),
        (psutil, "net_io_counters", psutil.net_io_counters),
        (psutil, "disk_io_counters", psutil.disk_io_counters),
    )
    for owner, name, read in readings:
        try:
            reading = read()
        except Exception:  # this machine does not tell, and dask does without
            continue
        fields = getattr(reading, "_fields", ())
        steady = type(reading)(*[STEADY for _ in fields]) if fields else reading
        setattr(owner, name, threads.in_turns(getattr(owner, name), partial(_same, steady)))


MEMOIZED = "memoize.<locals>.memof"
"""Name of what `toolz.memoize` makes of a function."""


OF_VERSIONS = "distributed.versions"
"""Name of the module that remembers versions of packages, which take long to read: they are read
before the first test."""


@lru_cache(1)
def _caches_of(modules: int) -> list[Callable[[], object]]:
    """Return what empties the caches of dask's functions and methods, and of its dispatches.

    It is the same while there are so many modules.
    """
    caches: list[Callable[[], object]] = []
    of_modules = [
        value
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in ("dask", "distributed")
        and isinstance(module, ModuleType)
        and name != OF_VERSIONS
        for value in vars(module).values()
    ]
    classes = {value for value in of_modules if isinstance(value, type)}
    methods = [value for owner in classes for value in vars(owner).values()]
    for value in (*of_modules, *methods):
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if isinstance(function, _lru_cache_wrapper):
            caches.append(function.cache_clear)
        elif isinstance(function, FunctionType) and function.__code__.co_qualname == MEMOIZED:
            caches.append(getclosurevars(function).nonlocals["cache"].clear)
        elif isinstance(function, Dispatch):
            caches.append(partial(_empty, function))
    return caches


def _empty(dispatch: Any) -> None:
    """Remove what a dispatch found for other types than those that were registered.

    What it does when it first meets a type of some package is done at once if that is imported.
    """
    for package in sorted(dispatch._lazy.keys() & sys.modules.keys()):
        with suppress(Exception):  # whoever has such a type will meet it
            dispatch._lazy[package]()
            del dispatch._lazy[package]
    functions: dict[type, Any] = dispatch._lookup
    inherited = {
        kind
        for kind, function in functions.items()
        if any(functions.get(base) is function for base in kind.__mro__[1:])
    }
    for other in inherited:
        del functions[other]


def _kinds(base: Any) -> Iterator[Any]:
    yield base
    for kind in base.__subclasses__():
        yield from _kinds(kind)


def forget_earlier_tests() -> None:
    """Empty what code that is counted filled in earlier tests, and looks at in each."""
    from cloudpickle import cloudpickle
    from tornado.ioloop import IOLoop

    for empty in _caches_of(len(sys.modules)):
        empty()
    cloudpickle._extract_code_globals_cache.clear()
    expressions = sys.modules.get("dask._expr")  # since 2025.4
    for kind in _kinds(expressions.Expr) if expressions else ():
        if "__slotnames__" in vars(kind):  # since one was copied: methods look at all attributes
            del kind.__slotnames__
    loops = IOLoop._ioloop_for_asyncio
    for loop in [loop for loop in loops if loop.is_closed()]:
        del loops[loop]


def make_equal(undo: ExitStack) -> None:
    """Let what a process keeps for all its tests begin anew: random numbers, names, directories."""
    from dask import sizeof
    from distributed import Future, diskutils, scheduler, utils_comm
    from distributed.comm import inproc

    undo.callback(random.setstate, random.getstate())
    random.seed(0)
    # numpy's generators that get no seed draw theirs from it.
    replace(random, "_urandom", random.Random(0).randbytes, undo)
    # dask keeps one generator for all tests of a session.
    if "dask.array.random" in sys.modules:
        replace(sys.modules["dask.array.random"], "_cached_states", {}, undo)
    if numpy := sys.modules.get("numpy"):
        of_numpy = numpy.random
        undo.callback(of_numpy.set_state, of_numpy.get_state())
        of_numpy.seed(0)
    steady: tuple[tuple[Any, str, Any], ...] = (
        # How often it draws depends on what psutil reads.
        (sizeof, "random", SimpleNamespace(sample=random.Random(0).sample)),
        # Names and numbers that a process keeps for all its clusters.
        (Future, "_uid", "future"),
        (Future, "_counter", count()),
        (scheduler.TaskState, "_run_id_iterator", count()),
        (utils_comm, "_round_robin_counter", [0]),
        (inproc.global_manager, "addr_suffixes", count(1)),
        (inproc.global_manager, "listeners", WeakValueDictionary()),
        (inproc, "os", SimpleNamespace(getpid=lambda: 1)),
    )
    for owner, name, value in steady:
        replace(owner, name, value, undo)
    # Workers purge what others left in it, and wait for locks there.
    directory = tempfile.mkdtemp(prefix="schedprof-")
    undo.callback(shutil.rmtree, directory, ignore_errors=True)
    replace(tempfile, "tempdir", directory, undo)
    # A test that is broken off leaves some, which the end of the process would not find any more.
    work_dir: Any = diskutils.WorkDir
    made: list[Any] = []

    def make(*arguments: Any, **keywords: Any) -> Any:
        made.append(work_dir(*arguments, **keywords))
        return made[-1]

    undo.callback(lambda: [place.release() for place in made])
    replace(diskutils, "WorkDir", make, undo)
    replace(tempfile, "_name_sequence", map("{:08}".format, count()), undo)
