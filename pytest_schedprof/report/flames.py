"""The flame graphs of one backend on the page of a test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from msgspec import Struct, field

from pytest_schedprof.judge.owners import FOREIGN, PLUMBING, owner_of
from pytest_schedprof.judge.recordings import LEAST, Other, read_calls, read_samples, trimmed
from pytest_schedprof.model.backend import KnownBackends
from pytest_schedprof.model.profile import Function, Stack
from pytest_schedprof.model.result import BackendResult, SampledShares
from pytest_schedprof.report.tables import micros_per_sample


class CallTree(Struct, frozen=True):
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
    lead: Stack = ()
    """Calls that are left out, since they lead to most samples."""


class _Node(Struct):
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
    root, lead = _Node(-1, -1), _lead_of(stacks)
    for stack, count in stacks.items():
        _leaf(root, _below(lead, stack), count, numbers).own += count
    for stack, count in (before or {}).items():
        _leaf(root, _below(lead, stack), count, numbers).before += count
    nodes = list(_in_order(root))
    return CallTree(
        tuple(numbers),
        tuple(node.depth for node in nodes),
        tuple(node.name for node in nodes),
        tuple(node.own for node in nodes),
        tuple(node.before for node in nodes) if before is not None else (),
        lead,
    )


LED = 0.8
"""Part of all samples to which a call must lead to be left out."""


def _lead_of(stacks: Mapping[Stack, int]) -> Stack:
    """Return the calls from the start of a process to its event loop, which tell nothing."""
    lead: Stack = ()
    inside, least = stacks, LED * sum(stacks.values())
    while inside:
        depth, callees = len(lead), Counter[Function]()
        for stack, count in inside.items():
            callees[stack[depth]] += count
        function, count = callees.most_common(1)[0]
        if count < least or owner_of(function) not in PLUMBING:
            break
        lead = (*lead, function)
        inside = {
            stack: count
            for stack, count in inside.items()
            if stack[depth] == function and len(stack) > depth + 1
        }
    while lead and owner_of(lead[-1]) != "event-loop":
        lead = lead[:-1]
    return lead


def _below(lead: Stack, stack: Stack) -> Stack:
    """Return a stack without the calls of the lead, but never without its last call."""
    depth, most = 0, min(len(lead), len(stack) - 1)
    while depth < most and stack[depth] == lead[depth]:
        depth += 1
    return stack[depth:]


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


SCATTER_FROM = 0.02
"""Smallest share whose scatter is used; one minus it is the largest. Others scatter by chance."""

PARTS = 10_000
"""Parts of one in which shares are given: no sampler is more precise."""


class Flame(NamedTuple):
    """A flame graph on a page."""

    id: str
    content: dict[str, Any]
    """Data for the script."""
    before: str = ""
    """Name of the other side, if it is compared with one."""
    is_shortened: bool = False
    """Whether calls are left out, since they lead to most others."""


def flame(
    id: str,
    tree: CallTree,
    backend: BackendResult,
    other: BackendResult | None = None,
    name: str = "",
) -> Flame:
    """Return the flame graph of one backend's samples, alone or compared with another side."""
    assert backend.shares is not None
    content = {**_tree(tree), "bounds": _bounds(tree, backend.shares)}
    content |= {"cost": micros_per_sample(backend), "unit": "us", "isSampled": True}
    if other is not None:
        content |= {"before": list(tree.before), "costBefore": micros_per_sample(other)}
        content["scatter"] = max(_scatter(backend), _scatter(other))
    return Flame(id, content, name, is_shortened=bool(tree.lead))


def _scatter(backend: BackendResult) -> float:
    """Return the typical dispersion of shares, relative to independent samples."""
    functions = backend.shares.functions if backend.shares else ()
    dispersions = [
        function.share.dispersion
        for function in functions
        if SCATTER_FROM <= function.share.value <= 1 - SCATTER_FROM
    ]
    return round(median(dispersions), 2) if dispersions else 1.0


def _tree(tree: CallTree) -> dict[str, Any]:
    """Return the nodes and the names of their functions, with each module and owner listed once."""
    modules: dict[str, int] = {}
    owners: dict[str, int] = {}
    functions = []
    for function in tree.functions:
        module, _, name = function.partition(":")
        owner = owner_of(function)
        number = -1 if owner == FOREIGN else owners.setdefault(owner, len(owners))
        functions += [modules.setdefault(module, len(modules)), name, number]
    nodes = {"depth": list(tree.depths), "name": list(tree.names), "own": list(tree.own)}
    return {**nodes, "modules": list(modules), "owners": list(owners), "functions": functions}


def _bounds(tree: CallTree, shares: SampledShares) -> list[int]:
    """Return share, bounds and own share of each function; zeros if only the other side has it."""
    known = {
        share.function: (
            share.share.value,
            share.share.low,
            share.share.high,
            share.self_share.value,
        )
        for share in shares.functions
    }
    zeros = (0.0, 0.0, 0.0, 0.0)
    return [round(part * PARTS) for name in tree.functions for part in known.get(name, zeros)]


class Flames(Struct, frozen=True):
    """Draws the recordings in the directory of a test."""

    directory: Path
    other: Other | None
    """The other side, to compare with."""
    known: KnownBackends

    def of(self, id: str, backend: BackendResult) -> tuple[Flame | None, str]:
        """Return the flame graph of a backend, or why it has none."""
        return self._sampled(id, backend) if backend.shares else self._called(id, backend)

    def _sampled(self, id: str, backend: BackendResult) -> tuple[Flame | None, str]:
        mine = read_samples(self.directory, backend)
        if not mine.stacks:
            return None, mine.problem or "no busy sample of the scheduler"
        before = self.other.result.counterpart(backend) if self.other else None
        samples = self.other.recorded(before, self.known) if self.other and before else None
        tree = call_tree(mine.stacks, samples or None)
        if self.other and samples:
            return flame(id, tree, backend, before, self.other.name), ""
        return flame(id, tree, backend), ""

    def _called(self, id: str, backend: BackendResult) -> tuple[Flame | None, str]:
        """Return the flame graph of a backend that knows what calls cost; else nothing."""
        mine = read_calls(self.directory, backend, self.known)
        if not mine.stacks:
            return None, mine.problem
        before = self.other.result.counterpart(backend) if self.other else None
        calls = self.other.recorded(before, self.known) if self.other and before else None
        stacks = trimmed(mine.stacks, LEAST)
        tree = call_tree(stacks, trimmed(calls, LEAST) if calls else None)
        content = {**_tree(tree), "cost": mine.cost, "unit": mine.unit, "isSampled": False}
        if self.other and calls:
            content |= {"before": list(tree.before), "costBefore": mine.cost, "scatter": 0.0}
            return Flame(id, content, self.other.name, is_shortened=bool(tree.lead)), ""
        return Flame(id, content, is_shortened=bool(tree.lead)), ""
