"""The interface of a kind of evidence, a third party's included, and what writes its files."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from msgspec import Struct, field

from pytest_schedprof.backends.registry import Registry
from pytest_schedprof.errors import SchedprofError, SettingsError
from pytest_schedprof.evidence import ALL, KINDS
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.options import read_options
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


class ObservedTest(Struct, frozen=True):
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


class Brought(Struct, frozen=True):
    """The files of a kind from all runs of the body."""

    files: Mapping[str, bytes]
    """Contents by file name; each name begins with the kind's name and a dot."""
    notes: tuple[str, ...] = ()
    """Things that a reader would not expect, one line each."""
    figures: Sequence[RunFigures] = ()
    """What limits can bound."""


class RunFigures(Struct, frozen=True):
    """The amounts of one metric in the runs of the body."""

    metric: str
    subject: str
    """What a pattern can name; empty for all together."""
    by_run: Mapping[int, float]
    """By the number of the run; TOGETHER if it is of all runs."""


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
    options_type: ClassVar[type[Struct]] = Struct
    """Frozen struct of the options, as that of a backend."""

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
        self.before: Any = None
        """The same kind on the other side of a test that ran in turns, or None. It is over; it is
        set before `bring`."""
        self.options: Any = self.read_options(test.options.get(self.name, {}))

    @classmethod
    def read_options(cls, values: Mapping[str, object]) -> Any:
        """Return the options of which these are given.

        Raises:
            SettingsError: for one that is unknown or malformed.
        """
        return read_options(cls.options_type, cls.name, values, noun="evidence")

    def around(self, number: int) -> AbstractContextManager[None]:
        """Return a context manager for one run of the body; the default does nothing.

        It is entered before the backends start and left after they stopped.

        Args:
            number: of the run, from 1.

        Raises:
            EvidenceUnavailableError: if the evidence cannot be gathered here.
        """
        return nullcontext()

    @abstractmethod
    def bring(self, results: Sequence[BackendResult]) -> Brought:
        """Return everything to keep, after the last run of the body.

        Args:
            results: what the backends found in the same runs.

        Raises:
            EvidenceUnavailableError: if there is nothing to keep.
        """

    def close(self) -> None:
        """Leave nothing on the scheduler; called once in any case, also after a failure."""
        return


class EvidenceRegistry(Registry[type[Kind]]):
    """Finds the classes of kinds by their names."""

    noun = "evidence"
    guide = "see docs/evidence.md"
    base = Kind
    builtin = KINDS

    def __init__(self, added: Iterable[Iterable[type[Kind]]] = ()) -> None:
        hook = "from the hook pytest_schedprof_evidence"
        kinds = [self.checked(kind, f"{kind!r} ({hook})") for group in added for kind in group]
        super().__init__({kind.name: kind for kind in kinds})

    def check(self, names: Iterable[str]) -> None:
        super().check(self._expanded(names))

    def kinds(self, names: Iterable[str]) -> tuple[type[Kind], ...]:
        """Return the classes of these kinds, of every kind for `all`.

        Raises:
            SettingsError: for a kind that is unknown.
        """
        return tuple(map(self.load, self._expanded(names)))

    def _expanded(self, names: Iterable[str]) -> Sequence[str]:
        """Return names with all in place of `all`, beside which limits may bound others."""
        known = ((name,) if name != ALL else self.names for name in names)
        return tuple(dict.fromkeys(chain.from_iterable(known)))

    def unknown(self, name: str) -> SettingsError:
        known = ", ".join(self.names)
        return SettingsError(f"schedprof: evidence must be any of {known}, or 'all', got {name!r}")


NO_BOKEH = "no picture of it: Bokeh is not installed where the tests run; pip install bokeh"


def with_pictures(
    files: Mapping[str, bytes],
    pictures: Mapping[str, Callable[[], bytes]],
    notes: tuple[str, ...] = (),
) -> Brought:
    """Add pictures to files, or a note for each picture that could not be drawn."""
    if find_spec("bokeh") is None:
        return Brought(files, (*notes, NO_BOKEH))
    drawn, lines = dict(files), list(notes)
    for name, draw in pictures.items():
        try:
            drawn[name] = draw()
        except Exception as error:  # a release of dask may not support this release of Bokeh
            lines.append(f"no {name}: {type(error).__name__}: {str(error).partition(chr(10))[0]}")
    return Brought(drawn, tuple(lines))


def page(plot: Any, title: str) -> bytes:
    """Return a plot as one HTML file that needs no other."""
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    return str(file_html(plot, INLINE, title)).encode()
