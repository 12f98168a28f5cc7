"""Tests of call trees and pages, made from handwritten samples."""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path

import msgspec
from drawn import CODE, LOOP, TRANSITION, kept, with_sources
from measured import TASKS, counted, measured, recorded
from msgspec.structs import replace

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.formats.counted import CountsFile
from pytest_schedprof.judge.limits import LIMITABLE_OWNERS
from pytest_schedprof.judge.owners import owner_of
from pytest_schedprof.judge.recordings import Names, busy_stacks, other_of, trimmed
from pytest_schedprof.model.explanation import Source
from pytest_schedprof.model.run import Moment, Point, Series, Setting, Step
from pytest_schedprof.report.code import MOST_LINES, code_of
from pytest_schedprof.report.flames import call_tree
from pytest_schedprof.report.pages import PageOfRun, as_json
from pytest_schedprof.report.pages import drawn as drawn_of
from pytest_schedprof.store.runs import find_run
from pytest_schedprof.store.sources import add_sources

IDLE = (LOOP, "selectors:EpollSelector.select")


def test_functions_are_named_as_the_record_has_them_wherever_the_code_lies() -> None:
    names = Names([TRANSITION, "distributed.core:Server.handle_comm", "tlz.dicttoolz:merge"])
    functions = names(
        [
            ("/home/me/distributed/distributed/scheduler.py", "SchedulerState._transition", 1),
            ("C:\\env\\Lib\\site-packages\\distributed\\core.py", "Server.handle_comm", 1),
            ("/env/lib/python3.11/site-packages/toolz/dicttoolz.py", "merge", 1),
            ("/home/me/distributed/distributed/profile.py", "process", 1),
            ("/usr/lib/python3.11/selectors.py", "EpollSelector.select", 1),
            ("<frozen importlib._bootstrap>", "_find_and_load", 1),
            ("/somewhere/package/__init__.py", "f", 1),
            ("<string>", "<module>", 1),
        ]
    )
    assert functions == [
        TRANSITION,
        "distributed.core:Server.handle_comm",
        "tlz.dicttoolz:merge",  # imported under another module name
        "distributed.profile:process",  # not in the record
        "selectors:EpollSelector.select",
        "importlib._bootstrap:_find_and_load",
        "package:f",
        "<string>:<module>",
    ]


def test_a_tree_holds_busy_samples_and_the_collector_apart() -> None:
    collecting = (LOOP, TRANSITION, "distributed.gc:GCDiagnosis._gc_callback")
    samples = [(LOOP,), (LOOP, TRANSITION), (LOOP, TRANSITION), IDLE, collecting]
    stacks = busy_stacks([recorded(samples)])
    assert stacks == {(LOOP,): 1, (LOOP, TRANSITION): 2, collecting[2:]: 1}
    tree = call_tree(stacks)
    assert [tree.functions[name] for name in tree.names] == [LOOP, TRANSITION, collecting[2]]
    assert (tree.depths, tree.own, tree.before) == ((0, 1, 0), (1, 2, 1), ())


def test_calls_that_lead_to_most_others_are_left_out() -> None:
    lead = ("pytest_schedprof.clusters.process:main", "asyncio.runners:Runner.run", LOOP)
    stacks = {
        (*lead, "plugin:update", TRANSITION): 90,  # a plugin's function stays
        lead: 4,
        (*lead[:2], "selectors:select"): 3,
        ("threading:Thread.run",): 3,
    }
    tree = call_tree(stacks, {(*lead, TRANSITION): 5})
    assert tree.lead == lead
    names = [tree.functions[name].rpartition(":")[2] for name in tree.names]
    rows = list(zip(tree.depths, names, tree.own, tree.before, strict=True))
    transition, loop = (name.partition(":")[2] for name in (TRANSITION, LOOP))
    assert rows[:2] == [(0, "update", 0, 0), (1, transition, 90, 0)]
    ends = {(transition, 0, 5), (loop, 4, 0), ("select", 3, 0), ("Thread.run", 3, 0)}
    assert {row[1:] for row in rows[2:]} == ends
    assert {row[0] for row in rows[2:]} == {0}
    assert call_tree({(LOOP, *lead): 1, ("a:f",): 1}).lead == ()  # half is not most


def test_stacks_may_be_deeper_than_pythons_own() -> None:
    assert call_tree({("a:f",) * 5000: 1}).depths == tuple(range(5000))


def test_every_owner_has_a_colour() -> None:
    style = (files("pytest_schedprof.report") / "assets" / "owners.css").read_text()
    assert {*LIMITABLE_OWNERS, owner_of("numpy:f")} <= set(re.findall(r"--o-([\w-]+):", style))


ALL_TASKS = 3 * TASKS
"""Those of the three rounds that a record of `counted` has."""


def called(sort: int) -> bytes:
    """A file of callgrind in which the loop calls a transition, which sorts."""
    return f"""# callgrind format
events: Ir
fn=(1) PyObject_Vectorcall
0 {10 * ALL_TASKS}
cfn=(2) py::{TRANSITION}
calls=1 0
0 {(400 + sort) * ALL_TASKS}

fn=(2)
0 {400 * ALL_TASKS}
cfn=(3) list_sort_impl
calls=1 0
0 {sort * ALL_TASKS}

fn=(3)
0 {sort * ALL_TASKS}
""".encode()


def test_a_graph_of_calls_is_a_flame_graph_of_instructions(tmp_path: Path) -> None:
    file = "scheduler.instructions.callgrind.out"
    for name, sort in {"before": 100, "now": 150}.items():
        backend = counted({TRANSITION: 400.0 + sort}, metric="instructions")
        backend = replace(backend, backend="instructions", artifacts=(file,))
        run = kept(tmp_path / name, measured(backend, test_id="test_a"))
        (run / "0" / file).write_bytes(called(sort))
    before, now = (find_run(tmp_path / name) for name in ("before", "now"))
    (test,) = now.attempts()
    assert test.result is not None
    other, known = other_of(test, before), BackendRegistry().facts
    ((flame, *_),) = drawn_of(test.result, test.directory, other, known)
    assert flame is not None
    content = flame.content
    assert flame.before == "before"
    assert (content["unit"], content["isSampled"]) == ("instructions", False)
    assert (content["own"], content["before"]) == ([10, 400, 150], [10, 400, 100])
    assert "bounds" not in content  # they are exact, and the script sums them up
    assert content["owners"] == ["c-code", "transitions"]


def test_a_trace_that_was_cut_off_has_no_flame_graph(tmp_path: Path) -> None:
    file = "scheduler.viztracer.json.gz"
    backend = counted({TRANSITION: 1.0}, metric="seconds")
    backend = replace(backend, backend="viztracer", artifacts=(file,))
    run = kept(tmp_path / "run-1", measured(backend, test_id="test_a"))
    (run / "0" / file).write_bytes(b"\x1f\x8bcut off")
    (test,) = find_run(run).tests()
    ((flame, no_flame, *_),) = drawn_of(test.result, test.path, None, BackendRegistry().facts)
    assert flame is None
    assert no_flame.startswith("a trace cannot be decompressed: ")


def test_small_calls_are_counted_as_their_callers_own() -> None:
    stacks = {("a:f",): 5, ("a:f", "a:g"): 90, ("a:f", "a:h", "a:i"): 3, ("a:f", "a:h", "a:j"): 2}
    assert trimmed(stacks, 0.0) == stacks
    assert trimmed(stacks, 0.04) == {("a:f",): 5, ("a:f", "a:g"): 90, ("a:f", "a:h"): 5}
    assert trimmed(stacks, 0.2) == {("a:f",): 10, ("a:f", "a:g"): 90}
    assert trimmed({("a:f", "a:g"): 1, ("b:f",): 99}, 0.5) == {("a:f",): 1, ("b:f",): 99}


def test_a_series_is_drawn_within_its_margins(tmp_path: Path) -> None:
    setting = Setting("test_a", "counts", "", "3.11", "local", 4, (), "")
    moments = (Moment(f"run-{n}", "2026-01-01", None) for n in range(4))
    figures = tuple(map(Point, moments, (10.0, 10.0, 20.0, 20.0)))
    steps = (Step(2, 10.0, 20.0, 0.01),)
    series = [Series(setting, "calls", "", figures, steps)]
    run = kept(tmp_path / "run-1", measured(counted({TRANSITION: 7.0}), test_id="test_a"))
    page = PageOfRun().text(find_run(run).record, series=series, history="4 runs")
    assert 'class="line" points="4,32 81.3,32 158.7,4 236,4"' in page
    assert 'class="level" points="4,32 81.3,32"' in page
    assert 'class="step" cx="158.7" cy="4"' in page
    assert "step at run run-2" in page


def test_code_is_cut_to_what_a_page_can_hold(tmp_path: Path) -> None:
    run = tmp_path / "run-1"
    names = [f"distributed.scheduler:f{n}" for n in range(40)]
    counts = replace(
        counted({name: 1.0 + number for number, name in enumerate(names)}),
        artifacts=("scheduler.counts.json",),
    )
    result = with_sources(run, measured(counts, test_id="test_a"))
    add_sources(run, CODE, {name: Source("a.py", 1, "pass\n" * 30) for name in names})
    kept(run, result)
    lines = {name: {n: number + 1 for n in range(1, 31)} for number, name in enumerate(names)}
    totals = {name: {"bytecodes": 30 * (n + 1)} for n, name in enumerate(names)}
    file = CountsFile(1, "3.11.7", totals, {}, lines=lines)
    (run / "0" / "scheduler.counts.json").write_bytes(msgspec.json.encode(file))
    code = code_of(result, run / "0")
    assert [name for name, _, _ in code.functions] == names[: -MOST_LINES // 30 : -1]


def test_no_name_can_end_the_script_that_holds_it() -> None:
    assert not set("<>&\u2028\u2029'") & set(as_json(["</script><!--\u2028\u2029'\"&"]))
