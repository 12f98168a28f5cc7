"""Replaces handlers of messages: they note what workers and clients say, and then do their work."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import Any

from distributed.metrics import time
from distributed.worker_state_machine import TaskFinishedMsg

from pytest_schedprof.agent.patches import wrap
from pytest_schedprof.formats.workload import MICRO, differences, numbers


class Presence:
    """Puts a plugin among the scheduler's only while something happens that it must notice.

    A scheduler calls all plugins for all transitions. For one that does nothing, these calls are a
    hundredth of the scheduler's work.
    """

    def __init__(self, plugins: dict[str, Any], name: str, plugin: Any) -> None:
        self._plugins, self._name, self._plugin = plugins, name, plugin
        self._under_way = 0

    def __enter__(self) -> None:
        self._under_way += 1
        self._plugins[self._name] = self._plugin

    def __exit__(self, *error: object) -> None:
        self._under_way -= 1
        if not self._under_way:
            self.end()

    def end_early(self) -> None:
        """Leave the plugins before the end of what is under way, of which the rest is no news."""
        if self._under_way <= 1:
            self.end()

    def end(self) -> None:
        self._plugins.pop(self._name, None)

    def during(self, real: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a function, or a coroutine function, so that the plugin is there while it runs."""

        @functools.wraps(real)
        def call(*args: Any, **keywords: Any) -> Any:
            with self:
                return real(*args, **keywords)

        @functools.wraps(real)
        async def coroutine(*args: Any, **keywords: Any) -> Any:
            with self:
                return await real(*args, **keywords)

        return coroutine if inspect.iscoroutinefunction(real) else call


MOST_GROUPS = 50_000
"""Most groups whose numbers are kept; the oldest are forgotten first."""

TOGETHER_S = 0.001
"""Releases of a client within this time count as one."""


class Rows:
    """Ends of tasks, releases and workers, which share blocks because they are many and small."""

    def __init__(self) -> None:
        self.clients = Numbered()
        self.results: list[tuple[int, float, Any, int | None, bool]] = []
        """Number, time, start and stop of its parts, size, and whether it erred."""
        self.workers: list[tuple[float, int, bool, int, int, bool]] = []
        self.releases: list[tuple[float, str, int]] = []
        """Time, client, and a task that the client releases."""
        self._joined: list[tuple[float, int, list[int]]] = []
        """Time, number of the client, and all tasks of one moment."""

    def release_all(self, time: float, client: str) -> None:
        """Note that a client has left; a release without tasks is one of all."""
        if self.clients.known(client) is not None:
            self.join_releases()
            self._joined.append((time, self.clients.of(client), []))
            self.clients.forget(client)

    def join_releases(self) -> None:
        """Join releases that are near to each other, because futures are released one by one.

        The joined release has the time of the first. So this must be called before a graph is
        noted, which may need what is released right after it.
        """
        start, owner = float("-inf"), None
        ids: list[int] = []
        for moment, client, number in self.releases:
            if client == owner and moment - start < TOGETHER_S:
                ids.append(number)
            else:
                start, owner, ids = moment, client, [number]
                self._joined.append((moment, self.clients.of(client), ids))
        self.releases.clear()

    def take(self, start: float) -> list[dict[str, Any]]:
        """Return all rows as blocks of a file that was begun at a time, and forget them."""
        self.join_releases()
        blocks: list[dict[str, Any]] = []
        if self.workers:
            blocks.append({"kind": "workers", "workers": self.workers[:]})
        if self.results:
            blocks.append(self._results_block(start))
        if self._joined:
            blocks.append(self._releases_block(start))
        for rows in (self.workers, self.results, self._joined):
            rows.clear()
        return blocks

    def _results_block(self, start: float) -> dict[str, Any]:
        ids, times, startstops, nbytes, errors = zip(*self.results, strict=True)
        return {
            "kind": "results",
            "ids": differences(ids),
            "times": differences([round((time - start) * MICRO) for time in times]),
            "durations": numbers(_micros(startstops)),
            "nbytes": numbers([size or 0 for size in nbytes]),
            "errors": bytes(errors),
        }

    def _releases_block(self, start: float) -> dict[str, Any]:
        times, clients, ids = zip(*self._joined, strict=True)
        return {
            "kind": "releases",
            "times": differences([round((time - start) * MICRO) for time in times]),
            "clients": numbers(clients),
            "counts": numbers(map(len, ids)),
            "ids": differences(chain.from_iterable(ids)),
        }


def _micros(startstops: Iterable[Any]) -> list[int]:
    """Return how long tasks were computed."""
    durations = []
    for parts in startstops:
        spent = 0.0
        for part in parts or ():
            if part["action"] == "compute":
                spent += part["stop"] - part["start"]
        durations.append(round(spent * MICRO))
    return durations


class GraphRows:
    """The tasks of one graph, as columns."""

    def __init__(self, time: float, client: int) -> None:
        self.time, self.client = time, client
        self.wanted: list[int] = []
        self._groups: dict[tuple[str, int | None], int] = {}
        self._annotations: list[Mapping[str, Any]] = []
        self._texts: dict[str, int] = {}
        """Numbers of annotations by their text."""
        self._ids: list[int] = []
        self._group: list[int] = []
        self._degrees: list[int] = []
        self._dependencies: list[int] = []
        self._annotation: list[int] = []

    def group(self, group: tuple[str, int | None]) -> int:
        """Return the number of a group in this block."""
        return self._groups.setdefault(group, len(self._groups))

    def annotations(self, annotations: Mapping[str, Any]) -> int:
        """Return the number of the annotations of a task in this block."""
        text = repr(annotations) if annotations else ""
        if text not in self._texts:
            self._texts[text] = len(self._annotations)
            self._annotations.append(annotations)
        return self._texts[text]

    def add(
        self,
        ids: Sequence[int],
        group: Sequence[int],
        annotation: Sequence[int],
        needed: tuple[Sequence[int], Sequence[int]] | None = None,
    ) -> None:
        """Add tasks.

        Args:
            ids: their numbers.
            group: those of their groups.
            annotation: those of their annotations.
            needed: how many others each task needs, and the distances to their numbers.
        """
        degrees, dependencies = needed or ([0] * len(ids), ())
        self._ids += ids
        self._group += group
        self._annotation += annotation
        self._degrees += degrees
        self._dependencies += dependencies

    def block(self) -> dict[str, Any]:
        return {
            "kind": "graph",
            "time": self.time,
            "client": self.client,
            "groups": list(self._groups),
            "annotations": self._annotations,
            "ids": differences(self._ids),
            "group": numbers(self._group),
            "degrees": numbers(self._degrees),
            "dependencies": numbers(self._dependencies),
            "annotation": numbers(self._annotation),
            "wanted": differences(self.wanted),
        }


class Numbered:
    """Numbers things in the order of their first use."""

    def __init__(self, most: int = 0) -> None:
        self._numbers: dict[Any, int] = {}
        self._next = 0
        self._most = most

    def of(self, thing: Any) -> int:
        number = self._numbers.get(thing)
        if number is None:
            number = self._numbers[thing] = self._next
            self._next += 1
            if self._most and len(self._numbers) > self._most:
                del self._numbers[next(iter(self._numbers))]
        return number

    def known(self, thing: Any) -> int | None:
        return self._numbers.get(thing)

    def forget(self, thing: Any) -> None:
        """Forget a thing; it gets another number if it comes again."""
        self._numbers.pop(thing, None)


FINISHED, ERRED = "task-finished", "task-erred"
RELEASING, CANCELLING = "client-releases-keys", "cancel-keys"

FIELDS = frozenset(
    ("key", "run_id", "nbytes", "type", "typename", "metadata", "thread", "startstops")
)
"""Fields of a message about a finished task, in all known releases."""

Handler = Callable[..., Any]


class Hearing:
    """Notes ends of tasks and releases, as rows, while its handlers are in the scheduler's tables.

    Handlers that run for all tasks call no functions of Python, and have no decorator.
    """

    def __init__(
        self,
        scheduler: Any,
        numbers: dict[int, int],
        rows: Rows,
        give_up: Callable[[Exception], None],
    ) -> None:
        self._scheduler, self._numbers, self._rows = scheduler, numbers, rows
        self._give_up = give_up

    def begin(self, undo: ExitStack) -> None:
        is_known = {*TaskFinishedMsg.__annotations__} == FIELDS
        handlers = self._scheduler.stream_handlers
        wrap(handlers, FINISHED, self._on_finished if is_known else self._on_end, undo)
        wrap(handlers, ERRED, functools.partial(self._on_end, is_error=True), undo)
        wrap(handlers, RELEASING, self._on_release, undo)
        wrap(handlers, CANCELLING, self._on_cancel, undo)

    def _on_finished(self, real: Handler) -> Handler:
        """Return a handler with a parameter for each field, None by default.

        A handler of any fields copies them twice, which takes three times as many instructions.
        """
        scheduler, number_of, note = self._scheduler, self._numbers.get, self._rows.results.append
        give_up = self._give_up

        @functools.wraps(real)
        def finished(
            key: Any = None,
            worker: Any = None,
            stimulus_id: Any = None,
            run_id: Any = None,
            nbytes: Any = None,
            type: Any = None,
            typename: Any = None,
            metadata: Any = None,
            thread: Any = None,
            startstops: Any = None,
            status: Any = None,
            **more: Any,
        ) -> Any:
            try:
                number = number_of(id(scheduler.tasks.get(key)))
                if number is not None:
                    note((number, time(), startstops, nbytes, False))
            except Exception as error:
                give_up(error)
            call = functools.partial(real, **more) if more else real
            return call(
                key=key,
                worker=worker,
                stimulus_id=stimulus_id,
                run_id=run_id,
                nbytes=nbytes,
                type=type,
                typename=typename,
                metadata=metadata,
                thread=thread,
                startstops=startstops,
                status=status,
            )

        return finished

    def _on_end(self, real: Handler, *, is_error: bool = False) -> Handler:
        """Return a handler for an error, or for a release whose messages have other fields."""

        @functools.wraps(real)
        def ended(**message: Any) -> Any:
            self._note_end(message, 0 if is_error else message.get("nbytes"), is_error=is_error)
            return real(**message)

        return ended

    def _note_end(self, message: dict[str, Any], nbytes: int | None, *, is_error: bool) -> None:
        try:
            number = self._numbers.get(id(self._scheduler.tasks.get(message["key"])))
            if number is not None:
                startstops = message.get("startstops")
                self._rows.results.append((number, time(), startstops, nbytes, is_error))
        except Exception as error:
            self._give_up(error)

    def _on_release(self, real: Handler) -> Handler:
        note = self._note_release

        @functools.wraps(real)
        def release(keys: Any, client: Any, **more: Any) -> Any:
            note(client, keys)
            call = functools.partial(real, **more) if more else real
            return call(keys=keys, client=client)

        return release

    def _note_release(self, client: str, keys: Collection[Any]) -> None:
        try:
            state_of, number_of = self._scheduler.tasks.get, self._numbers.get
            now, note = time(), self._rows.releases.append
            for key in keys:
                number = number_of(id(state_of(key)))
                if number is not None:
                    note((now, client, number))
        except Exception as error:
            self._give_up(error)

    def _on_cancel(self, real: Handler) -> Handler:
        @functools.wraps(real)
        def cancel(**message: Any) -> Any:
            try:
                keys = self._with_dependents(message["keys"])
                self._note_release(message["client"], keys)
            except Exception as error:
                self._give_up(error)
            return real(**message)

        return cancel

    def _with_dependents(self, keys: Collection[Any]) -> list[Any]:
        """Return cancelled tasks with all that need them."""
        cancelled, waiting = dict.fromkeys(keys), list(keys)
        while waiting:
            state = self._scheduler.tasks.get(waiting.pop())
            more = [dependent.key for dependent in (state.dependents if state else ())]
            waiting += [key for key in more if key not in cancelled]
            cancelled |= dict.fromkeys(more)
        return list(cancelled)
