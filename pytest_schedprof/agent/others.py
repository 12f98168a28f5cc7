"""Distinguishes other clients' tasks from our own, on a scheduler that is shared."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable
from typing import Any

from distributed.diagnostics.plugin import SchedulerPlugin

PREFIX = "schedprof-others-"
"""Prefix of the plugin's name on the scheduler; our client's name follows."""

WORKERS_CLIENT = "Client-worker-"
"""Prefix of clients that tasks created; whose task it was is not known."""

NOBODYS = "fire-and-forget"
"""The scheduler's own pseudo-client, which wants tasks that no client wants any longer."""


class Others(SchedulerPlugin):
    """Counts tasks and transitions of other clients.

    It costs a dictionary lookup at each transition: a hundredth of the transition itself.
    """

    def __init__(self, scheduler: Any, client: str) -> None:
        self.client = client
        self.strangers = strangers(scheduler.clients, client)
        ours = wanted_by(scheduler.clients.keys() - self.strangers, scheduler)
        self.are_others: dict[Any, bool] = {key: key not in ours for key in scheduler.tasks}
        self.counts: Counter[str] = Counter()

    def update_graph(self, scheduler: Any, *, client: str, tasks: list[Any], **more: Any) -> None:
        """Assign new tasks to the client that first submitted them."""
        is_strange = self.is_strange(client)
        for key in tasks:
            self.are_others.setdefault(key, is_strange)

    def is_strange(self, client: str) -> bool:
        """Whether a client is not ours; those that tasks create during the window are ours."""
        if client in self.strangers:
            return True
        return not (client.startswith(WORKERS_CLIENT) or is_ours(client, self.client))

    def transition(self, key: Any, start: str, finish: str, *args: Any, **more: Any) -> None:
        """Count a transition of others. Keys that nobody submitted (scattered data) are ours."""
        if self.are_others.get(key, False):
            self.counts["transitions"] += 1
            self.counts["tasks"] += finish in ("memory", "erred")
        if finish == "forgotten":
            self.are_others.pop(key, None)

    def remove_client(self, scheduler: Any, client: str) -> None:
        """Remove this plugin when its client disconnects."""
        if client == self.client:
            stop(client, scheduler)


def strangers(clients: Iterable[str], mine: str) -> set[str]:
    """Return the clients that are not ours.

    Workers keep clients that tasks created. These may be from an earlier window of ours, unless
    somebody else uses the scheduler too.
    """
    foreign = {name for name in clients if name != NOBODYS and not is_ours(name, mine)}
    is_shared = any(not name.startswith(WORKERS_CLIENT) for name in foreign)
    return foreign if is_shared else set()


def is_ours(client: str, mine: str) -> bool:
    """Whether a client is in the same process as mine, by the UUID in its name."""
    return _origin(client) == _origin(mine)


def _origin(client: str) -> tuple[int, int] | str:
    """Return the machine and the lower bits of the process ID from a client's name."""
    try:
        written = uuid.UUID(client[-36:])
    except ValueError:
        return client
    return written.node, written.clock_seq


def wanted_by(clients: Iterable[str], scheduler: Any) -> set[Any]:
    """Return keys that clients want, and those that these depend on."""
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
    """Add the plugin that counts tasks of clients in other processes."""
    scheduler.add_plugin(Others(scheduler, client), name=PREFIX + client)


def stop(client: str, scheduler: Any) -> Counter[str]:
    """Remove the plugin; return the `tasks` and `transitions` of others."""
    plugin = scheduler.plugins.pop(PREFIX + client, None)
    return plugin.counts if plugin else Counter()
