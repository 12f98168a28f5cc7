"""A ring of a black box, made by hand."""

from __future__ import annotations

from dataclasses import replace

from pytest_schedprof.model.ring import Event, Figures, KeptRing, RingSlice

BEGUN = 1.7e9  # 22:13:20 UTC


def figures(at: float, tasks: int = 0, cpu: float = 0.0, messages: int = 0) -> Figures:
    return Figures(
        at=BEGUN + at,
        cpu=1.5 * cpu,
        thread_cpu=cpu,
        tasks=tasks,
        transitions=5 * tasks,
        rss=80_000_000 + tasks,
        workers=4,
        threads=8,
        clients=1,
        sent=2 * messages,
        batches=messages,
        received={"task-finished": messages, "heartbeat": messages},
    )


def ring_of(*at: Figures, lags: tuple[float, ...] = (), events: tuple[Event, ...] = ()) -> KeptRing:
    """A ring between some moments; the events are in its last slice."""
    lags = lags or (0.0,) * (len(at) - 1)
    slices = [
        RingSlice(begun, ended, lag, lag / 2)
        for begun, ended, lag in zip(at, at[1:], lags, strict=False)
    ]
    slices[-1] = replace(slices[-1], events=events)
    return KeptRing(tuple(slices))


RING = ring_of(
    figures(0),
    figures(10, tasks=1000, cpu=5.0, messages=300),
    figures(20, tasks=1500, cpu=6.0, messages=400),
    lags=(0.4, 0.1),
    events=(Event(BEGUN + 15, "stall", "spin took 1 s"), Event(BEGUN + 20, "asked", "by me")),
)
