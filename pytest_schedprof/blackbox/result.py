"""Makes the record of a test from a packed ring: the ring is its window, a slice a segment."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

import msgspec

from pytest_schedprof import __version__
from pytest_schedprof.analysis.costs import Costs, Unit, unit_of
from pytest_schedprof.analysis.shares import shares_of
from pytest_schedprof.analysis.student import CONFIDENCE
from pytest_schedprof.backends.builtin.cputime import CpuTimeBackend
from pytest_schedprof.backends.builtin.stalls import StallsBackend
from pytest_schedprof.formats.frames import name_frames
from pytest_schedprof.formats.speedscope import read_speedscope
from pytest_schedprof.model.environment import ClusterFacts, Environment
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.profile import CostProfile
from pytest_schedprof.model.result import BackendResult, Result, Segment, Window
from pytest_schedprof.storage.rings import KIND

SAMPLES_FILE = f"scheduler.{CpuTimeBackend.artifacts[0].ending}"
SLICES_FILE = "blackbox.json"

SAMPLED = "sampled"
"""Mode of stalls that were not timed."""

Record = Mapping[str, Any]
"""A ring, unpacked."""


def result_of(record: Record) -> Result:
    """Return the record of a test."""
    began = datetime.fromtimestamp(record["slices"][0]["begun"]["at"], timezone.utc)
    return Result(
        test_id=f"blackbox[{record['request']['kind']}]",
        outcome="passed",
        started_at=began.isoformat(),
        cluster=_cluster(record),
        environment=_environment(record),
        confidence=CONFIDENCE,
        schedprof_version=__version__,
        backends=tuple(_backends(record)),
        evidence=(_evidence(record),),
    )


def samples_of(record: Record) -> bytes:
    """Return the samples as a speedscope file; empty without samples."""
    samples = record["samples"]
    return msgspec.json.encode(samples["file"]) if samples else b""


def slices_of(record: Record) -> bytes:
    """Return all figures of the slices as JSON."""
    kept = {name: record[name] for name in ("request", "origin", "longest", "slices")}
    return msgspec.json.format(msgspec.json.encode(kept), indent=1)


def _backends(record: Record) -> Iterator[BackendResult]:
    window = Window(1, tuple(_segment(each) for each in record["slices"]))
    told = {
        "cpu": window.cpu_seconds,
        "transitions": float(sum(each.transitions for each in window.segments)),
    }
    if record["samples"]:
        yield _sampled(record, window, unit_of(window.tasks, told, []))
    yield _stalled(record, window, told)


def _segment(each: Record) -> Segment:
    begun, ended = each["begun"], each["ended"]
    return Segment(
        seconds=max(0.0, ended["at"] - begun["at"]),
        cpu_seconds=ended["cpu"] - begun["cpu"],
        tasks=ended["tasks"] - begun["tasks"],
        transitions=max(0, ended["transitions"] - begun["transitions"]),
    )


def _sampled(record: Record, window: Window, unit: Unit) -> BackendResult:
    names = record["samples"]["names"]
    profile = name_frames(
        read_speedscope(samples_of(record)),
        lambda places: names,
        backend=CpuTimeBackend.name,
        mode="",
        is_held_back=True,
        is_of_cpu=True,
    )
    shares = shares_of([[profile]], drift=CpuTimeBackend.drift, whole=Costs([unit]))
    return BackendResult(
        backend=CpuTimeBackend.name,
        mode="",
        settings={"rate_hz": 1 / record["origin"]["interval"]},
        window=window,
        shares=shares.sampled(),
        costs=None,
        limits=(),
        artifacts=(SAMPLES_FILE,),
        warnings=(why(record),),
    )


def _stalled(record: Record, window: Window, told: dict[str, float]) -> BackendResult:
    slices = record["slices"]
    functions = {
        name: {"stall": each["cpu"], "stall_wall": each["wall"]}
        for name, each in record["longest"].items()
    }
    whole = {
        "stall": max(each["stall"] for each in slices),
        "stall_wall": max(each["lag"] for each in slices),
    }
    unit = unit_of(window.tasks, told, [CostProfile(StallsBackend.name, SAMPLED, functions, whole)])
    return BackendResult(
        backend=StallsBackend.name,
        mode=SAMPLED,
        settings={},
        window=window,
        shares=None,
        costs=Costs([unit]).measured(),
        limits=(),
        artifacts=(),
        warnings=(why(record),),
    )


def why(record: Record) -> str:
    """Return why it was written, in words."""
    return f"written because {record['request']['why']}"


def _cluster(record: Record) -> ClusterFacts:
    last = record["slices"][-1]["ended"]
    return ClusterFacts("attached", record["origin"]["address"], last["workers"], last["threads"])


def _environment(record: Record) -> Environment:
    there = record["environment"]
    return Environment(
        python=there["python"],
        platform=platform.platform(),
        machine=platform.machine(),
        cpu_count=os.cpu_count() or 1,
        scheduler_python=there["python"],
        scheduler_platform=there["platform"],
        versions=there["versions"],
        test_versions=there["versions"],
        scheduler_machine=there["machine"],
        configuration=there["configuration"],
        hash_seed=there["hash_seed"],
        test_hash_seed=there["hash_seed"],
        event_loop=record["origin"]["event_loop"],
        compiled=tuple(there.get("compiled", ())),
    )


def _evidence(record: Record) -> Evidence:
    """Return the figures of the slices as a kind of evidence."""
    missing = record["origin"]["no_samples"]
    notes = (f"no samples: {missing}",) if missing else ()
    what = "tasks, CPU time, memory, messages and lags, ten seconds by ten"
    return Evidence(KIND, (SLICES_FILE,), notes, description=what)
