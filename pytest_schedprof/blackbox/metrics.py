"""Figures of the ring on the scheduler's own page for Prometheus."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pytest_schedprof.agent.names import name_places
from pytest_schedprof.agent.stalls import place_of
from pytest_schedprof.analysis.owners import NOT_SCHEDULER, owner_of_stack
from pytest_schedprof.blackbox.slices import Slice, end_of

if TYPE_CHECKING:
    from pytest_schedprof.blackbox.box import BlackBox

COST = "cost_per_task_seconds"
STALL = "longest_stall_seconds"
LAG = "longest_lag_seconds"
SHARE = "owner_share"
WRITTEN = "runs_written"
SUBSYSTEM = "schedprof"


class Collector:
    """Gives the figures when the page is asked for; what slices hold is counted once."""

    def __init__(self, box: BlackBox, prefix: str) -> None:
        self.box, self.prefix = box, prefix
        self.owners: dict[int, Counter[str]] = {}
        """Samples of each slice in the ring by owner, by its `id`."""

    def collect(self) -> Iterator[Any]:
        """Yield all figures; the library calls this in the thread of the loop."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        slices = list(self.box.ring.ended)
        for name, text, value in (
            (COST, "CPU seconds of the scheduler for each task", cost_per_task(slices)),
            (STALL, "CPU seconds of the longest callback of the loop", longest_stall(slices)),
            (LAG, "Seconds by which the loop was late", max((s.lag for s in slices), default=0.0)),
        ):
            yield GaugeMetricFamily(self.prefix + name, f"{text}, in the last minutes", value=value)
        shares = GaugeMetricFamily(
            self.prefix + SHARE, "Share of the scheduler's work, lately", labels=["owner"]
        )
        for owner, share in sorted(self.shares(slices).items()):
            shares.add_metric([owner], share)
        yield shares
        yield CounterMetricFamily(
            self.prefix + WRITTEN, "Runs that the black box wrote", value=self.box.written
        )

    def shares(self, slices: Sequence[Slice]) -> dict[str, float]:
        """Return the share of each owner in the samples of work."""
        self.owners = {id(each): self.owners.get(id(each)) or owners_of(each) for each in slices}
        counts = sum(self.owners.values(), Counter[str]())
        total = counts.total()
        return {owner: count / total for owner, count in counts.items()}


def cost_per_task(slices: Sequence[Slice]) -> float:
    """Return the CPU seconds for each task; nothing if there was no task."""
    if not slices:
        return 0.0
    begun, ended = slices[0].begun, end_of(slices[-1])
    tasks = ended.tasks - begun.tasks
    return (ended.cpu - begun.cpu) / tasks if tasks else 0.0


def longest_stall(slices: Sequence[Slice]) -> float:
    """Return the CPU seconds of the longest one."""
    return max((cpu for each in slices for cpu, _ in each.stalls.values()), default=0.0)


def owners_of(ended: Slice) -> Counter[str]:
    """Count the samples of a slice by owner, without those in which others worked."""
    codes = list(ended.codes.values())
    named = dict(zip(ended.codes, name_places([place_of(each) for each in codes]), strict=True))
    functions = [named[code] for code, _ in ended.lines]
    owners = [
        owner_of_stack(tuple(functions[number] for number in reversed(memoryview(stack).cast("I"))))
        for stack in ended.stacks
    ]
    counts = Counter(owners[number] for number in ended.order)
    return Counter({owner: n for owner, n in counts.items() if owner not in NOT_SCHEDULER})


def registry() -> Any:
    """Return where the scheduler's page takes its figures from; None if it has no such page."""
    library = sys.modules.get("prometheus_client")  # dask has loaded it, if it is installed
    return getattr(library, "REGISTRY", None)


def publish(box: BlackBox) -> Collector | None:
    """Add the figures to the page; None if there is no page."""
    import dask

    if registry() is None:
        return None
    namespace = dask.config.get("distributed.dashboard.prometheus.namespace", "dask")
    collector = Collector(box, "".join(f"{each}_" for each in (namespace, SUBSYSTEM) if each))
    registry().register(collector)
    return collector


def withdraw(collector: Collector | None) -> None:
    """Take the figures from the page."""
    if collector is not None:
        registry().unregister(collector)
