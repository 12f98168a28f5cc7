"""Samples over time: how many ended in which node of the tree, slice by slice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pytest_schedprof.analysis.tally import busy_stack
from pytest_schedprof.model.profile import SampleProfile, Stack
from pytest_schedprof.pages.tree import CallTree

GRAINS = ((120, 0.0), (120, 0.001), (60, 0.002), (60, 0.005), (30, 0.01))
"""Numbers of slices, each with the part of all samples from which on a call is told apart; the
first that is small enough is taken."""

MOST_PAIRS = 4000
"""Pairs of a node and a count that a page holds: about four bytes each."""


class Slices(NamedTuple):
    """Slices of equal length, over all rounds one after the other."""

    samples: list[int]
    """Samples of each slice, idle ones too."""
    nodes: list[Counter[int]]
    """Busy samples of each slice, by the number of the node that they end in."""
    rounds: list[int]
    """Slices in which a later round begins."""

    @property
    def pairs(self) -> int:
        """Pairs of a node and a count in all slices."""
        return sum(map(len, self.nodes))


def slices_of(profiles: Sequence[SampleProfile], tree: CallTree) -> Slices | None:
    """Return as many slices as are small enough for a page; None if there is nothing to see.

    If the stacks are too many, rare calls are counted as their caller's own.
    """
    for count, least in GRAINS:
        found = _sliced(profiles, _nodes_of(tree, least), count)
        if found.pairs <= MOST_PAIRS:
            return found if sum(map(bool, found.nodes)) > 1 else None
    return None


def as_content(slices: Slices) -> dict[str, Any]:
    """Return slices for the script: nodes of a slice are pairs of a step in numbers and a count."""
    return {
        "samples": slices.samples,
        "rounds": slices.rounds,
        "nodes": [list(_steps(each)) for each in slices.nodes],
    }


def _steps(counts: Counter[int]) -> Iterator[int]:
    last = 0
    for node, count in sorted(counts.items()):
        yield from (node - last, count)
        last = node


def _nodes_of(tree: CallTree, least: float) -> dict[Stack, int]:
    """Return the node in which each stack ends, or the last one above it that is not rare."""
    totals = _totals(tree)
    smallest = least * sum(tree.own)
    found: dict[Stack, int] = {}
    path: list[tuple[str, int]] = []
    for number, (depth, name) in enumerate(zip(tree.depths, tree.names, strict=True)):
        is_kept = totals[number] >= smallest or not depth
        path[depth:] = [(tree.functions[name], number if is_kept else path[depth - 1][1])]
        if tree.own[number]:
            found[tuple(function for function, _ in path)] = path[-1][1]
    return found


def _totals(tree: CallTree) -> list[int]:
    """Return the samples of each node with those of its callees."""
    totals = list(tree.own)
    path: list[int] = []
    for number, depth in enumerate(tree.depths):
        path[depth:] = [number]
        for above in path[:-1]:
            totals[above] += tree.own[number]
    return totals


def _sliced(profiles: Sequence[SampleProfile], nodes: Mapping[Stack, int], count: int) -> Slices:
    """Return so many slices. As in blocks, samples of a thread are evenly spread over a round."""
    lengths = [max((len(each.samples) for each in p.threads), default=0) for p in profiles]
    found = Slices([0] * count, [Counter() for _ in range(count)], [])
    scale, start = count / max(1, sum(lengths)), 0
    for profile, length in zip(profiles, lengths, strict=True):
        if start:
            found.rounds.append(int(start * scale))
        _add(found, profile, nodes, start * scale, length * scale)
        start += length
    return found


def _add(
    found: Slices,
    profile: SampleProfile,
    nodes: Mapping[Stack, int],
    start: float,
    length: float,
) -> None:
    kept = [busy_stack(stack, profile.is_shared) for stack in profile.stacks]
    numbers = [nodes.get(each.stack, -1) if each else -1 for each in kept]
    for thread in profile.threads:
        step = length / max(1, len(thread.samples))
        for place, index in enumerate(thread.samples):
            at = min(int(start + place * step), len(found.samples) - 1)
            found.samples[at] += 1
            if numbers[index] >= 0:
                found.nodes[at][numbers[index]] += 1
