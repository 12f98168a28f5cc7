"""Samples of the scheduler as a tree of calls, alone or beside those of another side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pytest_schedprof.analysis.owners import (
    COLLECTING,
    NOT_SCHEDULER,
    owner_of_stack,
    without_who_was_interrupted,
)
from pytest_schedprof.model.profile import Function, SampleProfile, Stack


@dataclass(frozen=True, slots=True)
class CallTree:
    """Nodes in the order in which a reader meets them: each before those that it called."""

    functions: tuple[Function, ...]
    depths: tuple[int, ...]
    """Of each node; roots have 0."""
    names: tuple[int, ...]
    """Of each node its function, as an index."""
    own: tuple[int, ...]
    """Of each node the samples that ended there."""
    before: tuple[int, ...] = ()
    """The same on the other side; empty where there is none."""


def busy_stacks(profiles: Iterable[SampleProfile]) -> Counter[Stack]:
    """How many busy samples of the scheduler there are of each stack: what shares are parts of."""
    found: Counter[Stack] = Counter()
    for profile in profiles:
        kept = [_kept(stack) for stack in profile.stacks]
        for thread in profile.threads:
            for index, count in Counter(thread.samples).items():
                stack = kept[index]
                if stack:
                    found[stack] += count
    return found


def _kept(stack: Stack) -> Stack:
    owner = owner_of_stack(stack)
    if owner in NOT_SCHEDULER:
        return ()
    return without_who_was_interrupted(stack) if owner == COLLECTING else stack


@dataclass(slots=True)
class _Node:
    name: int
    depth: int
    own: int = 0
    before: int = 0
    total: int = 0
    """On both sides."""
    children: dict[int, _Node] = field(default_factory=dict)


def call_tree(stacks: Mapping[Stack, int], before: Mapping[Stack, int] | None = None) -> CallTree:
    """Callees below callers, the heaviest first."""
    numbers: dict[Function, int] = {}
    root = _Node(-1, -1)
    for stack, count in stacks.items():
        _leaf(root, stack, count, numbers).own += count
    for stack, count in (before or {}).items():
        _leaf(root, stack, count, numbers).before += count
    nodes = list(_in_order(root))
    return CallTree(
        tuple(numbers),
        tuple(node.depth for node in nodes),
        tuple(node.name for node in nodes),
        tuple(node.own for node in nodes),
        tuple(node.before for node in nodes) if before is not None else (),
    )


def _leaf(root: _Node, stack: Stack, count: int, numbers: dict[Function, int]) -> _Node:
    node = root
    for function in stack:
        name = numbers.setdefault(function, len(numbers))
        child = node.children.get(name)
        if child is None:
            child = node.children[name] = _Node(name, node.depth + 1)
        child.total += count
        node = child
    return node


def _in_order(root: _Node) -> Iterator[_Node]:
    """Without recursion: stacks may be deeper than Python's own."""
    waiting = _lightest_first(root)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _lightest_first(node)


def _lightest_first(node: _Node) -> list[_Node]:
    return sorted(node.children.values(), key=lambda child: (child.total, -child.name))
