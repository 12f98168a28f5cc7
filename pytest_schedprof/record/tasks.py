"""What a file says of a task besides its number: its group, and what its client wants of it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

from dask.utils import key_split

from pytest_schedprof.model.workload import Group
from pytest_schedprof.record.rows import MOST_GROUPS, Numbered

NO_ANNOTATIONS: dict[str, Any] = {}

LETTERS = 10


class Groups:
    """Groups of the file by the scheduler's names; prefixes are kept, or replaced by letters."""

    def __init__(self, *, hashed: bool) -> None:
        self.hashed = hashed
        self.numbers = Numbered(MOST_GROUPS)
        self.names: dict[str, tuple[str, int | None]] = {}

    def of(self, state: Any) -> tuple[str, int | None]:
        """Return the prefix and the number of a task's group."""
        group = state.group
        name = group.name
        if (found := self.names.get(name)) is not None:
            return found
        prefix = self._prefix(group.prefix.name)
        number = None if name == group.prefix.name else self.numbers.of(name)
        if len(self.names) > MOST_GROUPS:
            self.names.clear()
        self.names[name] = prefix, number
        return prefix, number

    def _prefix(self, name: str) -> str:
        """Return the prefix, or letters in its place if dask would read another one from a key."""
        if not self.hashed and key_split(Group(name).key(1)) == name:
            return name
        digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=LETTERS).digest()
        return "".join(chr(ord("a") + byte % 26) for byte in digest)


def annotations_of(state: Any, scheduler: Any, workers: Numbered) -> dict[str, Any]:
    """Return what the client wants of a task; workers are numbers, no addresses."""
    priority, restricted = state.priority, state.worker_restrictions
    if not (
        (priority and priority[0])
        or state.retries
        or state.resource_restrictions
        or restricted
        or state.host_restrictions
    ):
        return NO_ANNOTATIONS
    found: dict[str, Any] = {}
    if priority and priority[0]:
        found["priority"] = -priority[0]
    if state.retries:
        found["retries"] = state.retries
    if state.resource_restrictions:
        found["resources"] = dict(state.resource_restrictions)
    allowed = {*(restricted or ()), *_on_hosts(scheduler, state.host_restrictions or ())}
    if allowed:
        found["workers"] = sorted(workers.of(each) for each in allowed)
    if state.loose_restrictions:
        found["allow_other_workers"] = True
    return found


def _on_hosts(scheduler: Any, hosts: Collection[str]) -> set[str]:
    """Return the workers that are on hosts now."""
    known = scheduler.host_info
    return {each for host in hosts if host in known for each in known[host]["addresses"]}
