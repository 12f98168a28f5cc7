"""How a test is to be profiled: what runs its body takes, and what is judged by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from pytest_schedprof.backends.contract import Backend, side_by_side
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.comparison.looks import Looks
from pytest_schedprof.errors import LimitError, SettingsError
from pytest_schedprof.gates.limits import Limit
from pytest_schedprof.gates.reference import Reference
from pytest_schedprof.settings import ANY_BACKEND, Settings

FIRST_LOOK = 4
FIRST_LOOK_AT_COUNTS = 3
"""Pairs of rounds after which a test that is compared in turns may be decided."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How a test is to be profiled; made before it runs, so that mistakes show at once."""

    settings: Settings
    backends: tuple[Backend, ...]
    limits: tuple[Limit, ...] = ()
    unjudged: tuple[str, ...] = ()
    """Limits of the test that none of the backends which the run chose can judge, or that need a
    baseline where none was given."""
    reference: Reference | None = None
    """What the test is compared with, if not with a scheduler that runs beside it."""

    @property
    def has_own_measure(self) -> bool:
        """Whether its limits say what a regression is."""
        return any(limit.is_relative for limit in self.limits)

    @property
    def times_client(self) -> bool:
        """Whether its phases are evidence, or limits speak of them."""
        is_limited = any(limit.is_of_client for limit in self.limits)
        return is_limited or "phases" in self.settings.evidence

    @property
    def looks(self) -> Looks:
        """Of a test that is compared in turns; three show which counts are steady."""
        samples = any("share" in backend.metrics for backend in self.backends)
        first = max(FIRST_LOOK if samples else FIRST_LOOK_AT_COUNTS, self.settings.rounds)
        return Looks(first, self.settings.budget)

    @property
    def takes(self) -> list[Take]:
        """The backends and the scale of each run of the test's body.

        Rounds take turns, so that what changes on the machine meanwhile meets all alike.
        """
        return self.takes_of_a_turn * self.settings.rounds

    @property
    def takes_of_a_turn(self) -> list[Take]:
        """Of one round."""
        together = side_by_side(self.backends)
        if self.settings.evidence and all(map(_disturbs, together)):
            together.append(())  # for evidence alone
        return [
            Take(scale, backends, not _disturbs(backends))
            for scale in self.settings.scale or (0,)
            for backends in together
        ]


class Take(NamedTuple):
    """One run of the test's body."""

    scale: int
    """Size of the workload; 0 if the test has but one."""
    backends: tuple[Backend, ...]
    has_evidence: bool
    """Its instruments are at work in the scheduler, and what counts there would count them."""


def _disturbs(backends: Sequence[Backend]) -> bool:
    return any(backend.disturbs for backend in backends)


class Place(Protocol):
    """Where artifacts are kept: a run's directory, or one that a caller gave."""

    def prepare(self) -> None:
        """Raises ArtifactError if nothing can be kept."""

    def new_test(self, test_id: str) -> Path | None:
        """The directory of a test's artifacts, None if nobody wants them."""


def make_plan(
    settings: Settings,
    registry: BackendRegistry,
    run: Place,
    reference: Reference | None = None,
) -> Plan:
    """Check everything that can be checked before the test runs.

    Raises:
        SettingsError: for a backend, option or limit that cannot be.
        ArtifactError: if artifacts cannot be kept.
    """
    owners = {owner for owner, _, _ in settings.option} - {ANY_BACKEND}
    registry.check([*settings.backend, *sorted(owners)])
    _check_shared_options(settings, registry)
    backends = tuple(_make(name, settings, registry) for name in settings.backend)
    measured = {metric for backend in backends for metric in backend.metrics}
    unjudged = [limit for limit in settings.limit if limit.measured not in measured]
    if unjudged and not settings.is_forced:
        raise LimitError(
            f"schedprof: limit {str(unjudged[0])!r} needs a backend that measures "
            f"{unjudged[0].measured!r}; {', '.join(settings.backend)} cannot"
        )
    _check_targets(settings, backends)
    run.prepare()
    if reference is None and settings.against is None:
        unjudged += [each for each in settings.limit if each.is_relative and each not in unjudged]
    limits = tuple(limit for limit in settings.limit if limit not in unjudged)
    return Plan(settings, backends, limits, tuple(map(str, unjudged)), reference)


def _check_targets(settings: Settings, backends: Sequence[Backend]) -> None:
    """What none of the backends can observe is a mistake."""
    kinds = frozenset().union(*(backend.targets for backend in backends))
    for target in settings.targets:
        if (target if target in kinds else "workers") not in kinds:
            raise SettingsError(
                f"schedprof: target {target!r} cannot be observed by "
                f"{', '.join(settings.backend)}; pyspy, cputime and memray can"
            )


def _make(name: str, settings: Settings, registry: BackendRegistry) -> Backend:
    patterns = [limit.pattern for limit in settings.limit if ":" in limit.pattern]
    options = settings.options_of(name, registry.options_of(name))
    return registry.make(name, rate_hz=settings.rate, options=options, patterns=patterns)


def _check_shared_options(settings: Settings, registry: BackendRegistry) -> None:
    """One that no backend of the test knows is a mistake, unless the run chose other backends."""
    known = {option for name in settings.backend for option in registry.options_of(name)}
    shared = [option for owner, option, _ in settings.option if owner == ANY_BACKEND]
    for option in shared:
        if option not in known and not settings.is_forced:
            raise SettingsError(
                f"schedprof: backend {' or '.join(map(repr, settings.backend))} has no option "
                f"{option!r}; known: {', '.join(sorted(known)) or 'none'}"
            )
