"""The table of metrics: everything that can be measured and limited.

docs/limits.md explains each metric to users.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from math import floor, log10
from typing import Any, NamedTuple

CLIENT = ("construction", "optimisation", "serialisation", "sending")
"""Phases of the client up to the scheduler, in the order in which a computation passes them."""

RECEIVING = "receiving"
"""Phase of the client in which it unpacks what it receives."""

OF_CLIENT = (*CLIENT, RECEIVING)

SCHEDULER: Mapping[str, tuple[str, ...]] = {
    "intake": ("graph-intake",),
    "transitions": ("transitions", "worker-choice", "stealing"),
    "messages": ("comm", "serialisation"),
}
"""Phases of the scheduler and their owners. Limits name owners too: `cpu(@graph-intake)`."""

REST = "rest"
"""Phase of everything else in the scheduler: event loop, heartbeats, garbage collector, ..."""

EXECUTION, OVERHEAD = "execution", "overhead"
"""Phases of the workers: the code of tasks, and all else that their processes do."""

WORKERS = (EXECUTION, OVERHEAD)

PHASES = (*CLIENT, *SCHEDULER, REST, *WORKERS, RECEIVING)
"""All phases, in order."""


SAMPLED = ("process", "managed", "spilled")
"""Measures of workers' memory that are sampled if nothing else is asked for, as dask names them."""

MEASURES = (
    *SAMPLED,
    "managed_total",
    "unmanaged",
    "unmanaged_old",
    "unmanaged_recent",
    "optimistic",
)
"""All measures of workers' memory: what a limit can name, which is then sampled too."""

PERCENT = {"%": Decimal("0.01")}
NUMBER = {"": Decimal(1)}
TIME = {"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)}
BYTES = {
    "B": Decimal(1),
    "kB": Decimal(10**3),
    "MB": Decimal(10**6),
    "GB": Decimal(10**9),
    "KiB": Decimal(2**10),
    "MiB": Decimal(2**20),
    "GiB": Decimal(2**30),
}


class Metric(NamedTuple):
    """Everything that is known of one metric. Adding one takes a row, and a backend."""

    units: dict[str, Decimal]
    """Units that a bound may have, each as a multiple of the unit used in results."""
    noun: str
    """The noun in `6.1 calls per task`; empty if the unit is enough."""
    rank: int = 0
    """Importance, from 1 on. Tables of functions are sorted by the most important metric that a
    backend has, and the short history on the terminal shows it. 0 if it is used for neither."""
    is_exact: bool = False
    """Whether a limit on it has no interval, because it is counted instead of timed or sampled."""
    is_sampled: bool = False
    """Whether it is estimated from samples: results have it as shares and CPU time of the window,
    not among their costs."""
    is_peak: bool = False
    """Whether it is a figure of the whole window, the largest of all rounds; all others are amounts
    that are divided by the window's tasks."""
    is_way: bool = False
    """Whether it tells which way tasks took through the state machine. Where the test's own process
    runs all, that depends on timing: under load, tasks are queued that otherwise are not."""
    is_decision: bool = False
    """Whether it tells of the scheduler's decisions in virtual time, where each run is the same."""
    is_held: bool = False
    """Whether it is per task that the scheduler held at once, and not per task of the window; the
    backend divides. Its functions are types of objects."""
    is_least: bool = False
    """Whether the smallest of all rounds counts: what is kept once is no leak. It takes two."""
    is_longest: bool = False
    """Whether the figure of the whole is that of one function, which is told."""
    is_traffic: bool = False
    """Whether it counts messages. How many are sent as one batch depends on timing, so it is not
    taken as exact even if all rounds agree."""
    is_here: bool = False
    """Whether it is of the test's own process, and of the client's functions."""
    scatter: float = 0.0
    """How far windows of the same code differ on a cluster in virtual time, as a part of the whole.
    Smaller changes of functions are ignored."""
    of_functions: bool = True
    """Whether it can be limited for functions and owners. If not, it is of the whole scheduler."""
    of_owners: bool = True
    """Whether it can be limited for owners, if it can be for functions."""
    of_client: bool = False
    """Whether it can be limited for phases of the client."""
    of_whole: bool = True
    """Whether it can be limited without a pattern, for the scheduler as a whole."""
    of_metric: bool = False
    """Whether it is about another metric, which is its first argument."""
    is_divided: bool = False
    """Whether the costs of functions sum to that of the whole, so that a change is explained by
    them."""
    own: str = ""
    """Name in costs of the function's own part, if the metric includes that of its callees."""
    weighed_by: str = ""
    """The metric to check when this one rises: without a rise there, the function did not become
    more expensive."""
    is_extra: bool = False
    """Whether histories show it only if a user names it."""
    spelling: str = ""
    """How limits write it, if that is not its name."""
    evidence: str = ""
    """The kind of evidence that measures it, in each run of the body; empty if backends do."""
    named: str = ""
    """What its patterns name, if that is neither a function nor an owner."""
    choices: tuple[str, ...] = ()
    """Everything that its patterns can name, if that is known before the test."""
    example: str = "distributed.scheduler:*"
    """A pattern, for messages."""
    of_steps: str = ""
    """The metric of functions that it is for steps of graph intake; empty if it is of no steps.
    Limits write that name: `cpu(intake:ordering)`."""


def _decision(units: dict[str, Decimal], noun: str = "") -> Metric:
    return Metric(units, noun, is_exact=True, is_peak=True, is_decision=True, of_functions=False)


def _held(noun: str, **more: Any) -> Metric:
    return Metric(
        NUMBER, noun, is_exact=True, is_peak=True, is_held=True, of_owners=False
    )._replace(**more)


def _stall(percentile: str) -> Metric:
    spelling = f"stall({percentile})"
    return Metric(TIME, "", is_peak=True, of_functions=False, spelling=spelling, is_extra=True)


def _of_evidence(kind: str, units: dict[str, Decimal], noun: str = "", **more: Any) -> Metric:
    row = Metric(units, noun, evidence=kind, of_owners=False, is_extra=True)._replace(**more)
    return row._replace(example=row.choices[0]) if row.choices else row


ANY_KIND = "*"
"""Stands for the kind of evidence that a limit's pattern names first, as in `queue:longest`."""

SHARE, SELF, CPU = "share", "self", "cpu"
"""The metrics that samples give, for the modules that compute them."""

CALLS = "calls"

BYTECODES = "bytecodes"

INSTRUCTIONS = "instructions"

CLIENT_BYTECODES = "client_bytecodes"

METRICS: dict[str, Metric] = {
    SHARE: Metric(PERCENT, "", is_sampled=True, of_whole=False),
    SELF: Metric(PERCENT, "", is_sampled=True, of_whole=False, of_owners=False, is_extra=True),
    CPU: Metric(TIME, "of CPU", rank=1, is_sampled=True, of_client=True, is_divided=True),
    CALLS: Metric(NUMBER, "calls", rank=4, is_exact=True, weighed_by="bytecodes"),
    BYTECODES: Metric(NUMBER, "bytecodes", rank=3, is_exact=True, is_divided=True),
    CLIENT_BYTECODES: Metric(
        NUMBER,
        "bytecodes of the client",
        is_exact=True,
        is_here=True,
        scatter=0.03,
        of_owners=False,
        is_divided=True,
    ),
    INSTRUCTIONS: Metric(
        NUMBER, "instructions", rank=7, is_exact=True, scatter=0.002, is_divided=True
    ),
    "seconds": Metric(TIME, "", rank=2, of_whole=False, own="self_seconds", is_divided=True),
    "transitions": Metric(NUMBER, "transitions", is_exact=True, is_way=True, of_functions=False),
    "messages_in": Metric(NUMBER, "messages", is_exact=True, is_traffic=True, of_functions=False),
    "messages_out": Metric(NUMBER, "messages", is_exact=True, is_traffic=True, of_functions=False),
    "bytes_in": Metric(BYTES, "", is_exact=True, is_traffic=True, of_functions=False),
    "bytes_out": Metric(BYTES, "", is_exact=True, is_traffic=True, of_functions=False),
    "peak": Metric(BYTES, "", rank=5, is_peak=True, of_functions=False),
    "leaked": Metric(BYTES, "", rank=6, is_peak=True, of_functions=False),
    "objects": _held("per task held", rank=8),
    "blocks": _held("per task held", of_functions=False),
    "objects_leaked": _held("per task released", rank=9, is_least=True),
    "blocks_leaked": _held("per task released", of_functions=False, is_least=True),
    "stall": Metric(TIME, "of CPU", rank=10, is_peak=True, of_owners=False, is_longest=True),
    "stall_p50": _stall("p50"),
    "stall_p90": _stall("p90"),
    "stall_p99": _stall("p99")._replace(is_extra=False),
    "stall_p999": _stall("p99.9"),
    "stall_wall": Metric(
        TIME, "by the clock", is_peak=True, of_owners=False, is_longest=True, is_extra=True
    ),
    "gc_pauses": Metric(NUMBER, "pauses", is_peak=True, of_functions=False, is_extra=True),
    "gc_pause": Metric(TIME, "of CPU", is_peak=True, of_functions=False),
    "gc_share": Metric(PERCENT, "", is_peak=True, of_functions=False),
    "intake_cpu": Metric(TIME, "of CPU", rank=11, of_owners=False, of_steps="cpu"),
    "intake_calls": Metric(
        NUMBER, "calls", is_exact=True, of_owners=False, of_steps="calls", is_extra=True
    ),
    "makespan": _decision(TIME),
    "idle": _decision(TIME, "of idle threads"),
    "transferred": _decision(BYTES),
    "transfers": _decision(NUMBER, "transfers"),
    "spilled": _decision(BYTES),
    "held_by_worst": _decision(BYTES),
    "held_by_all": _decision(BYTES),
    "steals": _decision(NUMBER, "steals"),
    "recomputed": _decision(NUMBER, "tasks"),
    "memory": _of_evidence("memory", BYTES, named="measure", choices=MEASURES, of_whole=False),
    "transfers_bytes": _of_evidence(
        "transfers", BYTES, of_functions=False, spelling="transfers(bytes)"
    ),
    "transfers_count": _of_evidence(
        "transfers", NUMBER, "transfers", of_functions=False, spelling="transfers(count)"
    ),
    "duration": _of_evidence("tasks", TIME, "per task", named="task", example="inc"),
    "phase": _of_evidence(
        "phases", TIME, "of CPU per task", named="phase", choices=PHASES, of_whole=False
    ),
    "figure": _of_evidence(
        ANY_KIND, NUMBER, named="figure", example="queue:longest", of_whole=False
    ),
    "growth": Metric(NUMBER, "", of_metric=True),
}
"""Every metric by its name, in the order in which tables show them."""

RANKED = tuple(
    sorted((name for name in METRICS if METRICS[name].rank), key=lambda name: METRICS[name].rank)
)
"""The metrics that have a rank, the most important first."""

GROWING = tuple(
    name for name, metric in METRICS.items() if metric.units is not PERCENT and not metric.of_metric
)
"""Metrics whose growth can be limited: amounts, not fractions."""

DECISIONS = frozenset(name for name, metric in METRICS.items() if metric.is_decision)

HELD = frozenset(name for name, metric in METRICS.items() if metric.is_held)

LEAST = frozenset(name for name, metric in METRICS.items() if metric.is_least)

STALLS = frozenset(name for name in METRICS if name.startswith(("stall", "gc_")))
"""What is measured of the event loop's callbacks, and of the collector between them."""

OF_EVIDENCE = frozenset(name for name, metric in METRICS.items() if metric.evidence)
"""What kinds of evidence measure."""

INTAKE = frozenset(name for name, metric in METRICS.items() if metric.of_steps)
"""What is measured of the steps of graph intake."""

STEP_METRICS = {metric.of_steps: name for name, metric in METRICS.items() if metric.of_steps}
"""Metrics of steps by the name that limits write."""

SPELLINGS = {metric.spelling: name for name, metric in METRICS.items() if metric.spelling} | {
    "stall(max)": "stall"
}
"""Metrics by how limits may write them."""

TRAFFIC = frozenset(name for name, metric in METRICS.items() if metric.is_traffic)

SMALL, MOST_DIGITS = 0.005, 9
"""Number below which three digits behind the point would hide it, and the most digits shown."""

FILE_SIZE = Metric(BYTES, "")
"""The size of a file: nothing that can be limited, but written like a metric of bytes."""

INCLUSIVE = {metric.own: name for name, metric in METRICS.items() if metric.own}
"""Each metric that includes callees, by the name of the function's own part in costs."""


def own_part(name: str) -> str:
    """Return the name under which costs have a function's own part of a metric."""
    return METRICS[name].own or name


def format_amount(amount: float, unit: str, factor: Decimal) -> str:
    """Write an amount in a unit, exact and without trailing zeros: 0.3 in % is `30%`."""
    text = format(Decimal(repr(amount)) / factor, "f")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}{unit}"


def _digits(amount: float) -> int:
    """Return how many digits behind the point show a number: 3, or more of a very small one."""
    return 3 if not 0 < abs(amount) < SMALL else min(MOST_DIGITS, 1 - floor(log10(abs(amount))))


def readable(amount: float, metric: Metric) -> str:
    """Write an amount for people, in the largest unit in which it is at least 1."""
    if metric.units is PERCENT:
        return f"{amount:.1%}"
    if metric.units is NUMBER:
        return f"{amount:,.{_digits(amount)}f}".rstrip("0").rstrip(".")
    steps = [(unit, float(factor)) for unit, factor in metric.units.items() if "i" not in unit]
    fitting = [step for step in steps if abs(amount) >= step[1]] or steps[:1]
    unit, factor = fitting[-1]
    return f"{amount / factor:.3g} {unit}"
