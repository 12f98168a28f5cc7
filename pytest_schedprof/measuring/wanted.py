"""What is measured of a scheduler's capacity: which work, on which clusters, of which sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from distributed import Client

from pytest_schedprof.model.capacity import Bounds

SIMULATED, VIRTUAL = "simulated", "virtual"

Work: TypeAlias = Callable[[Client], None]
Tell: TypeAlias = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SideSpec:
    """A scheduler that is measured."""

    name: str = ""
    interpreter: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to measure."""

    work: Callable[[int], Work]
    """Makes the work of a number of tasks."""
    workers: tuple[int, ...]
    threads: int
    tasks: int
    """Tasks of a round for each thread."""
    repeats: int
    """Clusters of each size."""
    sizes: tuple[int, ...] = ()
    """Numbers of workers to forecast; without any it is not counted what is done for each one."""
    sides: tuple[SideSpec, ...] = (SideSpec(),)
    options: Mapping[str, str] = field(default_factory=dict)
    kind: str = SIMULATED
    """Kind of the clusters."""
    with_stalls: bool = True
    """Whether to time the callbacks of the event loop, in a round of its own."""
    least_tasks: int = 1
    """Tasks that must end in each round."""
    is_sized: bool = True
    """Whether the number of tasks can be chosen: that of a recorded workload cannot."""
    bounds: Bounds | None = None
    """What the event loop must keep under a load that is raised; none not to raise it."""
