"""Backends by name: the built-in ones and those of the hook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from importlib import import_module
from typing import Any, ClassVar, Generic, TypeVar

from pytest_schedprof.backends.contract import Backend, BackendFactory, facts_of
from pytest_schedprof.errors import (
    BackendInvalidError,
    BackendUnknownError,
    SchedprofError,
    SettingsError,
    hint,
)
from pytest_schedprof.model.backend import BackendFacts, KnownBackends
from pytest_schedprof.model.metric import OF_BACKENDS
from pytest_schedprof.model.options import read_options

BUILTIN = (
    "counts",
    "cprofile",
    "cputime",
    "decisions",
    "instructions",
    "memray",
    "pyspy",
    "stalls",
    "tachyon",
    "viztracer",
)
"""Names of the built-in backends: each has a module of its name, which is imported on demand."""

MOST_EXACT = "counts"
"""The one whose figures compare best: the same on any machine, and steady from run to run."""

FROM_OUTSIDE = "pyspy"
"""The one that does nothing in the scheduler's own process."""

LIGHTEST = "cputime"
"""The one that slows a test of `gen_cluster` least, by benchmarks/marked.py: 1.08 times. Such a
test may take 1.5 times as long. counts does not reach that: 2.7 on Python 3.11, where a trace
function that does nothing takes 2.5, and about 1.6 on newer ones."""

T = TypeVar("T")


class Registry(Generic[T]):
    """Classes by name: built-in ones and those of a hook.

    What the hook adds wins over what is built in. Of the built-in ones only those that are asked
    for are imported.
    """

    noun: ClassVar[str]
    """What they are, for messages."""
    guide: ClassVar[str]
    """Where to read how to write one."""
    base: ClassVar[type]
    """What all derive from."""
    builtin: ClassVar[tuple[str, ...]]
    """Names of the built-in ones: each is the only one in the module of its name."""
    invalid_error: ClassVar[type[SettingsError]] = SettingsError

    def __init__(self, added: Mapping[str, T]) -> None:
        self._added = added
        self._loaded: dict[str, T] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """All names that can be asked for, the built-in ones first."""
        return (*self.builtin, *sorted(self._added.keys() - {*self.builtin}))

    def check(self, names: Iterable[str]) -> None:
        """Check names that a user gave, before a test needs what they name.

        What is built in is not imported for it.

        Raises:
            SettingsError: for a name that is unknown, or of something that cannot be used.
        """
        for name in names:
            if name not in self.builtin or name in self._added:
                self.load(name)

    def load(self, name: str) -> T:
        """Return what is called so.

        Raises:
            SettingsError: if the name is unknown, or what it names cannot be used.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> T:
        if name in self._added:
            return self._added[name]
        if name in self.builtin:
            module = import_module(f"{self.base.__module__.rpartition('.')[0]}.{name}")
            classes = [value for value in vars(module).values() if isinstance(value, type)]
            own: list[Any] = [kind for kind in classes if kind.__module__ == module.__name__]
            (loaded,) = (kind for kind in own if issubclass(kind, self.base))
            built_in: T = loaded
            return built_in
        raise self.unknown(name)

    def unknown(self, name: str) -> SettingsError:
        """Return the error for a name that is not registered."""
        raise NotImplementedError

    def checked(self, loaded: object, label: str) -> Any:
        """Return a class that derives from the base and has all methods."""
        if not (isinstance(loaded, type) and issubclass(loaded, self.base)):
            base = f"{self.base.__module__}.{self.base.__name__}"
            raise self.invalid(label, f"{loaded!r} does not derive from {base}")
        if missing := sorted(getattr(loaded, "__abstractmethods__", ())):
            raise self.invalid(label, f"{loaded.__qualname__} lacks {', '.join(missing)}")
        return loaded

    def invalid(self, label: str, fault: str) -> SettingsError:
        """Return the error for something that cannot be used."""
        return self.invalid_error(
            f"schedprof: {self.noun} {label} cannot be used: {fault}; {self.guide}"
        )


class BackendRegistry(Registry[BackendFactory]):
    """Makes backends by name; a factory that is no class is checked by what it makes."""

    noun = "backend"
    guide = "see docs/write-a-backend.md"
    base = Backend
    builtin = BUILTIN
    invalid_error = BackendInvalidError

    def __init__(self, added: Iterable[Mapping[str, BackendFactory]] = ()) -> None:
        super().__init__(
            {name: factory for factories in added for name, factory in factories.items()}
        )
        self._warm: set[str] = set()

    def _load(self, name: str) -> BackendFactory:
        factory = super()._load(name)
        if name in self._added and isinstance(factory, type):
            self.checked(factory, f"{name!r} (from the hook pytest_schedprof_backends)")
        return factory

    def checked(self, loaded: object, label: str) -> Any:
        """Return a class that is one of backends and measures known metrics only."""
        backend = super().checked(loaded, label)
        if strange := sorted({*backend.measures}.difference(OF_BACKENDS)):
            raise self.invalid(
                label,
                f"it measures {', '.join(strange)}, which is no metric of backends; "
                f"known: {', '.join(OF_BACKENDS)}",
            )
        return backend

    def unknown(self, name: str) -> BackendUnknownError:
        names = self.names
        return BackendUnknownError(
            f"schedprof: backend {name!r} is unknown{hint(name, names)}; known: {', '.join(names)}"
        )

    def options_of(self, name: str) -> frozenset[str]:
        options_type: Any = self._class(name).options_type
        return frozenset(options_type.__struct_fields__)

    def check_options(self, name: str, options: Mapping[str, object]) -> None:
        """Raise SettingsError for an option that is unknown or malformed."""
        read_options(self._class(name).options_type, name, options)

    def sparing_of(self, name: str) -> Mapping[str, object]:
        """Return the options with which a backend costs a scheduler the least."""
        return self._class(name).sparing

    def warm_up(self, names: Iterable[str]) -> None:
        """Warm up backends for tests in this process; each only once."""
        for name in names:
            if name not in self._warm:
                self._warm.add(name)
                with suppress(Exception):  # the recording itself says what does not work
                    self._class(name).warm_up()

    def make(
        self,
        name: str,
        *,
        rate_hz: float,
        options: Mapping[str, object],
        patterns: Sequence[str] = (),
    ) -> Backend:
        """Make the backend of that name, with its options.

        Raises:
            BackendUnknownError: for a name that is not registered.
            BackendInvalidError: for a backend that cannot be used.
            SettingsError: for an option that is unknown or malformed.
        """
        factory: Callable[..., object] = self.load(name)
        try:
            made = factory(rate_hz=rate_hz, options=options, patterns=patterns)
        except SchedprofError:
            raise
        except Exception as error:
            raise self.invalid(repr(name), f"making it raised {error!r}") from error
        if not isinstance(made, Backend):
            raise self.invalid(repr(name), f"its factory makes a {type(made).__name__}")
        self.checked(type(made), repr(name))
        return made

    @cached_property
    def facts(self) -> KnownBackends:
        """Facts of each backend by its name; a backend is imported when its name is looked up.

        Backends that cannot be used are missing.
        """
        return _Facts(self)

    def facts_of(self, name: str) -> BackendFacts:
        """Return what a backend declares.

        Raises:
            BackendUnknownError: for a name that is not registered.
            BackendInvalidError: for a backend that cannot be used.
        """
        return facts_of(self._class(name))

    def _class(self, name: str) -> type[Backend]:
        """Return the class that a backend is of; a factory that is no class makes one for that."""
        factory: object = self.load(name)
        if isinstance(factory, type) and issubclass(factory, Backend):
            return factory
        return type(self.make(name, rate_hz=100.0, options={}))


class _Facts(Mapping[str, BackendFacts]):
    """Facts of all backends that can be used, each looked up on demand."""

    def __init__(self, registry: BackendRegistry) -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> BackendFacts:
        try:
            return self._registry.facts_of(name)
        except SettingsError:  # also of a factory that makes none without options
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._registry.names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
