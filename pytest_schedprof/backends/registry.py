"""Backends by name: the built-in ones, those of installed distributions, those of the hook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pytest_schedprof.backends.contract import Backend, BackendFactory, facts_of
from pytest_schedprof.errors import BackendInvalidError, BackendUnknownError
from pytest_schedprof.model.backend import BackendFacts, KnownBackends

GROUP = "pytest_schedprof.backends"
"""Entry points of this group add backends: the name of the backend, and its class."""

BUILTIN = (
    "callgrind",
    "counts",
    "cprofile",
    "cputime",
    "decisions",
    "intake",
    "memray",
    "objects",
    "perfcount",
    "pyspy",
    "stalls",
    "tachyon",
    "viztracer",
)
"""Names of the built-in backends: each has a module of its name, which is imported on demand."""

GUIDE = "see docs/write-a-backend.md"


def find_backends(added: Iterable[Mapping[str, BackendFactory]] = ()) -> BackendRegistry:
    """Return all backends: built-in, of installed distributions, and what the hook added."""
    return BackendRegistry(added, lambda: entry_points(group=GROUP))


class BackendRegistry:
    """Makes backends by name; imports none but those that are asked for.

    A backend that the hook adds wins over any other of its name, a built-in one over an installed
    one. Entry points are read only when a name is neither built in nor added, or all are asked for.
    """

    def __init__(
        self,
        added: Iterable[Mapping[str, BackendFactory]] = (),
        find_installed: Callable[[], Iterable[EntryPoint]] = tuple,
    ) -> None:
        self._added = {name: factory for each in added for name, factory in each.items()}
        self._find_installed = find_installed
        self._loaded: dict[str, BackendFactory] = {}
        self._warm: set[str] = set()

    @cached_property
    def _installed(self) -> Mapping[str, Sequence[EntryPoint]]:
        """Entry points by the name of the backend."""
        found: dict[str, list[EntryPoint]] = {}
        for entry in self._find_installed():
            found.setdefault(entry.name, []).append(entry)
        return found

    @property
    def names(self) -> tuple[str, ...]:
        """All names that can be asked for."""
        return tuple(sorted({*BUILTIN, *self._installed, *self._added}))

    def check(self, names: Iterable[str]) -> None:
        """Check names that a user gave, before a test needs the backends.

        Built-in backends are not imported.

        Raises:
            BackendUnknownError: for a name that is not registered.
            BackendInvalidError: for one whose backend cannot be used.
        """
        for name in names:
            if name not in BUILTIN or name in self._added:
                self._factory(name)

    def options_of(self, name: str) -> frozenset[str]:
        """Return the names of the options that a backend knows."""
        options_type: Any = self._class(name).options_type
        return frozenset(field.name for field in fields(options_type))

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
        factory: Callable[..., object] = self._factory(name)
        made = factory(rate_hz=rate_hz, options=options, patterns=patterns)
        if not isinstance(made, Backend):
            raise _invalid(repr(name), f"its factory makes a {type(made).__name__}")
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
        factory: object = self._factory(name)
        if isinstance(factory, type) and issubclass(factory, Backend):
            return factory
        return type(self.make(name, rate_hz=100.0, options={}))

    def _factory(self, name: str) -> BackendFactory:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> BackendFactory:
        if name in self._added:
            return _of_hook(name, self._added[name])
        if name in BUILTIN:
            factory: BackendFactory = import_module(f"{__package__}.{name}").BACKEND
            return factory
        if name in self._installed:
            return _load_entry(name, self._installed[name])
        raise BackendUnknownError(
            f"schedprof: backend {name!r} is unknown; known: {', '.join(self.names)}"
        )


class _Facts(Mapping[str, BackendFacts]):
    """Facts of all backends that can be used, each looked up on demand."""

    def __init__(self, registry: BackendRegistry) -> None:
        self._registry = registry

    def __getitem__(self, name: str) -> BackendFacts:
        try:
            return self._registry.facts_of(name)
        except (BackendUnknownError, BackendInvalidError):
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        return (name for name in self._registry.names if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _of_hook(name: str, factory: BackendFactory) -> BackendFactory:
    """Check a class; what a factory of another kind makes is checked when it is made."""
    if isinstance(factory, type):
        _check_class(factory, f"{name!r} (from the hook pytest_schedprof_backends)")
    return factory


def _load_entry(name: str, entries: Sequence[EntryPoint]) -> BackendFactory:
    """Load the class that an entry point names.

    Raises:
        BackendInvalidError: names the distribution and the entry point at fault.
    """
    label = f"{name!r} ({' and '.join(map(_described, entries))})"
    if len(entries) > 1:
        raise _invalid(label, "several distributions add it, so uninstall all but one")
    try:
        found = entries[0].load()
    except Exception as error:  # what a third party's module raises is not foreseeable
        raise _invalid(label, f"{type(error).__name__}: {error}") from error
    checked = _check_class(found, label)
    if (own := facts_of(checked).name) != name:
        raise _invalid(label, f"its class calls it {own!r}")
    return checked


def _described(entry: EntryPoint) -> str:
    owner = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "an unknown distribution"
    return f"entry point {entry.value!r} of {owner}"


def _check_class(found: object, label: str) -> type[Backend]:
    """Return a class of backends that declares all that the interface asks for."""
    if not (isinstance(found, type) and issubclass(found, Backend)):
        raise _invalid(label, f"{found!r} does not derive from {Backend.__module__}.Backend")
    if missing := sorted(found.__abstractmethods__):
        raise _invalid(label, f"{found.__qualname__} lacks {', '.join(missing)}")
    return found


def _invalid(label: str, fault: str) -> BackendInvalidError:
    return BackendInvalidError(f"schedprof: backend {label} cannot be used: {fault}; {GUIDE}")
