"""Merge markers into the settings of a test, and read the settings of a call from Python.

Kept apart from `session.py`, which pytest imports at every start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.settings.options import MARKER_KEYWORDS, OPTIONS, option_named
from pytest_schedprof.settings.session import ANY_BACKEND, Settings, merged

if TYPE_CHECKING:
    import pytest


def overlay(session: Settings, markers: Iterable[pytest.Mark]) -> Settings:
    """Return a test's settings: its markers, the farthest first, over the session's.

    Raises:
        SettingsError: for an unknown keyword, or a value of the wrong kind.
    """
    limits, backend_options = [session.limit], list(session.option)
    marker_settings: dict[str, Any] = {}
    for marker in markers:
        _check_keywords(marker.kwargs)
        limits.append(tuple(option_named("limit").value(text, "a marker") for text in marker.args))
        for name, raw in marker.kwargs.items():
            if name == "options":
                backend_options.extend(_marker_options(marker, _mapping(raw)))
            elif name == "cluster_options":
                given = tuple((key, str(value)) for key, value in _mapping(raw).items())
                marker_settings["cluster_option"] = (
                    *marker_settings.get("cluster_option", ()),
                    *given,
                )
            else:
                marker_settings[name] = option_named(name).value(raw, "a marker")
    if session.is_forced:
        marker_settings.pop("backend", None)
    chosen = frozenset(marker_settings)
    inherited = _inherited(session, marker_settings.get("cluster", session.cluster))
    marker_settings["cluster_option"] = (*inherited, *marker_settings.get("cluster_option", ()))
    return session._replace(
        limit=merged(limits), option=tuple(backend_options), chosen=chosen, **marker_settings
    )


def _inherited(session: Settings, kind: str) -> tuple[tuple[str, str], ...]:
    """Return the session's cluster options that apply to the kind of cluster the test uses."""
    if kind == session.cluster or not session.cluster_option:
        return session.cluster_option
    from pytest_schedprof.clusters.options import is_known

    return tuple(each for each in session.cluster_option if is_known(kind, each[0]))


def _marker_options(
    marker: pytest.Mark, options: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    """Yield a marker's backend options as (backend, option, value).

    The marker's `options` are of the backend that it names, or a mapping for each backend.
    """
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
                f"known: {', '.join(MARKER_KEYWORDS)}; limits are positional arguments"
            )


def read_call(
    source: str, limits: str | Iterable[str], options: Mapping[str, Any], **values: Any
) -> Settings:
    """Return the settings of a call from Python: the given values over the defaults.

    Args:
        source: the function that was called, for messages.
        limits: one limit or several.
        options: options of each backend, by its name.
        values: further settings by name.

    Raises:
        SettingsError: for a wrong value; says what it must be.
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
            f"schedprof: options must be a dictionary of options by name, got {raw!r} "
            f"(from {source})"
        )
    return raw
