"""Backends by name: the built-in ones, and those that the hook adds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module

from pytest_schedprof.backends.contract import Backend, BackendFactory
from pytest_schedprof.errors import BackendUnknownError

BUILTIN: dict[str, str] = {
    "counts": "pytest_schedprof.backends.counts:CountsBackend",
    "cprofile": "pytest_schedprof.backends.cprofile:CProfileBackend",
    "cputime": "pytest_schedprof.backends.cputime:CpuTimeBackend",
    "memray": "pytest_schedprof.backends.memray:MemrayBackend",
    "pyspy": "pytest_schedprof.backends.pyspy:PySpyBackend",
    "tachyon": "pytest_schedprof.backends.tachyon:TachyonBackend",
    "viztracer": "pytest_schedprof.backends.viztracer:VizTracerBackend",
}
"""Where each lives: a backend is imported when it is asked for, and no other with it."""


class BackendRegistry:
    """Makes backends by name."""

    def __init__(self, added: Iterable[Mapping[str, BackendFactory]] = ()) -> None:
        self._added = {name: factory for each in added for name, factory in each.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """All names that can be asked for."""
        return tuple(sorted({*BUILTIN, *self._added}))

    def check(self, names: Iterable[str]) -> None:
        """Raises BackendUnknownError for a name that is not registered."""
        for name in names:
            if name not in self.names:
                raise BackendUnknownError(
                    f"schedprof: backend {name!r} is unknown; known: {', '.join(self.names)}"
                )

    def options_of(self, name: str) -> frozenset[str]:
        """The options that a backend of that name knows: its settings name them all."""
        return frozenset(self.make(name, rate_hz=100, options={}).settings) - {"rate_hz"}

    def make(
        self,
        name: str,
        *,
        rate_hz: float,
        options: Mapping[str, object],
        patterns: Sequence[str] = (),
    ) -> Backend:
        """The backend of that name, with its options."""
        self.check([name])
        factory = self._added.get(name) or _load(BUILTIN[name])
        return factory(rate_hz=rate_hz, options=options, patterns=patterns)


def _load(place: str) -> BackendFactory:
    module, _, name = place.partition(":")
    factory: BackendFactory = getattr(import_module(module), name)
    return factory
