"""Parsed recordings of a backend: samples of stacks, or costs of functions."""

from __future__ import annotations

import re
import sys
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TypeAlias

from msgspec import Struct, field

Function: TypeAlias = str
"""`module:qualname`, without path and line, so that two checkouts give the same name."""

CodeLocation: TypeAlias = tuple[str, str, int]
"""File, name and line of a function or a frame, as a profiler reports them."""

Namer: TypeAlias = Callable[[list[CodeLocation]], Sequence[Function]]
"""Returns the function of each location; the process that has loaded the code knows it."""

Stack: TypeAlias = tuple[Function, ...]
"""Functions from the thread's outermost to the innermost."""


class SampleProfile(Struct, frozen=True):
    """The samples of one recording; a stack is stored once, however often it was seen."""

    backend: str
    mode: str
    """Options that change what a sample means; profiles of different modes are never compared."""
    stacks: tuple[Stack, ...]
    threads: tuple[array[int], ...]
    """Of each thread its samples in their order: indexes into the stacks."""
    empty_samples: int = 0
    """Number of samples without a frame; they belong to no share."""
    doubt: str = ""
    """Why it cannot judge any limit, for example late samples; else empty."""
    is_held_back: bool = False
    """Whether a sample due while C code ran was taken right after it, with a weight for that time.
    Time of the garbage collector is then attributed to distributed's callback for it."""
    is_shared: bool = False
    """Whether the test, workers and clients ran in the same process as the scheduler."""
    is_of_cpu: bool = False
    """Whether it was sampled at steps of CPU time. Then a sample in which a thread waits stands for
    CPU time, too: that of beginning to wait."""
    sample_seconds: float = 0.0
    """Time by the clock that each sample stands for; 0 if it was sampled at steps of CPU time."""


class CostProfile(Struct, frozen=True):
    """Costs of each function and of the scheduler as a whole in one recording."""

    backend: str
    mode: str
    functions: Mapping[Function, Mapping[str, float]]
    """Costs of each function by metric, over the whole recording. `self_seconds` are without
    callees; `peak` and `leaked` are the function's own part of the whole."""
    whole: Mapping[str, float] = field(default_factory=dict)
    """Metrics that belong to no single function, as messages or the peak of memory."""
    doubt: str = ""
    """Why it cannot judge any limit, for example a trace without its beginning; else empty."""
    hides: str = ""
    """Why a function that is missing in it may still have run; else empty."""
    lacks: Mapping[str, str] = field(default_factory=dict)
    """Metrics of the backend, and functions, that could not be measured, each with the reason."""
    hash: str = ""
    """Hash of everything that happened in the recording, if it can be told; else empty."""
    is_everything: bool = False
    """Whether it has all code that the scheduler ran, and no other: libraries and plugins too."""
    code: Mapping[Function, str] = field(default_factory=dict)
    """Digests of the code of functions, with spaces between them; empty if they are not known."""


Profile: TypeAlias = SampleProfile | CostProfile


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Compile a pattern; all characters but `*` and `?` match themselves.

    Whatever it holds, matching takes no more steps than the pattern's length times the name's.
    What follows a `*` is matched where it comes first, and never tried again further on: one that
    comes later leaves less for the rest.
    """
    first, *others = (re.escape(text).replace(r"\?", ".") for text in re.split(r"\*+", pattern))
    *middle, last = others or [""]
    pieces = (f"(?>.*?{piece})" for piece in middle)
    return re.compile(f"(?s:{first}{''.join(pieces)}{'.*' if others else ''}{last})")


def has_wildcard(pattern: str) -> bool:
    """Whether the pattern can match more than one function."""
    return "*" in pattern or "?" in pattern


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

DASKS = "all"
"""The word for all modules of dask and of the packages that run in its scheduler."""

WORDS: Mapping[str, Sequence[str]] = {
    EVERYTHING: ["*"],
    DASKS: [f"{package}{rest}" for package in PACKAGES for rest in ("", ".*")],
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
    "distributed.utils_test",
    "psutil*",
    "namedtuple_p*",  # psutil's
    "namedtuple_s*",
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

WORKERS = ("distributed.nanny", "distributed.worker*")
"""Modules of workers, which are counted only where workers, clients and scheduler take turns."""

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
    "dask.utils:Dispatch.dispatch",
    "re:_compile",
    "re._*:*",
)
"""What fills the caches of abstract classes, of regular expressions and of dask by type."""


def module_of(function: Function) -> str:
    return function.partition(":")[0]


@cache
def is_work(function: Function) -> bool:
    """Whether a function works on tasks: one of `SCHEDULING` or `PURE`, or of a user's code."""
    module, _, name = function.partition(":")
    if name == BODY or function in HEARTBEATS:
        return False
    if is_of_library(module):
        return module in PURE
    return _root(module) not in INSTALLED or is_of(module, (SCHEDULING,))


def is_of_library(module: str) -> bool:
    """Whether a module is of Python's standard library, or made by it."""
    return _root(module) in sys.stdlib_module_names or module.startswith("namedtuple_")


def is_installed(module: str) -> bool:
    """Whether a module is of one of the packages that every scheduler has."""
    return _root(module) in INSTALLED


@cache
def is_under_test(function: Function) -> bool:
    """Whether a function is of dask, of distributed or of a user's code, and of no library."""
    module = module_of(function)
    if is_of_library(module) or module == C_CODE:
        return False
    return _root(module) in UNDER_TEST or _root(module) not in INSTALLED


@cache
def is_cache(function: Function) -> bool:
    """Whether a function does most of its work if a cache of the interpreter lacks an answer.

    Imports empty these caches, and whichever test asks first fills them: with pytest-xdist another
    one each time.
    """
    return any(compile_pattern(pattern).fullmatch(function) for pattern in CACHES)


def _root(module: str) -> str:
    return module.partition(".")[0]


def is_of(module: str, chosen: Iterable[str]) -> bool:
    """Whether a module is one of those that were chosen, by names with wildcards or by words."""
    return any(compile_pattern(name).fullmatch(module) for name in spelt_out(chosen))
