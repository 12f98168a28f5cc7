"""Settings of one test, its markers over the session's, and of one call from Python.

Apart from the session's, which pytest reads at every start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.options import MARKER_KEYWORDS, OPTIONS, option_named
from pytest_schedprof.settings import ANY_BACKEND, Settings, merged

if TYPE_CHECKING:
    import pytest


def overlay(session: Settings, markers: Iterable[pytest.Mark]) -> Settings:
    """A test's settings: its markers, the farthest first, over the session's.

    Raises:
        SettingsError: for an unknown keyword, or a value that is not what it must be.
    """
    layers, assigned = [session.limit], list(session.option)
    values: dict[str, Any] = {}
    for marker in markers:
        _check_keywords(marker.kwargs)
        layers.append(tuple(option_named("limit").value(text, "a marker") for text in marker.args))
        for name, raw in marker.kwargs.items():
            if name == "options":
                assigned.extend(_marker_options(marker, _mapping(raw)))
            elif name == "cluster_options":
                given = tuple((key, str(value)) for key, value in _mapping(raw).items())
                values["cluster_option"] = values.get("cluster_option", ()) + given
            else:
                values[name] = option_named(name).value(raw, "a marker")
    if session.is_forced:
        values.pop("backend", None)
    chosen = frozenset(values)
    inherited = _inherited(session, values.get("cluster", session.cluster))
    values["cluster_option"] = inherited + values.get("cluster_option", ())
    return session._replace(limit=merged(layers), option=tuple(assigned), chosen=chosen, **values)


def _inherited(session: Settings, kind: str) -> tuple[tuple[str, str], ...]:
    """Options of the session's cluster, for a test that may choose another kind."""
    if kind == session.cluster or not session.cluster_option:
        return session.cluster_option
    from pytest_schedprof.clusters.options import is_known

    return tuple(each for each in session.cluster_option if is_known(kind, each[0]))


def _marker_options(
    marker: pytest.Mark, options: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    """A marker's options belong to the backend that it names, or that they name themselves."""
    named = marker.kwargs.get("backend")
    owner = named if isinstance(named, str) and "," not in named else ANY_BACKEND
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from ((name, *item) for item in value.items())
        else:
            yield owner, name, value


def _check_keywords(given: Mapping[str, Any]) -> None:
    for name in given:
        if name not in MARKER_KEYWORDS:
            raise SettingsError(
                f"schedprof: marker keyword {name!r} is unknown; "
                f"known: {', '.join(MARKER_KEYWORDS)}; limits are positional"
            )


def read_call(
    source: str, limits: str | Iterable[str], options: Mapping[str, Any], **values: Any
) -> Settings:
    """Settings of a call from Python: what is given, over the defaults.

    Args:
        source: what was called, for messages.
        limits: one limit or several.
        options: those of each backend, by its name.
        values: further settings by name.

    Raises:
        SettingsError: names the value and what it must be.
    """
    texts = [limits] if isinstance(limits, str) else limits
    read = {option.name: option.default for option in OPTIONS}
    read |= {name: option_named(name).value(raw, source) for name, raw in values.items()}
    read["limit"] = merged([tuple(option_named("limit").value(text, source) for text in texts)])
    read["option"] = tuple(
        (backend, *item)
        for backend, given in _mapping(options, source).items()
        for item in _mapping(given, source).items()
    )
    return Settings(**{**read, "dir": Path(read["dir"])}, is_forced=False)


def _mapping(raw: Any, source: str = "a marker") -> Mapping[str, Any]:
    if not isinstance(raw, Mapping) or not all(isinstance(name, str) for name in raw):
        raise SettingsError(
            "schedprof: options must be a dictionary of the backend's options, "
            f"got {raw!r} (from {source})"
        )
    return raw
