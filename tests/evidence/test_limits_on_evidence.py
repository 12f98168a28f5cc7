"""Tests of limits on evidence in sessions, against what workers of a real cluster did."""

from __future__ import annotations

import json

import pytest
from support import Project

from pytest_schedprof.model.limit import Verdict

MEGABYTE = 1_000_000

BODY = """
def make(size):
    return bytes(size)

def total(one, other):
    return len(one) + len(other)

@pytest.mark.schedprof(%s, backend="counts", rounds=3, workers=2)
def test_it(schedprof_scheduler):
    client = schedprof_scheduler.client
    first, second = schedprof_scheduler.workers
    left = client.submit(make, %d, workers=[first], pure=False)
    right = client.submit(make, 10, workers=[second], pure=False)
    wait(client.submit(total, left, right, workers=[second], pure=False))
"""
"""In each round one worker sends its result to the other."""


def body(*limits: str, size: int = MEGABYTE) -> str:
    return BODY % (", ".join(map(repr, limits)), size)


@pytest.mark.slow
def test_limits_gather_what_they_bound(project: Project) -> None:
    held = [
        "memory(managed) <= 40GiB",
        "transfers(count) <= 1",
        "duration(make) <= 30s",
        "phase(sending) <= 30s",
    ]
    broken = ["transfers(bytes) <= 900kB", "memory(process) <= 1MB"]
    result = project.run_test(body(*held, *broken))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*schedprof: limit broken: memory(process) <= 1MB: process is *",
            "*schedprof: limit broken: transfers(bytes) <= 900kB: transfers(bytes) is 1 MB "
            "(at least 1 MB, at most 1 MB) in 3 runs; see *transfers.json*",
        ],
    )
    record = project.result()
    assert {each.kind for each in record.evidence} == {"memory", "transfers", "tasks", "phases"}
    expected = dict.fromkeys(held, Verdict.PASS) | dict.fromkeys(broken, Verdict.FAIL)
    assert {each.limit: each.verdict for each in record.limits} == expected
    amounts = {(each.metric, each.subject): each for of in record.evidence for each in of.amounts}
    assert list(amounts["transfers_count", ""].amounts) == [1, 1, 1]
    assert all(
        MEGABYTE <= each < 1.01 * MEGABYTE for each in amounts["transfers_bytes", ""].amounts
    )
    assert {"make", "total"} <= {subject for name, subject in amounts if name == "duration"}


@pytest.mark.slow
def test_relative_limits_are_held_against_the_baseline(project: Project) -> None:
    limits = ("transfers(bytes) <= baseline * 1.05", "transfers(count) <= baseline")
    project.run_test(body(*limits), "--schedprof-save=main").assert_outcomes(passed=1)
    again = project.run("--schedprof-compare=main")
    again.assert_outcomes(passed=1)
    assert "inconclusive" not in again.stdout.str()
    more = project.run_test(body(*limits, size=2 * MEGABYTE), "--schedprof-compare=main")
    more.assert_outcomes(failed=1)
    more.stdout.fnmatch_lines(
        ["*limit broken: transfers(bytes) <= baseline * 1.05*2 MB*(before: 1 MB)*"]
    )
    assert "limit broken: transfers(count)" not in more.stdout.str()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "said"),
    [
        ("duration(mace) <= 1s", "*'mace' names no task of the test; there were: make, total"),
        ("memory(mangd) <= 1B", "*did you mean 'managed'?*"),
    ],
)
def test_what_does_not_exist_is_an_error(project: Project, limit: str, said: str) -> None:
    result = project.run_test(body(limit))
    assert sum(result.parseoutcomes().get(name, 0) for name in ("failed", "errors")) == 1
    result.stdout.fnmatch_lines([said])


HOLLOW = """
@pytest.mark.schedprof("transfers(bytes) <= 1B", backend="counts", cluster="simulated", workers=2)
def test_it(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""


@pytest.mark.slow
def test_evidence_that_is_missing_leaves_its_limits_undecided(project: Project) -> None:
    project.run_test(HOLLOW).assert_outcomes(passed=1)
    strict = project.run("--schedprof-strict")
    strict.assert_outcomes(failed=1)
    strict.stdout.fnmatch_lines(
        [
            "*limit inconclusive: transfers(bytes) <= 1B: no evidence 'transfers': "
            "hollow workers keep no log of transfers*"
        ]
    )
    directories = (project.path / ".schedprof").glob("*/tests/*/result.json")
    noted = [json.loads(path.read_text())["evidence"][0]["limits"] for path in directories]
    assert [each[0]["verdict"] for each in noted] == ["inconclusive"] * 2


@pytest.mark.slow
def test_relative_limits_are_held_against_the_other_side_in_turns(project: Project) -> None:
    limits = ("transfers(bytes) <= baseline * 1.05", "transfers(count) <= baseline")
    by_setting = body(*limits).replace(
        f"submit(make, {MEGABYTE},", 'submit(make, 10_000 * dask.config.get("array.svg.size"),'
    )
    assert by_setting.count("dask.config.get") == 1
    other = "--schedprof-against=config:array.svg.size=60"  # 120 if nothing is said
    result = project.run_test(f"import dask.config\n{by_setting}", other)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*limit broken: transfers(bytes) <= baseline * 1.05*1.2 MB*(before: 600 kB)*"]
    )
    assert "transfers(count) <= baseline:" not in result.stdout.str()
    verdicts = {each.limit: each.verdict for each in project.result().limits}
    assert verdicts == dict(zip(limits, (Verdict.FAIL, Verdict.PASS), strict=True))
