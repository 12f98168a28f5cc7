"""The interface of a backend. docs/write-a-backend.md builds one from nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypeAlias

from msgspec import Struct

from pytest_schedprof.model.backend import Artifact, BackendFacts, Machine
from pytest_schedprof.model.options import plain, read_options
from pytest_schedprof.model.profile import Namer, Profile

Setting: TypeAlias = bool | int | float | str | list[str] | None


class RawProfile(Struct, frozen=True):
    """The content that a recording brought back, before it is parsed."""

    content: bytes
    warnings: tuple[str, ...] = ()
    doubt: str = ""
    """Why no limit can be judged by it, where only the recording knows that; else empty."""


class Target(Protocol):
    """The process that a backend observes: the scheduler's, or the test's own."""

    @property
    def label(self) -> str:
        """Name for messages, with its address: `the scheduler tcp://...`."""

    @property
    def client_id(self) -> str:
        """Name of the asking client on the scheduler."""

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function in the process and return its answer.

        Raises:
            SchedulerLostError: if the scheduler is gone.
            RecordingError: if the function failed.
        """


class Recording(Protocol):
    """A backend at work on one target."""

    def stop(self, *, timeout_s: float) -> RawProfile:
        """End the recording, fetch what it saw and leave nothing behind.

        Raises:
            RecordingError: if nothing usable came back.
            SchedulerLostError: if the scheduler is gone.
        """

    def abandon(self, *, timeout_s: float) -> None:
        """End the recording and throw away what it saw."""


class Backend(ABC):
    """A tool that can observe a process, with its options fixed.

    What is known of it without making one is declared by class attributes. A class that lacks one
    cannot be made, unless it is a base of others: `class Sampler(Backend, is_base=True)`.
    """

    name: ClassVar[str]
    """Name that users choose the backend by."""

    rank: ClassVar[int | None]
    """Place in the order in which messages recommend backends, lowest first.

    The built-in backends have ranks from 10 to 60. With None it is never recommended.
    """

    artifacts: ClassVar[tuple[Artifact, ...]]
    """Files that a recording may become. Their kind says what opens them."""

    measures: ClassVar[frozenset[str]]
    """All metrics that it can measure, whatever its options."""

    drift: ClassVar[float]
    """Standard deviation of a share between identical windows, in units of sqrt(p (1 - p)); 0 for
    a backend that does not sample."""

    sees_threads: ClassVar[bool]
    """Whether it observes all threads of a process.

    One that does not observes the thread of the event loop, or in the test's own process the main
    thread, whichever thread a scheduler runs in there.
    """

    disturbs: ClassVar[bool]
    """Whether it slows the scheduler down or takes a hook that the interpreter has only once.

    Such a backend records alone: the body of the test is run once more for it.
    """

    is_reproduced: ClassVar[bool] = False
    """Whether its figures are the same in each round in virtual time, so that one tells all."""

    needs: ClassVar[tuple[str, ...]]
    """Packages, as pip names them, that must be installed where the scheduler runs."""

    options_type: ClassVar[type[Struct]] = Struct
    """Frozen struct of the options, each with a default and of a type that
    `model/options.py` can read: bool, int, float, str or tuple[str, ...]."""

    sparing: ClassVar[Mapping[str, object]] = MappingProxyType({})
    """Options with which `schedprof doctor` tries the backend out."""

    launcher: tuple[str, ...] = ()
    """Command that must start the interpreter of the scheduler, if any; only clusters that are
    started for the test can do so. It consists of variables of the environment, as `NAME=value`, a
    program, and its arguments. The text `{directory}` stands for a directory of the cluster. It may
    depend on options and limits, and so may be set when a backend is made."""

    def __init_subclass__(cls, *, is_base: bool = False) -> None:
        super().__init_subclass__()
        if is_base:
            return
        if missing := [name for name in DECLARED if not hasattr(cls, name)]:
            raise TypeError(f"{cls.__qualname__} lacks {', '.join(missing)}")
        if late := [name for name in DECLARED if isinstance(getattr(cls, name), property)]:
            raise TypeError(f"{', '.join(late)} must be class attributes, not properties")

    def __init__(
        self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str] = ()
    ) -> None:
        """Make one for a test.

        Args:
            rate_hz: samples per second, for a backend that samples.
            options: as the user gave them.
            patterns: what the test's limits on its metrics name: functions as `module:qualname`
                with wildcards, and owners as `@owner`.

        Raises:
            SettingsError: for an option that is unknown or malformed.
        """
        self.rate_hz = rate_hz
        self.options: Any = read_options(self.options_type, self.name, options)
        self.patterns = tuple(patterns)
        self.prepare()

    def prepare(self) -> None:
        """Check the options together, or derive something from them; the default does nothing."""
        return

    def suffix(self, content: bytes) -> str:
        """Return the ending of an artifact with this content, as in `scheduler.<suffix>`."""
        return self.artifacts[0].ending

    @property
    def metrics(self) -> frozenset[str]:
        """Metrics that a limit can judge by its profiles, with these options."""
        return self.measures

    @property
    def mode(self) -> str:
        """Options that change what a sample or a cost means; empty for the defaults."""
        return ""

    @property
    def settings(self) -> Mapping[str, Setting]:
        """All options, for the record."""
        return plain(self.options)

    @abstractmethod
    def start(self, target: Target, *, timeout_s: float) -> Recording:
        """Begin to record; return when it is proven that the target is being observed.

        Raises:
            BackendNotInstalledError: with the command that installs it.
            BackendNotPermittedError: with what to permit.
            RecordingError: if it does not come to work for another reason.
        """

    @abstractmethod
    def read(self, content: bytes, namer: Namer) -> Profile:
        """Parse what a recording brought back.

        Raises:
            FormatError: if it is not what this backend writes.
        """

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        """Return further artifacts made of a recording, by the endings of their names."""
        return {}

    @classmethod
    def warm_up(cls) -> None:
        """Open in the test's own process what the tool keeps open there until the process ends.

        Called once, before the first test without the fixture; a check for leaked descriptors would
        blame that test. The default does nothing.
        """
        return

    @classmethod
    def notes(cls, scheduler: Machine, *, is_main_thread: bool) -> Mapping[str, str]:
        """Return what a fact that `schedprof doctor` prints means for the backend, by the fact.

        Args:
            scheduler: the machine that the scheduler runs on.
            is_main_thread: whether the scheduler's event loop is in the main thread.
        """
        return {}


FACTS = BackendFacts.__struct_fields__
"""Class attributes of a backend that make up its facts."""

DECLARED = (*FACTS, "drift")
"""Class attributes that every backend has to declare."""


def facts_of(backend: type[Backend]) -> BackendFacts:
    """Collect what a class of backends declares."""
    return BackendFacts(**{name: getattr(backend, name) for name in FACTS})


def side_by_side(backends: Sequence[Backend]) -> list[tuple[Backend, ...]]:
    """Group backends that record together: one that disturbs the scheduler records alone."""
    calm = tuple(backend for backend in backends if not backend.disturbs)
    alone = [(backend,) for backend in backends if backend.disturbs]
    return [group for group in (calm, *alone) if group]


class BackendFactory(Protocol):
    """Makes a backend from the options that the user gave; usually the class itself."""

    def __call__(
        self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str]
    ) -> Backend:
        """Make one for a test, as `Backend.__init__` describes."""
