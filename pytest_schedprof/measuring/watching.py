"""Backends that watch a scheduler under load: each is begun here, and what it returns ends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_schedprof.analysis.tally import tally_blocks, total
from pytest_schedprof.backends.builtin.cputime import CpuTimeBackend
from pytest_schedprof.backends.builtin.stalls import StallsBackend
from pytest_schedprof.model.profile import SampleProfile
from pytest_schedprof.remote.control import Control

PATIENCE_S = 600.0
SAMPLES_HZ = 250


def own_part(control: Control) -> Callable[[], float]:
    """Begin to sample; what ends that tells the scheduler's part of its process's CPU time."""
    backend = CpuTimeBackend(rate_hz=SAMPLES_HZ, options={})
    recording = backend.start(control, timeout_s=PATIENCE_S)

    def ended() -> float:
        content = recording.stop(timeout_s=PATIENCE_S).content
        profile = backend.read(content, control.name_places)
        assert isinstance(profile, SampleProfile)
        return total(tally_blocks(profile)).likely_part  # a round may be short

    return ended


def longest_stall(control: Control) -> Callable[[], tuple[float, str]]:
    """Begin to time callbacks; what ends that tells the longest one, and its function."""
    backend = StallsBackend(rate_hz=1, options={})
    recording = backend.start(control, timeout_s=PATIENCE_S)

    def ended() -> tuple[float, str]:
        content = recording.stop(timeout_s=PATIENCE_S).content
        profile: Any = backend.read(content, lambda places: [name for _, name, _ in places])
        stalls = {name: costs["stall"] for name, costs in profile.functions.items()}
        return float(profile.whole["stall"]), max(stalls, key=stalls.__getitem__, default="")

    return ended
