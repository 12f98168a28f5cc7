"""The table of metrics: everything that can be measured and limited.

docs/limits.md explains each metric to users.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from enum import Flag, auto
from math import floor, log10
from typing import Any, ClassVar

from msgspec import Struct

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
TIME = {
    **{"us": Decimal("1e-6"), "ms": Decimal("1e-3"), "s": Decimal(1)},
    **{"min": Decimal(60), "h": Decimal(3600)},
}
BYTES = {
    "B": Decimal(1),
    "kB": Decimal(10**3),
    "MB": Decimal(10**6),
    "GB": Decimal(10**9),
    "KiB": Decimal(2**10),
    "MiB": Decimal(2**20),
    "GiB": Decimal(2**30),
}


class Subject(Flag):
    """What has a figure of a metric, and so can be limited."""

    WHOLE = auto()
    """The scheduler as a whole: a limit needs no pattern."""
    FUNCTIONS = auto()
    OWNERS = auto()
    CLIENT = auto()
    """Phases of the client."""


class Metric(Struct, frozen=True):
    """A metric of the family of timed costs, which are amounts per task of the window, with bounds.

    Every other family is a subclass. Adding a metric takes a row in `METRICS`, and a backend. What
    is counted and the same in each run is a `Count`; what depends on timing too is `Traffic`.
    """

    units: Mapping[str, Decimal]
    """Units that a bound may have, each as a multiple of the unit used in results."""
    noun: str = ""
    """The noun in `6.1 calls per task`; empty if the unit is enough."""
    rank: int = 0
    """Importance, from 1 on. Tables of functions are sorted by the most important metric that a
    backend has. 0 if it is not used for that."""
    subjects: Subject = Subject.WHOLE | Subject.FUNCTIONS | Subject.OWNERS
    scatter: float = 0.0
    """How far windows of the same code differ on a cluster in virtual time, as a part of the whole.
    Smaller changes of functions are ignored."""
    own: str = ""
    """Name in costs of the function's own part, if the metric includes that of its callees."""
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

    is_exact: ClassVar = False
    """Whether a limit on it has no interval, because it is counted instead of timed or sampled."""
    is_sampled: ClassVar = False
    """Whether results have it as shares and CPU time of the window, not among their costs."""
    is_peak: ClassVar = False
    """Whether it is a figure of the whole window, not an amount that its tasks share."""

    def divided(self, amount: float, tasks: int) -> float:
        """Return the figure that an amount of a whole window stands for."""
        return amount / (1 if self.is_peak else tasks)

    def combined(self, one: float, other: float) -> float:
        """Return the amount of two rounds."""
        return max(one, other) if self.is_peak else one + other


class Sampled(Metric, frozen=True):
    """An estimate from samples."""

    is_sampled: ClassVar = True


class Count(Metric, frozen=True):
    """What is counted: exact, per task."""

    is_exact: ClassVar = True


class Traffic(Count, frozen=True):
    """Messages and their bytes. How many are sent as one batch depends on timing, so they are not
    taken as exact even if all rounds agree."""


class Peak(Metric, frozen=True):
    """The largest figure of all rounds."""

    is_peak: ClassVar = True


class Stall(Peak, frozen=True):
    """What is measured of the event loop's callbacks, and of the collector between them. Where
    functions have figures, that of the whole is the figure of one of them, which is told."""


class Decision(Count, Peak, frozen=True):
    """What tells of the scheduler's decisions in virtual time, where each run is the same."""


_FUNCTIONS = Subject.WHOLE | Subject.FUNCTIONS
_SUMS = Subject.WHOLE | Subject.OWNERS


def _stall(percentile: str, *, is_extra: bool = True) -> Metric:
    return Stall(TIME, subjects=Subject.WHOLE, spelling=f"stall({percentile})", is_extra=is_extra)


def _of_evidence(
    kind: str,
    units: Mapping[str, Decimal],
    noun: str = "",
    subjects: Subject = Subject.FUNCTIONS,
    **more: Any,
) -> Metric:
    return Metric(units, noun, subjects=subjects, is_extra=True, evidence=kind, **more)


ANY_KIND = "*"
"""Stands for the kind of evidence that a limit's pattern names first, as in `queue:longest`."""

SHARE, SELF, CPU = "share", "self", "cpu"
"""The metrics that samples give, for the modules that compute them."""

CALLS, BYTECODES, INSTRUCTIONS = "calls", "bytecodes", "instructions"

CLIENT_BYTECODES = "client_bytecodes"
"""It is of the test's own process, and of the client's functions."""

TRANSITIONS = "transitions"
"""It tells which way tasks took through the state machine. Where the test's own process runs all,
that depends on timing: under load, tasks are queued that otherwise are not."""

GROWTH = "growth"
"""It is about another metric, which is its first argument."""

DIVIDED = (CPU, BYTECODES, CLIENT_BYTECODES, INSTRUCTIONS, "seconds")
"""Metrics of which the costs of functions sum to that of the whole, so that a change is explained
by them."""

METRICS: dict[str, Metric] = {
    SHARE: Sampled(PERCENT, subjects=Subject.FUNCTIONS | Subject.OWNERS),
    SELF: Sampled(PERCENT, subjects=Subject.FUNCTIONS, is_extra=True),
    CPU: Sampled(TIME, "of CPU", rank=1, subjects=_FUNCTIONS | Subject.OWNERS | Subject.CLIENT),
    CALLS: Count(NUMBER, "calls", rank=4),
    BYTECODES: Count(NUMBER, "bytecodes", rank=3),
    CLIENT_BYTECODES: Count(NUMBER, "bytecodes of the client", subjects=_FUNCTIONS, scatter=0.03),
    INSTRUCTIONS: Count(NUMBER, "instructions", rank=7, scatter=0.002),
    "seconds": Metric(
        TIME, rank=2, subjects=Subject.FUNCTIONS | Subject.OWNERS, own="self_seconds"
    ),
    TRANSITIONS: Count(NUMBER, "transitions", subjects=Subject.WHOLE),
    "messages_in": Traffic(NUMBER, "messages", subjects=Subject.WHOLE),
    "messages_out": Traffic(NUMBER, "messages", subjects=Subject.WHOLE),
    "bytes_in": Traffic(BYTES, subjects=Subject.WHOLE),
    "bytes_out": Traffic(BYTES, subjects=Subject.WHOLE),
    "peak": Peak(BYTES, rank=5, subjects=_SUMS),
    "leaked": Peak(BYTES, rank=6, subjects=_SUMS),
    "stall": Stall(TIME, "of CPU", rank=8, subjects=_FUNCTIONS),
    "stall_p50": _stall("p50"),
    "stall_p90": _stall("p90"),
    "stall_p99": _stall("p99", is_extra=False),
    "stall_p999": _stall("p99.9"),
    "stall_wall": Stall(TIME, "by the clock", subjects=_FUNCTIONS, is_extra=True),
    "gc_pauses": Stall(NUMBER, "pauses", subjects=Subject.WHOLE, is_extra=True),
    "gc_pause": Stall(TIME, "of CPU", subjects=Subject.WHOLE),
    "gc_share": Stall(PERCENT, subjects=Subject.WHOLE),
    "makespan": Decision(TIME, subjects=Subject.WHOLE),
    "idle": Decision(TIME, "of idle threads", subjects=Subject.WHOLE),
    "transferred": Decision(BYTES, subjects=Subject.WHOLE),
    "transfers": Decision(NUMBER, "transfers", subjects=Subject.WHOLE),
    "spilled": Decision(BYTES, subjects=Subject.WHOLE),
    "held_by_worst": Decision(BYTES, subjects=Subject.WHOLE),
    "held_by_all": Decision(BYTES, subjects=Subject.WHOLE),
    "steals": Decision(NUMBER, "steals", subjects=Subject.WHOLE),
    "recomputed": Decision(NUMBER, "tasks", subjects=Subject.WHOLE),
    "memory": _of_evidence("memory", BYTES, named="measure", choices=MEASURES, example=MEASURES[0]),
    "transfers_bytes": _of_evidence(
        "transfers", BYTES, subjects=Subject.WHOLE, spelling="transfers(bytes)"
    ),
    "transfers_count": _of_evidence(
        "transfers", NUMBER, "transfers", subjects=Subject.WHOLE, spelling="transfers(count)"
    ),
    "duration": _of_evidence("tasks", TIME, "per task", _FUNCTIONS, named="task", example="inc"),
    "phase": _of_evidence(
        "phases", TIME, "of CPU per task", named="phase", choices=PHASES, example=PHASES[0]
    ),
    "figure": _of_evidence(ANY_KIND, NUMBER, named="figure", example="queue:longest"),
    GROWTH: Metric(NUMBER),
}
"""Every metric by its name, in the order in which tables show them."""

OF_BACKENDS = tuple(
    name for name, metric in METRICS.items() if not metric.evidence and name != GROWTH
)
"""The metrics that backends measure, and neither evidence nor a comparison of sizes."""

TRAFFIC, DECISIONS, STALLS = (
    frozenset(name for name, metric in METRICS.items() if isinstance(metric, family))
    for family in (Traffic, Decision, Stall)
)

RANKED = tuple(
    sorted((name for name in METRICS if METRICS[name].rank), key=lambda name: METRICS[name].rank)
)
"""The metrics that have a rank, the most important first."""

GROWING = tuple(
    name for name, metric in METRICS.items() if metric.units is not PERCENT and name != GROWTH
)
"""Metrics whose growth can be limited: amounts, not fractions."""

SPELLINGS = {metric.spelling: name for name, metric in METRICS.items() if metric.spelling} | {
    "stall(max)": "stall"
}
"""Metrics by how limits may write them."""

SMALL, MOST_DIGITS = 0.005, 9
"""Number below which three digits behind the point would hide it, and the most digits shown."""

WHOLE = 999.5
"""Number from which on three digits would need an exponent."""

FILE_SIZE = Metric(BYTES)
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


def readable(amount: float, metric: Metric) -> str:
    """Write an amount for people, in the largest unit in which it is at least 1."""
    if metric.units is PERCENT:
        return f"{amount:.1%}"
    if metric.units is NUMBER:
        is_small = 0 < abs(amount) < SMALL
        digits = min(MOST_DIGITS, 1 - floor(log10(abs(amount)))) if is_small else 3
        return f"{amount:,.{digits}f}".rstrip("0").rstrip(".")
    # Without KiB and min: 90 s and 1.5 kB read better.
    steps = [(unit, float(factor)) for unit, factor in metric.units.items() if "i" not in unit]
    fitting = [step for step in steps if abs(amount) >= step[1]] or steps[:1]
    unit, factor = fitting[-1]
    scaled = amount / factor
    return f"{scaled:{',.0f' if abs(scaled) >= WHOLE else '.3g'}} {unit}"
