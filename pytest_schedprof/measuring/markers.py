"""Merge markers into the settings of a test, and read the settings of a call from Python."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_schedprof.clusters import KINDS, option_names
from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.judge.limits import merge_limits
from pytest_schedprof.measuring.options import MARKER_KEYWORDS, OPTIONS, option_named
from pytest_schedprof.measuring.settings import ANY_BACKEND, Settings

if TYPE_CHECKING:
    import pytest

    from pytest_schedprof.clusters.contract import ClusterRequest


def overlay(session: Settings, markers: Iterable[pytest.Mark]) -> Settings:
    """Return a test's settings: its markers, the farthest first, over the session's.

    Raises:
        SettingsError: for an unknown keyword, or a value of the wrong kind.
    """
    limits, backend_options = [session.limit], list(session.option)
    marker_settings: dict[str, Any] = {}
    for marker in markers:
        limits.append(tuple(option_named("limit").value(text, "a marker") for text in marker.args))
        for name, raw in marker.kwargs.items():
            if name not in MARKER_KEYWORDS:
                raise SettingsError(
                    f"schedprof: marker keyword {name!r} is unknown; "
                    f"known: {', '.join(MARKER_KEYWORDS)}; limits are positional arguments"
                )
            if name == "options":
                backend_options.extend(_marker_options(marker, _mapping(raw)))
            elif name == "cluster_options":
                pairs = tuple((key, str(value)) for key, value in _mapping(raw).items())
                earlier = marker_settings.get("cluster_option", ())
                marker_settings["cluster_option"] = (*earlier, *pairs)
            else:
                marker_settings[name] = option_named(name).value(raw, "a marker")
    if session.is_forced:
        marker_settings.pop("backend", None)
    chosen = frozenset(marker_settings)
    inherited = _inherited(session, marker_settings.get("cluster", session.cluster))
    marker_settings["cluster_option"] = (*inherited, *marker_settings.get("cluster_option", ()))
    return session._replace(
        limit=merge_limits(limits), option=tuple(backend_options), chosen=chosen, **marker_settings
    )


def _inherited(session: Settings, kind: str) -> tuple[tuple[str, str], ...]:
    """Return the session's cluster options that apply to the kind of cluster the test uses."""
    if kind == session.cluster or not session.cluster_option:
        return session.cluster_option
    from pytest_schedprof.clusters.options import is_known  # imports distributed

    return tuple(pair for pair in session.cluster_option if is_known(kind, pair[0]))


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
    read["limit"] = merge_limits(
        [tuple(option_named("limit").value(text, source) for text in texts)]
    )
    read["option"] = tuple(
        (backend, *item)
        for backend, of_backend in _mapping(options, source).items()
        for item in _mapping(of_backend, source).items()
    )
    return Settings(**{**read, "dir": Path(read["dir"])}, is_forced=False)


def _mapping(raw: Any, source: str = "a marker") -> Mapping[str, Any]:
    if not isinstance(raw, Mapping) or not all(isinstance(name, str) for name in raw):
        raise SettingsError(
            f"schedprof: options must be a dictionary of options by name, got {raw!r} "
            f"(from {source})"
        )
    return raw


NUMBERS = ("workers", "threads")
"""Settings of a cluster that are options of the plugin; all others are options of clusters."""

PREFIX, DASKS = "config:", "config."
"""How an option of dask is given here, and as an option of a cluster."""

ASSIGNMENT = re.compile(r"(?:config:\s*)?[\w.-]+\s*=(?!=)")
"""Matches the start of a setting; a requirement has two signs, as `distributed==2026.7.0`."""

SEPARATOR = re.compile(rf",\s*(?={ASSIGNMENT.pattern})")
"""Matches a comma before a setting: values such as `uniform(1ms, 2ms)` have others."""


@dataclass(frozen=True, slots=True)
class OtherSettings:
    """Settings of the other side's cluster, over those of the test."""

    workers: int | None = None
    threads: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    """Options of the cluster, as `--schedprof-cluster-option` takes them."""

    def applied_to(self, request: ClusterRequest) -> ClusterRequest:
        """Return the request of a test with these settings."""
        return replace(
            request,
            workers=self.workers or request.workers,
            threads=self.threads or request.threads,
            options=(*request.options, *self.options),
        )


def read_other_settings(spec: str) -> OtherSettings | None:
    """Return the settings that a text names; None if it names an environment instead.

    Raises:
        SettingsError: for a setting that is unknown or has a wrong value.
    """
    if not (spec.strip().startswith(PREFIX) or ASSIGNMENT.match(spec.strip())):
        return None
    assignments = list(_assignments(spec.strip()))
    numbers = {
        name: option_named(name).value(text, f"against {spec!r}")
        for name, text in assignments
        if name in NUMBERS
    }
    options = tuple(pair for pair in assignments if pair[0] not in NUMBERS)
    return OtherSettings(**numbers, options=options)


def _assignments(spec: str) -> Iterator[tuple[str, str]]:
    """Yield names and values; after the prefix, names that are not known here are dask's."""
    is_dasks = False
    for part in SEPARATOR.split(spec):
        is_dasks = is_dasks or part.startswith(PREFIX)
        name, equals, text = map(str.strip, part.removeprefix(PREFIX).partition("="))
        if not (name and equals):
            raise SettingsError(
                f"schedprof: against {quoted(spec)}: {quoted(part)} must be NAME=VALUE, "
                "or config:KEY=VALUE for an option of dask"
            )
        yield _full_name(name, spec, is_dasks=is_dasks), text


def _full_name(name: str, spec: str, *, is_dasks: bool) -> str:
    """Return the name of an option of clusters, or of one of `NUMBERS`."""
    options = (option for kind in KINDS for option in option_names(kind))
    known = list(dict.fromkeys([*NUMBERS, *options]))
    section, dot, rest = name.partition(".")
    if name in known or (dot and rest and f"{section}.*" in known):
        return name
    if is_dasks:
        return f"{DASKS}{name}"
    near = difflib.get_close_matches(name, known, 1)
    raise SettingsError(
        f"schedprof: against {quoted(spec)}: there is no setting {name!r}; "
        + (f"did you mean {near[0]!r}? " if near else "")
        + f"known: {', '.join(known)}; options of dask are given as config:KEY=VALUE, and "
        "requirements with two signs, as distributed==2026.7.0"
    )
