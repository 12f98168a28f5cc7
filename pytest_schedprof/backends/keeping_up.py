"""How many samples a second a sampler takes of a scheduler that is busy all the time."""

from __future__ import annotations

from pytest_schedprof.agent import busy
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.formats.speedscope import count_samples
from pytest_schedprof.remote.contract import Target

BUSY_S = 0.5
"""How long the target is kept busy: 90 samples of a sampler that takes 180 a second."""


def measure_kept_rate(hasty: Backend, target: Target, *, timeout_s: float) -> float:
    """Keep the target busy for a moment, and return the samples per second that show it.

    Args:
        hasty: a backend that writes speedscope and is asked for more than it can keep up with.
        target: a process that nobody else needs meanwhile.
        timeout_s: for the start and the end of the recording.
    """
    recording = hasty.start(target, timeout_s=timeout_s)
    seconds: float = target.call(busy.keep_busy, BUSY_S, timeout_s=timeout_s)
    content = recording.stop(timeout_s=timeout_s).content
    code = busy.keep_busy.__code__
    return count_samples(content, code.co_name, code.co_filename) / seconds
