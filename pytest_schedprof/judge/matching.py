"""Decide which measurements are comparable, and why others are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from pytest_schedprof.judge.estimate import MIN_ROUNDS
from pytest_schedprof.judge.figures import Measurement
from pytest_schedprof.model.comparison import Setting
from pytest_schedprof.model.limit import MIN_SAMPLES
from pytest_schedprof.model.metric import DECISIONS, INSTRUCTIONS, METRICS, Subject
from pytest_schedprof.model.profile import EVERYTHING, WORDS
from pytest_schedprof.model.result import BackendResult, Result

UNSET = "default"
"""Value of an option that only the other side has."""

DASKS = "config."
"""Start of the names of cluster options that are options of dask."""

SECTION = "distributed.scheduler."
"""Section of dask's options that records have as the scheduler's configuration."""

SAME_WORK = 0.01
"""Largest difference in tasks per round: costs per task depend on the size of the workload."""


def is_reproduced(before: Measurement, after: Measurement) -> bool:
    """Whether unchanged code would count the same on both sides, in each round.

    It does in virtual time if both tests sent the same graphs; and if they sent others although
    their processes order sets alike, that is due to the code.
    """
    old_seed, new_seed = (side.result.environment.test_hash_seed for side in (before, after))
    has_one_seed = old_seed == new_seed and old_seed.isdigit()
    graphs = zip(before.graphs, after.graphs, strict=False)  # of the rounds that both sides have
    is_same_work = has_one_seed or all(one and one == other for one, other in graphs)
    return before.is_virtual and after.is_virtual and is_same_work


def measurements(results: Sequence[Result]) -> dict[tuple[str, str], list[Measurement]]:
    """Group usable results by test ID and backend, the newest first."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for result in sorted(results, key=lambda result: result.started_at, reverse=True):
        for backend in result.backends if result.is_usable else ():
            groups.setdefault((result.test_id, backend.backend), []).append(
                Measurement(result, backend)
            )
    return groups


def obstacle(before: Measurement, after: Measurement) -> str:
    """Return why the two cannot be compared at all, empty if they can.

    A setting that differs is no obstacle, but what is compared (`differing_settings`).
    """
    return next(filter(None, _obstacles(before, after)), "")


def _obstacles(before: Measurement, after: Measurement) -> Iterator[str]:
    yield _differing("mode", before.backend.mode, after.backend.mode)
    yield _other_modules(before.backend, after.backend)
    yield _other_scales(before, after)
    yield another_kind(before.result, after.result)
    yield doubt_of_sides(before, after)
    yield other_work(before, after)  # perhaps of another body: nothing tells


def obstacle_to_evidence(before: Result, after: Result) -> str:
    """Return why evidence of the two cannot be compared, empty if it can."""
    olds, news = (
        {backend.backend: Measurement(result, backend) for backend in result.backends}
        for result in (before, after)
    )
    reasons = (
        _other_scales(olds[name], news[name]) or other_work(olds[name], news[name])
        for name in olds
        if name in news
    )
    return another_kind(before, after) or next(filter(None, reasons), "")


def _other_scales(before: Measurement, after: Measurement) -> str:
    return _differing("scale", *(",".join(map(str, side.scales)) for side in (before, after)))


def doubt_of_sides(before: Measurement, after: Measurement) -> str:
    """Return why nothing of the two can be compared, empty if it can."""
    for name, side in (("baseline", before), ("run", after)):
        if side.backend.doubt:
            return f"the {name} cannot be judged: {side.backend.doubt}"
        if not side.backend.window.tasks and not side.result.is_own_virtual:
            return f"the {name} processed no task"
    return ""


def another_kind(before: Result, after: Result) -> str:
    """Return that another kind of cluster ran the test, empty if it is the same."""
    return _differing("kind of cluster", before.cluster.kind, after.cluster.kind)


def _differing(fact: str, before: str, after: str) -> str:
    if before == after:
        return ""
    return f"another {fact}: the baseline has {before or 'none'}, this run {after or 'none'}"


def _other_modules(before: BackendResult, after: BackendResult) -> str:
    """Compare which modules were chosen: what one side alone counted would seem new."""
    one, other = _chosen(before), _chosen(after)
    if EVERYTHING in one or EVERYTHING in other or set(one) & _WIDE == set(other) & _WIDE:
        return ""
    return _differing("choice of counted modules", " ".join(one), " ".join(other))


_WIDE = WORDS.keys() - {EVERYTHING}


def common_modules(before: Measurement, after: Measurement) -> tuple[str, ...]:
    """Return the modules that both sides counted, if one counted everything; else nothing."""
    one, other = _chosen(before.backend), _chosen(after.backend)
    if (EVERYTHING in one) == (EVERYTHING in other):
        return ()
    return other if EVERYTHING in one else one


def _chosen(backend: BackendResult) -> tuple[str, ...]:
    """Return the modules that were chosen, by names with wildcards or by words."""
    chosen = backend.settings.get("modules")
    return tuple(chosen) if isinstance(chosen, list) else ()


def differing_modules(before: Measurement, after: Measurement) -> tuple[Setting, ...]:
    """Return the choice of modules as a setting, if only those of one side are compared."""
    if not common_modules(before, after):
        return ()
    one, other = (" ".join(_chosen(side.backend)) for side in (before, after))
    return (Setting("modules that counts counted", one, other),)


def other_work(before: Measurement, after: Measurement) -> str:
    """Return why costs per task of the two cannot be compared, empty if they can, or need not."""
    return "" if are_whole_bodies(before, after) else _other_tasks(before, after)


def _other_tasks(before: Measurement, after: Measurement) -> str:
    tasks = tasks_of_rounds(before, after)
    if tasks is None or not any(tasks):
        return ""
    return (
        f"another amount of work: {round(tasks[0], 2):,.10g} tasks a round in the baseline, "
        f"{round(tasks[1], 2):,.10g} in this run, and costs are per task"
    )


def are_whole_bodies(before: Measurement, after: Measurement) -> bool:
    """Whether each run of the test is the same and all of it counts, the test itself included."""
    return before.result.is_own_virtual and after.result.is_own_virtual


def tasks_of_rounds(before: Measurement, after: Measurement) -> tuple[float, float] | None:
    """Return the tasks of a round of each side; None if they are about the same, and not none."""
    one, other = (
        side.backend.window.tasks / max(1, side.backend.window.rounds) for side in (before, after)
    )
    is_alike = abs(other - one) <= SAME_WORK * max(one, other)
    return None if is_alike and max(one, other) else (one, other)


def obstacle_to_time(before: Measurement, after: Measurement) -> str:
    """Return why CPU time and shares of the two cannot be compared, empty if they can."""
    return (
        another_machine(before.result, after.result)
        or other_work(before, after)
        or too_few_samples(before, after)
    )


def too_few_samples(before: Measurement, after: Measurement) -> str:
    """Return why shares cannot be compared if either side has too few samples."""
    samples = [
        side.backend.shares.busy_samples if side.backend.shares else 0 for side in (before, after)
    ]
    if min(samples) < MIN_SAMPLES:
        return (
            f"{min(samples)} busy samples, at least {MIN_SAMPLES} are needed: give the scheduler "
            "more work, or take a backend that counts"
        )
    return ""


def obstacle_in_turns(before: Measurement, after: Measurement) -> str:
    """Return why two sides of one session cannot be compared; their Pythons may differ.

    Too few pairs of rounds do not tell the scatter.
    """
    pairs = min(side.backend.window.rounds // max(1, len(side.scales)) for side in (before, after))
    if (doubt := doubt_of_sides(before, after)) or pairs >= MIN_ROUNDS:
        return doubt
    remedy = "give a larger budget, or the test less work"
    if before.is_virtual and after.is_virtual:  # what scatters there is the order of a set
        remedy = "compare two sessions: one round of each is enough"
    return (
        f"{pairs} {'pair' if pairs == 1 else 'pairs'} of rounds, at least {MIN_ROUNDS} are needed "
        f"to see what scatters: {remedy}"
    )


def obstacle_to_metric(
    metric: str, before: Measurement, after: Measurement, *, is_per_round: bool = False
) -> str:
    """Return why an exact metric of the two cannot be compared, empty if it can.

    Decisions are of the whole window, so they are comparable if one side makes more tasks of the
    same body; and messages, transitions and decisions do not depend on the interpreter.
    """
    is_of_body = metric in DECISIONS or is_per_round
    if not is_of_body and (reason := _other_tasks(before, after)):
        return reason
    if metric == INSTRUCTIONS and (reason := _another_platform(before.result, after.result)):
        return reason
    if before.python == after.python:
        return ""
    if Subject.FUNCTIONS in METRICS[metric].subjects:
        return f"bytecodes of Python {before.python} and {after.python} are not the same"
    return ""


def another_machine(before: Result, after: Result) -> str:
    """Return that times are not comparable if the machines differ or are unknown."""
    machines = [side.environment.scheduler_machine for side in (before, after)]
    if machines[0] == machines[1] and all(machines):
        return ""
    return (
        f"times are of another machine: {machines[0] or 'unknown'} and {machines[1] or 'unknown'}; "
        "exact metrics compare across machines"
    )


def _another_platform(before: Result, after: Result) -> str:
    """Return that instructions are not comparable if processors, kernels or C libraries differ."""
    one, other = (
        f"{side.environment.scheduler_machine}, {side.environment.scheduler_platform}"
        for side in (before, after)
    )
    if one == other:
        return ""
    return f"instructions are of another processor, kernel or C library: {one} and {other}"


def differing_settings(before: Result, after: Result) -> tuple[Setting, ...]:
    """Return the settings that differ, by what was given for the clusters and what was found there.

    What was found counts if a setting is known by both. What only one side knows differs only if it
    was given: the options of two releases are not the same.
    """
    one, other = (
        {name.removeprefix(DASKS): value for name, value in side.cluster.options.items()}
        for side in (before, after)
    )
    names = sorted(one.keys() | other.keys())
    pairs = {name: (one.get(name, UNSET), other.get(name, UNSET)) for name in names}
    one, other = _measured_settings(before), _measured_settings(after)
    pairs |= {name: (one[name], other[name]) for name in one if name in other}
    return tuple(Setting(name, *pair) for name, pair in pairs.items() if pair[0] != pair[1])


def _measured_settings(result: Result) -> dict[str, str]:
    """Return the settings that were found in the cluster, not those that were given for it."""
    cluster, environment = result.cluster, result.environment
    settings = {
        "workers": str(cluster.workers),
        "threads": cluster.threads_per_worker,
        "Python": environment.minor_python,
    }
    if environment.event_loop:
        settings["distributed.admin.event-loop"] = environment.event_loop
    options = sorted(environment.configuration.items())
    return settings | {f"{SECTION}{name}": value for name, value in options}


def alike(earlier: Sequence[Measurement], after: Measurement) -> list[Measurement]:
    """Return the measurements that measured the same in the same setting, in their order.

    CPU time and shares need the same machine too.
    """
    is_timed = after.backend.shares is not None
    return [
        before
        for before in earlier
        if not obstacle(before, after)
        and not differing_settings(before.result, after.result)
        and not (is_timed and obstacle_to_time(before, after))
    ]


def renamed_tests(vanished: Collection[str], new: Collection[str]) -> list[tuple[str, str]]:
    """Return pairs (old ID, new ID) of tests with the same name, if the name is unique."""
    olds, news = Counter(map(_name, vanished)), Counter(map(_name, new))
    return [
        (old, candidate)
        for old in sorted(vanished)
        for candidate in new
        if _name(old) == _name(candidate) and olds[_name(old)] == news[_name(candidate)] == 1
    ]


def _name(test_id: str) -> str:
    """Return the name of a test with its parameters, which may have colons."""
    name, bracket, parameters = test_id.partition("[")
    return name.rpartition("::")[2] + bracket + parameters
