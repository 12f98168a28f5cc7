"""Tests of comparisons of decisions: equal ones, and where two settings of dask part."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support import Project

from pytest_schedprof.cli.main import main
from pytest_schedprof.formats.counted import KINDS, NOBODY, RULES, Decided, read_decisions
from pytest_schedprof.measuring.pages import write_pages
from pytest_schedprof.model.comparison import Difference, FirstDifference
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.records import read_record

VIRTUAL = ("--schedprof=decisions", "--schedprof-cluster=virtual", "--schedprof-workers=4")

TREE = """
@pytest.mark.schedprof(rounds=1, cluster_options={"duration": "exponential(50ms)", "nbytes": "2MB"})
def test_tree(schedprof_scheduler):
    client = schedprof_scheduler.client
    layer = client.map(inc, range(TASKS), pure=False)
    while len(layer) > 1:
        pieces = range(0, len(layer), 4)
        layer = [client.submit(max, *layer[i : i + 4], pure=False) for i in pieces]
    wait(layer)
"""

SMALL_TREE = TREE.replace("TASKS", "16")
TREE = TREE.replace("TASKS", "48")


def runs_of(project: Project) -> list[Path]:
    return sorted((project.path / ".schedprof").glob("2*"))


def decided(run: Path, test: str = "") -> Decided:
    (file,) = run.glob(f"tests/*{test}*/scheduler.decisions.json")
    return read_decisions(file.read_bytes())


def parting_of(run: Path) -> FirstDifference:
    (file,) = run.glob("tests/*/result.json")
    (comparison,) = read_record(file, Result).comparisons
    assert comparison.parting is not None
    return comparison.parting


@pytest.mark.slow
def test_the_first_decision_that_differs_is_shown(
    project: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    project.run_test(TREE, *VIRTUAL, "--schedprof-save=main").assert_outcomes(passed=1)

    # The same code decides the same.
    result = project.run(*VIRTUAL, "--schedprof-compare=main")
    result.assert_outcomes(passed=1)
    result.stdout.re_match_lines([r"  decides the same \(hash [0-9a-f]{8}\)"])
    before, same = runs_of(project)
    assert decided(before) == decided(same)
    assert parting_of(same).what is Difference.NOTHING
    (page,) = same.glob("tests/*/index.html")
    assert page.read_text().count('<figure class="stream">') == 3  # a stream, and two curves

    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION", "inf")
    result = project.run(*VIRTUAL, "--schedprof-compare=main")
    result.assert_outcomes(failed=1)  # it regressed
    result.stdout.re_match_lines(
        [
            r"  parts in the first decision at 0 s: another worker for 'inc-.*-0' \(hash .*",
            r"    before: at 0 s to worker-\d \(0 tasks, 0 s of work, .*root-ish: the idle .*",
            r"    now: at 0 s to worker-\d \(0 tasks, .*not queued: with its siblings; the best .*",
            r"    what followed: \d+ of 64 tasks ran on another worker, .*transfers \d+ -> \d+.*",
        ]
    )
    after = runs_of(project)[-1]
    kept = parting_of(after)
    assert kept.what is Difference.WORKER
    assert kept.figures["transfers"][1] == decided(after).figures["transfers"]
    (page,) = after.glob("tests/*/index.html")
    assert len(re.findall('<rect class="mark"', page.read_text())) == 2
    runs = str(before.parent)
    for earlier, later in ((str(before), str(after)), (runs, f"{runs}/latest")):
        assert main(["compare", earlier, later]) == 1
        assert "parts in the first decision at 0 s" in capsys.readouterr().out
    assert main(["compare", "main", str(after), "--dir", runs]) == 1
    assert "what followed:" in capsys.readouterr().out
    write_pages(before, against=after)
    (page,) = before.glob("tests/*/index.html")
    assert len(re.findall('<rect class="mark"', page.read_text())) == 2

    # Without the run of its baseline a comparison knows only that something differs.
    before.rename(project.path / "elsewhere")
    result = project.run(*VIRTUAL, "--schedprof-compare=main")
    result.stdout.re_match_lines([r"  decides in another way \(hash .* compare two runs .*"])
    assert parting_of(runs_of(project)[-1]).what is Difference.UNKNOWN


COMPARED = """
@pytest.mark.schedprof(rounds=1, cluster_options={"duration": "1s"})
def test_thefts(schedprof_scheduler):
    client = schedprof_scheduler.client
    wait(client.map(inc, range(4), pure=False))
    root = client.submit(inc, 1, workers="inproc://worker-0", pure=False)
    wait(root)
    wait([client.submit(max, root, i, pure=False) for i in range(30)])

@pytest.mark.schedprof(rounds=1, cluster_options={"duration": "100ms", "nbytes": "3MB"})
def test_fetches(schedprof_scheduler):
    client = schedprof_scheduler.client
    a, b = (client.submit(inc, i, workers=f"inproc://worker-{i}", pure=False) for i in (1, 2))
    wait([a, b])
    wait(client.submit(max, a, b, pure=False))
"""


@pytest.mark.slow
def test_decisions_have_what_the_scheduler_compared(project: Project) -> None:
    project.run_test(COMPARED, *VIRTUAL).assert_outcomes(passed=2)
    thefts = decided(project.run_directory, "thefts")
    columns = thefts.choices
    kinds = [KINDS[kind] for kind in columns.kind]
    stolen = [i for i, kind in enumerate(kinds) if kind == "stolen"]
    assert len(stolen) == thefts.figures["steals"] > 0
    attempts = [i for i, kind in enumerate(kinds) if kind == "steal"]
    assert len(attempts) >= len(stolen)
    for row in attempts:
        assert RULES[columns.rule[row]] == "theft"
        assert thefts.workers[columns.worker[row]] == "worker-0"
        assert columns.other[row] not in (NOBODY, columns.worker[row])
        assert columns.occupancy[row] > columns.other_occupancy[row]
    assert [columns.processing[i] for i in range(4)] == [0] * 4
    places = thefts.places()
    assert all(
        places[thefts.keys[columns.key[i]]] == thefts.workers[columns.worker[i]] for i in stolen
    )

    # The bytes to fetch are those of results elsewhere.
    fetches = decided(project.run_directory, "fetches")
    columns = fetches.choices
    assert RULES[columns.rule[-1]] == "data"
    assert columns.fetch[-1] == columns.other_fetch[-1] == 3_000_000
    assert columns.others[-1] == 1
    assert {columns.worker[-1], columns.other[-1]} == {columns.worker[0], columns.worker[1]}
    assert fetches.held.all[0] == 0
    assert max(fetches.held.all) == 12_000_000
    assert fetches.transfers.took[0] > 0


WITHOUT = """
from pytest_schedprof.virtual import choices

def dask_setup(scheduler):
    if {is_without}:
        choices.Choices._note_choice = choices.Choices._note_message = lambda *arguments: None
"""


@pytest.mark.slow
def test_looking_at_what_the_scheduler_compares_is_not_counted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    preload = project.path / "preload.py"
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__PRELOAD", json.dumps([str(preload)]))
    counted = []
    for is_without in (False, True):
        preload.write_text(WITHOUT.format(is_without=is_without))
        result = project.run_test(SMALL_TREE, *VIRTUAL, "--schedprof=counts,decisions")
        result.assert_outcomes(passed=1)
        assert bool(decided(project.run_directory).choices.at) is not is_without
        (counts,) = (
            backend for backend in project.result().backends if backend.backend == "counts"
        )
        assert counts.costs is not None
        counted.append({cost.function: cost.total for cost in counts.costs.functions})
        project.run_directory.rename(project.path / f"earlier-{is_without}")
    assert counted[0] == counted[1]
