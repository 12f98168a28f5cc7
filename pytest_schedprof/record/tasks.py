"""What a file says of tasks besides their numbers: groups, dependencies, and what clients want.

Graphs have many tasks, so what is done for each one is short.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from dask.utils import key_split

from pytest_schedprof.model.workload import Group
from pytest_schedprof.record.graphs import ACTOR
from pytest_schedprof.record.rows import MOST_GROUPS, Numbered

NO_ANNOTATIONS: dict[str, Any] = {}

LETTERS = 10

SECRET = 16
"""Bytes of a secret that nobody can guess."""


class Names:
    """Names that users gave, as the file has them: the same, or letters in their place.

    The letters are the same in all files of a recording. Without its secret, which is in none of
    them, nobody can try which name gives them.
    """

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        """Empty if names are kept."""

    def prefix(self, name: str) -> str:
        """Return a prefix, or letters too if dask would read another prefix from a key."""
        is_kept = not self.secret and key_split(Group(name).key(1)) == name
        return name if is_kept else self._letters(name)

    def resource(self, name: str) -> str:
        """Return the name of a resource."""
        return self._letters(name) if self.secret else name

    def _letters(self, name: str) -> str:
        text = name.encode("utf-8", "replace")
        digest = hashlib.blake2b(text, digest_size=LETTERS, key=self.secret).digest()
        return "".join(chr(ord("a") + byte % 26) for byte in digest)


class Groups:
    """Groups of the file by the scheduler's names."""

    def __init__(self, given: Names) -> None:
        self.given = given
        self.numbers = Numbered(MOST_GROUPS)
        self.names: dict[str, tuple[str, int | None]] = {}

    def column(
        self, states: Sequence[Any], number: Callable[[tuple[str, int | None]], int]
    ) -> list[int]:
        """Return what a function says of each task's group."""
        found, last, its = [], None, 0
        for state in states:
            if (group := state.group) is not last:
                last, its = group, number(self.of(group))
            found.append(its)
        return found

    def of(self, group: Any) -> tuple[str, int | None]:
        """Return the prefix and the number of a group of tasks."""
        name = group.name
        if (found := self.names.get(name)) is not None:
            return found
        prefix = self.given.prefix(group.prefix.name)
        number = None if name == group.prefix.name else self.numbers.of(name)
        if len(self.names) > MOST_GROUPS:
            self.names.clear()
        self.names[name] = prefix, number
        return prefix, number


def held_by(states: Sequence[Any]) -> list[Any]:
    """Return those of some tasks, and of those that they need, whose results are there."""
    needed = [each for state in states for each in state.dependencies if each.who_has]
    held = [state for state in states if state.who_has]
    return [*{id(each): each for each in [*held, *needed]}.values()]


def needed_by(
    states: Sequence[Any], ids: Sequence[int], numbers: Mapping[int, int]
) -> tuple[list[int], list[int]]:
    """Return how many tasks each one needs, and how far back the numbers of these are."""
    degrees, distances = [], []
    for number, state in zip(ids, states, strict=True):
        known = state.dependencies
        if known:
            known = [number - numbers[id(each)] for each in known if id(each) in numbers]
            distances += known
        degrees.append(len(known))
    return degrees, distances


def are_plain(states: Sequence[Any]) -> bool:
    """Whether no client wants anything of these tasks but their results."""
    return not any(
        [
            (state.priority and state.priority[0])
            or state.retries
            or state.resource_restrictions
            or state.worker_restrictions
            or state.host_restrictions
            or state.actor
            for state in states
        ]
    )


def annotations_of(state: Any, scheduler: Any, workers: Numbered, names: Names) -> dict[str, Any]:
    """Return what the client wants of a task; workers are numbers, no addresses."""
    priority, restricted = state.priority, state.worker_restrictions
    found: dict[str, Any] = {}
    if priority and priority[0]:
        found["priority"] = -priority[0]
    if state.retries:
        found["retries"] = state.retries
    if state.resource_restrictions:
        found["resources"] = {
            names.resource(name): amount for name, amount in state.resource_restrictions.items()
        }
    allowed = {*(restricted or ()), *_on_hosts(scheduler, state.host_restrictions or ())}
    if allowed:
        found["workers"] = sorted(workers.of(each) for each in allowed)
    if state.loose_restrictions:
        found["allow_other_workers"] = True
    if state.actor:
        found[ACTOR] = True
    return found


def _on_hosts(scheduler: Any, hosts: Collection[str]) -> set[str]:
    """Return the workers that are on hosts now."""
    known = scheduler.host_info
    return {each for host in hosts if host in known for each in known[host]["addresses"]}
