"""CPU time and shares compared: by confidence, all figures of one test taken together."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.owners import PLUMBING
from pytest_schedprof.comparison.contrast import Contrast, paired, small_enough, unpaired
from pytest_schedprof.comparison.figures import Figures, owner_of_subject
from pytest_schedprof.comparison.moves import with_moves
from pytest_schedprof.comparison.policy import Policy
from pytest_schedprof.model.comparison import Change, Outcome


@dataclass(frozen=True, slots=True)
class Candidate:
    """A share and the CPU time it stands for, each before and after."""

    subject: str
    share: Contrast
    cost: Contrast


def timed_changes(
    before: Figures, after: Figures, policy: Policy, *, in_turns: bool = False
) -> list[Change]:
    """The CPU time of the whole, and the shares of all functions and owners worth a look."""
    whole = _cpu(before, after, in_turns=in_turns)
    candidates = [
        _candidate(subject, before, after, whole) for subject in _subjects(before, after, policy)
    ]
    contrasts = [whole, *(candidate.share for candidate in candidates)]
    risen = small_enough([each.chance_of_rise for each in contrasts], policy.alpha)
    fallen = small_enough([each.chance_of_fall for each in contrasts], policy.alpha)
    changes = [
        _share_change(*each, policy=policy)
        for each in zip(candidates, risen[1:], fallen[1:], strict=True)
    ]
    changes = with_moves(changes, before, after)
    return [_cpu_change(whole, risen[0], fallen[0], policy), *changes]


def _cpu(before: Figures, after: Figures, *, in_turns: bool) -> Contrast:
    """In turns, what slowed both down meanwhile cancels."""
    rounds = (before.cpu_of_rounds, after.cpu_of_rounds)
    if in_turns and len(rounds[0]) == len(rounds[1]) >= MIN_ROUNDS:
        return paired(*rounds)
    return unpaired(before.cpu, after.cpu)


def _subjects(before: Figures, after: Figures, policy: Policy) -> list[str]:
    """What surrounds all others says nothing that the whole does not say."""
    return [
        subject
        for subject in sorted({*before.shares, *after.shares})
        if _largest(subject, before, after) >= policy.seen_from
        and (subject.startswith("@") or owner_of_subject(subject) not in PLUMBING)
    ]


def _largest(subject: str, before: Figures, after: Figures) -> float:
    return max(side.shares[subject].value for side in (before, after) if subject in side.shares)


def _candidate(subject: str, before: Figures, after: Figures, whole: Contrast) -> Candidate:
    typical = _typical(subject, before, after)
    share = unpaired(before.share(subject, typical), after.share(subject, typical))
    return Candidate(subject, share, _cost(share, before.busy, after.busy, whole))


def _typical(subject: str, before: Figures, after: Figures) -> float:
    """Of both sides together: the error of a difference is that where there is none."""
    sides = [side for side in (before, after) if side.result.shares]
    samples = [side.result.shares.busy_samples for side in sides if side.result.shares]
    values = [side.shares[subject].value if subject in side.shares else 0.0 for side in sides]
    return sum(n * p for n, p in zip(samples, values, strict=True)) / max(1, sum(samples))


def _cost(share: Contrast, busy_before: float, busy_after: float, whole: Contrast) -> Contrast:
    """The change of `share * busy * cpu`, whose errors are those of the share and of the whole."""
    before = share.before * busy_before * whole.before
    after = share.after * busy_after * whole.after
    busy = (busy_before + busy_after) / 2
    of_share = share.error * busy * (whole.before + whole.after) / 2
    of_whole = whole.error * busy * (share.before + share.after) / 2
    error = (of_share**2 + of_whole**2) ** 0.5
    return Contrast(before, after, error, min(share.freedom, whole.freedom))


def _share_change(
    candidate: Candidate, is_risen: bool, is_fallen: bool, *, policy: Policy
) -> Change:
    share, cost = candidate.share, candidate.cost
    outcome, note = Outcome.SAME, ""
    needed = policy.cpu_rise * cost.before
    if is_risen and share.difference >= policy.share_rise:
        is_dearer = cost.chance_of_rise <= policy.alpha and cost.difference >= needed
        outcome, note = _beside_cost(is_dearer, cost.difference < needed, Outcome.REGRESSED)
    elif is_fallen and -share.difference >= policy.share_rise:
        is_cheaper = cost.chance_of_fall <= policy.alpha and -cost.difference >= needed
        outcome, note = _beside_cost(is_cheaper, -cost.difference < needed, Outcome.IMPROVED)
    elif share.high >= policy.share_rise:
        outcome, note = Outcome.UNDECIDED, "too few samples: give more rounds or more work"
    subject = candidate.subject
    return Change(
        "share",
        subject,
        owner_of_subject(subject),
        outcome,
        share.before,
        share.after,
        share.low,
        share.high,
        note,
    )


def _beside_cost(is_sure: bool, is_slight: bool, outcome: Outcome) -> tuple[Outcome, str]:
    """Shares add up to one: what others gain or lose moves them all. The cost has to agree."""
    if is_sure:
        return outcome, ""
    if is_slight:
        return Outcome.SHIFTED, "its CPU time per task stayed: it is others' that moved"
    return Outcome.UNDECIDED, "the share moved; whether its CPU time did needs more rounds"


def _cpu_change(cpu: Contrast, is_risen: bool, is_fallen: bool, policy: Policy) -> Change:
    needed = policy.cpu_rise * cpu.before
    outcome, note = Outcome.SAME, ""
    if is_risen and cpu.difference >= needed:
        outcome = Outcome.REGRESSED
    elif is_fallen and -cpu.difference >= needed:
        outcome = Outcome.IMPROVED
    elif cpu.high >= needed:
        outcome, note = Outcome.UNDECIDED, "CPU time strays too far for it: give more rounds"
    return Change("cpu", "", "", outcome, cpu.before, cpu.after, cpu.low, cpu.high, note)
