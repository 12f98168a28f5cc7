"""The restart of a virtual cluster's scheduler: it dies with all it knows, and a new one comes up.

The new one is the same object, made anew by its `__init__`, at the same address. So what records it
goes on, and so do the session's own connections; all others break, as if a process had died.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from distributed import Scheduler
from distributed.comm.core import Comm
from distributed.core import Status

from pytest_schedprof.agent import facts
from pytest_schedprof.agent.decisions import WORLD
from pytest_schedprof.agent.task_stream import KEPT as TASK_STREAM
from pytest_schedprof.virtual.stories import names_at_work
from pytest_schedprof.virtual.turns import OWN

OUR_PLUGINS = "schedprof-"

STAYING = ("listeners", "services", "_address", "_listen_address", "ip", "handle_comm")
"""Attributes by which the scheduler can be reached, which the new one has too."""


class Restarts:
    """Lets the scheduler die, and another one take its place."""

    def __init__(self, scheduler: Scheduler, options: dict[str, Any]) -> None:
        """Take a scheduler that was not started, and the options it was made of."""
        self._scheduler: Any = scheduler
        self._options = {**options, "plugins": ()}
        self._handle = scheduler.handle_comm
        self._own: set[asyncio.Task[None]] = set()
        """Those that handle connections of the session."""
        self._waiting: list[Comm] = []
        """Connections that wait for a scheduler."""
        self.is_up = asyncio.Event()
        self.is_up.set()
        vars(scheduler)["handle_comm"] = self._admit

    def _admit(self, comm: Comm) -> Any:
        """Handle a connection, or let it wait until the scheduler is back."""
        if comm.remote_info.get(OWN):
            handling = asyncio.ensure_future(self._scheduler._handle_comm(comm))
            self._own.add(handling)
            handling.add_done_callback(self._own.discard)
        elif self.is_up.is_set():
            return self._handle(comm)
        else:
            self._waiting.append(comm)
        return _Nothing()

    def die(self) -> None:
        """End whatever the scheduler does, without a word to anybody.

        Its coroutines end in a scheduler without tasks, workers and clients. A process that dies
        does not let them end, so what they do last must concern nobody.
        """
        self.is_up.clear()
        facts.outlive(self._scheduler)
        comms = dict(self._scheduler._comms)
        working = [*self._scheduler._ongoing_background_tasks._ongoing_tasks, *self._requests()]
        self._stop()
        self._renew()
        self._scheduler._comms.update(comms)
        self._scheduler._is_finalizing = _yes
        for task in working:
            task.cancel()
        for comm in comms:
            if not comm.remote_info.get(OWN):
                comm.abort()

    async def rise(self) -> None:
        """Start a scheduler that knows nothing."""
        self._stop()
        self._renew()
        del self._scheduler._is_finalizing
        await self._scheduler.rpc.start()
        await self._scheduler.preloads.start()
        self._scheduler.start_periodic_callbacks()
        self.is_up.set()
        waiting, self._waiting = self._waiting, []
        for comm in waiting:
            self._handle(comm)

    def _requests(self) -> list[asyncio.Task[Any]]:
        """Return the tasks in which the scheduler handles what workers told it."""
        tasks = asyncio.all_tasks(asyncio.get_event_loop()) - self._own
        return [each for each in tasks if names_at_work([each])]

    def _stop(self) -> None:
        """Stop what a scheduler does from time to time."""
        for callback in self._scheduler.periodic_callbacks.values():
            callback.stop()
        for extension in self._scheduler.extensions.values():
            with suppress(AttributeError):
                extension.teardown()
        self._scheduler.monitor.close()

    def _renew(self) -> None:
        """Make it a new scheduler, but for its address and for what the session has there."""
        scheduler = self._scheduler
        kept = {name: vars(scheduler)[name] for name in STAYING}
        own = {each: op for each, op in scheduler._comms.items() if each.remote_info.get(OWN)}
        lines = {name: each for name, each in scheduler.client_comms.items() if each.comm in own}
        clients = {name: scheduler.clients[name] for name in lines if name in scheduler.clients}
        plugins = {name: each for name, each in scheduler.plugins.items() if self._is_our(name)}
        world = scheduler.extensions[WORLD]
        scheduler.start_http_server = _nothing
        Scheduler.__init__(scheduler, **self._options)
        del scheduler.start_http_server
        vars(scheduler).update(kept)
        scheduler._comms.update(own)
        scheduler.client_comms.update(lines)
        scheduler.clients.update(clients)
        scheduler.plugins.update(plugins)
        scheduler.extensions[WORLD] = world
        scheduler.status = Status.running

    def _is_our(self, name: str) -> bool:
        """Whether a plugin is one that records, or that a virtual cluster needs."""
        recorded = getattr(self._scheduler, TASK_STREAM, {}).get("plugin")
        return name.startswith(OUR_PLUGINS) or self._scheduler.plugins[name] is recorded


class _Nothing:
    """What a listener may await."""

    def __await__(self) -> Any:
        return iter(())


def _nothing(*args: Any, **keywords: Any) -> None:
    """Start no second server of HTTP."""


def _yes() -> bool:
    return True
