"""instructions: machine instructions per task, by a counter of the processor or by valgrind."""

from __future__ import annotations

import errno
import os
from collections import defaultdict
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.agent import instructions as agent
from pytest_schedprof.agent import perf_events
from pytest_schedprof.agent.instructions import AUTO, COUNTER, VALGRIND
from pytest_schedprof.backends.contract import RawProfile, Target
from pytest_schedprof.backends.remote import RemoteBackend, RemoteRecording
from pytest_schedprof.errors import (
    BackendNotPermittedError,
    BackendUnavailableError,
    RecordingError,
    SchedprofError,
)
from pytest_schedprof.formats import read_json
from pytest_schedprof.formats.callgrind import (
    EVALUATOR,
    HEAD,
    Call,
    CallGraph,
    is_python,
    read_callgrind,
    with_names,
)
from pytest_schedprof.model.backend import CALLGRIND, JSON, Artifact
from pytest_schedprof.model.metric import INSTRUCTIONS
from pytest_schedprof.model.options import check_choice
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
    parts = {}
    for name, calls in callers.items():
        amounts = {caller: float(call.cost) for caller, call in calls.items()}
        if name in back:
            amounts = _counts(graph.own.get(name, 0), calls)
        total = sum(amounts.values())
        parts[name] = {caller: amount / total for caller, amount in amounts.items()}
    return parts


def _counts(own: int, calls: Mapping[str, Call]) -> dict[str, float]:
    """Return the number of calls by each caller that were measured.

    Callgrind counts those in imports too, at no cost. A call costs what the function itself takes.
    """
    counts = {caller: float(call.count) for caller, call in calls.items()}
    for _ in range(ROUNDS if own else 0):
        amount = own / sum(counts.values())
        counts = {caller: min(counts[caller], call.cost / amount) for caller, call in calls.items()}
    return counts


def _that_call_python(graph: CallGraph) -> set[str]:
    """Return the C functions that call Python functions, themselves or through others in C."""
    callers: dict[str, set[str]] = defaultdict(set)
    for (caller, called), call in graph.calls.items():
        if call.cost and not is_python(caller):
            callers[called].add(caller)
    reached: set[str] = set()
    waiting = [name for name in callers if is_python(name)]
    while waiting:
        new = callers[waiting.pop()] - reached
        reached |= new
        waiting += new
    return reached


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

LAUNCHER = (
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
    *(f"--fn-skip={name}" for name in PLUMBING),
)
"""Starts a scheduler that valgrind emulates."""

STARTED = (
    "take the fixture schedprof_scheduler on a cluster that is started for the test: "
    "--schedprof-cluster=virtual, simulated or local"
)
INSTEAD = f"valgrind counts without one: {STARTED}"
FORBIDS = 2
"""Values of perf_event_paranoid above this keep users from counting their own processes."""

TAKEN = "others took the processor's counter for {:.0%} of the time: end programs that use perf"
AS_A_WHOLE = (
    "the processor's counter counts the scheduler as a whole; instructions.by=valgrind tells "
    "functions apart"
)


class InstructionsOptions(Struct, frozen=True):
    by: str = AUTO
    """`valgrind`, `counter` for one of the processor's, or `auto`: valgrind if a limit names a
    function or an owner and the cluster is started for the test, else the counter where the machine
    lends it, else valgrind."""


class CounterFile(Struct, frozen=True):
    """What a counter of the processor counted in one recording."""

    schedprof_instructions: int
    """Version of the format."""
    instructions: int
    enabled_ns: int
    """For how long it was to count."""
    running_ns: int
    """For how long it did: others may use the processor's counters, too."""


@cache
def is_lent() -> bool:
    """Whether this machine, which also runs what is started for a test, lends a counter."""
    if not perf_events.is_known_here():
        return False
    try:
        os.close(perf_events.open_counter(perf_events.instructions()))
    except OSError:
        return False
    return True


class InstructionsRecording(RemoteRecording):
    """A count under way in a scheduler."""

    def stop(self, *, timeout_s: float) -> RawProfile:
        raw = super().stop(timeout_s=timeout_s)
        return replace(raw, content=with_names(raw.content))

    def verify(self, content: bytes) -> None:
        if content.startswith(agent.SYMBOL.encode()):
            raise RecordingError(
                "schedprof: callgrind wrote no file; is the disk full, or did the test remove it?"
            )


class InstructionsBackend(RemoteBackend):
    """Counts the instructions of the event loop's thread."""

    name = "instructions"
    rank = None
    artifacts = (
        Artifact("instructions.callgrind.out", CALLGRIND),
        Artifact("instructions.json", JSON),
    )
    options_type = InstructionsOptions
    measures = frozenset({INSTRUCTIONS})
    sees_threads = False
    disturbs = True
    """Valgrind does. The counter does not, but would count what records beside it."""
    module = agent
    recording = InstructionsRecording
    refusals = (
        (
            "not-emulated",
            "valgrind counts only what it emulates, and {label} was not started by it",
            STARTED,
        ),
        ("system", "instructions needs Linux on x86-64 or ARM, and {label} runs {system}"),
    )

    def prepare(self) -> None:
        by: str = self.options.by
        check_choice("instructions.by", by, (AUTO, COUNTER, VALGRIND))
        is_better = agent.can_be_emulated() and (bool(self.patterns) or not is_lent())
        if by == VALGRIND or (by == AUTO and is_better):
            self.launcher = LAUNCHER

    def suffix(self, content: bytes) -> str:
        return self.artifacts[0 if content.startswith(HEAD) else 1].ending

    def arguments(self, target: Target, timeout_s: float) -> tuple[Any, ...]:
        return (self.options.by, target.client_id)

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        if answer["problem"] != "refused":
            return super().refusal(answer, target, timeout_s)
        if answer["error"] in (errno.EACCES, errno.EPERM):
            return _forbidden(answer["paranoid"], target.label)
        why = {
            errno.ENOENT: "the machine has none to lend, as most virtual machines",
            errno.ENOSYS: "the system there does not know perf_event_open, as in some sandboxes",
        }.get(answer["error"], f"the system says {errno.errorcode.get(answer['error'], 'no')}")
        return BackendUnavailableError(
            f"schedprof: {target.label} gets no counter of instructions: {why}", INSTEAD
        )

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        if not content.startswith(HEAD):
            file = read_json(content, CounterFile, self.name)
            missing = 1 - file.running_ns / file.enabled_ns if file.enabled_ns else 0.0
            doubt = TAKEN.format(missing) if missing else ""
            whole = {INSTRUCTIONS: float(file.instructions)}
            return CostProfile(self.name, COUNTER, {}, whole, doubt=doubt, hides=AS_A_WHOLE)
        graph = read_callgrind(content)
        costs = {name: cost for name, cost in graph.own.items() if not is_python(name)}
        nameless = sum(cost for name, cost in costs.items() if name.startswith(NAMELESS))
        is_stripped = nameless > MOST_NAMELESS * graph.total
        charges = {} if is_stripped else charged(graph)
        python = {name: round(cost) for name, cost in charges.items()}
        costs |= python
        return CostProfile(
            self.name,
            VALGRIND,
            {name: {INSTRUCTIONS: float(cost)} for name, cost in self._folded(costs, graph.total)},
            {INSTRUCTIONS: float(graph.total)},
            hides="" if python else STRIPPED if is_stripped else UNNAMED,
        )

    def _folded(self, costs: Mapping[Function, int], total: int) -> Collection[tuple[str, int]]:
        """Add up the functions of a module that cost next to nothing, if no limit names them."""
        named = [compile_pattern(pattern).fullmatch for pattern in self.patterns]
        folded: dict[Function, int] = {}
        for name, cost in costs.items():
            is_kept = cost >= KEPT * total or any(match(name) for match in named)
            line = name if is_kept else f"{name.partition(':')[0]}:{OTHERS}"
            folded[line] = folded.get(line, 0) + cost
        return folded.items()


def _forbidden(paranoid: str, label: str) -> BackendNotPermittedError:
    is_paranoid = paranoid.isdigit() and int(paranoid) > FORBIDS
    reason = (
        f"perf_event_paranoid is {paranoid}" if is_paranoid else "a filter or policy refuses it"
    )
    remedy = (
        "as root: sysctl kernel.perf_event_paranoid=2"
        if is_paranoid
        else "containers: permit perf_event_open, as with --cap-add PERFMON"
    )
    return BackendNotPermittedError(
        f"schedprof: {label} may not use counters of the processor: {reason}", remedy, INSTEAD
    )
