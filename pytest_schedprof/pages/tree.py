"""Samples of the scheduler as a call tree, alone or merged with those of another side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pytest_schedprof.analysis.tally import busy_stack
from pytest_schedprof.model.profile import Function, SampleProfile, Stack


@dataclass(frozen=True, slots=True)
class CallTree:
    """Nodes in depth-first order: each before the nodes that it called."""

    functions: tuple[Function, ...]
    depths: tuple[int, ...]
    """Depth of each node; roots have 0."""
    names: tuple[int, ...]
    """Index of each node's function."""
    own: tuple[int, ...]
    """Number of samples that end in each node."""
    before: tuple[int, ...] = ()
    """Number of samples of the other side that end in each node; empty without another side."""


def busy_stacks(profiles: Iterable[SampleProfile]) -> Counter[Stack]:
    """Count the busy samples of the scheduler by stack; shares are fractions of their sum."""
    found: Counter[Stack] = Counter()
    for profile in profiles:
        kept = [busy_stack(stack, profile.is_shared) for stack in profile.stacks]
        for thread in profile.threads:
            for index, count in Counter(thread.samples).items():
                if busy := kept[index]:
                    found[busy.stack] += count
    return found


def trimmed(stacks: Mapping[Stack, int], least: float) -> Counter[Stack]:
    """Count calls below a part of the whole as their caller's own, so that a page stays small."""
    held: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        for depth in range(1, len(stack) + 1):
            held[stack[:depth]] += count
    smallest = least * sum(stacks.values())
    found: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        depth = len(stack)
        while depth > 1 and held[stack[:depth]] < smallest:
            depth -= 1
        found[stack[:depth]] += count
    return found


@dataclass(slots=True)
class _Node:
    name: int
    depth: int
    own: int = 0
    before: int = 0
    total: int = 0
    """Samples of both sides that contain the node."""
    children: dict[int, _Node] = field(default_factory=dict)


def call_tree(stacks: Mapping[Stack, int], before: Mapping[Stack, int] | None = None) -> CallTree:
    """Merge stacks to a tree, with the children of a node in order of their samples."""
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
    """Return all nodes; not recursive, because stacks may be deeper than Python's own limit."""
    waiting = _lightest_first(root)
    while waiting:
        node = waiting.pop()
        yield node
        waiting += _lightest_first(node)


def _lightest_first(node: _Node) -> list[_Node]:
    return sorted(node.children.values(), key=lambda child: (child.total, -child.name))
