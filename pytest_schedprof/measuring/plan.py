"""The plan of a profiled test: which backends record which runs of its body, and its limits."""

from __future__ import annotations

import os
import shutil
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from itertools import islice
from pathlib import Path
from typing import NamedTuple, Protocol

from msgspec import Struct

from pytest_schedprof.backends.contract import Backend, side_by_side
from pytest_schedprof.backends.registry import FROM_OUTSIDE, LIGHTEST, MOST_EXACT, BackendRegistry
from pytest_schedprof.backends.sampling import refusal_of_own
from pytest_schedprof.clusters import KINDS as CLUSTERS
from pytest_schedprof.errors import LimitError, SettingsError
from pytest_schedprof.evidence import KINDS
from pytest_schedprof.evidence.contract import Kind, Need
from pytest_schedprof.judge.compare import InterimChecks
from pytest_schedprof.judge.reference import Reference
from pytest_schedprof.measuring.settings import ANY_BACKEND, Settings
from pytest_schedprof.model.backend import recommended
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.metric import CLIENT_BYTECODES, METRICS, SHARE
from pytest_schedprof.model.options import listed
from pytest_schedprof.model.result import OWN_VIRTUAL, VIRTUAL

FIRST_CHECK = 4
FIRST_CHECK_OF_COUNTS = 3
"""Pairs of rounds before the first interim check of a test that is compared in turns. Three show
which counts are steady."""

ROUNDS_TO_COMPARE = 3
"""Default rounds of tests that are saved or compared. Fewer show neither which counts are steady
nor how far times scatter."""


class Plan(Struct, frozen=True):
    """How a test is to be profiled. Made before the test runs, so that mistakes show at once."""

    settings: Settings
    backends: tuple[Backend, ...]
    limits: tuple[Limit, ...] = ()
    unjudged: tuple[str, ...] = ()
    """Limits that no backend of the run measures, or that need a baseline where there is none."""
    reference: Reference | None = None
    """The baseline that the test is compared with, unless it is compared in turns."""
    evidence: tuple[type[Kind], ...] = ()
    kind: str = ""
    """Kind of the cluster, once that is known: it may be the user's own."""

    @property
    def limits_client_alone(self) -> bool:
        """Whether all limits are on what the client does: it may define graphs and run none."""
        limits = self.settings.limit
        return bool(limits) and all(limit.measured == CLIENT_BYTECODES for limit in limits)

    @property
    def rounds(self) -> int:
        """How often the body runs; if nothing says it, as often as a comparison needs."""
        settings = self.settings
        is_virtual = (self.kind or settings.cluster) in (VIRTUAL, OWN_VIRTUAL)
        are_alike = is_virtual and all(backend.is_reproduced for backend in self.backends)
        needed = ROUNDS_TO_COMPARE if (settings.save or settings.compare) and not are_alike else 1
        return settings.rounds or needed

    @property
    def needs_scheduler(self) -> str | None:
        """What must have a scheduler: empty if the test as a whole, None if nothing of it."""
        if not any(limit.measured == CLIENT_BYTECODES for limit in self.settings.limit):
            return ""
        limits = (limit for limit in self.settings.limit if limit.measured != CLIENT_BYTECODES)
        backends = (backend for backend in self.backends if CLIENT_BYTECODES not in backend.metrics)
        needs = (
            *(f"limit {str(limit)!r}" for limit in limits),
            *(f"backend {backend.name}" for backend in backends),
            *(f"evidence {kind.name}" for kind in self.evidence),
        )
        return next(iter(needs), None)

    @property
    def times_client(self) -> bool:
        """Whether the client's phases are timed: they are evidence, or a limit bounds them."""
        is_limited = any(limit.is_of_client for limit in self.limits)
        return is_limited or self.needs(Need.CLIENT_PHASES)

    def needs(self, need: Need) -> bool:
        return any(need in kind.needs for kind in self.evidence)

    @property
    def launcher(self) -> tuple[str, ...]:
        """Command that starts the scheduler's interpreter, if a backend needs one."""
        return next((backend.launcher for backend in self.backends if backend.launcher), ())

    @property
    def interim_checks(self) -> InterimChecks:
        """The schedule of interim checks, for a test that is compared in turns."""
        samples = any(SHARE in backend.metrics for backend in self.backends)
        first = max(FIRST_CHECK if samples else FIRST_CHECK_OF_COUNTS, self.rounds)
        return InterimChecks(first, self.settings.budget)

    @property
    def body_runs(self) -> list[BodyRun]:
        """All runs of the body.

        Each round has every kind of run, so that a change of the machine's load affects all alike.
        """
        return self.runs_of_a_round * self.rounds

    @property
    def runs_of_a_round(self) -> list[BodyRun]:
        """The runs of one round: at each scale one for each group of backends."""
        together = side_by_side(self.backends)
        if self.evidence and all(map(_disturbs, together)):
            together.append(())  # a run without backends, for evidence
        return [
            BodyRun(scale, backends, not _disturbs(backends))
            for scale in self.settings.scale or (0,)
            for backends in together
        ]


class BodyRun(NamedTuple):
    """One run of the test's body."""

    scale: int
    """Size of the workload; 0 if the test runs at one size only."""
    backends: tuple[Backend, ...]
    has_evidence: bool
    """Whether evidence is gathered. Not beside a backend that disturbs: it would measure the
    instruments of evidence, which work inside the scheduler."""


def _disturbs(backends: Sequence[Backend]) -> bool:
    return any(backend.disturbs for backend in backends)


class ArtifactStore(Protocol):
    """Where artifacts are kept: the directory of a run, or one that a caller gave."""

    def prepare(self) -> None:
        """Raise ArtifactError if nothing can be kept."""

    def new_test(self, test_id: str) -> Path | None:
        """Return the directory of a test's artifacts, or None if nobody keeps them."""


def choose_backends(
    settings: Settings,
    registry: BackendRegistry,
    *,
    in_main_thread: bool,
    is_apart: bool = False,
) -> Settings:
    """Return the settings with the backends that the limits need.

    Without limits that is the one whose figures compare best, unless it would slow somebody else's
    scheduler down. What is not installed, or may not trace, is taken only if nothing else measures
    a metric.

    Args:
        settings: of the test.
        registry: of backends.
        in_main_thread: whether the scheduler runs in the main thread of the test's process.
            What samples from outside stops the test and its workers too.
        is_apart: whether it has a process of its own.
    """
    is_ours = _is_ours(settings)
    metrics = dict.fromkeys(limit.measured for limit in settings.limit if not limit.evidence)
    is_sampled = any(METRICS[metric].is_sampled for metric in metrics)
    is_light = in_main_thread or (is_apart and is_ours and is_sampled and bool(refusal_of_own()))
    best, names = LIGHTEST if is_light else FROM_OUTSIDE, list[str]()
    for metric in metrics:
        if not any(metric in registry.facts_of(name).measures for name in names):
            ordered = _preferred(best, registry)
            able = (name for name in ordered if metric in registry.facts_of(name).measures)
            names.extend(islice(_installed_first(able, registry) if is_ours else able, 1))
    is_elsewhere = "://" in settings.cluster
    is_compared = settings.save is not None or settings.compare is not None
    is_slowed = in_main_thread and not is_compared  # counting takes longer, but sees small changes
    default = best if is_elsewhere or is_slowed else MOST_EXACT
    return settings._replace(backend=tuple(names) or (default,))


def _is_ours(settings: Settings) -> bool:
    """Whether the cluster's environment is that of the tests."""
    kind = CLUSTERS.get(settings.cluster)
    return kind is not None and kind.takes_interpreter


def substitution(settings: Settings) -> str:
    """Say that what samples from outside is replaced, if it is missing or refused; else empty."""
    if not _is_ours(settings):
        return ""
    refusal = refusal_of_own()
    reason = refusal.reason if refusal else ""
    if not _is_installed("py-spy"):
        reason = "it is not installed; pip install py-spy"
    return f"{LIGHTEST} in place of {FROM_OUTSIDE}: {reason}" if reason else ""


def _preferred(best: str, registry: BackendRegistry) -> Iterator[str]:
    """Yield backends, the best one first; the others are imported only when they are needed."""
    yield best
    yield from recommended(registry.facts.values())
    yield from registry.facts


def _installed_first(names: Iterable[str], registry: BackendRegistry) -> Iterator[str]:
    """Yield backends; last those whose packages are not installed, whose errors say how to."""
    absent = list[str]()
    for name in names:
        if all(map(_is_installed, registry.facts_of(name).needs)):
            yield name
        else:
            absent.append(name)
    yield from absent


def _is_installed(package: str) -> bool:
    """Whether the package, or a program of that name as conda installs py-spy, is there."""
    try:
        return bool(distribution(package))
    except PackageNotFoundError:
        places = sysconfig.get_path("scripts"), os.environ.get("PATH", "")
        return shutil.which(package, path=os.pathsep.join(places)) is not None


def make_plan(
    settings: Settings,
    registry: BackendRegistry,
    store: ArtifactStore,
    reference: Reference | None = None,
    evidence: tuple[type[Kind], ...] = (),
) -> Plan:
    """Check everything that can be checked before the test runs.

    Raises:
        SettingsError: for a backend, option or limit that is not possible.
        ArtifactError: if artifacts cannot be kept.
    """
    kinds = {*KINDS, *(kind.name for kind in evidence)}
    owners = {owner for owner, _, _ in settings.option} - {ANY_BACKEND} - kinds
    for kind in evidence:
        kind.read_options(settings.options_of(kind.name, ()))
    registry.check([*settings.backend, *sorted(owners)])
    _check_shared_options(settings, registry)
    own_limits = [limit for limit in settings.limit if not limit.evidence]
    backends = tuple(
        registry.make(
            name,
            rate_hz=settings.rate,
            options=settings.options_of(name, registry.options_of(name)),
            patterns=[
                limit.pattern
                for limit in own_limits
                if limit.pattern and limit.measured in registry.facts_of(name).measures
            ],
        )
        for name in settings.backend
    )
    measured = {metric for backend in backends for metric in backend.metrics}
    unjudged = [limit for limit in own_limits if limit.measured not in measured]
    if unjudged and not settings.is_forced:  # a mistake, unless the run chose the backends
        metric = unjudged[0].measured
        able = recommended(facts for facts in registry.facts.values() if metric in facts.measures)
        raise LimitError(
            f"schedprof: limit {str(unjudged[0])!r} needs a backend that measures {metric!r}; "
            f"{', '.join(settings.backend)} cannot" + (f", {listed(able)} can" if able else "")
        )
    store.prepare()
    if reference is None and settings.against is None:
        unjudged += [
            limit for limit in settings.limit if limit.is_relative and limit not in unjudged
        ]
    limits = tuple(limit for limit in settings.limit if limit not in unjudged)
    return Plan(settings, backends, limits, tuple(map(str, unjudged)), reference, evidence)


def _check_shared_options(settings: Settings, registry: BackendRegistry) -> None:
    """Refuse an option that no backend of the test knows, unless the run chose the backends."""
    known = {name for backend in settings.backend for name in registry.options_of(backend)}
    for owner, name, _ in () if settings.is_forced else settings.option:
        if owner == ANY_BACKEND and name not in known:
            raise SettingsError(
                f"schedprof: backend {' or '.join(map(repr, settings.backend))} has no option "
                f"{name!r}; known: {', '.join(sorted(known)) or 'none'}"
            )
