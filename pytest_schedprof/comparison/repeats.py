"""Evaluate repeated measurements of identical code: their scatter and rate of false alarms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from statistics import fmean, median

from pytest_schedprof.analysis.costs import DRIFT
from pytest_schedprof.analysis.estimate import MIN_ROUNDS
from pytest_schedprof.analysis.owners import NOT_SCHEDULER, PLUMBING, owner_of
from pytest_schedprof.analysis.scatter import (
    Variance,
    at_most,
    mean_variance,
    rate_at_most,
    variance_of,
)
from pytest_schedprof.comparison.compare import compare_one
from pytest_schedprof.comparison.counted import STEADY
from pytest_schedprof.comparison.detectable import Noise, detectable
from pytest_schedprof.comparison.figures import Figures, freedom_of
from pytest_schedprof.comparison.matching import Measurement
from pytest_schedprof.comparison.policy import Policy
from pytest_schedprof.model.calibration import (
    Alarms,
    BackendCalibration,
    Calibration,
    Detectable,
    Spread,
    Unsteady,
)
from pytest_schedprof.model.comparison import Comparison, Outcome

COMMON = (0.02, 0.95)
"""Range of shares from which the drift is estimated: functions outside of it have too few samples,
or nearly all of them."""

Groups = Sequence[Sequence[Measurement]]
"""Measurements of identical code, grouped by cluster."""


@dataclass(frozen=True)
class Repeats:
    """Windows of one backend, as single windows and as rounds of one measurement."""

    windows: Groups
    rounds: Groups
    window_s: float
    """Wall time of a window, with its preparation."""
    given_s: float
    """Time budget of a comparison, for both sides together."""

    def calibrated(self, shell: Calibration, policy: Policy) -> BackendCalibration:
        """Evaluate all windows; false alarms are counted with the scatter already known."""
        spreads = self._spreads()
        known = replace(policy, calibrations=(replace(shell, backends=(spreads,)),))
        compared = {
            rounds: list(_comparisons(groups, known))
            for rounds, groups in ((1, self.windows), (MIN_ROUNDS, self.rounds))
        }
        found = self._detectable(spreads, compared[1], policy) if spreads.cpu else []
        alarms = tuple(_alarms(*each) for each in compared.items())
        return replace(spreads, alarms=alarms, detectable=tuple(found))

    @cached_property
    def _all(self) -> list[Measurement]:
        return [each for group in self.windows for each in group]

    @cached_property
    def _figures(self) -> list[list[Figures]]:
        return [[each.figures() for each in group] for group in self.windows]

    @property
    def _samples(self) -> list[int]:
        return [each.of.shares.busy_samples for each in self._all if each.of.shares]

    def _spreads(self) -> BackendCalibration:
        first = self._all[0].of
        is_sampled = first.shares is not None
        functions, unsteady = self._counted()
        return BackendCalibration(
            backend=first.backend,
            mode=first.mode,
            windows=len(self._all),
            tasks=first.window.tasks,
            seconds=self.window_s,
            samples=median(self._samples) if is_sampled else 0,
            cpu=self._cpu() if is_sampled else None,
            drift=self._drift() if is_sampled else None,
            alarms=(),
            detectable=(),
            functions=functions,
            unsteady=tuple(unsteady),
        )

    def _cpu(self) -> Spread:
        values = [[each.cpu.value for each in group] for group in self._figures]
        mean = fmean(value for group in values for value in group)
        return _spread(variance_of(values), 1 / mean**2 if mean else 0.0)

    @cached_property
    def _of_shares(self) -> Variance:
        """Variance of a window's share in units of p (1 - p), including that of sampling."""
        names = {name for group in self._figures for each in group for name in each.shares}
        series = (self._scaled_shares(name) for name in sorted(names) if _is_telling(name))
        return mean_variance([each for each in series if each])

    def _scaled_shares(self, name: str) -> list[list[float]]:
        """Return one share in every window, in units of sqrt(p (1 - p)); empty if it is rare."""
        values = [[_share(each, name) for each in group] for group in self._figures]
        mean = fmean(value for group in values for value in group)
        if not COMMON[0] < mean < COMMON[1]:
            return []
        scale = sqrt(mean * (1 - mean))
        return [[value / scale for value in group] for group in values]

    def _drift(self) -> Spread:
        sampling = fmean(1 / max(1, samples) for samples in self._samples)
        return _spread(self._of_shares, 1.0, sampling)

    def _detectable(
        self, spreads: BackendCalibration, compared: Sequence[Comparison], policy: Policy
    ) -> Iterator[Detectable]:
        """Yield the smallest detectable changes, for one window and for as many rounds as fit."""
        assert spreads.cpu
        assert spreads.drift
        assert self._all[0].of.shares
        rounds = max(1, int(self.given_s / 2 / self.window_s))
        cpu = spreads.cpu.instead_of(DRIFT)
        drift = spreads.drift.instead_of(self._all[0].of.shares.drift or 0.0)
        family = max((len(each.changes) + each.same for each in compared), default=1)
        sampling = self._within / (spreads.samples * rounds) if spreads.samples else 1.0
        once = Noise(1, cpu, sqrt(sampling + drift**2), freedom_of([spreads.cpu]))
        yield from detectable(once, family, policy)
        if rounds >= MIN_ROUNDS:
            strays = sqrt(self._of_shares.value)
            noise = Noise(rounds, spreads.cpu.value / sqrt(rounds), strays / sqrt(rounds))
            yield from detectable(noise, family, policy)

    @property
    def _within(self) -> float:
        """Square of the over-dispersion within windows."""
        found = [
            max(1.0, share.dispersion**2 - (each.result.shares.drift or 0.0) ** 2 * share.samples)
            for group in self._figures
            for each in group
            if each.result.shares
            for share in each.shares.values()
            if share.value >= COMMON[0]
        ]
        return fmean(found) if found else 1.0

    def _counted(self) -> tuple[int, list[Unsteady]]:
        """Return the number of functions, and those whose counts differ between windows."""
        metrics = self._figures[0][0].metrics
        names = {
            name
            for group in self._figures
            for each in group
            for metric in metrics
            for name in each.exact(metric)
        }
        found = [each for metric in metrics for each in self._unsteady(metric)]
        return len(names), sorted(found, key=lambda each: -each.scatter * each.part)

    def _unsteady(self, metric: str) -> Iterator[Unsteady]:
        windows = [[each.exact(metric) for each in group] for group in self._figures]
        total = fmean(sum(f.value for f in each.values()) for group in windows for each in group)
        for name in {name for group in windows for each in group for name in each}:
            values = [[each[name].value if name in each else 0.0 for each in g] for g in windows]
            mean = fmean(value for group in values for value in group)
            scatter = sqrt(variance_of(values).value) / mean if mean else 0.0
            if scatter >= STEADY:
                yield Unsteady(metric, name, scatter, mean / total)


def _share(figures: Figures, name: str) -> float:
    return figures.shares[name].value if name in figures.shares else 0.0


def _is_telling(name: str) -> bool:
    """Whether a subject is a function of the scheduler that does not call all others."""
    return not name.startswith("@") and owner_of(name) not in PLUMBING | NOT_SCHEDULER


def _spread(variance: Variance, scale: float, known: float = 0.0) -> Spread:
    """Return the scatter that is left without the part of the variance that is explained."""
    found, most = (max(0.0, each * scale - known) for each in (variance.value, at_most(variance)))
    return Spread(sqrt(found), min(sqrt(most), LARGE), variance.freedom)


LARGE = 1e6
"""Stands for infinity, which JSON lacks."""


def _comparisons(groups: Groups, policy: Policy) -> Iterator[Comparison]:
    """Compare disjoint pairs from different clusters, so that the trials are independent.

    Pairs with too few samples are left out.
    """
    for one, other in zip(groups[::2], groups[1::2], strict=False):
        for before, after in zip(one, other, strict=False):
            comparison = compare_one([before], after, policy)
            if not comparison.reasons:
                yield comparison


def _alarms(rounds: int, compared: Sequence[Comparison]) -> Alarms:
    alarms = sum(bool(each.of(Outcome.REGRESSED)) for each in compared)
    return Alarms(rounds, len(compared), alarms, rate_at_most(alarms, len(compared)))
