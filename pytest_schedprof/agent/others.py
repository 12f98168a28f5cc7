"""Tells other clients' tasks from our own, on a scheduler that we share with somebody."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

PREFIX = "schedprof-others-"
"""Of the plugin's name on the scheduler; the rest is our client."""

WORKERS_CLIENT = "Client-worker-"
"""One that a task asked for has this in its name; whose task it was cannot be known."""

NOBODYS = "fire-and-forget"
"""The scheduler's own name for who wants what no client wants any longer."""


class Others(SchedulerPlugin):
    """Counts what other clients' tasks do.

    At each transition it costs a look into a dictionary: a hundredth of the transition itself.
    """

    def __init__(self, scheduler: Any, client: str) -> None:
        self.client = client
        self.strangers = strangers(scheduler.clients, client)
        ours = wanted_by(scheduler.clients.keys() - self.strangers, scheduler)
        self.are_others: dict[Any, bool] = {key: key not in ours for key in scheduler.tasks}
        self.counts: Counter[str] = Counter()

    def update_graph(self, scheduler: Any, *, client: str, tasks: list[Any], **more: Any) -> None:
        """A task belongs to who first asked for it."""
        is_strange = self.is_strange(client)
        for key in tasks:
            self.are_others.setdefault(key, is_strange)

    def is_strange(self, client: str) -> bool:
        """Whether a client is another's; those that tasks make while we look on are ours."""
        if client in self.strangers:
            return True
        return not (client.startswith(WORKERS_CLIENT) or is_ours(client, self.client))

    def transition(self, key: Any, start: str, finish: str, *args: Any, **more: Any) -> None:
        """Keys that nobody submitted, as of scattered data, are taken for ours."""
        if self.are_others.get(key, False):
            self.counts["transitions"] += 1
            self.counts["tasks"] += finish in ("memory", "erred")
        if finish == "forgotten":
            self.are_others.pop(key, None)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Of a session that vanished nothing is left."""
        if client == self.client:
            stop(client, scheduler)


def strangers(clients: Iterable[str], mine: str) -> set[str]:
    """Clients that are not ours.

    Workers keep those that tasks asked for: they may be of an earlier window of ours, unless
    somebody else is there.
    """
    foreign = {name for name in clients if name != NOBODYS and not is_ours(name, mine)}
    is_shared = any(not name.startswith(WORKERS_CLIENT) for name in foreign)
    return foreign if is_shared else set()


def is_ours(client: str, mine: str) -> bool:
    """Whether a client lives in the process of mine, by what distributed writes into names."""
    return _origin(client) == _origin(mine)


def _origin(client: str) -> tuple[int, int] | str:
    """The machine and, but for its upper bits, the process."""
    try:
        written = uuid.UUID(client[-36:])
    except ValueError:
        return client
    return written.node, written.clock_seq


def wanted_by(clients: Iterable[str], scheduler: Any) -> set[Any]:
    """Keys that clients wait for, or that are needed for these."""
    keys: set[Any] = set()
    known = [scheduler.clients[name] for name in clients if name in scheduler.clients]
    found = [task for client in known for task in client.wants_what]
    while found:
        task = found.pop()
        if task.key not in keys:
            keys.add(task.key)
            found.extend(task.dependencies)
    return keys


def start(client: str, scheduler: Any) -> None:
    """Tell others' tasks from those of the client's process, from now on."""
    scheduler.add_plugin(Others(scheduler, client), name=PREFIX + client)


def stop(client: str, scheduler: Any) -> Counter[str]:
    """Leave nothing on the scheduler; what others' tasks did, by `tasks` and `transitions`."""
    plugin = scheduler.plugins.pop(PREFIX + client, None)
    return plugin.counts if plugin else Counter()
