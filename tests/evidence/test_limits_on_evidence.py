"""Tests of limits on evidence in sessions, against what workers of a real cluster did."""

from __future__ import annotations

import shutil

import pytest
from support import Project

from pytest_schedprof.model.limit import Verdict

MEGABYTE = 1_000_000

FUNCTIONS = """
def make(size):
    return bytes(size)

def total(one, other):
    return len(one) + len(other)
"""

TEST = """
@pytest.mark.schedprof(%s, backend="cputime", rounds=3, workers=2)
def test_%s(schedprof_scheduler):
    client = schedprof_scheduler.client
    first, second = schedprof_scheduler.workers
    left = client.submit(make, %d, workers=[first], pure=False)
    right = client.submit(make, 10, workers=[second], pure=False)
    wait(client.submit(total, left, right, workers=[second], pure=False))
"""
"""In each round one worker sends its result to the other."""


def a_test(*limits: str, name: str = "it", size: int = MEGABYTE) -> str:
    return TEST % (", ".join(map(repr, limits)), name, size)


def body(*limits: str, size: int = MEGABYTE) -> str:
    return FUNCTIONS + a_test(*limits, size=size)


HOLLOW = """
@pytest.mark.schedprof(
    "transfers(bytes) <= 1B", backend="cputime", cluster="simulated", workers=2, strict=%s
)
def test_%s(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(20), pure=False))
"""


@pytest.mark.slow
def test_limits_gather_what_they_bound_which_must_exist(project: Project) -> None:
    held = [
        "memory(managed) <= 40GiB",
        "transfers(count) <= 1",
        "duration(make) <= 30s",
        "phase(sending) <= 30s",
    ]
    broken = ["transfers(bytes) <= 900kB", "memory(process) <= 1MB"]
    misspelt = a_test("duration(mace) <= 1s", name="mace")
    misspelt += a_test("memory(mangd) <= 1B", name="mangd")
    hollow = HOLLOW % (False, "lenient") + HOLLOW % (True, "strict")
    result = project.run_test(body(*held, *broken) + misspelt + hollow)
    counts = result.parseoutcomes()
    assert counts.get("failed", 0) + counts.get("errors", 0) == 4
    result.stdout.fnmatch_lines_random(
        [
            "*schedprof: limit broken: memory(process) <= 1MB: process is *",
            "*schedprof: limit broken: transfers(bytes) <= 900kB: transfers(bytes) is 1 MB "
            "(at least 1 MB, at most 1 MB) in 3 runs; see *index.html",
            "*'mace' names no task of the test; there were: make, total",
            "*did you mean 'managed'?*",
            "*limit inconclusive: transfers(bytes) <= 1B: no evidence 'transfers': "
            "hollow workers keep no log of transfers*",
        ],
    )
    results = project.results()
    for name, outcome in (("test_lenient", "passed"), ("test_strict", "failed")):
        assert results[name].outcome == outcome
        assert [limit.verdict for limit in results[name].limits] == [Verdict.INCONCLUSIVE]
    record = results["test_it"]
    assert {kind.kind for kind in record.evidence} == {"memory", "transfers", "tasks", "phases"}
    expected = dict.fromkeys(held, Verdict.PASS) | dict.fromkeys(broken, Verdict.FAIL)
    assert {limit.limit: limit.verdict for limit in record.limits} == expected
    pieces = [piece for kind in record.evidence for piece in kind.amounts]
    amounts = {(piece.metric, piece.subject): piece.amounts for piece in pieces}
    assert list(amounts["transfers_count", ""]) == [1, 1, 1]
    assert all(MEGABYTE <= size < 1.01 * MEGABYTE for size in amounts["transfers_bytes", ""])
    assert {"make", "total"} <= {subject for name, subject in amounts if name == "duration"}


def test_a_log_of_transfers_that_is_full_is_no_smaller_figure(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DASK_DISTRIBUTED__ADMIN__LOW_LEVEL_LOG_LENGTH", "2")
    one = a_test("transfers(count) <= 1", name="one")
    three = a_test("transfers(count) <= 1", name="three")
    three += "".join(three.splitlines(keepends=True)[-3:]) * 2
    project.run_test(FUNCTIONS + one + three).assert_outcomes(passed=2)
    record = project.results()
    (kind,) = record["test_one"].evidence
    assert [list(piece.amounts) for piece in kind.amounts if piece.metric == "transfers_count"] == [
        [1, 1, 1]
    ]
    (limit,) = record["test_three"].limits
    assert limit.verdict is Verdict.INCONCLUSIVE
    assert "received more than its log holds" in limit.note


@pytest.mark.slow
def test_relative_limits_are_held_against_the_baseline(project: Project) -> None:
    limits = ("transfers(bytes) <= baseline * 1.05", "transfers(count) <= baseline")
    same, other, busier = (a_test(*limits, name=name) for name in ("same", "other", "busier"))
    saved = project.run_test(FUNCTIONS + same + other + busier, "--schedprof-save=main")
    saved.assert_outcomes(passed=3)
    shutil.rmtree(project.run_directory)  # the baseline stays
    more = a_test(*limits, name="other", size=2 * MEGABYTE)
    busier += "    wait(client.map(inc, range(20), pure=False))\n"  # work of which nothing moves
    compared = project.run_test(FUNCTIONS + same + more + busier, "--schedprof-compare=main")
    compared.assert_outcomes(passed=2, failed=1)
    compared.stdout.fnmatch_lines(
        ["*limit broken: transfers(bytes) <= baseline * 1.05*2 MB*(before: 1 MB)*"]
    )
    assert "limit broken: transfers(count)" not in compared.stdout.str()
    results = project.results()
    assert {limit.verdict for limit in results["test_same"].limits} == {Verdict.PASS}
    for limit in results["test_busier"].limits:
        assert limit.verdict is Verdict.INCONCLUSIVE
        assert "another amount of work: 3 tasks a round in the baseline, 23 in this" in limit.note


@pytest.mark.slow
def test_relative_limits_are_held_against_the_other_side_in_turns(project: Project) -> None:
    limits = ("transfers(bytes) <= baseline * 1.05", "transfers(count) <= baseline")
    by_setting = body(*limits).replace(
        f"submit(make, {MEGABYTE},", 'submit(make, 10_000 * dask.config.get("array.svg.size"),'
    )
    assert by_setting.count("dask.config.get") == 1
    by_setting = by_setting.replace("cputime", "counts")  # which needs the fewest turns
    other = "--schedprof-against=config:array.svg.size=60"  # 120 if nothing is said
    result = project.run_test(f"import dask.config\n{by_setting}", other)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*limit broken: transfers(bytes) <= baseline * 1.05*1.2 MB*(before: 600 kB)*"]
    )
    assert "transfers(count) <= baseline:" not in result.stdout.str()
    verdicts = {limit.limit: limit.verdict for limit in project.result().limits}
    assert verdicts == dict(zip(limits, (Verdict.FAIL, Verdict.PASS), strict=True))
