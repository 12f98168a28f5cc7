"""What the script of a flame graph is given: as little as it can draw from."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import Any

from pytest_schedprof.analysis.owners import FOREIGN, owner_of
from pytest_schedprof.model.result import BackendResult, FunctionShare, SampledShares
from pytest_schedprof.pages.tree import CallTree

HOT = 0.02
"""Of functions with a smaller share, or with nearly all, the scatter is chance itself."""

PARTS = 10_000
"""Shares are told as hundredths of a percent: no sampler knows more."""


@dataclass(frozen=True, slots=True)
class Flame:
    """A flame graph on a page."""

    id: str
    content: dict[str, Any]
    """For the script."""
    nodes: int
    is_difference: bool = False
    before: str = ""
    """What the other side is called."""


def flame(
    id: str,
    tree: CallTree,
    backend: BackendResult,
    other: BackendResult | None = None,
    name: str = "",
) -> Flame:
    """Of one backend's samples, beside those of another side if there are any."""
    assert backend.shares is not None
    content: dict[str, Any] = {
        **_nodes(tree),
        **_names(tree),
        "bounds": _bounds(tree, backend.shares),
        "cost": micros_per_sample(backend),
    }
    if other is not None:
        content |= {"before": list(tree.before), "costBefore": micros_per_sample(other)}
        content["scatter"] = max(_scatter(backend), _scatter(other))
    return Flame(id, content, len(tree.depths), other is not None, name)


def _scatter(backend: BackendResult) -> float:
    """By how much shares strayed beyond what independent samples would, of the hotter functions."""
    functions = backend.shares.functions if backend.shares else ()
    found = [each.share.dispersion for each in functions if HOT <= each.share.value <= 1 - HOT]
    return round(median(found), 2) if found else 1.0


def micros_per_sample(backend: BackendResult) -> float:
    """CPU time per task that a sample stands for; 0 where there were no tasks."""
    shares, cost = backend.shares, backend.window.cpu_us_per_task
    if shares is None or cost is None:
        return 0.0
    samples = shares.busy_samples + shares.idle_samples + shares.empty_samples
    return round(cost / max(1, samples), 6)


def _nodes(tree: CallTree) -> dict[str, list[int]]:
    return {"depth": list(tree.depths), "name": list(tree.names), "own": list(tree.own)}


def _names(tree: CallTree) -> dict[str, list[Any]]:
    """Each module once, for there are many functions in it."""
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
    """Of each function its share, bounds and own share; nothing of what only the other side has."""
    known = {each.function: each for each in shares.functions}
    return [part for name in tree.functions for part in _parts(known.get(name))]


def _parts(found: FunctionShare | None) -> list[int]:
    if found is None:
        return [0, 0, 0, 0]
    share = found.share
    amounts = (share.value, share.low, share.high, found.self_share.value)
    return [round(amount * PARTS) for amount in amounts]
