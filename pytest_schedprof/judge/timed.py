"""Compare CPU time and shares by statistical tests, for all figures of one test together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import sqrt

from pytest_schedprof.judge.contrast import Contrast, Policy, largest_chance, paired, unpaired
from pytest_schedprof.judge.estimate import MANY, MIN_ROUNDS
from pytest_schedprof.judge.figures import Measurement, owner_of_subject
from pytest_schedprof.judge.owners import PLUMBING
from pytest_schedprof.judge.past import Past, cost_in, share_in
from pytest_schedprof.judge.series import EACH, Usual
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.metric import CPU, SHARE

COVERED = 0.75
"""Part of a rise that must have fallen elsewhere in the same owner or module; samples are not
precise enough for more."""

GONE = 0.1
"""A function has gone if it keeps less than this part of its share."""


def with_moved_costs(
    changes: list[Change], before: Measurement, after: Measurement
) -> list[Change]:
    """Turn changes of functions that came or went into shifts if their time only moved."""
    pairs = dict(_pairs(changes))
    pairs |= {old: new for new, old in pairs.items()}
    return [_settled(change, pairs, before, after) for change in changes]


def _pairs(changes: list[Change]) -> Iterator[tuple[str, str]]:
    """Pair each function that came with one of a similar share that went from the same owner or
    module."""
    free = [change for change in changes if _has_gone(change.before, change.after)]
    for change in sorted(changes, key=lambda each: -each.difference):
        if not _has_gone(change.after, change.before):
            continue
        alike = [
            gone
            for gone in free
            if _is_one_place(gone, change)
            and min(gone.before, change.after) >= COVERED * max(gone.before, change.after)
        ]
        if alike:
            nearest = min(alike, key=lambda gone: abs(gone.before - change.after))
            free.remove(nearest)
            yield change.subject, nearest.subject


def _has_gone(before: float, after: float) -> bool:
    return before > 0 and after <= GONE * before


def _is_one_place(one: Change, other: Change) -> bool:
    if one.subject.startswith("@") or other.subject.startswith("@"):
        return False
    return one.owner == other.owner or _module(one.subject) == _module(other.subject)


def _module(subject: str) -> str:
    return subject.partition(":")[0]


def _settled(
    change: Change, pairs: dict[str, str], before: Measurement, after: Measurement
) -> Change:
    if change.outcome not in (Outcome.REGRESSED, Outcome.IMPROVED):
        return change
    if partner := pairs.get(change.subject):
        way = "from" if change.difference > 0 else "to"
        return replace(change, outcome=Outcome.SHIFTED, note=f"moved {way} {partner}")
    came = _has_gone(change.after, change.before)
    if change.outcome is Outcome.REGRESSED and came and _is_taken_out(change, before, after):
        note = f"extracted from other functions of {change.owner}, which did not grow as a whole"
        return replace(change, outcome=Outcome.SHIFTED, note=note)
    return change


def _is_taken_out(change: Change, before: Measurement, after: Measurement) -> bool:
    """Whether its self share was extracted from other functions of its owner."""
    own_before, own_after = (
        side.self_shares[change.subject].value if change.subject in side.self_shares else 0.0
        for side in (before, after)
    )
    owner = f"@{change.owner}"
    if owner not in before.shares or owner not in after.shares:
        return False
    gained = after.shares[owner].value - before.shares[owner].value
    rise = change.difference
    return own_after - own_before >= COVERED * rise and gained <= (1 - COVERED) * rise


SEEN_ONCE = "seen in this run only: it counts if the next run shows it too"


@dataclass(frozen=True, slots=True)
class Standing(Contrast):
    """A figure and its usual level, with the figure of the run before this one."""

    then: float

    @property
    def rise(self) -> float:
        """The smaller rise of the two runs."""
        return min(self.after, self.then) - self.before

    @property
    def fall(self) -> float:
        """The smaller fall of the two runs."""
        return self.before - max(self.after, self.then)

    @property
    def chance_of_rise(self) -> float:
        """P value of a rise that both runs show."""
        return _of_both(self._chance(self.rise))

    @property
    def chance_of_fall(self) -> float:
        """P value of a fall that both runs show."""
        return _of_both(self._chance(self.fall))

    def _margin(self, chance: float) -> float:
        """Of each of the two runs, if noise is to exceed it in both with this chance."""
        return Contrast._margin(self, min(EACH, sqrt(chance)))

    def may_have_risen(self, needed: float) -> bool:
        """Whether this run shows a rise that the run before did not."""
        return self.difference >= needed and self._chance(self.difference) <= EACH


def standing(usual: Usual, after: float, least_error: float = 0.0) -> Standing:
    """Contrast a figure with its usual level.

    Args:
        usual: what the earlier runs tell.
        after: the figure of this run.
        least_error: smallest standard error, where most runs show nothing of a rare event.
    """
    error = max(usual.error, least_error)
    return Standing(usual.level, after, error, usual.freedom, usual.newest)


def _of_both(chance: float) -> float:
    """Return the chance of two runs, of which the less certain one has this chance."""
    return chance * chance if chance <= EACH else 1.0


SAMPLES = (
    "{count:,} samples do not rule out a rise of {least}: run more rounds, or give the scheduler "
    "more work"
)

SCALES = "rounds of several scales do not show how much {what}: run the test at one scale"

ONE_ROUND = "fewer than three rounds do not show how much {what}: run three or more"

ROUNDS = (
    "between the rounds {what} too much to tell: run more of them, or both versions in turns "
    "(--schedprof-against)"
)

PAIRS = "between the pairs of rounds {what} too much to tell: give a larger budget"

SIZE = "it rose, perhaps by the {least} from which on it counts: run more rounds"


@dataclass(frozen=True, slots=True)
class Bars:
    """What a change must pass, for all figures of both sides together."""

    before: Measurement
    after: Measurement
    policy: Policy
    in_turns: bool
    of_rises: float
    """Largest p value of a rise that counts."""
    of_falls: float

    def is_risen(self, contrast: Contrast) -> bool:
        """Whether a rise is certain, of whatever size."""
        return contrast.chance_of_rise <= self.of_rises

    def is_fallen(self, contrast: Contrast) -> bool:
        """Whether a fall is certain, of whatever size."""
        return contrast.chance_of_fall <= self.of_falls

    def change(
        self, metric: str, subject: str, contrast: Contrast, outcome: Outcome, note: str
    ) -> Change:
        """Return the change with the bounds that decided: a rise counts if the lower one is above
        0, a fall if the upper one is below; else the upper one tells how large a rise may be."""
        is_fallen = self.is_fallen(contrast)
        return Change(
            metric,
            subject,
            owner_of_subject(subject),
            outcome,
            contrast.before,
            contrast.after,
            contrast.least_rise(self.of_rises),
            -contrast.least_fall(self.of_falls) if is_fallen else contrast.high,
            note,
        )

    def doubt_of_cpu(self, cpu: Contrast) -> str:
        """Return why a rise of the CPU time is undecided, and what would decide it."""
        rounds = self.before.cpu_of_rounds, self.after.cpu_of_rounds
        has_rounds = min(map(len, rounds)) >= MIN_ROUNDS
        return self._doubt(cpu, f"{self.policy.cpu_rise:.0%}", "CPU time varies", has_rounds)

    def doubt_of_share(self, share: Contrast) -> str:
        """Return why a rise of a share is undecided: for its samples, or for what scatters."""
        least = f"{self.policy.share_rise * 100:g} pp"
        sides = self.before.of.shares, self.after.of.shares
        counts = [side.busy_samples if side else 0 for side in sides]
        typical = (share.before + share.after) / 2
        error = sqrt(typical * (1 - typical) * sum(1 / max(1, count) for count in counts))
        alone = Contrast(share.before, share.after, error, MANY)
        if not isinstance(share, Standing) and alone.may_have_risen(self.policy.share_rise):
            return SAMPLES.format(count=min(counts), least=least)
        has_rounds = all(side is not None and side.inference == "rounds" for side in sides)
        return self._doubt(share, least, "shares vary", has_rounds)

    def _doubt(self, contrast: Contrast, least: str, what: str, has_rounds: bool) -> str:
        if isinstance(contrast, Standing):
            return SEEN_ONCE
        if self.is_risen(contrast):
            return SIZE.format(least=least)
        if has_rounds:
            return (PAIRS if self.in_turns else ROUNDS).format(what=what)
        is_scaled = len(self.after.of.window.scales) > 1
        return (SCALES if is_scaled else ONE_ROUND).format(what=what)


def timed_changes(
    before: Measurement,
    after: Measurement,
    policy: Policy,
    *,
    in_turns: bool = False,
    past: Past | None = None,
) -> list[Change]:
    """Compare the CPU time of the whole, and the shares of all relevant functions and owners.

    Args:
        before: one side.
        after: the other side.
        policy: how large and how certain a change must be.
        in_turns: whether the rounds of the two sides were measured in turns.
        past: earlier runs, if there are enough to tell what is usual.
    """
    subjects = _subjects(before, after, policy)
    if past:
        policy = policy.with_past()
        whole: Contrast = standing(past.cpu, after.cpu.value)
        figures = {subject: _beside_past(subject, past, after) for subject in subjects}
    else:
        whole = _cpu(before, after, in_turns=in_turns)
        figures = {subject: _share_and_cost(subject, before, after, whole) for subject in subjects}
    contrasts = [whole, *(share for share, _ in figures.values())]
    bars = Bars(
        before,
        after,
        policy,
        in_turns,
        largest_chance([contrast.chance_of_rise for contrast in contrasts], policy.alpha),
        largest_chance([contrast.chance_of_fall for contrast in contrasts], policy.alpha),
    )
    changes = [_share_change(subject, *pair, bars) for subject, pair in figures.items()]
    return [_cpu_change(whole, bars), *with_moved_costs(changes, before, after)]


def _cpu(before: Measurement, after: Measurement, *, in_turns: bool) -> Contrast:
    """Contrast of the CPU time, paired if the rounds were measured in turns."""
    rounds = (before.cpu_of_rounds, after.cpu_of_rounds)
    if in_turns and len(rounds[0]) == len(rounds[1]) >= MIN_ROUNDS:
        return paired(*rounds)
    return unpaired(before.cpu, after.cpu)


def _beside_past(subject: str, past: Past, after: Measurement) -> tuple[Contrast, Contrast]:
    """Contrast a share, and the CPU time that it is of, with what is usual for them."""
    usual, share = past.share(subject), share_in(after, subject)
    return (
        standing(usual, share, after.sampling_error((usual.level + share) / 2)),
        standing(past.cost(subject), cost_in(after, subject)),
    )


def _subjects(before: Measurement, after: Measurement, policy: Policy) -> list[str]:
    """Return owners and functions to compare, without those that call all others."""
    return [
        subject
        for subject in sorted({*before.shares, *after.shares})
        if max(share_in(side, subject) for side in (before, after)) >= policy.seen_from
        and (subject.startswith("@") or owner_of_subject(subject) not in PLUMBING)
    ]


def _share_and_cost(
    subject: str, before: Measurement, after: Measurement, whole: Contrast
) -> tuple[Contrast, Contrast]:
    """Contrast a share, and the CPU time that it is of.

    The pooled share of both sides gives the error under the null hypothesis.
    """
    samples, seen = 0, 0.0
    for side in (before, after):
        if side.of.shares:
            samples += side.of.shares.busy_samples
            seen += side.of.shares.busy_samples * share_in(side, subject)
    typical = seen / max(1, samples)
    share = unpaired(before.share(subject, typical), after.share(subject, typical))
    return share, _cost(share, before.busy, after.busy, whole)


def _cost(share: Contrast, busy_before: float, busy_after: float, whole: Contrast) -> Contrast:
    """Contrast of `share * busy * cpu`, with the errors of the share and of the CPU time."""
    before = share.before * busy_before * whole.before
    after = share.after * busy_after * whole.after
    busy = (busy_before + busy_after) / 2
    of_share = share.error * busy * (whole.before + whole.after) / 2
    of_whole = whole.error * busy * (share.before + share.after) / 2
    error = (of_share**2 + of_whole**2) ** 0.5
    return Contrast(before, after, error, min(share.freedom, whole.freedom))


def _share_change(subject: str, share: Contrast, cost: Contrast, bars: Bars) -> Change:
    policy = bars.policy
    outcome, note = Outcome.SAME, ""
    needed = policy.cpu_rise * cost.before
    if bars.is_risen(share) and share.rise >= policy.share_rise:
        is_dearer = cost.chance_of_rise <= policy.alpha and cost.rise >= needed
        outcome, note = _beside_cost(is_dearer, cost.rise < needed, Outcome.REGRESSED, cost)
    elif bars.is_fallen(share) and share.fall >= policy.share_rise:
        is_cheaper = cost.chance_of_fall <= policy.alpha and cost.fall >= needed
        outcome, note = _beside_cost(is_cheaper, cost.fall < needed, Outcome.IMPROVED, cost)
    elif share.may_have_risen(policy.share_rise):
        outcome, note = Outcome.UNDECIDED, bars.doubt_of_share(share)
    return bars.change(SHARE, subject, share, outcome, note)


def _beside_cost(
    is_sure: bool, is_slight: bool, outcome: Outcome, cost: Contrast
) -> tuple[Outcome, str]:
    """Decide by the CPU time whether a changed share is a change.

    Shares add up to one, so a share also changes when other functions change.
    """
    if is_sure:
        return outcome, ""
    if is_slight:
        return Outcome.SHIFTED, "its CPU time per task did not change; that of other functions did"
    now = f"{cost.difference / cost.before:+.0%}" if cost.before else "new"
    return (
        Outcome.UNDECIDED,
        f"its CPU time per task ({now}) varies too much to tell whether it changed too: run more "
        "rounds",
    )


def _cpu_change(cpu: Contrast, bars: Bars) -> Change:
    needed = bars.policy.cpu_rise * cpu.before
    outcome, note = Outcome.SAME, ""
    if bars.is_risen(cpu) and cpu.rise >= needed:
        outcome = Outcome.REGRESSED
    elif bars.is_fallen(cpu) and cpu.fall >= needed:
        outcome = Outcome.IMPROVED
    elif cpu.may_have_risen(needed):
        outcome, note = Outcome.UNDECIDED, bars.doubt_of_cpu(cpu)
    return bars.change(CPU, "", cpu, outcome, note)
