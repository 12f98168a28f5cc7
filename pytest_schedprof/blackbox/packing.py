"""Packs the ring, with all that is needed to write a run in another process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from types import CodeType
from typing import Any

from pytest_schedprof.agent import cputime, facts, names
from pytest_schedprof.agent.recordings import as_json
from pytest_schedprof.agent.stalls import place_of
from pytest_schedprof.blackbox.packed import VERSION, Origin, Request, as_packed
from pytest_schedprof.blackbox.slices import Line, Slice, end_of


def pack(slices: Sequence[Slice], request: Request, origin: Origin) -> bytes:
    """Return slices that have ended as compressed JSON."""
    samples = joined(slices, origin.interval)
    record = {
        "schedprof_blackbox": VERSION,
        "request": asdict(request),
        "origin": asdict(origin),
        "environment": facts.environment(),
        "slices": [_packed(each) for each in slices],
        "longest": _longest(slices),
        "samples": _speedscope(samples) if samples.order else None,
    }
    return as_packed(as_json(record))


def _packed(each: Slice) -> dict[str, Any]:
    return {
        "begun": asdict(each.begun),
        "ended": asdict(end_of(each)),
        "lag": each.lag,
        "stall": max((cpu for cpu, _ in each.stalls.values()), default=0.0),
        "samples": len(each.order),
        "events": [asdict(event) for event in each.events],
    }


def joined(slices: Sequence[Slice], interval: float) -> cputime.Samples:
    """Return the samples of all slices together."""
    joined = cputime.Samples("", interval, slices[0].begun.thread_cpu)
    for each in slices:
        joined.codes.update(each.codes)
        lines, stacks = list(each.lines), list(each.stacks)
        known = [
            joined.indexes.setdefault(_stack(stack, lines), len(joined.indexes)) for stack in stacks
        ]
        joined.order.extend(known[number] for number in each.order)
        joined.times.extend(each.times)
    return joined


def _stack(stack: bytes, lines: Sequence[Line]) -> tuple[Line, ...]:
    return tuple(lines[number] for number in memoryview(stack).cast("I"))


def _speedscope(samples: cputime.Samples) -> dict[str, Any]:
    """Return the samples in speedscope's format, and the function of each frame."""
    unit = cputime.unit_of(samples)
    file = cputime.speedscope(samples, list(cputime.ticks_of(samples, unit)), unit)
    frames = file["shared"]["frames"]
    named = names.name_places([(each["file"], each["name"], each["line"]) for each in frames])
    return {"file": file, "names": named}


def _longest(slices: Iterable[Slice]) -> dict[str, dict[str, float]]:
    """Return the longest stall of each function."""
    longest: dict[CodeType | None, tuple[float, float]] = {}
    for each in slices:
        for code, took in each.stalls.items():
            longest[code] = max(took, longest.get(code, took))
    known = [(code, *took) for code, took in longest.items() if code is not None]
    named = names.name_places([place_of(code) for code, _, _ in known])
    found: dict[str, dict[str, float]] = {}
    for name, (_, cpu, wall) in zip(named, known, strict=True):
        if cpu > found.get(name, {}).get("cpu", 0.0):
            found[name] = {"cpu": cpu, "wall": wall}
    return found
