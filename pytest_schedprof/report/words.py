"""Numbers, function names and estimates as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pytest_schedprof.formats.charts import Scale, plain
from pytest_schedprof.judge.series import label_of
from pytest_schedprof.model.comparison import Choice, Difference, FirstDifference, SeenWorker
from pytest_schedprof.model.explanation import Explanation, Part, Place, SourceChange, SourceLine
from pytest_schedprof.model.limit import Estimate
from pytest_schedprof.model.metric import (
    CLIENT_BYTECODES,
    DECISIONS,
    FILE_SIZE,
    METRICS,
    PERCENT,
    SHARE,
    TIME,
    Metric,
    readable,
)
from pytest_schedprof.model.profile import Function
from pytest_schedprof.model.result import Result

WHOLE_NAME, CLIENT = "the scheduler", "the client"
"""Names of the subject of figures that are not of one function or owner."""

MILLISECONDS_FROM = 10_000
"""Microseconds from which milliseconds are easier to read."""


class Fact(NamedTuple):
    """A label and its text."""

    label: str
    text: str


class Name(NamedTuple):
    """A function name in two parts, so that the eye finds the second; `str` joins them."""

    module: str
    """With its colon; empty for an owner or the scheduler as a whole."""
    name: str

    def __str__(self) -> str:
        return f"{self.module}{self.name}"


class Interval(NamedTuple):
    """An estimate with its bounds, on a scale from 0 to 1."""

    low: float
    value: float
    high: float
    limit: float | None = None
    before: float | None = None


def name_of_whole(metric: str) -> str:
    """Return whose figures a metric has where it names no function."""
    return CLIENT if metric == CLIENT_BYTECODES else WHOLE_NAME


def name_of(subject: Function, metric: str = "") -> Name:
    """Split a subject of a metric into module and name."""
    module, colon, name = subject.partition(":")
    return Name(f"{module}:", name) if colon else Name("", subject or name_of_whole(metric))


def counted(count: int, noun: str, thousands: str = "") -> str:
    return f"{count:{thousands}} {noun if count == 1 else noun + 's'}"


def percent(share: float) -> str:
    return f"{share:.1%}"


def bounds_of(estimate: Estimate, metric: str = SHARE) -> str:
    """Return both bounds; empty for an exact figure.

    Bounds of shares have no percent sign, because that of the value stands beside them.
    """
    row = METRICS[metric]
    if row.is_exact or estimate.low == estimate.high:
        return ""
    if row.units is PERCENT:
        return f"{estimate.low * 100:.1f} to {estimate.high * 100:.1f}"
    return f"{readable(estimate.low, row)} to {readable(estimate.high, row)}"


def interval_of(
    estimate: Estimate, top: float, limit: float | None = None, before: float | None = None
) -> Interval:
    """Return an estimate on a scale from 0 to `top`."""

    def part(amount: float) -> float:
        return min(1.0, max(0.0, amount / top)) if top else 0.0

    return Interval(
        part(estimate.low),
        part(estimate.value),
        part(estimate.high),
        None if limit is None else part(limit),
        None if before is None else part(before),
    )


def strip(interval: Interval, label: str) -> str:
    x = Scale(1.0, 114, 3)
    low, value, high, limit, before = (None if p is None else f"{x(p):g}" for p in interval)
    # Written out, not by `element`: half of what the page of a test has are strips.
    parts = f'<path class="range" d="M{low} 7H{high}"/>'
    parts += f'<circle class="value" cx="{value}" cy="7" r="2.5"/>'
    if before is not None:
        parts += f'<path class="before" d="M{before} 3V11"/>'
    if limit is not None:
        parts += f'<path class="limit" d="M{limit} 0v14"/>'
    head = f'<svg class="interval" viewBox="0 0 120 14" role="img" aria-label="{plain(label)}">'
    return f"{head}{parts}</svg>"


def size_of(bytes: int) -> str:
    return readable(bytes, FILE_SIZE)


def micros(amount: float) -> str:
    """Return CPU time per task, given in microseconds; empty for none."""
    if not amount:
        return ""
    if amount >= MILLISECONDS_FROM:
        return f"{amount / 1000:,.1f} ms"
    return f"{amount:,.0f} us" if amount >= 100 else f"{amount:.3g} us"


def change_of(metric: str, before: float, after: float) -> str:
    """Return the change between two figures: shares in points, all else in percent."""
    if METRICS[metric].units is PERCENT:
        return f"{(after - before) * 100:+z.1f} pp"
    if before == after:
        return "+0.0%"
    return f"{after / before - 1:+z.1%}" if before else "from 0"


def with_more(amount: float | None) -> str:
    """Return an amount that was added or taken away; empty for none, or next to none."""
    return f"{amount:+,.3g}" if amount and abs(amount) >= 0.005 else ""


HASH_SHOWN = 8
"""Digits of a hash that are shown; `result.json` has all of them."""

SECONDS = Metric(TIME)

WHAT = {
    Difference.WORKER: "another worker for {key!r}",
    Difference.TIME: "{key!r} at another time",
    Difference.TASK: "another decision is the next",
    Difference.END: "only one side decides anything more",
}


def headline_of(parting: FirstDifference) -> str:
    """Return in one line whether both sides decided the same."""
    before, after = (hash[:HASH_SHOWN] for hash in parting.hashes)
    rounds = f" in each of {parting.rounds} rounds" if parting.rounds > 1 else ""
    if parting.what is Difference.NOTHING:
        return f"decides the same{rounds} (hash {after})"
    hashes = f"hash {before} before, {after} now"
    if parting.rounds > 1:
        hashes = f"round {parting.round} of {parting.rounds}, {hashes}"
    if parting.what is Difference.UNKNOWN:
        return f"decides in another way ({hashes}); compare two runs that are here to see where"
    if parting.what is Difference.MESSAGES:
        return f"decides the same, but other messages or their times differ ({hashes})"
    if parting.what is Difference.GRAPH:
        return f"the test sent another graph, so nothing follows about the scheduler ({hashes})"
    choice = parting.before or parting.after
    difference = WHAT[parting.what].format(key=choice.key if choice else "")
    return f"parts {_place(parting)}: {difference} ({hashes})"


def details_of(parting: FirstDifference) -> Iterator[str]:
    """Yield a line for each side's decision, and one about what followed."""
    if parting.what in (Difference.NOTHING, Difference.UNKNOWN):
        return
    sides = [("before", parting.before), ("now", parting.after)]
    if parting.what is Difference.GRAPH:
        yield from (f"{name}: {choice.key!r}" for name, choice in sides if choice)
        yield f"{_tasks_of_one_side(parting)}; PYTHONHASHSEED=0 orders graphs in the same way"
        return
    has_key = parting.what is not Difference.WORKER
    yield from (
        f"{name}: {parting_sentence(choice, has_key=has_key)}" for name, choice in sides if choice
    )
    if parting.later is not None:
        yield f"now, later: {parting_sentence(parting.later, has_key=True)}"
    followed = ", ".join(_followed(parting))
    yield f"what followed: {followed or 'no task ran elsewhere, and the figures are the same'}"


def parting_words(parting: FirstDifference | None) -> list[str]:
    """Return whether the same was decided, then where it parts; nothing if that is unknown."""
    return [headline_of(parting), *details_of(parting)] if parting else []


def parting_sentence(choice: Choice, *, has_key: bool) -> str:
    """Return a decision in words, with what the scheduler compared for it."""
    task = f"{choice.key!r} " if has_key else ""
    moment = f"at {choice.at_s:.6g} s "
    verb, rule = VERBS.get(choice.kind, choice.kind), RULES.get(choice.rule, "")
    words = f"{moment}{task}{verb} {_seen(choice.worker)}{rule}"
    if choice.best_other is None:
        return f"{words}, chosen from {choice.others + 1}" if choice.others else words
    if choice.kind == "steal":
        return f"{words} for {_seen(choice.best_other)}"
    others = f"the best of {choice.others} others" if choice.others > 1 else "the only other"
    return f"{words}; {others}: {_seen(choice.best_other)}"


RULES = {
    "queue": ", root-ish: the idle worker with the fewest tasks per thread",
    "siblings": ", root-ish and not queued: with its siblings",
    "data": ", as it holds dependencies",
    "free": ", as an idle one",
}
"""How a worker was chosen."""

VERBS = {"compute": "to", "steal": "stolen from", "stolen": "as stolen to"}


def _seen(worker: SeenWorker) -> str:
    tasks = counted(worker.processing, "task")
    work = readable(worker.occupancy_s, SECONDS) if worker.occupancy_s else "0 s"
    return f"{worker.name} ({tasks}, {work} of work, {size_of(worker.fetch)} to fetch)"


def _place(parting: FirstDifference) -> str:
    first = parting.before or parting.after
    moment = f" at {first.at_s:.6g} s" if first else ""
    if not parting.alike:
        return f"in the first decision{moment}"
    return f"after {counted(parting.alike, 'equal decision')}{moment}"


def _tasks_of_one_side(parting: FirstDifference) -> str:
    return f"{counted(parting.only_before, 'task')} only before, {parting.only_after} only now"


def _followed(parting: FirstDifference) -> Iterator[str]:
    if parting.only_before or parting.only_after:
        yield _tasks_of_one_side(parting)
    if parting.moved:
        yield f"{parting.moved} of {counted(parting.tasks, 'task')} ran on another worker"
    for name, metric in METRICS.items():
        if name in DECISIONS and name in parting.figures:
            before, after = (readable(figure, metric) for figure in parting.figures[name])
            yield f"{name} {before} -> {after}"


MOST_EXPLAINED = 10
"""Figures of a run that its summary and its page explain; the pages of tests explain all."""

TOLD = 6
"""Functions that are told in words."""

MATTERS = 0.02
"""A part is told if it is at least this part of the largest one."""

AS_BEFORE = 0.001
"""Relative difference up to which a function is called as before."""

MOST_CALLERS = 3


def explanation_headline(explanation: Explanation) -> str:
    """Return what changed: `bytecodes: 5,512 before, 5,891 now per task (+379, +6.9%)`."""
    before, after = (
        _amount(explanation, amount) for amount in (explanation.before, explanation.after)
    )
    return (
        f"{explanation.metric}: {before} before, {after} now per {explanation.per} "
        f"({_more(explanation, explanation.amount)}, "
        f"{change_of(explanation.metric, explanation.before, explanation.after)})"
    )


def top_parts(explanation: Explanation, most: int = TOLD) -> list[Part]:
    """Return the parts that are worth telling."""
    largest = max((abs(part.amount) for part in explanation.parts), default=0.0)
    return [
        part
        for part in explanation.parts[:most]
        if part.role is not None
        or (abs(part.amount) >= MATTERS * largest and abs(part.amount) > part.error)
    ]


def others(explanation: Explanation, shown: Sequence[Part]) -> str:
    """Return what the parts that are not shown add; empty if there are none."""
    left = len(explanation.parts) - len(shown)
    rest = explanation.amount - sum(part.amount for part in shown)
    if not left and abs(explanation.rest) <= 1e-6 * max(
        abs(explanation.before), abs(explanation.after)
    ):
        return ""
    more = counted(left, "other function") if left else "functions without a line of their own"
    return f"{_more(explanation, rest)}: {more}"


def sentence(explanation: Explanation, part: Part) -> str:
    """Return what one function adds, and why."""
    amount = _more(explanation, part.amount)
    if part.error:
        amount += f" (within {_amount(explanation, part.error)})"
    return f"{amount}: `{part.function}` {', '.join(_reasons(explanation, part))}"


def sentences(explanation: Explanation) -> list[str]:
    """Return what each part that is worth telling adds, and what the others add."""
    parts = top_parts(explanation)
    return [
        *(sentence(explanation, part) for part in parts),
        *filter(None, [others(explanation, parts)]),
    ]


def source_of(part: Part) -> SourceChange | None:
    """Return the source of a function whose lines explain what it adds."""
    is_told = part.source and part.source.lines and (part.by_price > 0 or part.is_new)
    return part.source if is_told else None


def source_lines(source: SourceChange, most: int) -> Iterator[tuple[SourceLine, bool]]:
    """Yield the first lines, each with whether it is right after the one above it.

    What is left out is in both sources, so in either one its lines would come after the last one.
    """
    before: int | None = None
    after: int | None = None
    for line in source.lines[:most]:
        yield line, _is_next(line.before, before) and _is_next(line.after, after)
        before, after = line.before or before, line.after or after


def _is_next(number: int | None, last: int | None) -> bool:
    return number is None or last is None or number == last + 1


def _reasons(explanation: Explanation, part: Part) -> Iterator[str]:
    if part.moved_from:
        yield f"was `{part.moved_from}` before"
    if METRICS[explanation.metric].is_sampled and (part.is_new or part.is_gone):
        # A baseline leaves out what is in one sample of a thousand.
        yield "was in next to no sample before" if part.is_new else "is in next to no sample now"
    elif part.is_new:
        yield f"is new{_called(explanation, part.after.calls)}"
    elif part.is_gone:
        yield f"is gone{_called(explanation, part.before.calls, 'was called')}"
    else:
        yield from _calls_and_price(explanation, part)
    yield from _callers(part)
    yield from places(part)


def _called(explanation: Explanation, calls: float | None, words: str = "called") -> str:
    return f", {words} {_times(calls)} per {explanation.per}" if calls else ""


def _calls_and_price(explanation: Explanation, part: Part) -> Iterator[str]:
    old, new, per = part.before, part.after, explanation.per
    if old.calls is None or new.calls is None:
        amounts = (_amount(explanation, cost.amount) for cost in (new, old))
        yield f"costs {' instead of '.join(amounts)}"
        return
    now, before = _times(new.calls), _times(old.calls)
    if now == before or abs(new.calls - old.calls) <= AS_BEFORE * old.calls:
        yield f"is called as before ({now} per {per})"
    else:
        yield f"is called {now} instead of {before} times per {per}"
    price = (new.per_call or 0.0) - (old.per_call or 0.0)
    is_dearer = abs(price) > AS_BEFORE * (old.per_call or 0.0)
    if is_dearer and abs(part.by_price) >= MATTERS * abs(part.amount):
        amount, way = _amount(explanation, abs(price)), "more" if price > 0 else "less"
        noun = METRICS[explanation.metric].noun.partition(" of ")[0]
        words = f"{amount} {noun.removesuffix('s') if amount == '1' else noun}".rstrip()
        yield f"{words} {way} per call (now {_amount(explanation, new.per_call or 0.0)})"


def _callers(part: Part) -> Iterator[str]:
    """Say who calls the function more or less often than before."""
    named = [
        f"`{_short(caller.function, part.function)}` ({caller.after - caller.before:+.3g})"
        for caller in part.callers[:MOST_CALLERS]
    ]
    if named:
        yield f"by {', '.join(named)}"


def _short(function: str, beside: str) -> str:
    """Return a name without its module, if that is the one of another function."""
    module, _, name = function.partition(":")
    return name if module == beside.partition(":")[0] else function


def places(part: Part) -> Iterator[str]:
    """Say by which lines a call costs more."""
    source = part.source
    if source is None or part.is_new or part.is_gone:
        return
    file = source.file.rpartition("/")[2]
    if source.places and part.by_price > 0:
        yield f"by {' and '.join(map(_place_of_change, source.places))} of {file}"
    else:
        yield "its source is the same" if source.is_same else f"its source in {file} changed"


def _place_of_change(place: Place) -> str:
    span = (
        f"line {place.first}"
        if place.first == place.last
        else f"lines {place.first} to {place.last}"
    )
    more = "" if place.more is None else f"{place.more:+.3g}"
    words = ", ".join(filter(None, [more, "new in this version" if place.is_new else ""]))
    return f"{span} ({words})" if words else span


def _times(calls: float) -> str:
    if 0 < calls < 0.1:
        return f"{calls:.1g}"
    return f"{calls:,.2f}".rstrip("0").rstrip(".")


def _amount(explanation: Explanation, value: float) -> str:
    return readable(value, METRICS[explanation.metric])


def _more(explanation: Explanation, value: float) -> str:
    return f"{'-' if value < 0 else '+'}{_amount(explanation, abs(value))}"


SEED = re.compile(r"(?<=[\[-])seed(-?\d+)(?=[\]-])")
"""The part of a test's name that tells its seed."""


def by_seed(results: Sequence[Result]) -> tuple[dict[str, dict[int, Result]], list[Result]]:
    """Return the tests that ran under several seeds, with a star for the seed, and all others."""
    tests: dict[str, dict[int, Result]] = {}
    for result in results:
        if match := SEED.search(result.test_id):
            name = SEED.sub("seed*", result.test_id, count=1)
            tests.setdefault(name, {})[int(match[1])] = result
    repeated = {name: seeds for name, seeds in tests.items() if len(seeds) > 1}
    grouped = {result.test_id for seeds in repeated.values() for result in seeds.values()}
    return repeated, [result for result in results if result.test_id not in grouped]


def outcomes_of(results: Mapping[int, Result]) -> str:
    """Return how many seeds came to which outcome; those that did not pass by name."""
    words = []
    for outcome in dict.fromkeys(result.outcome for result in results.values()):
        seeds = [seed for seed, result in results.items() if result.outcome == outcome]
        words.append(f"{len(seeds)} {outcome}{_named(seeds) if outcome != 'passed' else ''}")
    return f"{counted(len(results), 'seed')}: {', '.join(words)}"


def _named(seeds: Sequence[int], most: int = 5) -> str:
    named = ", ".join(f"seed{seed}" for seed in sorted(seeds)[:most])
    return f" ({named}{', ...' if len(seeds) > most else ''})"


def ranges_of(results: Iterable[Result]) -> dict[str, list[str]]:
    """Return the range of each figure of the whole scheduler, by the label of its backend."""
    values: dict[str, dict[str, list[float]]] = {}
    for backend in (backend for result in results for backend in result.backends):
        for name, amount in (backend.costs.whole if backend.costs else {}).items():
            if name in METRICS and not METRICS[name].is_sampled and METRICS[name].is_peak:
                values.setdefault(label_of(backend), {}).setdefault(name, []).append(amount)
    return {
        label: [_range(*figure) for figure in figures.items()] for label, figures in values.items()
    }


def _range(name: str, values: Sequence[float]) -> str:
    low, high = (readable(value, METRICS[name]) for value in (min(values), max(values)))
    return f"{name} {low}" if low == high else f"{name} {low} to {high}"
