"""Result records for tests of comparisons, made by analysis of handwritten profiles."""

from __future__ import annotations

import random
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from pytest_schedprof.judge import compare as comparing
from pytest_schedprof.judge.costs import Costs, unit_of
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.judge.shares import shares_of
from pytest_schedprof.model.comparison import Report
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict
from pytest_schedprof.model.profile import CostProfile, SampleProfile, Stack
from pytest_schedprof.model.result import (
    BackendResult,
    ClusterFacts,
    Environment,
    Result,
    Segment,
    Window,
)
from pytest_schedprof.model.run import by_test

SCHEDULER = "distributed.scheduler:SchedulerState"
TRANSITION = f"{SCHEDULER}._transition"
TASKS = 1000

TEST = "tests/test_x.py::test_tasks"


def counted(
    *rounds: Mapping[str, float], metric: str = "bytecodes", tasks: int = TASKS
) -> BackendResult:
    """The result of `counts` for rounds of costs per task; a single round counts three times."""
    return counted_in(rounds * 3 if len(rounds) == 1 else rounds, metric=metric, tasks=tasks)


def counted_in(
    rounds: Sequence[Mapping[str, float]],
    *,
    metric: str = "bytecodes",
    tasks: int = TASKS,
    is_everything: bool = False,
    code: Mapping[str, str] | None = None,
) -> BackendResult:
    """The result of `counts` for exactly these rounds."""
    profiles = [
        CostProfile(
            "counts",
            "",
            {name: {metric: one_round[name] * tasks} for name in one_round},
            is_everything=is_everything,
            code=code or {},
        )
        for one_round in rounds
    ]
    costs = Costs([unit_of(tasks, {}, [profile]) for profile in profiles])
    return _backend("counts", _window([300e-6] * len(rounds), tasks), costs=costs.measured())


def sampled(
    shares: Mapping[Stack, float],
    *,
    cpu: Sequence[float] = (300e-6,) * 5,
    samples: int = 1000,
    seed: int = 0,
) -> BackendResult:
    """The result of `cputime` for rounds of so many samples each, with randomly chosen stacks."""
    chance = random.Random(seed)
    stacks = tuple(shares)
    profiles = [
        SampleProfile(
            "cputime",
            "",
            stacks,
            (array("q", chance.choices(range(len(stacks)), list(shares.values()), k=samples)),),
        )
        for _ in cpu
    ]
    analysed = shares_of([[profile] for profile in profiles], drift=0.05).sampled()
    return replace(_backend("cputime", _window(cpu, TASKS)), shares=analysed)


def recorded(*threads: Sequence[Stack], **facts: Any) -> SampleProfile:
    """A profile with these samples, in their order."""
    index: dict[Stack, int] = {}
    samples = tuple(
        array("q", (index.setdefault(stack, len(index)) for stack in thread)) for thread in threads
    )
    return replace(SampleProfile("cputime", "", tuple(index), samples), **facts)


def _window(cpu: Sequence[float], tasks: int) -> Window:
    return Window(len(cpu), tuple(Segment(1.0, value * tasks, tasks, 6 * tasks) for value in cpu))


def _backend(name: str, window: Window, **facts: Any) -> BackendResult:
    empty = BackendResult(name, "", {}, window, None, None, (), ())
    return replace(empty, **facts)


ENVIRONMENT = Environment(
    python="3.11.7",
    platform="Linux",
    machine="x86_64",
    cpu_count=2,
    scheduler_python="3.11.7",
    scheduler_platform="Linux",
    versions={"distributed": "2026.8.0"},
    scheduler_machine="a processor x 2",
    configuration={"work-stealing": "True", "validate": "False"},
)


def measured(*backends: BackendResult, test_id: str = TEST, **facts: Any) -> Result:
    """The record of a test on a simulated cluster."""
    result = Result(
        test_id=test_id,
        outcome="passed",
        started_at="2026-01-01T00:00:00+00:00",
        cluster=ClusterFacts("simulated", "tcp://127.0.0.1:1", 16, 16),
        environment=ENVIRONMENT,
        confidence=0.95,
        schedprof_version="0.1.0",
        backends=backends,
    )
    return replace(result, **facts)


def limited(*verdicts: Verdict, text: str = "calls <= 1", note: str = "", **facts: Any) -> Result:
    """The record of a test with a limit for each verdict."""
    estimate = Estimate(7.0, 7.0, 7.0, 100, 0.0)
    limits = (
        LimitResult(
            text, verdict, (Finding(TRANSITION, estimate, verdict),), parse_limit(text), note
        )
        for verdict in verdicts
    )
    return measured(replace(counted({TRANSITION: 7.0}), limits=tuple(limits)), **facts)


def compare(before: Sequence[Result], after: Sequence[Result], **facts: Any) -> Report:
    return comparing.compare(by_test(before), by_test(after), **facts)


def changed(factor: float, functions: int = 1, **facts: Any) -> Result:
    """The record of a test whose functions cost so many times what they cost before."""
    names = [f"{TRANSITION}{number or ''}" for number in range(functions)]
    before, after = (
        measured(counted(dict.fromkeys(names, cost)), **facts) for cost in (100.0, 100.0 * factor)
    )
    report = compare([before], [after], names=("main", "now"))
    return replace(after, baseline="main", comparisons=report.comparisons)
