"""Kinds of evidence by name: built-in ones, installed ones, and those that the hook adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from importlib.metadata import EntryPoint, entry_points
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence import ALL, KINDS

if TYPE_CHECKING:
    from pytest_schedprof.evidence.contract import Kind

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
    from pytest_schedprof.evidence.contract import Kind

    if not (isinstance(found, type) and issubclass(found, Kind)):
        raise _invalid(label, f"{found!r} does not derive from {Kind.__module__}.Kind")
    if missing := sorted(found.__abstractmethods__):
        raise _invalid(label, f"{found.__qualname__} lacks {', '.join(missing)}")
    return found


def _invalid(label: str, fault: str) -> SettingsError:
    return SettingsError(f"schedprof: evidence {label} cannot be used: {fault}; {GUIDE}")
