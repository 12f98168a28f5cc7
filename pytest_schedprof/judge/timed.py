"""Compare CPU time and shares by statistical tests, for all figures of one test together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import sqrt
from typing import TypeAlias

from msgspec.structs import replace

from pytest_schedprof.judge.estimate import (
    MANY,
    MIN_ROUNDS,
    Contrast,
    largest_chance,
    paired,
    unpaired,
)
from pytest_schedprof.judge.figures import Measurement, owner_of_subject
from pytest_schedprof.judge.owners import PLUMBING
from pytest_schedprof.judge.series import usual
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.metric import CPU, SHARE
from pytest_schedprof.model.profile import module_of

CPU_RISE, SHARE_RISE = 0.05, 0.02
"""Least rise that counts: a part of the CPU time per task, a difference of a share."""

LEAST_CPU_RISE, LEAST_SHARE_RISE = 0.01, 0.005
"""The same where earlier runs show how much the figures vary between runs."""

SEEN_FROM = 0.02
"""Smallest share of functions that are compared. The change of smaller ones is below `SHARE_RISE`,
and each further figure makes all others harder to decide."""

Levels: TypeAlias = tuple[float, float]
"""Largest p values of a rise and of a fall that count."""

COVERED = 0.75
"""Part of a rise that must have fallen elsewhere in the same owner or module; samples are not
precise enough for more."""

GONE = 0.1
"""A function has gone if it keeps less than this part of its share."""

SEEN_ONCE = "seen in this run only: it counts if the next run shows it too"

SAMPLES = (
    "{count:,} samples do not rule out a rise of {least}: run more rounds, or give the scheduler "
    "more work"
)

SCALES = "rounds of several scales do not show how much {scatter}: run the test at one scale"

ONE_ROUND = "fewer than three rounds do not show how much {scatter}: run three or more"

ROUNDS = (
    "between the rounds {scatter} too much to tell: run more of them, or both versions in turns "
    "(--schedprof-against)"
)

PAIRS = "between the pairs of rounds {scatter} too much to tell: give a larger budget"

SIZE = "it rose, perhaps by the {least} from which on it counts: run more rounds"


def timed_changes(
    before: Measurement,
    after: Measurement,
    alpha: float,
    *,
    in_turns: bool,
    past: Sequence[Measurement],
) -> list[Change]:
    """Compare the CPU time of the whole, and the shares of all relevant functions and owners.

    Args:
        alpha: the rate of false alarms.
        in_turns: whether the rounds of the two sides were measured in turns.
        past: earlier runs, if there are enough to tell what is usual; else none.
    """
    subjects = [
        subject
        for subject in sorted({*before.shares, *after.shares})
        if max(side.share_value(subject) for side in (before, after)) >= SEEN_FROM
        and (subject.startswith("@") or owner_of_subject(subject) not in PLUMBING)
    ]
    if past:
        cpu_rise, share_rise = LEAST_CPU_RISE, LEAST_SHARE_RISE
        cpu = _beside_usual([run.cpu.value for run in past], after.cpu.value)
        figures = {subject: _beside_past(subject, past, after) for subject in subjects}
    else:
        cpu_rise, share_rise = CPU_RISE, SHARE_RISE
        cpu = _cpu(before, after, in_turns=in_turns)
        figures = {subject: _share_and_cost(subject, before, after, cpu) for subject in subjects}
    contrasts = [cpu, *(share for share, _ in figures.values())]
    levels = (
        largest_chance([contrast.chance_of_rise for contrast in contrasts], alpha),
        largest_chance([contrast.chance_of_fall for contrast in contrasts], alpha),
    )
    advice = _advice(before, after, in_turns=in_turns)
    outcome, note = _outcome(cpu, cpu_rise * cpu.before, levels), ""
    if outcome is Outcome.UNDECIDED:
        note = _doubt(cpu, f"{cpu_rise:.0%}", levels, advice[CPU])
    of_whole = _change(CPU, "", cpu, outcome, note, levels)
    changes = []
    for subject, (share, cost) in figures.items():
        outcome, note = _outcome(share, share_rise, levels), ""
        if outcome is Outcome.UNDECIDED:
            note = _lack_of_samples(share, share_rise, before, after)
            note = note or _doubt(share, _points(share_rise), levels, advice[SHARE])
        elif outcome is not Outcome.SAME:
            outcome, note = _beside_cost(outcome, cost, cpu_rise * cost.before, alpha)
        changes.append(_change(SHARE, subject, share, outcome, note, levels))
    return [of_whole, *_with_moves(changes, before, after, past)]


def _cpu(before: Measurement, after: Measurement, *, in_turns: bool) -> Contrast:
    """Contrast of the CPU time, paired if the rounds were measured in turns."""
    rounds = (before.cpu_of_rounds, after.cpu_of_rounds)
    if in_turns and len(rounds[0]) == len(rounds[1]) >= MIN_ROUNDS:
        return paired(*rounds)
    return unpaired(before.cpu, after.cpu)


def _share_and_cost(
    subject: str, before: Measurement, after: Measurement, cpu: Contrast
) -> tuple[Contrast, Contrast]:
    """Contrast a share, and the CPU time that it is of.

    The pooled share of both sides gives the error under the null hypothesis.
    """
    samples, seen = 0, 0.0
    for side in (before, after):
        samples += side.samples
        seen += side.samples * side.share_value(subject)
    typical = seen / max(1, samples)
    share = unpaired(before.share(subject, typical), after.share(subject, typical))
    busy = (before.busy + after.busy) / 2
    of_share = share.error * busy * (cpu.before + cpu.after) / 2
    of_cpu = cpu.error * busy * (share.before + share.after) / 2
    cost = Contrast(
        share.before * before.busy * cpu.before,
        share.after * after.busy * cpu.after,
        (of_share**2 + of_cpu**2) ** 0.5,
        min(share.freedom, cpu.freedom),
    )
    return share, cost


def _beside_past(
    subject: str, past: Sequence[Measurement], after: Measurement
) -> tuple[Contrast, Contrast]:
    """Contrast a share, and the CPU time that it is of, with what is usual for them.

    Most runs may show nothing of a rare event, so the error of a share is that of its samples at
    least.
    """
    share = _beside_usual([run.share_value(subject) for run in past], after.share_value(subject))
    least_error = after.sampling_error((share.before + share.after) / 2)
    cost = _beside_usual([run.cost_value(subject) for run in past], after.cost_value(subject))
    return replace(share, error=max(share.error, least_error)), cost


def _beside_usual(past: Sequence[float], after: float) -> Contrast:
    level = usual(past)
    return Contrast(level.value, after, level.error, level.freedom, then=past[-1])


def _outcome(contrast: Contrast, least: float, levels: Levels) -> Outcome:
    """Return how a figure changed, taken alone; only rises are of interest that are not shown."""
    if contrast.chance_of_rise <= levels[0] and contrast.rise >= least:
        return Outcome.REGRESSED
    if contrast.chance_of_fall <= levels[1] and contrast.fall >= least:
        return Outcome.IMPROVED
    return Outcome.UNDECIDED if contrast.may_have_risen(least) else Outcome.SAME


def _beside_cost(
    outcome: Outcome, cost: Contrast, needed: float, alpha: float
) -> tuple[Outcome, str]:
    """Decide by the CPU time whether a changed share is a change.

    Shares add up to one, so a share also changes when other functions change.
    """
    if outcome is Outcome.REGRESSED:
        chance, amount = cost.chance_of_rise, cost.rise
    else:
        chance, amount = cost.chance_of_fall, cost.fall
    if amount < needed:
        return Outcome.SHIFTED, "its CPU time per task changed too little; other functions' did"
    if chance <= alpha:
        return outcome, ""
    now = f"{cost.difference / cost.before:+.0%}" if cost.before else "new"
    return (
        Outcome.UNDECIDED,
        f"its CPU time per task ({now}) varies too much to tell whether it changed too: run more "
        "rounds",
    )


def _change(
    metric: str, subject: str, contrast: Contrast, outcome: Outcome, note: str, levels: Levels
) -> Change:
    """Return the change with the bounds that decided: a rise counts if the lower one is above 0, a
    fall if the upper one is below; else the upper one tells how large a rise may be.

    Noise may exceed the whole, but no cost and no share can fall by more than itself.
    """
    is_fallen = contrast.chance_of_fall <= levels[1]
    return Change(
        metric,
        subject,
        owner_of_subject(subject),
        outcome,
        contrast.before,
        contrast.after,
        max(contrast.least_rise(levels[0]), -contrast.before),
        -contrast.least_fall(levels[1]) if is_fallen else contrast.high,
        note,
    )


def _lack_of_samples(
    share: Contrast, share_rise: float, before: Measurement, after: Measurement
) -> str:
    """Return that more samples would decide, if these alone leave a rise possible."""
    counts = before.samples, after.samples
    typical = (share.before + share.after) / 2
    error = sqrt(typical * (1 - typical) * sum(1 / max(1, count) for count in counts))
    alone = Contrast(share.before, share.after, error, MANY)
    if share.then is None and alone.low < share_rise <= alone.high:
        return SAMPLES.format(count=min(counts), least=_points(share_rise))
    return ""


def _points(share: float) -> str:
    return f"{share * 100:g} pp"


def _doubt(contrast: Contrast, least: str, levels: Levels, advice: str) -> str:
    """Return why a rise is undecided, and what would decide it."""
    if contrast.then is not None:
        return SEEN_ONCE
    return SIZE.format(least=least) if contrast.chance_of_rise <= levels[0] else advice


def _advice(before: Measurement, after: Measurement, *, in_turns: bool) -> dict[str, str]:
    """Return what would show how much CPU time and shares vary."""
    sides = before, after
    has_rounds = {
        CPU: min(len(side.cpu_of_rounds) for side in sides) >= MIN_ROUNDS,
        SHARE: all(
            side.backend.shares and side.backend.shares.inference == "rounds" for side in sides
        ),
    }
    of_rounds = PAIRS if in_turns else ROUNDS
    without = SCALES if len(after.scales) > 1 else ONE_ROUND
    return {
        metric: (of_rounds if has_rounds[metric] else without).format(scatter=text)
        for metric, text in ((CPU, "CPU time varies"), (SHARE, "shares vary"))
    }


def _with_moves(
    changes: Sequence[Change],
    before: Measurement,
    after: Measurement,
    past: Sequence[Measurement],
) -> Iterator[Change]:
    """Yield changes of functions that came or went as shifts, if their time only moved."""
    pairs = dict(_pairs(changes))
    pairs |= {old: new for new, old in pairs.items()}
    for change in changes:
        note = ""
        if change.outcome in (Outcome.REGRESSED, Outcome.IMPROVED):
            if partner := pairs.get(change.subject):
                note = f"moved {'from' if change.difference > 0 else 'to'} {partner}"
            elif _is_taken_out(change, before, after, past):
                owner = change.owner
                note = f"extracted from other functions of {owner}, which did not grow as a whole"
        yield replace(change, outcome=Outcome.SHIFTED, note=note) if note else change


def _pairs(changes: Sequence[Change]) -> Iterator[tuple[str, str]]:
    """Pair each function that came with one of a similar share that went from the same owner or
    module."""
    free = [change for change in changes if _has_gone(change.before, change.after)]
    for change in sorted(changes, key=lambda change: -change.difference):
        if not _has_gone(change.after, change.before):
            continue
        alike = [
            candidate
            for candidate in free
            if _is_one_place(candidate, change)
            and min(candidate.before, change.after) >= COVERED * max(candidate.before, change.after)
        ]
        if alike:
            nearest = min(alike, key=lambda candidate: abs(candidate.before - change.after))
            free.remove(nearest)
            yield change.subject, nearest.subject


def _has_gone(before: float, after: float) -> bool:
    return before > 0 and after <= GONE * before


def _is_one_place(one: Change, other: Change) -> bool:
    if one.subject.startswith("@") or other.subject.startswith("@"):
        return False
    return one.owner == other.owner or module_of(one.subject) == module_of(other.subject)


def _is_taken_out(
    change: Change, before: Measurement, after: Measurement, past: Sequence[Measurement]
) -> bool:
    """Whether a function came whose self share was extracted from other functions of its owner.

    Before is what is usual in the earlier runs, if there are enough of them.
    """
    owner = f"@{change.owner}"
    is_rise = change.outcome is Outcome.REGRESSED
    if not (is_rise and _has_gone(change.after, change.before)):
        return False
    if owner not in before.shares or owner not in after.shares:
        return False

    def own(side: Measurement) -> float:
        shares = side.self_shares
        return shares[change.subject].value if change.subject in shares else 0.0

    def of_owner(side: Measurement) -> float:
        return side.share_value(owner)

    grown, gained = (
        figure(after) - (usual([figure(run) for run in past]).value if past else figure(before))
        for figure in (own, of_owner)
    )
    rise = change.difference
    return grown >= COVERED * rise and gained <= (1 - COVERED) * rise
