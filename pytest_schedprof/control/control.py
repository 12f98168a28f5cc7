"""The recorder's own connection to a scheduler; it runs the agent there, with deadlines.

The agent goes as source, with every call, to the process where it runs. So nothing of this package
need be installed there, Python may be of another minor version, and nobody has to keep track of
which process has the agent already.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import logging
import pickle
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import cloudpickle
from distributed import Client, Scheduler
from distributed.core import clean_exception
from distributed.versions import VersionMismatchWarning

import pytest_schedprof.agent as agent
from pytest_schedprof.errors import RecordingError, SchedprofError, SchedulerLostError

HERE = agent.__name__
DIRECTORY = Path(str(agent.__file__)).parent


class Sent:
    """A call that is made where this object is unpickled; it arrives as the call's result."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self._made = (function, arguments)

    def __reduce__(self) -> Any:
        return self._made

    def __call__(self, *arguments: Any) -> Sent:
        """Return a call of the result, which is made there too."""
        return Sent(self, *arguments)


def is_of_agent(function: Callable[..., Any]) -> bool:
    """Whether a function is the agent's; those of third parties and tests travel by value."""
    return function.__module__.startswith(f"{HERE}.") and "<locals>" not in function.__qualname__


def as_source(function: Callable[..., Any]) -> Sent:
    """Return one of the agent's functions, ready to be pickled."""
    return Sent(getattr, as_module(function.__module__.rpartition(".")[2]), function.__qualname__)


def as_module(name: str) -> Sent:
    """Return one of the agent's modules with those that it imports, ready to be pickled."""
    return _unpacker()(f"{package()}.{name}", package(), _luggage(name))


def _unpacker() -> Sent:
    """Return a function that makes a module of source, unless the process has the module."""
    path, text = _sources()["unpack"]
    names = f"(lambda names: exec(compile({text!r}, {path!r}, 'exec'), names) or names)({{}})"
    known = "__import__('sys').modules.get(module)"
    return Sent(
        eval,
        f"lambda module, package, sources: {known} or {names}['unpack'](module, package, sources)",
    )


@cache
def _luggage(name: str) -> dict[str, tuple[str, str]]:
    """Paths and texts of a module, of the package, and of all that the module imports from it."""
    sources, names, left = _sources(), {"__init__"}, [name]
    while left:
        names.add(module := left.pop())
        left += relative_imports(sources[module][1]) & sources.keys() - names
    return {
        f"{package()}.{module}".removesuffix(".__init__"): sources[module]
        for module in sorted(names)
    }


def relative_imports(source: str) -> set[str]:
    """Return the names that a module of a flat package may mean by its relative imports.

    For `from . import a` these may be modules or names of the package itself.
    """
    imports = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.level == 1
    ]
    modules = {node.module.partition(".")[0] for node in imports if node.module}
    return modules | {name.name for node in imports if not node.module for name in node.names}


@cache
def package() -> str:
    """Name of the agent's package there, with a hash of its text, so that versions do not meet."""
    texts = "".join(text for _, text in _sources().values())
    return f"schedprof_agent_{hashlib.sha256(texts.encode()).hexdigest()[:8]}"


@cache
def _sources() -> dict[str, tuple[str, str]]:
    """Path and text of each module of the agent."""
    return {
        path.stem: (str(path), path.read_text(encoding="utf-8"))
        for path in sorted(DIRECTORY.glob("*.py"))
    }


@contextmanager
def any_versions() -> Iterator[None]:
    """Ignore warnings of differing versions: results report them, and `-W error` would fail."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", VersionMismatchWarning)
        yield


@contextmanager
def muted(name: str) -> Iterator[None]:
    """Silence a logger, whose tracebacks repeat what an error message says."""

    def nothing(record: logging.LogRecord) -> bool:
        return False

    logger = logging.getLogger(name)
    logger.addFilter(nothing)
    try:
        yield
    finally:
        logger.removeFilter(nothing)


CLOCK = time.time

MARGIN_S = 15.0
"""Added to the agent's own deadlines, so that its answer can still arrive."""


class Line(Client):
    """A client that notices at once when its scheduler is gone, and does not reconnect."""

    is_sessions = True
    """Told to a virtual cluster, whose scheduler may die: this connection must not break then."""

    def __init__(self, address: str, security: Any, timeout_s: float, name: str) -> None:
        self.broken = asyncio.Event()
        with any_versions():
            super().__init__(  # type: ignore[no-untyped-call]
                address, security=security, set_as_default=False, timeout=timeout_s, name=name
            )

    async def _ensure_connected(self, timeout: Any = None) -> None:
        """Turn every error into an OSError, because only then a client cleans up after itself."""
        try:
            await super()._ensure_connected(timeout)  # type: ignore[no-untyped-call]
        except OSError:
            raise
        except Exception as error:  # such as from a scheduler of another release
            raise ConnectionError(f"{type(error).__name__}: {first_line(error)}") from error

    async def _reconnect(self) -> None:
        self.broken.set()
        self.scheduler_comm = None  # so that nobody waits for messages

    async def unless_broken(self, ask: Callable[..., Any], *args: Any) -> Any:
        """Return the answer, or raise ConnectionError as soon as the connection breaks."""
        answers = [] if self.broken.is_set() else [asyncio.ensure_future(ask(*args))]
        tasks = [*answers, asyncio.ensure_future(self.broken.wait())]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if self.broken.is_set():
                raise ConnectionError("the control line broke")
            return answers[0].result()
        finally:
            for task in tasks:
                task.cancel()
            # Errors of cancelled tasks do not matter and must not be logged.
            await asyncio.gather(*tasks, return_exceptions=True)


class Control:
    """Runs the agent by a client of its own, which a test cannot close."""

    def __init__(self, address: str, *, security: Any = None, timeout_s: float = 30.0) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._names: dict[tuple[str, str, int], str] = {}
        self._is_mute = False
        """Whether an answer did not come in time; then no other is waited for."""
        try:
            self._client: Any = Line(address, security, timeout_s, "schedprof-control")
            keep_time(self._client)
        except (OSError, ValueError) as error:
            raise SchedulerLostError(
                f"schedprof: no scheduler answers at {address!r} within {timeout_s:g} s "
                f"({first_line(error)}); start one, or leave out --schedprof-cluster"
            ) from error

    @property
    def label(self) -> str:
        """Name of the scheduler in messages."""
        return f"the scheduler {self.address}"

    @property
    def client_id(self) -> str:
        return str(self._client.id)

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function on the scheduler and return its answer.

        Raises:
            SchedulerLostError: if no answer came within the deadline.
            RecordingError: if the function failed there.
        """
        return self._guarded(timeout_s, self._ask, function, args)

    def call_workers(self, function: Callable[..., Any], *args: Any) -> dict[str, Any]:
        """Run an agent's function on every worker; return the answers by the workers' addresses.

        Raises:
            SchedulerLostError: if no answer came within the deadline.
            RecordingError: if the function failed on a worker, or one cannot be reached.
        """
        sent: Any = function
        if is_of_agent(function):
            sent = as_source(function)
        else:
            _send_by_value(function, with_agent=True)
        run = partial(self._client._run, on_error="return")
        answers: dict[str, Any] = self._guarded(None, run, sent, *args)
        for address, answer in answers.items():
            if isinstance(answer, Exception):
                raise _failure(function, f"the worker {address}", answer) from answer
        return answers

    @property
    def is_up(self) -> bool:
        """Whether the connection is intact; it is never restored."""
        return not (self._is_mute or self._client.broken.is_set())

    def unpublish_all_but(self, kept: frozenset[Any]) -> None:
        """Unpublish datasets but the given ones; they outlive the client that published them."""
        for name in self._guarded(None, self._client.list_datasets):
            if name not in kept:
                self._guarded(None, self._client.unpublish_dataset, name)

    async def _ask(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        """Do as `Client.run_on_scheduler`; an error there does not break the connection here."""
        try:
            response = await self._client.scheduler.run_function(
                function=self._pickled(function),
                args=pickle.dumps(args),
                kwargs=pickle.dumps({}),
                wait=True,
            )
        except (OSError, SchedprofError):
            raise
        except Exception as error:  # such as that the agent cannot be unpacked there
            raise _failure(function, self.label, error) from error
        if response["status"] == "error":
            _, raised, _ = clean_exception(**response)
            raise _failure(function, self.label, raised)
        return response["result"]

    def _pickled(self, function: Callable[..., Any]) -> bytes:
        """Pickle a function; by reference if the scheduler is in this process.

        There the agent exists already, and a copy would define each class twice.
        """
        if is_of_agent(function):
            return pickle.dumps(function if self._is_here() else as_source(function))
        _send_by_value(function, with_agent=not self._is_here())
        return bytes(cloudpickle.dumps(function))

    def _is_here(self) -> bool:
        """Whether the scheduler lives in this process."""
        return any(
            scheduler.status.name == "running" and scheduler.address == self.address
            for scheduler in list(Scheduler._instances)
        )

    def name_places(self, places: list[tuple[str, str, int]]) -> list[str]:
        """Return `module:qualname` of each location; each is asked for once per cluster."""
        from pytest_schedprof.agent import names

        unknown = [place for place in places if place not in self._names]
        if unknown:
            self._names.update(zip(unknown, self.call(names.name_places, unknown), strict=True))
        return [self._names[place] for place in places]

    def close(self) -> None:
        """Close the connection; wait little, because the scheduler may be gone."""
        close_client(self._client, timeout_s=2)

    def __enter__(self) -> Control:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _guarded(self, timeout_s: float | None, ask: Callable[..., Any], *args: Any) -> Any:
        # The deadline also holds for an intact connection: a process may hang.
        deadline = (timeout_s or self._timeout_s) + MARGIN_S
        if self._is_mute or not runs_loop(self._client):
            raise SchedulerLostError(
                f"schedprof: the line to the scheduler at {self.address!r} is closed: an earlier "
                "answer did not come, or the test closed the line's descriptors"
            )
        try:
            return self._client.sync(
                self._client.unless_broken, ask, *args, callback_timeout=deadline
            )
        except OSError as error:
            is_late = isinstance(error, TimeoutError)
            self._is_mute = is_late
            trouble = f"gave no answer within {deadline:g} s" if is_late else "hung up"
            raise SchedulerLostError(
                f"schedprof: the scheduler at {self.address!r} {trouble} "
                f"({type(error).__name__}: {first_line(error)}); "
                "it died, hangs, or was closed by the test"
            ) from error


def runs_loop(client: Any) -> bool:
    """Whether a client's event loop runs; it ends if a test closes all descriptors."""
    return bool(client.loop.asyncio_loop.is_running())


def close_client(client: Any, *, timeout_s: float) -> None:
    """Close a client, if that is still possible."""
    if runs_loop(client):
        try:
            client.close(timeout=timeout_s)
        except OSError:
            pass


def keep_time(client: Any) -> None:
    """Give a client's event loop the clock itself.

    Tornado calls `time.time` for each timeout, which a test may have patched.
    """
    vars(client.loop).setdefault("time", CLOCK)  # in virtual time it has another one


def _send_by_value(function: Callable[..., Any], *, with_agent: bool) -> None:
    """Have a third party's module pickled by value, and the agent that it imports.

    Neither is installed there. If the scheduler is in this process, the agent must not be copied:
    cloudpickle would take the copy of a class for the original and replace its methods.
    """
    cloudpickle.register_pickle_by_value(sys.modules[function.__module__])
    if with_agent:
        cloudpickle.register_pickle_by_value(agent)
    elif agent.__name__ in cloudpickle.list_registry_pickle_by_value():
        cloudpickle.unregister_pickle_by_value(agent)


def _failure(
    function: Callable[..., Any], place: str, error: BaseException | None
) -> RecordingError:
    return RecordingError(
        f"schedprof: {function.__name__} failed on {place}: "
        f"{type(error).__name__}: {first_line(error)}"
    )


def first_line(error: BaseException | None) -> str:
    return str(error).partition("\n")[0]
