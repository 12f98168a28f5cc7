"""Which modules `counts` counts: words that stand for several, and what their figures are worth.

*Work* is done for tasks: its counts depend on them alone. What carries messages depends on how they
were batched, and so on time.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache

from pytest_schedprof.model.profile import Function, compile_pattern

PACKAGES = ("cloudpickle", "dask", "distributed", "msgpack", "sortedcontainers", "toolz", "tornado")
"""Dask and the packages that run in its scheduler."""

EXTENSIONS = (
    "active_memory_manager",
    "broker",
    "client",  # its expressions become graphs on the scheduler
    "collections",
    "diagnostics.*",
    "event",
    "lock",
    "multi_lock",
    "publish",
    "queues",
    "recreate_tasks",
    "scheduler",
    "semaphore",
    "shuffle.*",
    "spans",
    "stealing",
    "variable",
)
"""Modules of distributed that work on tasks, and not on the messages that tell about them."""

EVERYTHING = "everything"
"""The word for all code that runs on the scheduler's thread, but `NOISE`."""

SCHEDULING = "scheduling"
"""The word for modules that work on tasks."""

WORDS: Mapping[str, Sequence[str]] = {
    EVERYTHING: ["*"],
    "all": [f"{package}{rest}" for package in PACKAGES for rest in ("", ".*")],
    SCHEDULING: ["dask", "dask.*", *(f"distributed.{name}" for name in EXTENSIONS)],
}
"""Modules that a word stands for."""

CARRYING = ("distributed.protocol", "distributed.protocol.*", "cloudpickle", "cloudpickle.*")
"""Modules that make bytes of messages, and messages of bytes."""

NOISE = (
    # the profiler, and what tells of the machine, by the clock
    "pytest_schedprof*",
    "schedprof_agent_*",
    "bokeh*",
    "distributed.counter",
    "distributed.dashboard*",
    "distributed.gc",
    "distributed.http*",
    "distributed.metrics",
    "distributed.profile",
    "distributed.system_monitor",
    "distributed.utils_perf",
    "psutil*",
    "namedtuple_p*",  # psutil's
    "namedtuple_s*",
    # workers, which a virtual cluster has in the scheduler's process
    "distributed.nanny",
    "distributed.worker*",
    # finders of modules, which packages install
    "__editable__*",
    "_distutils_hack*",
    "_pytest*",
    # the event loop, and what everything uses
    "_weakrefset",
    "abc",
    "asyncio*",
    "codecs",
    "concurrent*",
    "contextlib",
    "contextvars",
    "enum",
    "functools",
    "genericpath",
    "importlib*",
    "inspect",
    "json*",  # the messages of a virtual cluster
    "logging*",
    "multiprocessing*",
    "os",
    "posixpath",
    "selectors",
    "signal",
    "socket",
    "ssl",
    "threading",
    "typing",
    "uvloop*",
    "weakref",
)
"""Modules that `EVERYTHING` leaves out."""

CALLERS = (
    "distributed.active_memory_manager",
    "distributed.scheduler",
    "distributed.stealing",
)
"""Modules whose functions make a user's code count that they call, in a process that the test
shares."""


def spelt_out(modules: Iterable[str]) -> Iterator[str]:
    """Yield the modules, and in place of a word those that it stands for."""
    for module in modules:
        yield from WORDS.get(module, (module,))


BODY = "<module>"
"""Name of the code that runs when a module is imported, which belongs to no task."""

OTHERS = "<others>"
"""Name of the line for all functions of a module that cost too little for lines of their own."""

PURE = frozenset({"ast", "bisect", "copy", "dataclasses", "graphlib", "heapq", "pprint"})
"""Modules of the standard library that nothing but work on tasks calls."""

HEARTBEATS = frozenset(
    {
        "distributed.scheduler:Scheduler.client_heartbeat",
        "distributed.scheduler:Scheduler.heartbeat_worker",
    }
)
"""What the clock calls for each client and worker, however many tasks there are."""

INSTALLED = frozenset(
    {
        *PACKAGES,
        "bokeh",
        "click",
        "fsspec",
        "jinja2",
        "locket",
        "markupsafe",
        "numpy",
        "packaging",
        "pandas",
        "partd",
        "psutil",
        "pyarrow",
        "tblib",
        "urllib3",
        "yaml",
        "zict",
    }
)
"""Packages that a scheduler needs or calls, whoever uses it."""


UNDER_TEST = ("dask", "distributed")

C_CODE = "c"
"""Module of functions that are written in C."""

CACHES = (
    "collections.abc:*.__subclasshook__",
    "collections.abc:_check_methods",
    "re:_compile",
    "re._*:*",
    "sre_*:*",
)
"""What fills the caches of abstract classes and of regular expressions."""


@cache
def is_work(function: Function) -> bool:
    """Whether a function works on tasks: one of `SCHEDULING` or `PURE`, or of a user's code."""
    module, _, name = function.partition(":")
    if name == BODY or function in HEARTBEATS:
        return False
    if is_of_library(module):
        return module in PURE
    return _root(module) not in INSTALLED or _scheduling(module)


def is_of_library(module: str) -> bool:
    """Whether a module is of Python's standard library, or made by it."""
    return _root(module) in sys.stdlib_module_names or module.startswith("namedtuple_")


def is_installed(module: str) -> bool:
    """Whether a module is of one of the packages that every scheduler has."""
    return _root(module) in INSTALLED


@cache
def is_under_test(function: Function) -> bool:
    """Whether a function is of dask, of distributed or of a user's code, and of no library."""
    module = function.partition(":")[0]
    if is_of_library(module) or module == C_CODE:
        return False
    return _root(module) in UNDER_TEST or _root(module) not in INSTALLED


@cache
def is_cache(function: Function) -> bool:
    """Whether a function runs only if a cache of the interpreter lacks an answer.

    Imports empty these caches, and whichever test asks first fills them.
    """
    return any(compile_pattern(each).fullmatch(function) for each in CACHES)


def _root(module: str) -> str:
    return module.partition(".")[0]


def _scheduling(module: str) -> bool:
    return is_of(module, (SCHEDULING,))


def is_of(module: str, chosen: Iterable[str]) -> bool:
    """Whether a module is one of those that were chosen, by names with wildcards or by words."""
    return any(compile_pattern(each).fullmatch(module) for each in spelt_out(chosen))
