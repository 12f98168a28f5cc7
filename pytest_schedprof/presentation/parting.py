"""Where two runs part, in words."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_schedprof.model.metric import BYTES, METRICS, TIME, Metric, readable
from pytest_schedprof.model.parting import Choice, Difference, Parting, SeenWorker
from pytest_schedprof.presentation.amounts import counted

HASH_SHOWN = 8
"""Digits of a hash that are shown; `result.json` has all of them."""

SECONDS, NUMBER_OF_BYTES = Metric(TIME, ""), Metric(BYTES, "")

WHAT = {
    Difference.WORKER: "another worker for {key!r}",
    Difference.TIME: "{key!r} at another time",
    Difference.TASK: "another decision is the next",
    Difference.END: "only one side decides anything more",
}


def headline_of(parting: Parting) -> str:
    """Return in one line whether both sides decided the same."""
    before, after = (each[:HASH_SHOWN] for each in parting.hashes)
    rounds = f" in each of {parting.rounds} rounds" if parting.rounds > 1 else ""
    if parting.what is Difference.NOTHING:
        return f"decides the same{rounds} (hash {after})"
    hashes = f"hash {before} before, {after} now"
    if parting.rounds > 1:
        hashes = f"round {parting.round} of {parting.rounds}, {hashes}"
    if parting.what is Difference.UNKNOWN:
        return f"decides in another way ({hashes}); compare two runs that are here to see where"
    if parting.what is Difference.MESSAGES:
        return f"decides the same, but other messages or their times differ ({hashes})"
    if parting.what is Difference.GRAPH:
        return f"the test sent another graph, so nothing follows about the scheduler ({hashes})"
    return f"parts {_place(parting)}: {_what(parting)} ({hashes})"


def details_of(parting: Parting) -> Iterator[str]:
    """Yield a line for each side's decision, and one about what followed."""
    if parting.what in (Difference.NOTHING, Difference.UNKNOWN):
        return
    sides = [("before", parting.before), ("now", parting.after)]
    if parting.what is Difference.GRAPH:
        yield from (f"{name}: {each.key!r}" for name, each in sides if each)
        yield f"{_tasks_of_one_side(parting)}; PYTHONHASHSEED=0 orders graphs in the same way"
        return
    has_key = parting.what not in (Difference.WORKER,)
    yield from (f"{name}: {told(each, has_key=has_key)}" for name, each in sides if each)
    if parting.later is not None:
        yield f"now, later: {told(parting.later, has_key=True)}"
    followed = ", ".join(_followed(parting))
    yield f"what followed: {followed or 'no task ran elsewhere, and the figures are the same'}"


def told(choice: Choice, *, has_key: bool) -> str:
    """Return a decision in words, with what the scheduler compared for it."""
    task = f"{choice.key!r} " if has_key else ""
    at = f"at {choice.at_s:.6g} s "
    verb, rule = VERBS.get(choice.kind, choice.kind), RULES.get(choice.rule, "")
    words = f"{at}{task}{verb} {_seen(choice.worker)}{rule}"
    if choice.best_other is None:
        return f"{words}, chosen from {choice.others + 1}" if choice.others else words
    if choice.kind == "steal":
        return f"{words} for {_seen(choice.best_other)}"
    others = f"the best of {choice.others} others" if choice.others > 1 else "the only other"
    return f"{words}; {others}: {_seen(choice.best_other)}"


RULES = {
    "queue": ", root-ish: the idle worker with the fewest tasks per thread",
    "siblings": ", root-ish and not queued: with its siblings",
    "data": ", as it holds dependencies",
    "free": ", as an idle one",
}
"""How a worker was chosen."""

VERBS = {"compute": "to", "steal": "stolen from", "stolen": "as stolen to"}


def _seen(worker: SeenWorker) -> str:
    return (
        f"{worker.name} ({counted(worker.processing, 'task')}, "
        f"{_zero_or(worker.occupancy_s, SECONDS, '0 s')} of work, "
        f"{_zero_or(worker.fetch, NUMBER_OF_BYTES, '0 B')} to fetch)"
    )


def _zero_or(amount: float, metric: Metric, zero: str) -> str:
    return readable(amount, metric) if amount else zero


def _place(parting: Parting) -> str:
    first = parting.before or parting.after
    at = f" at {first.at_s:.6g} s" if first else ""
    if not parting.alike:
        return f"in the first decision{at}"
    return f"after {counted(parting.alike, 'equal decision')}{at}"


def _what(parting: Parting) -> str:
    choice = parting.before or parting.after
    return WHAT[parting.what].format(key=choice.key if choice else "")


def _tasks_of_one_side(parting: Parting) -> str:
    return f"{counted(parting.only_before, 'task')} only before, {parting.only_after} only now"


def _followed(parting: Parting) -> Iterator[str]:
    if parting.only_before or parting.only_after:
        yield _tasks_of_one_side(parting)
    if parting.moved:
        yield f"{parting.moved} of {counted(parting.tasks, 'task')} ran on another worker"
    for name, metric in METRICS.items():
        if metric.is_decision and name in parting.figures:
            before, after = (readable(each, metric) for each in parting.figures[name])
            yield f"{name} {before} -> {after}"
