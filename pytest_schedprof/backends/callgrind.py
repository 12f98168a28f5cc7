"""callgrind: machine instructions per task, those of C code included."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import ClassVar

from pytest_schedprof.agent import callgrind as agent
from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.backends.remote import RemoteBackend, RemoteRecording
from pytest_schedprof.errors import RecordingError
from pytest_schedprof.formats.callgrind import (
    EVALUATOR,
    Call,
    CallGraph,
    is_python,
    read_callgrind,
    with_names,
)
from pytest_schedprof.model.backend import CALLGRIND, Artifact
from pytest_schedprof.model.metric import INSTRUCTIONS
from pytest_schedprof.model.profile import OTHERS, CostProfile, Function, Namer, compile_pattern

PASSES = 100
"""Most calls of C functions by each other that a cost is passed up."""

ROUNDS = 8
"""How often it is estimated anew how many calls were measured."""

LEAST = 0.5
"""Smallest cost that is passed up."""

Weights = Mapping[str, Mapping[str, float]]
"""For each C function the part of its cost that each caller is charged with."""


def charged(graph: CallGraph) -> dict[str, float]:
    """Return the cost of each Python function with that of the C functions that it called."""
    charges = {name: float(cost) for name, cost in graph.own.items() if is_python(name)}
    passed = {name: float(cost) for name, cost in graph.own.items() if not is_python(name)}
    parts = weights(graph)
    for _ in range(PASSES):
        passed = _passed_up(passed, parts, charges)
        if not passed:
            break
    return charges


def _passed_up(
    costs: Mapping[str, float], parts: Weights, charges: dict[str, float]
) -> dict[str, float]:
    """Charge callers in Python; return what is to be charged to the callers of those in C."""
    passed: dict[str, float] = defaultdict(float)
    for name, cost in costs.items():
        for caller, part in parts.get(name, {}).items() if cost >= LEAST else ():
            if is_python(caller):
                charges[caller] = charges.get(caller, 0.0) + cost * part
            else:
                passed[caller] += cost * part
    return passed


def weights(graph: CallGraph) -> Weights:
    """Return what callers are charged with, for each C function that has any."""
    back = _that_call_python(graph)
    callers: dict[str, dict[str, Call]] = defaultdict(dict)
    for (caller, called), call in graph.calls.items():
        if call.cost and not is_python(called):
            callers[called][caller] = call
    return {
        name: _shared(_counts(graph.own.get(name, 0), calls) if name in back else _costs(calls))
        for name, calls in callers.items()
    }


def _shared(weights: Mapping[str, float]) -> dict[str, float]:
    """Return each weight as a part of all."""
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}


def _costs(calls: Mapping[str, Call]) -> dict[str, float]:
    return {caller: float(call.cost) for caller, call in calls.items()}


def _counts(own: int, calls: Mapping[str, Call]) -> dict[str, float]:
    """Return the number of calls by each caller that were measured.

    Callgrind counts those in imports too, at no cost. A call costs what the function itself takes.
    """
    counts = {caller: float(call.count) for caller, call in calls.items()}
    for _ in range(ROUNDS if own else 0):
        each = own / sum(counts.values())
        counts = {caller: min(counts[caller], call.cost / each) for caller, call in calls.items()}
    return counts


def _that_call_python(graph: CallGraph) -> set[str]:
    """Return the C functions that call Python functions, themselves or through others in C."""
    callers: dict[str, set[str]] = defaultdict(set)
    for (caller, called), call in graph.calls.items():
        if call.cost and not is_python(caller):
            callers[called].add(caller)
    found: set[str] = set()
    waiting = [name for name in callers if is_python(name)]
    while waiting:
        new = callers[waiting.pop()] - found
        found |= new
        waiting += new
    return found


PLUMBING = (
    "PyObject_Call*",
    "PyObject_Vectorcall*",
    "PyVectorcall_Call",
    "_PyEval_Vector",
    "_PyFunction_Vectorcall",
    "_PyObject_Call*",
    "_PyObject_FastCall*",
    "_PyObject_MakeTpCall",
    "_PyObject_Vectorcall*",
    "_PyVectorcall_Call",
    "cfunction*",
    "context_run",
    "method_call",
    "method_vectorcall*",
    "object_vacall",
    "partial_vectorcall",
    "py_trampoline_evaluator",
    "vectorcall_*",
)
"""Functions by which the interpreter calls others: callgrind counts them as their callers, so that
it tells which Python function called which."""

KEPT = 0.0005
"""Part of the whole from which a function has a line of its own; the others of a module share one.
The record of a test would have half a megabyte else."""

UNNAMED = (
    "the scheduler's Python does not name its functions, as Python 3.12 and newer do on Linux, so "
    "only C functions are known"
)

NAMELESS = ("c:[python", "c:[libpython")
"""Begin of the one name that all C functions of an interpreter share whose names were stripped."""

MOST_NAMELESS = 0.1
"""Part of the whole in such code from which nothing tells which Python function it worked for."""

STRIPPED = (
    "the scheduler's Python was stripped of the names of its C functions, as Debian's is, so "
    "nothing tells which Python function they worked for"
)


class CallgrindRecording(RemoteRecording):
    """Callgrind at work in a scheduler."""

    def stop(self, *, timeout_s: float) -> RawProfile:
        """Fetch callgrind's file, and put names into it."""
        raw = super().stop(timeout_s=timeout_s)
        return replace(raw, content=with_names(raw.content))

    def verify(self, content: bytes) -> None:
        """Check that callgrind wrote a file."""
        if not content.startswith(b"# callgrind format"):
            raise RecordingError(
                "schedprof: callgrind wrote no file; is the disk full, or did the test remove it?"
            )


class CallgrindBackend(RemoteBackend):
    """Counts in a scheduler that valgrind emulates."""

    name = "callgrind"
    rank = None
    launcher: ClassVar[tuple[str, ...]] = (
        f"{agent.OUT}={{directory}}/callgrind.out",
        "PYTHONPERFSUPPORT=1",
        "valgrind",
        "--tool=callgrind",
        "--callgrind-out-file={directory}/callgrind.out",
        "--instr-atstart=no",
        "--separate-threads=yes",
        "--vgdb=no",
        "--quiet",
        f"--separate-callers1={EVALUATOR}",
        *(f"--fn-skip={each}" for each in PLUMBING),
    )
    artifacts = (Artifact("callgrind.out", CALLGRIND),)
    measures = frozenset({INSTRUCTIONS})
    sees_threads = False
    disturbs = True
    module = agent
    recording = CallgrindRecording
    refusals = (
        (
            "not-emulated",
            "callgrind counts only what valgrind emulates, and {label} was not started by it",
            "take the fixture schedprof_scheduler on a cluster that is started for the test: "
            "--schedprof-cluster=virtual, simulated or local",
        ),
    )

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        """Parse callgrind's file."""
        graph = read_callgrind(content)
        costs = {name: cost for name, cost in graph.own.items() if not is_python(name)}
        nameless = sum(cost for name, cost in costs.items() if name.startswith(NAMELESS))
        is_stripped = nameless > MOST_NAMELESS * graph.total
        charges = {} if is_stripped else charged(graph)
        python = {name: round(cost) for name, cost in charges.items()}
        costs |= python
        return CostProfile(
            self.name,
            self.mode,
            {name: {INSTRUCTIONS: float(cost)} for name, cost in self._folded(costs, graph.total)},
            {INSTRUCTIONS: float(graph.total)},
            hides="" if python else STRIPPED if is_stripped else UNNAMED,
        )

    def _folded(self, costs: Mapping[Function, int], total: int) -> Collection[tuple[str, int]]:
        """Add up the functions of a module that cost next to nothing, if no limit names them."""
        named = [compile_pattern(each).fullmatch for each in self.patterns]
        folded: dict[Function, int] = {}
        for name, cost in costs.items():
            is_kept = cost >= KEPT * total or any(match(name) for match in named)
            line = name if is_kept else f"{name.partition(':')[0]}:{OTHERS}"
            folded[line] = folded.get(line, 0) + cost
        return folded.items()


BACKEND: type[Backend] = CallgrindBackend
