"""Data for the script that draws a flame graph, kept as small as possible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from pytest_schedprof.analysis.owners import FOREIGN, owner_of, side_of
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import BackendResult, FunctionShare, SampledShares
from pytest_schedprof.pages.slices import Slices, as_content
from pytest_schedprof.pages.tree import CallTree
from pytest_schedprof.presentation.functions import micros_per_sample

SCATTER_FROM = 0.02
"""Smallest share whose scatter is used; one minus it is the largest. Others scatter by chance."""

PARTS = 10_000
"""Parts of one in which shares are given: no sampler is more precise."""


@dataclass(frozen=True, slots=True)
class Flame:
    """A flame graph on a page."""

    id: str
    content: dict[str, Any]
    """Data for the script."""
    nodes: int
    is_difference: bool = False
    before: str = ""
    """Name of the other side."""
    of: str = ""
    """Whose samples they are, if they are not the scheduler's."""


def flame(
    id: str,
    tree: CallTree,
    backend: BackendResult,
    other: BackendResult | None = None,
    name: str = "",
) -> Flame:
    """Return the flame graph of one backend's samples, alone or compared with another side."""
    assert backend.shares is not None
    content: dict[str, Any] = {
        **_nodes(tree),
        **_names(tree),
        "bounds": _bounds(tree, backend.shares),
        "cost": micros_per_sample(backend),
        "unit": "us",
        "isSampled": True,
    }
    if other is not None:
        content |= {"before": list(tree.before), "costBefore": micros_per_sample(other)}
        content["scatter"] = max(_scatter(backend), _scatter(other))
    return Flame(id, content, len(tree.depths), other is not None, name)


def over_time(of: Flame, slices: Slices | None) -> Flame:
    """Return the flame graph with its samples over time, if there are any."""
    return replace(of, content={**of.content, "slices": as_content(slices)}) if slices else of


def counted_flame(
    id: str, tree: CallTree, unit: tuple[str, float], name: str | None = None
) -> Flame:
    """Return the flame graph of amounts per task, alone or compared with the side of a name.

    Args:
        id: of the figure.
        tree: with the amounts.
        unit: what the amounts stand for, and by which factor.
        name: of the other side.
    """
    metric, cost = unit
    content: dict[str, Any] = {
        **_nodes(tree),
        **_names(tree),
        "cost": cost,
        "unit": metric,
        "isSampled": False,
    }
    if name is not None:
        content |= {"before": list(tree.before), "costBefore": cost, "scatter": 1.0}
    return Flame(id, content, len(tree.depths), name is not None, name or "")


def flame_of_others(id: str, tree: CallTree, whose: str) -> Flame:
    """Return the flame graph of samples of other processes, which have no figures in the record."""
    content = {
        **_nodes(tree),
        **_names(tree, _owner_of_any),
        "cost": 0,
        "unit": "",
        "isSampled": True,
    }
    return Flame(id, content, len(tree.depths), of=whose)


def _scatter(backend: BackendResult) -> float:
    """Return the typical dispersion of shares, relative to independent samples."""
    functions = backend.shares.functions if backend.shares else ()
    found = [
        each.share.dispersion
        for each in functions
        if SCATTER_FROM <= each.share.value <= 1 - SCATTER_FROM
    ]
    return round(median(found), 2) if found else 1.0


def _nodes(tree: CallTree) -> dict[str, list[int]]:
    return {"depth": list(tree.depths), "name": list(tree.names), "own": list(tree.own)}


def _owner_of_any(function: Function) -> str:
    """Return `worker` or `client` too, which own none of the scheduler's samples."""
    return side_of(function) or owner_of(function)


def _names(tree: CallTree, owner_of: Callable[[Function], str] = owner_of) -> dict[str, list[Any]]:
    """Return the names of functions, with each module and owner listed once."""
    modules: dict[str, int] = {}
    owners: dict[str, int] = {}
    functions = []
    for function in tree.functions:
        module, _, name = function.partition(":")
        owner = owner_of(function)
        number = -1 if owner == FOREIGN else owners.setdefault(owner, len(owners))
        functions += [modules.setdefault(module, len(modules)), name, number]
    return {"modules": list(modules), "owners": list(owners), "functions": functions}


def _bounds(tree: CallTree, shares: SampledShares) -> list[int]:
    """Return share, bounds and own share of each function; zeros if only the other side has it."""
    known = {each.function: each for each in shares.functions}
    return [part for name in tree.functions for part in _parts(known.get(name))]


def _parts(found: FunctionShare | None) -> list[int]:
    if found is None:
        return [0, 0, 0, 0]
    share = found.share
    amounts = (share.value, share.low, share.high, found.self_share.value)
    return [round(amount * PARTS) for amount in amounts]
