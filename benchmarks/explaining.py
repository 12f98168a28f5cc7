"""Measure how often the first line about a regression names the function at fault.

    python benchmarks/explaining.py [--corpus DIR] [--only NAME ...] [--keep DIR]

Changes of five kinds are planted at three places each of a copy of distributed: a scan of all
workers, one more message, one more call per task, a new helper, a loop over the graph. Each patch
of the corpus is reversed in a copy of its release, as in `backtest.py`. The shipped workloads run
once with the code as it is, once again (the null arm), and once with each change, on clusters in
virtual time. All are compared with the first run.

- failing: workloads that regressed.
- first: those of them whose first line names the function at fault. It is where a change is
  planted, or the helper; of a patch it is one that the patch changes, or that the lines name which
  the patch removed.
- explain: those whose first sentence of `schedprof explain` names it.

What is in the directory of `--keep` is not run again, so that other code can judge the same runs.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import distributed
from backtest import (
    SHARED,
    Bounds,
    NotRunError,
    Side,
    alarms,
    environments,
    is_at_fault,
    session,
    site_of,
)
from corpus import Patch, changed_functions, read_corpus
from figures import closing_line

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.judge.explanation import explanations, pairs_of
from pytest_schedprof.model.comparison import Comparison
from pytest_schedprof.report.changes import regressions
from pytest_schedprof.report.words import top_parts

MISSED = 0.1
"""Part of the failing tests whose first line may name another function."""

SUBJECT = re.compile(r"\w+ of (\S+): ")

HELPER = "_planted"

IsAtFault = Callable[[str], bool]


class Plant(NamedTuple):
    """A change: lines after a line of a function, and perhaps a helper that they call."""

    kind: str
    function: str
    after: str
    lines: str
    helper: str = ""

    @property
    def name(self) -> str:
        """The kind and the place."""
        return f"{self.kind}: {self.function.rpartition('.')[2]}"

    def in_copy(self, place: Path) -> Path:
        """Return the directory of a copy of distributed with the change."""
        module, _, qualname = self.function.partition(":")
        shutil.copytree(Path(distributed.__file__).parent, place / "distributed")
        path = place / f"{module.replace('.', '/')}.py"
        text = path.read_text()
        begin = text.index(f"def {qualname.rpartition('.')[2]}(")
        at = text.index(self.after, begin)
        start, end = text.rindex("\n", 0, at) + 1, text.index("\n", at) + 1
        indent = text[start:at]
        planted = "".join(f"{indent}{line}\n" for line in self.lines.splitlines())
        path.write_text(f"{text[:end]}{planted}{text[end:]}\n\n{self.helper}")
        return place

    def is_at_fault(self, name: str) -> bool:
        """Whether a function is the one at fault."""
        helper = f"{self.function.partition(':')[0]}:{HELPER}"
        return _outermost(name) in (self.function, helper)


SCHEDULER, STATE = "distributed.scheduler:Scheduler", "distributed.scheduler:SchedulerState"
STEALING = "distributed.stealing:WorkStealing"
MESSAGE = '{"op": "free-keys", "keys": [], "stimulus_id": "planted"}'

PLANTS = (
    Plant(
        "scan of workers",
        f"{STATE}._transition_waiting_processing",
        "ts = self.tasks[key]",
        "any(ws.status is None for ws in self.workers.values())",
    ),
    Plant(
        "scan of workers",
        f"{STATE}.check_idle_saturated",
        "p = len(ws.processing)",
        "max(len(each.processing) for each in self.workers.values())",
    ),
    Plant(
        "scan of workers",
        f"{STEALING}.put_key_in_stealable",
        "prefix = ts.prefix",
        "for ws in self.scheduler.workers.values():\n    ws.nthreads",
    ),
    Plant(
        "one more message",
        f"{SCHEDULER}.handle_task_finished",
        "recommendations, client_msgs, worker_msgs = r",
        f"self.worker_send(worker, {MESSAGE})",
    ),
    Plant(
        "one more message",
        f"{STATE}._add_to_processing",
        "self.n_tasks += 1",
        f"self.stream_comms[ws.address].send({MESSAGE})",
    ),
    Plant(
        "one more message",
        f"{STEALING}.put_key_in_stealable",
        "worker = ws.address",
        f"self.scheduler.stream_comms[worker].send({MESSAGE})",
    ),
    Plant("one more call", f"{STATE}.new_task", "group_key = ", "key_split(key)"),
    Plant(
        "one more call",
        f"{STATE}._transition_released_waiting",
        'ts.state = "waiting"',
        "self.is_rootish(ts)",
    ),
    Plant(
        "one more call",
        f"{SCHEDULER}._generate_taskstates",
        "new_tasks.append(ts)",
        "key_split_group(k)",
    ),
    Plant(
        "a new helper",
        f"{STATE}.new_task",
        "group_key = ",
        f"{HELPER}(key)",
        f"def {HELPER}(key):\n    n = 0\n    for _ in range(4):\n        n += 1\n    return n\n",
    ),
    Plant(
        "a new helper",
        f"{STATE}._add_to_processing",
        "self.n_tasks += 1",
        f"{HELPER}(ts, ws)",
        f"def {HELPER}(ts, ws):\n    return [dts.nbytes for dts in ts.dependencies], ws.nbytes\n",
    ),
    Plant(
        "a new helper",
        f"{STEALING}.put_key_in_stealable",
        "prefix = ts.prefix",
        f"{HELPER}(ts)",
        f"def {HELPER}(ts):\n    return (ts.key, ts.state, ts.nbytes, ts.prefix.name)\n",
    ),
    Plant(
        "a loop over a graph",
        f"{SCHEDULER}._create_taskstate_from_graph",
        "recommendations: Recs = {}",
        "for ts in touched_tasks:\n    ts.key",
    ),
    Plant(
        "a loop over a graph",
        f"{SCHEDULER}._apply_annotations",
        "keys_with_annotations: set[Key] = set()",
        "for ts in tasks:\n    ts.annotations",
    ),
    Plant(
        "a loop over a graph",
        "distributed.client:Client._graph_to_futures",
        "futures = {key: Future(key, self) for key in keyset}",
        "sum(len(str(key)) for key in keyset)",
    ),
)


def _outermost(name: str) -> str:
    return name.partition(".<locals>.")[0]


class Row(NamedTuple):
    """What came out for one change."""

    name: str
    tests: int = 0
    failing: int = 0
    first: int = 0
    explained: int = 0
    missed: tuple[str, ...] = ()
    """First lines that name another function."""
    note: str = ""

    def __str__(self) -> str:
        figures = "".join(f"{cell:>8}" for cell in self[1:5])
        return f"{self.name:44}{figures}  {self.note or '; '.join(self.missed[:1])}"


class Run(NamedTuple):
    """One session of the workloads, and its directory."""

    place: Path
    side: Side


def run_once(interpreter: Path, place: Path, bounds: Bounds, packages: Path | None = None) -> Run:
    """Run the workloads, unless they have run, with packages of a directory before all others."""
    return Run(place, session(interpreter, place, bounds, packages=packages))


def row_of(name: str, good: Run, bad: Run, is_fault: IsAtFault) -> Row:
    """Compare the results of two sessions."""
    comparisons = good.side.against(bad.side)
    failing = [comparison for comparison in comparisons if alarms([comparison])]
    lines = [regressions(comparison).splitlines()[0] for comparison in failing]
    missed = tuple(line for line in lines if not is_fault(_subject(line)))
    explained = sum(map(is_fault, _explained(good.place, bad.place, failing)))
    first = len(lines) - len(missed)
    return Row(name, len(comparisons), len(lines), first, explained, missed)


def _subject(line: str) -> str:
    match = SUBJECT.match(line)
    return match[1] if match else ""


def _explained(good: Path, bad: Path, failing: Iterable[Comparison]) -> Iterator[str]:
    """Yield the function that `schedprof explain` tells first of each test."""
    tests = {comparison.test_id for comparison in failing}
    for pair in pairs_of(str(good / ".schedprof"), str(bad / ".schedprof"), ""):
        if pair[1].result.test_id not in tests:
            continue
        known = [explanation for explanation in explanations(pair) if top_parts(explanation)]
        if gravest := max(known, key=lambda one: one.amount / (one.before or 1), default=None):
            yield top_parts(gravest)[0].function


def of_plant(plant: Plant, good: Run, place: Path, bounds: Bounds) -> Row:
    """Run the workloads with a planted change and return what is said."""
    packages = place / "copy"
    if not packages.exists():
        plant.in_copy(packages)
    bad = run_once(Path(sys.executable), place / "bad", bounds, packages)
    return row_of(plant.name, good, bad, plant.is_at_fault)


def of_patch(patch: Patch, place: Path, bounds: Bounds) -> Row:
    """Run the workloads with a patch reversed and return what is said."""
    name = f"{patch.path.stem} {patch.number}"
    try:
        interpreters = environments(patch, place)
        changed = changed_functions(patch, *map(site_of, interpreters))
        places = (place.parent / f"release-{patch.release}", place / "bad")
        good, bad = map(run_once, interpreters, places, (bounds, bounds))
    except (NotRunError, SchedprofError) as error:
        return Row(name, note=str(error).partition("\n")[0])
    return row_of(name, good, bad, lambda function: is_at_fault(function, patch, changed))


def _is_chosen(name: str, only: Sequence[str]) -> bool:
    return not only or any(part in name for part in only)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, default=SHARED)
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="parts of names")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--most", type=float, default=600.0, help="seconds of a session")
    parser.add_argument("--option", action="append", default=[], help="option of pytest")
    parser.add_argument("--keep", type=Path, help="directory for results and environments")
    options = parser.parse_args(arguments)
    bounds = Bounds(options.tasks, options.most, tuple(options.option))
    plants = [plant for plant in PLANTS if _is_chosen(plant.name, options.only)]
    patches = read_corpus([options.corpus.absolute()])
    chosen = [patch for patch in patches if _is_chosen(patch.path.stem, options.only)]
    rows: list[Row] = []
    print(f"{'change':44}{'tests':>8}{'failing':>8}{'first':>8}{'explain':>8}", flush=True)
    with tempfile.TemporaryDirectory(prefix="schedprof-explaining-") as temporary:
        place = (options.keep or Path(temporary)).absolute()
        good, again = (
            run_once(Path(sys.executable), place / name, bounds) for name in ("good", "again")
        )
        null = row_of("none", good, again, lambda _: False)
        print(null, flush=True)
        for plant in plants:
            rows.append(of_plant(plant, good, place / f"plant-{PLANTS.index(plant)}", bounds))
            print(rows[-1], flush=True)
        for patch in chosen:
            rows.append(of_patch(patch, place / patch.path.stem, bounds))
            print(rows[-1], flush=True)
    failing = sum(row.failing for row in rows)
    for title, hits in (
        ("part of failing tests whose first line misses", sum(row.first for row in rows)),
        ("part of failing tests whose explanation misses", sum(row.explained for row in rows)),
    ):
        print(closing_line(title, 1 - hits / max(1, failing), MISSED))
    print(closing_line("failing tests of the same code", null.failing, 0))


if __name__ == "__main__":
    main()
