"""Handlers of messages that note what they hear of workers and clients, and then do their work."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

from distributed.metrics import time
from distributed.worker_state_machine import TaskFinishedMsg

from pytest_schedprof.record.places import Places
from pytest_schedprof.record.rows import Rows

FINISHED, ERRED = "task-finished", "task-erred"
RELEASING, CANCELLING = "client-releases-keys", "cancel-keys"

FIELDS = frozenset(
    ("key", "run_id", "nbytes", "type", "typename", "metadata", "thread", "startstops")
)
"""Fields of a message about a finished task, in all releases that are known."""

Handler = Callable[..., Any]


class Hearing:
    """Notes ends of tasks and releases, as rows, while the handlers stand in the tables.

    What is called for each task does not call functions of Python, and is in no decorator.
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

    def begin(self, places: Places) -> None:
        """Wrap the handlers."""
        is_known = {*TaskFinishedMsg.__annotations__} == FIELDS
        handlers = self._scheduler.stream_handlers
        places.handler(handlers, FINISHED, self._on_finished if is_known else self._on_any_finished)
        places.handler(handlers, ERRED, self._on_erred)
        places.handler(handlers, RELEASING, self._on_release)
        places.handler(handlers, CANCELLING, self._on_cancel)

    def _on_finished(self, real: Handler) -> Handler:
        """Return a handler that names the fields; one that the message lacks is None.

        One that takes any fields and hands them on copies them twice, which takes three times as
        many instructions.
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

    def _on_any_finished(self, real: Handler) -> Handler:
        """Return the same for a release whose messages have other fields."""

        @functools.wraps(real)
        def finished(**message: Any) -> Any:
            self._note_end(message, message.get("nbytes"), is_error=False)
            return real(**message)

        return finished

    def _on_erred(self, real: Handler) -> Handler:
        @functools.wraps(real)
        def erred(**message: Any) -> Any:
            self._note_end(message, 0, is_error=True)
            return real(**message)

        return erred

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
        """Return tasks that are cancelled with all that need them."""
        found, waiting = dict.fromkeys(keys), list(keys)
        while waiting:
            state = self._scheduler.tasks.get(waiting.pop())
            more = [each.key for each in (state.dependents if state else ())]
            waiting += [key for key in more if key not in found]
            found |= dict.fromkeys(more)
        return list(found)
