"""Reads what a worker's threads did from dask's own profile of them, by prefix and over time.

A worker ends its profile once a second. Here it is ended at the begin and at the end of a test,
too: then what lies between is whole, and nothing else's.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

SAMPLER, CYCLE = "profile", "profile-cycle"
"""dask's names of what takes a sample, and of what ends a profile."""


def begin(intervals: dict[str, float], dask_worker: Any = None) -> dict[str, Any] | None:
    """End the profile so far, and set how often to sample, in milliseconds.

    Returns:
        When, and the intervals as they were; None for a worker that has no profile.
    """
    callbacks = getattr(dask_worker, "periodic_callbacks", {})
    if SAMPLER not in callbacks or not hasattr(dask_worker, "cycle_profile"):
        return None
    before = {name: callbacks[name].callback_time for name in (SAMPLER, CYCLE)}
    reset(intervals, dask_worker)
    dask_worker.cycle_profile()
    return {"ended": dask_worker.profile_keys_history[-1][0], "before": before}


def restore(before: dict[str, dict[str, float]], dask_worker: Any = None) -> None:
    """Sample as before, given by worker."""
    reset(before.get(dask_worker.address, {}), dask_worker)


def reset(intervals: dict[str, float], dask_worker: Any = None) -> None:
    """Set how often to sample, in milliseconds; it holds from the next sample on."""
    for name, milliseconds in intervals.items():
        dask_worker.periodic_callbacks[name].callback_time = milliseconds


def tell(ended: dict[str, float], dask_worker: Any = None) -> dict[str, Any] | None:
    """Return each profile since then, by prefix; None for a worker that has none.

    Args:
        ended: the time at which the profile before ended, by worker; all are told if it is not
            there.
    """
    if not hasattr(dask_worker, "cycle_profile"):
        return None
    dask_worker.cycle_profile()
    mark, history = ended.get(dask_worker.address), dask_worker.profile_keys_history
    since = list(takewhile(lambda entry: entry[0] != mark, reversed(history)))[::-1]
    ends = [when for when, _ in since]
    is_whole = mark is None or len(since) < len(history)  # else the one before the test is gone
    starts = [mark if mark and is_whole else ends[0], *ends]
    return {
        "name": str(dask_worker.name),
        "is_whole": is_whole,
        "intervals": {
            name: dask_worker.periodic_callbacks[name].callback_time
            for name in (SAMPLER, CYCLE)
            if name in dask_worker.periodic_callbacks
        },
        "profiles": [
            (start, when, profiles)
            for start, (when, profiles) in zip(starts, since, strict=False)
            if profiles
        ],
    }
