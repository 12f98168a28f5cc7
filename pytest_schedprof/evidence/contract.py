"""The interface of a kind of evidence. A third party's kind has the same one."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, ClassVar

from pytest_schedprof.backends.options import read_options
from pytest_schedprof.errors import SchedprofError, SettingsError
from pytest_schedprof.evidence import ALL, KINDS
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.result import BackendResult

if TYPE_CHECKING:
    from dask.callbacks import Callback

    from pytest_schedprof.clusters.under_test import SchedulerUnderTest

NO_SCHEDULER = "it needs the scheduler before the test begins: give the test schedprof_scheduler"

TOGETHER = 0
"""Stands for all runs of the body, which are numbered from 1."""
NONE_HERE = "no distributed scheduler ran in the test's own process"

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class EvidenceUnavailableError(SchedprofError):
    """One kind of evidence cannot be gathered here; the text is the reason, in one line."""


class Need(Enum):
    """Something that a kind of evidence needs beside the test's body."""

    SCHEDULER = "scheduler"
    """The scheduler and a client of it before the body begins. A test without the fixture
    `schedprof_scheduler` has neither, and the kind is then reported as missing."""
    CALLBACKS = "callbacks"
    """What the hook `pytest_schedprof_callbacks` returns; the hook is not called without it."""
    CLIENT_PHASES = "client_phases"
    """The client's CPU time by phase, which is measured in each window and kept in
    `Segment.client`."""
    WORKER_PHASES = "worker_phases"
    """The workers' CPU time by phase, likewise, in `Segment.workers`."""


@dataclass(frozen=True, slots=True)
class ObservedTest:
    """The test that a kind gathers evidence of."""

    test_id: str
    known_scheduler: SchedulerUnderTest | None = None
    """None if the test's scheduler is not known before its body runs."""
    callbacks: Sequence[Callback] = ()
    """The session's callbacks of dask's local schedulers; empty unless a kind needs them."""
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Options as the user gave them, by kind."""
    limits: Sequence[Limit] = ()
    """Limits on evidence of the test."""
    code: Callable[[], str] = str
    """Returns the source of what is measured, which is read by then; empty if there is none."""

    @property
    def scheduler(self) -> SchedulerUnderTest:
        """The scheduler under test, with its client and the control line to it.

        Raises:
            EvidenceUnavailableError: if it is not known before the body runs.
        """
        if self.known_scheduler is None:
            raise EvidenceUnavailableError(NO_SCHEDULER)
        return self.known_scheduler


@dataclass(frozen=True, slots=True)
class Brought:
    """The files of a kind from all runs of the body."""

    files: Mapping[str, bytes]
    """Contents by file name; each name begins with the kind's name and a dot."""
    notes: tuple[str, ...] = ()
    """Things that a reader would not expect, one line each."""
    figures: Sequence[RunFigures] = ()
    """What limits can bound."""


@dataclass(frozen=True, slots=True)
class RunFigures:
    """The amounts of one metric in the runs of the body."""

    metric: str
    subject: str
    """What a pattern can name; empty for all together."""
    by_run: Mapping[int, float]
    """By the number of the run; TOGETHER if it is of all runs."""


@dataclass(frozen=True, slots=True)
class NoOptions:
    """Options of a kind that has none."""


class Kind(ABC):
    """One instrument at work on one scheduler, for one test.

    A subclass states its descriptor in its class statement:

        class QueueKind(Kind, name="queue", description="length of the scheduler's queue"): ...
    """

    name: ClassVar[str]
    """What users call it, in `--schedprof-evidence` and in the names of its files."""
    description: ClassVar[str]
    """Which instrument it is, in one line."""
    needs: ClassVar[frozenset[Need]]
    options_type: ClassVar[type[Any]] = NoOptions
    """Frozen dataclass of the options, as that of a backend."""

    def __init_subclass__(
        cls, *, name: str, description: str, needs: Collection[Need] = (Need.SCHEDULER,)
    ) -> None:
        super().__init_subclass__()
        if not _NAME.fullmatch(name) or name == ALL:
            raise ValueError(f"{name!r} cannot name a kind of evidence: use letters, digits and _")
        if not description or "\n" in description:
            raise ValueError(f"the description of evidence {name!r} must be one line")
        cls.name, cls.description, cls.needs = name, description, frozenset(needs)

    def __init__(self, test: ObservedTest) -> None:
        """Prepare for the runs of the body.

        Raises:
            EvidenceUnavailableError: if the evidence cannot be gathered here.
        """
        self.test = test
        self.others: Mapping[str, Any] = {}
        """The same kind on the other sides of a test that ran in turns, by what these are called.
        They are over; it is set before `bring`."""
        self.options: Any = self.read_options(test.options.get(self.name, {}))

    @classmethod
    def read_options(cls, given: Mapping[str, object]) -> Any:
        """Return the options of which these are given.

        Raises:
            SettingsError: for one that is unknown or malformed.
        """
        return read_options(cls.options_type, cls.name, given, what="evidence")

    def around(self, number: int) -> AbstractContextManager[None]:
        """Return a context manager for one run of the body; the default does nothing.

        It is entered before the backends start and left after they stopped.

        Args:
            number: of the run, from 1.

        Raises:
            EvidenceUnavailableError: if the evidence cannot be gathered here.
        """
        return _nothing_around()

    @abstractmethod
    def bring(self, found: Sequence[BackendResult]) -> Brought:
        """Return everything to keep, after the last run of the body.

        Args:
            found: what the backends found in the same runs.

        Raises:
            EvidenceUnavailableError: if there is nothing to keep.
        """

    def close(self) -> None:
        """Leave nothing on the scheduler; called once in any case, also after a failure."""
        return


@contextmanager
def _nothing_around() -> Iterator[None]:
    yield


GROUP = "pytest_schedprof.evidence"
"""The entry-point group of installed kinds: the name of the kind, and where its class is."""

HOOK = "from the hook pytest_schedprof_evidence"
GUIDE = "see docs/evidence.md"


class EvidenceRegistry:
    """Finds the classes of kinds by their names.

    A kind that the hook adds wins over any other of its name, a built-in one over an installed
    one. Entry points are read only when a name is neither built in nor added, or all are asked for.
    """

    def __init__(self, added: Iterable[Iterable[type[Kind]]] = ()) -> None:
        classes = [_checked(kind, f"{kind!r} ({HOOK})") for each in added for kind in each]
        self._added = {kind.name: kind for kind in classes}

    @property
    def names(self) -> tuple[str, ...]:
        """All names that can be asked for, the built-in ones first."""
        others = sorted({*self._installed, *self._added} - {*KINDS})
        return (*KINDS, *others)

    def check(self, names: Iterable[str]) -> None:
        """Check names that a user gave; built-in kinds are not imported for it.

        Raises:
            SettingsError: for a kind that is unknown, or installed but broken.
        """
        for name in self._expanded(names):
            if name not in KINDS:
                self._load(name)

    def with_options(self, names: Iterable[str]) -> set[str]:
        """Return the kinds whose options may be given if these are asked for."""
        return {*KINDS, *self._added, *self._expanded(names)}

    def kinds(self, names: Iterable[str]) -> tuple[type[Kind], ...]:
        """Return the classes of these kinds, of every kind for `all`.

        Raises:
            SettingsError: for a kind that is unknown, or installed but broken.
        """
        return tuple(self._load(name) for name in self._expanded(names))

    def _expanded(self, names: Iterable[str]) -> Sequence[str]:
        given = tuple(names)
        return self.names if given == (ALL,) else given

    @cached_property
    def _installed(self) -> dict[str, list[EntryPoint]]:
        found: dict[str, list[EntryPoint]] = {}
        for entry in entry_points(group=GROUP):
            found.setdefault(entry.name, []).append(entry)
        return found

    def _load(self, name: str) -> type[Kind]:
        if name in self._added:
            return self._added[name]
        if name in KINDS:
            return built_in(name)
        if name in self._installed:
            return _load_installed(name, self._installed[name])
        known = ", ".join(self.names)
        raise SettingsError(f"schedprof: evidence must be any of {known}, or 'all', got {name!r}")


def built_in(name: str) -> type[Kind]:
    """Import the class of a built-in kind."""
    kind: type[Kind] = resolve_name(KINDS[name])
    return kind


def _load_installed(name: str, entries: Sequence[EntryPoint]) -> type[Kind]:
    label = f"{name!r} ({' and '.join(map(_described, entries))})"
    if len(entries) > 1:
        raise _invalid(label, "several distributions add it, so uninstall all but one")
    try:
        found = entries[0].load()
    except Exception as error:  # a third party's module may raise anything
        raise _invalid(label, f"{type(error).__name__}: {error}") from error
    kind = _checked(found, label)
    if kind.name != name:
        raise _invalid(label, f"its class calls it {kind.name!r}")
    return kind


def _described(entry: EntryPoint) -> str:
    owner = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
    return f"entry point {entry.value!r} of {owner}"


def _checked(found: object, label: str) -> type[Kind]:
    """Return a class of a kind that has all methods."""

    if not (isinstance(found, type) and issubclass(found, Kind)):
        raise _invalid(label, f"{found!r} does not derive from {Kind.__module__}.Kind")
    if missing := sorted(found.__abstractmethods__):
        raise _invalid(label, f"{found.__qualname__} lacks {', '.join(missing)}")
    return found


def _invalid(label: str, fault: str) -> SettingsError:
    return SettingsError(f"schedprof: evidence {label} cannot be used: {fault}; {GUIDE}")
