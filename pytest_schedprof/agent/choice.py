"""Decides which code is counted when it first runs, so that code which is new then is counted too.

Code is chosen by the name of its module, which its globals tell: that of imported code, and that of
functions that were defined or put in place of others while the recording was at work.

The order of a set of strings depends on the hash seed, which is another one in each process unless
`PYTHONHASHSEED` is set. Two kinds of sets decide how much work the scheduler does, and get an order
of their own meanwhile: dask's constant sets of strings, such as the names of all task states, which
each new task group copies in that order; and sets of tasks, whose hash is that of their key. Sets
of plain keys keep the order of the seed.
"""

from __future__ import annotations

import enum
import functools
import inspect
import os
import re
import sys
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from types import CodeType, FrameType, ModuleType
from typing import Any

from .names import functions_of
from .patches import replace, wrap

BODY = "<module>"
"""Name of the code that runs when a module is imported."""

LIBRARY = os.path.dirname(os.__file__)
"""Directory of the standard library."""

INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]|^<frozen ")


MOST_ALONE = 1000
"""Of code that is counted without what it calls, only so many calls are counted: heartbeats of a
long test would be most of all counts."""


class Answer(enum.Enum):
    """Whether code is counted."""

    YES = "yes"
    NEVER = "never"
    NOT_NOW = "not now"
    """Not this call; another caller of the same code may make a difference."""


class Choice:
    """The modules whose code is counted, and the code of them that ran."""

    def __init__(
        self, modules: Iterable[str], without: Iterable[str] = (), callers: Iterable[str] = ()
    ) -> None:
        """Choose by regular expressions.

        Args:
            modules: names of modules that are counted.
            without: names of modules that are not, though `modules` has them.
            callers: names of modules whose functions make a user's code count that they call, as
                methods of plugins and functions that a test put in place of others.
        """
        self.modules = any_of(modules)
        self.without = any_of(without)
        self.callers = [*callers]
        self.is_caller = any_of(self.callers)
        self.answers: dict[str, Answer] = {}
        """By the name of the module; others depend on the caller."""
        self.taken: dict[int, tuple[str, CodeType]] = {}
        """Module and code by the code's `id`, which stays its own as long as this holds it."""

    def ask(self, frame: FrameType) -> Answer:
        """Return whether the code of a frame is counted, and remember what is."""
        module = module_of(frame)
        answer = self.answers.get(module)
        if answer is None:
            answer = self.answers[module] = self._answer(module, frame)
        if answer is Answer.NOT_NOW and self._is_called_by_chosen(frame.f_back):
            answer = Answer.YES
        if answer is Answer.YES:
            self.taken[id(frame.f_code)] = (module, frame.f_code)
        return answer

    def _answer(self, module: str, frame: FrameType) -> Answer:
        if self.without(module):
            return Answer.NEVER
        if self.modules(module):
            return Answer.YES
        # Code of a user is neither of the standard library nor of an installed package.
        file = frame.f_code.co_filename
        is_of_user = not (file.startswith(LIBRARY) or INSTALLED.search(file))
        return Answer.NOT_NOW if self.callers and is_of_user else Answer.NEVER

    def _is_called_by_chosen(self, caller: FrameType | None) -> bool:
        """Whether a scheduler's function calls, or code that counts because such a one calls it."""
        if caller is None:
            return False
        module = module_of(caller)
        if self.answers.get(module) is Answer.NOT_NOW:
            return id(caller.f_code) in self.taken
        return self.is_caller(module)

    def functions(self) -> dict[str, list[CodeType]]:
        """Return the code that ran, by the function's name.

        Several functions can have one name: getter and setter of a property, or a function and its
        replacement.
        """
        modules = (sys.modules.get(name) for name in {name for name, _ in self.taken.values()})
        names: dict[int, tuple[str, CodeType]] = {}
        for module in modules:
            if isinstance(module, ModuleType):
                names.update(_names_in(module, len(vars(module))))
        functions: dict[str, list[CodeType]] = {}
        for key, (module_name, code) in self.taken.items():
            name = names[key][0] if key in names else code.co_qualname
            functions.setdefault(f"{module_name}:{name}", []).append(code)
        return functions


@functools.lru_cache(1000)  # each test asks for the same ones of all modules
def _names_in(module: ModuleType, size: int) -> dict[int, tuple[str, CodeType]]:
    """Return the names of a module's functions, by the `id` of their code, which this holds.

    Args:
        module: where they are defined.
        size: how many names the module has; if it gets others, it is looked at anew.
    """
    return {id(code): (name, code) for name, code in functions_of(module)}


def module_of(frame: FrameType) -> str:
    """Return the module of a frame's code; that of code which has none is named by its file."""
    name = frame.f_globals.get("__name__")
    return name if type(name) is str else frame.f_code.co_filename.replace("\\", "/").split("/")[-1]


def is_import(frame: FrameType) -> bool:
    """Whether a frame is that of a module which is being imported."""
    if frame.f_code.co_name != BODY:
        return False
    return bool(getattr(frame.f_globals.get("__spec__"), "_initializing", False))


def any_of(expressions: Iterable[str]) -> Callable[[str], bool]:
    """Return what tells whether a name matches any of these, each apart: they have named groups."""
    return _any_of(tuple(expressions))


@functools.cache
def _any_of(expressions: tuple[str, ...]) -> Callable[[str], bool]:
    compiled = [re.compile(expression) for expression in expressions]
    return functools.cache(lambda name: any(pattern.fullmatch(name) for pattern in compiled))


Wrapper = Callable[[Callable[[], Any]], Callable[[], Any]]


def untraced(function: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function that runs another one while its thread has no trace function."""

    @functools.wraps(function)
    def call() -> Any:
        tracer = sys.gettrace()
        sys.settrace(None)
        try:
            return function()
        finally:
            sys.settrace(tracer)

    return call


def untrace(
    callbacks: Iterable[Any],
    codes: Collection[int],
    undo: ExitStack,
    wrapper: Wrapper = untraced,
) -> None:
    """Wrap those of Tornado's periodic callbacks whose code has one of these `id`s.

    They are not counted. What counts is called for each call on its thread, also for those that it
    leaves out, and stealing calls millions of functions when it compares many workers.
    """
    for periodic in callbacks:
        function = getattr(periodic.callback, "__func__", periodic.callback)
        if id(getattr(inspect.unwrap(function), "__code__", None)) in codes:  # it may be decorated
            wrap(periodic, "callback", wrapper, undo)


def in_offload_thread(function: Callable[[], object]) -> None:
    """Run a function before whatever is offloaded from now on; the only thread keeps the order."""
    import distributed.utils  # no command that only reads results needs it

    if executor := getattr(distributed.utils, "_offload_executor", None):
        executor.submit(function)


SCHEDULER = "distributed.scheduler"
"""Module of the state machine, whose tasks, workers and clients store the hash of their name."""

BUILTIN = hash


class _Sorted:
    """A set of strings whose elements are in alphabetical order."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))  # type: ignore[misc]


class SortedSet(_Sorted, set[str]):
    """A `set` that is iterated in order."""


class SortedFrozenset(_Sorted, frozenset[str]):
    """A `frozenset` that is iterated in order."""


KINDS: dict[type, Any] = {set: SortedSet, frozenset: SortedFrozenset}


def unseeded_hash(value: Any) -> int:
    """Return a hash that is the same in every process; equal values have equal hashes."""
    if isinstance(value, str):
        return zlib.crc32(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, tuple):
        return BUILTIN(tuple(map(unseeded_hash, value)))
    return BUILTIN(value)


@functools.lru_cache(1000)  # each test asks for the same ones of all modules
def _sets_in(module: ModuleType, size: int) -> list[str]:
    """Return the names of a module's constants that are sets of strings; `size` as above."""
    return [
        name
        for name, value in vars(module).items()
        if name.isupper()
        and type(value) in KINDS
        and value  # an empty one may be filled yet
        and all(isinstance(one, str) for one in value)
    ]


def put_in_order(modules: Iterable[str], undo: ExitStack) -> None:
    """Replace dask's constants in modules whose names match, and `hash` where tasks use it.

    Not a user's: what is in capitals may be a registry, and what is added to the copy is lost.
    """
    is_chosen = any_of(modules)
    for name, module in list(sys.modules.items()):
        is_dasks = name.partition(".")[0] in ("dask", "distributed")
        if is_dasks and isinstance(module, ModuleType) and is_chosen(name):
            for constant in _sets_in(module, len(vars(module))):
                value = vars(module).get(constant)
                if kind := KINDS.get(type(value)):
                    replace(vars(module), constant, kind(value), undo)
    if SCHEDULER in sys.modules:
        replace(vars(sys.modules[SCHEDULER]), "hash", unseeded_hash, undo)
