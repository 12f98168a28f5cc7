"""Compare CPU time and shares by statistical tests, for all figures of one test together."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.owners import PLUMBING
from pytest_schedprof.comparison.contrast import Contrast, paired, small_enough, unpaired
from pytest_schedprof.comparison.figures import Figures, owner_of_subject
from pytest_schedprof.comparison.moved_cost import with_moved_costs
from pytest_schedprof.comparison.past import Past, cost_in, share_in
from pytest_schedprof.comparison.policy import Policy
from pytest_schedprof.comparison.standing import SEEN_ONCE, Standing, standing
from pytest_schedprof.model.comparison import Change, Outcome
from pytest_schedprof.model.metric import CPU, SHARE

TOO_FEW_SAMPLES = "too few samples: run more rounds or more work"

TOO_VARIED = "CPU time varies too much to decide: run more rounds"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A share and the corresponding CPU time, each before and after."""

    subject: str
    share: Contrast
    cost: Contrast


def timed_changes(
    before: Figures,
    after: Figures,
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
        candidates = [_standing(subject, past, after) for subject in subjects]
    else:
        whole = _cpu(before, after, in_turns=in_turns)
        candidates = [_candidate(subject, before, after, whole) for subject in subjects]
    contrasts = [whole, *(candidate.share for candidate in candidates)]
    risen = small_enough([each.chance_of_rise for each in contrasts], policy.alpha)
    fallen = small_enough([each.chance_of_fall for each in contrasts], policy.alpha)
    changes = [
        _share_change(*each, policy=policy)
        for each in zip(candidates, risen[1:], fallen[1:], strict=True)
    ]
    changes = with_moved_costs(changes, before, after)
    return [_cpu_change(whole, risen[0], fallen[0], policy), *changes]


def _cpu(before: Figures, after: Figures, *, in_turns: bool) -> Contrast:
    """Contrast of the CPU time, paired if the rounds were measured in turns."""
    rounds = (before.cpu_of_rounds, after.cpu_of_rounds)
    if in_turns and len(rounds[0]) == len(rounds[1]) >= MIN_ROUNDS:
        return paired(*rounds)
    return unpaired(before.cpu, after.cpu)


def _standing(subject: str, past: Past, after: Figures) -> Candidate:
    """Contrast a share, and the CPU time that it is of, with what is usual for them."""
    usual, share = past.share(subject), share_in(after, subject)
    return Candidate(
        subject,
        standing(usual, share, after.sampling_error((usual.level + share) / 2)),
        standing(past.cost(subject), cost_in(after, subject)),
    )


def _subjects(before: Figures, after: Figures, policy: Policy) -> list[str]:
    """Return owners and functions to compare, without those that call all others."""
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
    """Pooled share of both sides, for the error under the null hypothesis."""
    sides = [side for side in (before, after) if side.result.shares]
    samples = [side.result.shares.busy_samples for side in sides if side.result.shares]
    values = [side.shares[subject].value if subject in side.shares else 0.0 for side in sides]
    return sum(n * p for n, p in zip(samples, values, strict=True)) / max(1, sum(samples))


def _cost(share: Contrast, busy_before: float, busy_after: float, whole: Contrast) -> Contrast:
    """Contrast of `share * busy * cpu`, with the errors of the share and of the CPU time."""
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
    if is_risen and share.rise >= policy.share_rise:
        is_dearer = cost.chance_of_rise <= policy.alpha and cost.rise >= needed
        outcome, note = _beside_cost(is_dearer, cost.rise < needed, Outcome.REGRESSED)
    elif is_fallen and share.fall >= policy.share_rise:
        is_cheaper = cost.chance_of_fall <= policy.alpha and cost.fall >= needed
        outcome, note = _beside_cost(is_cheaper, cost.fall < needed, Outcome.IMPROVED)
    elif share.may_have_risen(policy.share_rise):
        outcome, note = Outcome.UNDECIDED, _why_open(share, TOO_FEW_SAMPLES)
    subject = candidate.subject
    return Change(
        SHARE,
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
    """Decide by the CPU time whether a changed share is a change.

    Shares add up to one, so a share also changes when other functions change.
    """
    if is_sure:
        return outcome, ""
    if is_slight:
        return Outcome.SHIFTED, "its CPU time per task did not change; that of other functions did"
    return (
        Outcome.UNDECIDED,
        "the share changed; more rounds are needed to see whether its CPU time did",
    )


def _why_open(contrast: Contrast, reason: str) -> str:
    """Return why a rise is undecided: for this reason, or because one run shows it."""
    return SEEN_ONCE if isinstance(contrast, Standing) else reason


def _cpu_change(cpu: Contrast, is_risen: bool, is_fallen: bool, policy: Policy) -> Change:
    needed = policy.cpu_rise * cpu.before
    outcome, note = Outcome.SAME, ""
    if is_risen and cpu.rise >= needed:
        outcome = Outcome.REGRESSED
    elif is_fallen and cpu.fall >= needed:
        outcome = Outcome.IMPROVED
    elif cpu.may_have_risen(needed):
        outcome, note = Outcome.UNDECIDED, _why_open(cpu, TOO_VARIED)
    return Change(CPU, "", "", outcome, cpu.before, cpu.after, cpu.low, cpu.high, note)
