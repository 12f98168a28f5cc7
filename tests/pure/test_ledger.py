"""Tests of the ledger of graph intake on pages, made from costs that are known."""

from __future__ import annotations

import msgspec
import pytest

from pytest_schedprof.backends.intake import IntakeBackend
from pytest_schedprof.formats.counted import IntakeFile, StepCost
from pytest_schedprof.judge.costs import Costs, unit_of
from pytest_schedprof.model.evidence import STEPS
from pytest_schedprof.model.metric import METRICS, readable
from pytest_schedprof.model.profile import CostProfile, Profile
from pytest_schedprof.model.result import BackendResult, Segment, Window
from pytest_schedprof.report.ledger import Ledger, ledger_of

CLIENT = {"construction": 1e-3, "optimisation": 0.0, "serialisation": 2e-3, "sending": 1e-3}


def file_of(tasks: int) -> IntakeFile:
    """Ordering costs 2 us for the power 1.5 of tasks, states 4 us for each; one graph."""
    costs = {step: StepCost(0, 0.0) for step in STEPS}
    costs["ordering"] = StepCost(1, 2e-6 * tasks**1.5)
    costs["states"] = StepCost(1, 4e-6 * tasks)
    costs["gc"] = StepCost(0, 1e-3)
    costs["imports"] = StepCost(0, 5e-3 if tasks < 1000 else 0.0)
    costs["rest"] = StepCost(1, 1e-6 * tasks)
    return IntakeFile(1, costs)


def read(file: IntakeFile) -> CostProfile:
    profile: Profile = IntakeBackend(rate_hz=100, options={}).read(
        msgspec.json.encode(file), lambda places: []
    )
    assert isinstance(profile, CostProfile)
    return profile


def measured(*sizes: int) -> tuple[BackendResult, list[IntakeFile]]:
    """A result with a round for each size, at scales of a tenth of it."""
    files = [file_of(tasks) for tasks in sizes]
    scales = [tasks // 10 if len(set(sizes)) > 1 else 0 for tasks in sizes]
    rounds = zip(sizes, files, scales, strict=True)
    costs = Costs([unit_of(tasks, {}, [read(file)], scale) for tasks, file, scale in rounds])
    window = Window(
        len(sizes),
        tuple(
            Segment(1.0, 0.5, tasks, 0, scale, client=CLIENT)
            for tasks, scale in zip(sizes, scales, strict=True)
        ),
    )
    result = BackendResult("intake", "", {}, window, None, costs.measured(), (), ())
    return result, files


def ledger(*sizes: int) -> Ledger:
    way = ledger_of(*measured(*sizes))
    assert way is not None
    return way


def test_parts_are_of_the_whole_way() -> None:
    way = ledger(1000, 1000)
    assert sum(map(way.part, way.steps)) == pytest.approx(1)
    amount = 2e-6 * 1000**0.5 + 4e-6 + 1e-6 + 1e-6 + 4e-6
    assert way.cost(way.seconds) == readable(amount, METRICS["cpu"])
    client = [("client", name) for name in CLIENT]
    assert [(step.where, step.name) for step in way.steps][: len(CLIENT)] == client
    assert (way.tasks_by_scale, way.growth(way.steps[-1])) == ({}, ("", ""))


def test_growth_is_with_the_number_of_tasks_whatever_the_scale() -> None:
    way = ledger(400, 6400, 400, 6400)
    growths = {step.name: way.growth(step) for step in way.steps}
    (ordering,) = (step for step in way.steps if step.name == "ordering")
    assert way.tasks_by_scale == {40: 800, 640: 12_800}
    assert list(way.costs_by_scale(ordering)) == ["40 us", "160 us"]
    assert growths["ordering"][0] == "1.50"
    assert growths["states"] == ("1.00", "at least 0.92, at most 1.08")
    assert growths["sending"][0] == "0.00"
    assert growths["imports"] == ("", "")


def test_without_all_files_sizes_have_no_costs() -> None:
    result, files = measured(400, 6400)
    way = ledger_of(result, files[:1])
    assert way is not None
    (states,) = (step for step in way.steps if step.name == "states")
    assert way.cost(states.seconds) == "4 us"
    assert list(way.costs_by_scale(states)) == ["", ""]
    assert way.growth(states) == ("", "")


def test_other_backends_have_no_ledger() -> None:
    window = Window(1, (Segment(1.0, 0.5, 10, 0),))
    costs = Costs([unit_of(10, {}, [CostProfile("counts", "", {"m:f": {"calls": 1}})])]).measured()
    assert ledger_of(BackendResult("counts", "", {}, window, None, costs, (), ()), []) is None
    assert ledger_of(BackendResult("cputime", "", {}, window, None, None, (), ()), []) is None
