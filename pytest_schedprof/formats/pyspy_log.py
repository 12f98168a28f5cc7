"""What py-spy's log tells: failed samples, delays, and why it ended."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pytest_schedprof.errors import RecordingError

MAX_ERROR_SHARE = 0.5
"""Fraction of failed samples above which a profile is refused."""

NOTED_ERROR_SHARE = 0.05
"""Fraction of failed samples above which a profile has a warning."""

_ERROR = re.compile(r"error:|reason:|\d+: (?!.*::)|thread .* panicked", re.IGNORECASE)
_NOISE = re.compile(r"Visit https:|Press Control-C")
_COUNTS = re.compile(r"Samples: (\d+) Errors: (\d+)")
_BEHIND = re.compile(r"([\d.]+)s behind in sampling")


def quality(log: str) -> list[str]:
    """Return warnings from py-spy's log; raise RecordingError if too many samples failed."""
    warnings = []
    if counts := _COUNTS.search(log):
        samples, errors = map(int, counts.groups())
        if errors > MAX_ERROR_SHARE * (samples + errors):
            raise RecordingError(
                f"schedprof: py-spy failed at {errors} of {samples + errors} samples; its profile "
                "is not to be trusted: lower the rate, or leave out nonblocking"
            )
        if errors > NOTED_ERROR_SHARE * (samples + errors):
            warnings.append(f"py-spy failed at {errors} of {samples + errors} samples")
    return warnings


def kept_hz(rate_hz: float, answer: Mapping[str, Any]) -> float:
    """Return the samples per second that py-spy kept up with, at least one.

    When it last told how late it was, it had taken the samples that were due so long before. Nor
    can it have sampled a busy thread more often than it has samples for the thread's CPU time: that
    is the better bound at rates far above.
    """
    told_after: float = max(answer["told_after"], 1e-3)
    cpu: float = max(answer["cpu"], 1e-3)
    counts = _COUNTS.search(answer["log"])
    samples = int(counts[1]) if counts else 0
    on_time = 1 - behind(answer["log"]) / told_after
    return max(1.0, min(rate_hz * on_time, samples / cpu))


def behind(log: str) -> float:
    """Return the largest delay in seconds that py-spy reported, or 0."""
    return max(map(float, _BEHIND.findall(log)), default=0.0)


def reason(log: str) -> str:
    """Return the lines of py-spy's log that say what went wrong and why."""
    lines = [line.strip() for line in log.splitlines() if line.strip() and not _NOISE.search(line)]
    errors = [line for line in lines if _ERROR.match(line)]
    return "; ".join(dict.fromkeys(errors)) or " ".join(lines[-1:])
