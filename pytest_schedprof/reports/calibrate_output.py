"""Output of `schedprof calibrate` as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from pytest_schedprof.analysis.costs import DRIFT
from pytest_schedprof.comparison.policy import DEFAULT_POLICY
from pytest_schedprof.model.calibration import (
    Alarms,
    BackendCalibration,
    Calibration,
    Calibrations,
    Detectable,
    Spread,
)

UNSTEADY_SHOWN = 8
"""Functions with different counts that are named."""


def as_json(calibration: Calibration) -> str:
    """Return the calibration in the format of its file."""
    content = msgspec.json.encode(Calibrations((calibration,)))
    return msgspec.json.format(content, indent=2).decode()


def as_text(calibration: Calibration, file: str) -> str:
    """Return the text, with a paragraph for each backend."""
    return "\n".join(_lines(calibration, file))


def _lines(calibration: Calibration, file: str) -> Iterator[str]:
    yield (
        f"{calibration.machine}, Python {calibration.python}, distributed {calibration.distributed}"
    )
    yield (
        f"{calibration.workload} on {calibration.clusters} {calibration.cluster} clusters of "
        f"{calibration.workers} workers, one after the other, in {calibration.seconds:g} s"
    )
    for each in calibration.backends:
        yield ""
        yield from _of_backend(each, calibration.seconds)
    yield ""
    yield f"saved in {file}; comparisons of tests on {calibration.cluster} clusters use it"


def _of_backend(found: BackendCalibration, seconds: float) -> Iterator[str]:
    mode = f" ({found.mode})" if found.mode else ""
    samples = f", {found.samples:.0f} busy samples" if found.samples else ""
    yield (
        f"{found.backend}{mode}: {found.windows} windows of {found.tasks} tasks{samples}, "
        f"{found.seconds:.1f} s each"
    )
    yield from map(_alarms, found.alarms)
    if found.cpu:
        yield (
            f"  CPU time per task varies by {_spread(found.cpu)}; "
            f"{DRIFT:.0%} is assumed without calibration"
        )
    if found.drift:
        yield f"  shares drift by {_spread(found.drift)} of sqrt(p (1 - p))"
    yield from _detectables(found, seconds)
    if found.functions:
        yield from _counted(found)


def _alarms(alarms: Alarms) -> str:
    what = "single windows" if alarms.rounds == 1 else f"{alarms.rounds} rounds on each side"
    if not alarms.comparisons:
        return (
            f"  false alarms, {what}: no comparison, because there were too few windows or samples"
        )
    return (
        f"  false alarms, {what}: {alarms.alarms} of {alarms.comparisons} comparisons, "
        f"at most {alarms.at_most:.1%} of all"
    )


def _spread(spread: Spread) -> str:
    most = f"at most {spread.at_most:.1%}" if spread.at_most < 1 else "upper bound unknown"
    return f"{spread.value:.1%} ({most})"


def _detectables(found: BackendCalibration, seconds: float) -> Iterator[str]:
    if found.detectable:
        yield f"  smallest change that is detected, with {seconds:g} s for both sides together:"
    for rounds in dict.fromkeys(each.rounds for each in found.detectable):
        what = "one window" if rounds == 1 else f"{rounds} rounds"
        told = [_detectable(each) for each in found.detectable if each.rounds == rounds]
        yield f"    {what + ' each':<16}{', '.join(told)}"


def _detectable(each: Detectable) -> str:
    if each.change is None:
        return f"{each.metric} none" if not each.share else f"a share of {each.share:.0%} none"
    if not each.share:
        return f"{each.metric} +{each.change:.0%}"
    return f"a share of {each.share:.0%} +{each.change * 100:.1f} pp"


def _counted(found: BackendCalibration) -> Iterator[str]:
    unsteady = {each.function for each in found.unsteady}
    part: dict[str, float] = {}
    for each in found.unsteady:
        part[each.metric] = part.get(each.metric, 0.0) + each.part
    held = ", ".join(f"{each:.1%} of {metric}" for metric, each in part.items())
    yield (
        f"  the same counts in all windows: {found.functions - len(unsteady)} of {found.functions} "
        f"functions, where a change of {DEFAULT_POLICY.exact_rise:.0%} is detected"
    )
    if unsteady:
        yield f"  counts that differ: {len(unsteady)} ({held})"
    for each in found.unsteady[:UNSTEADY_SHOWN]:
        yield f"    {each.scatter:7.1%}  {each.metric} of {each.function}"
    if len(found.unsteady) > UNSTEADY_SHOWN:
        yield f"    and {len(found.unsteady) - UNSTEADY_SHOWN} more"
