"""Command line, ini and markers merged into one frozen `Settings`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.options import MARKER_KEYWORDS, OPTIONS, Option, option_named

if TYPE_CHECKING:
    import pytest

    from pytest_schedprof.gates.limits import Limit

OFF = "off"
ROUNDS_TO_COMPARE = 3
"""Of tests that are saved or compared: fewer show neither which counts are steady nor how far
times stray."""

ANY_BACKEND = "*"
"""Owner of an option that whichever backend knows it takes."""


class Settings(NamedTuple):
    """Everything that was decided for a session or, with its markers, for one test."""

    backend: tuple[str, ...]
    dir: Path
    limit: tuple[Limit, ...]
    strict: bool
    rate: float
    workers: int | None
    """None for as many as the kind of cluster has by default."""
    threads: int
    cluster: str
    rounds: int
    scale: tuple[int, ...]
    targets: tuple[str, ...]
    evidence: tuple[str, ...]
    save: str | None
    compare: str | None
    against: str | None
    budget: float
    null: bool
    timeout: float
    cluster_option: tuple[tuple[str, str], ...]
    option: tuple[tuple[str, str, Any], ...]
    is_forced: bool
    """Whether the command line names backends, which wins over markers."""
    chosen: frozenset[str] = frozenset()
    """Names that a marker of the test sets."""

    @property
    def is_off(self) -> bool:
        """Whether nothing is to be profiled."""
        return self.backend == (OFF,)

    def options_of(self, backend: str, known: Collection[str]) -> dict[str, Any]:
        """Options given for one backend, or to whichever knows them; of each the closest."""
        return {
            name: value
            for owner, name, value in self.option
            if owner == backend or (owner == ANY_BACKEND and name in known)
        }


def read_session(config: pytest.Config) -> Settings:
    """The session's settings: command line over ini over default.

    Raises:
        SettingsError: names the value, where it came from, and what it must be.
    """
    values = {option.name: _session_value(config, option) for option in OPTIONS}
    values["limit"] = _merged([values["limit"]])
    from_command_line = config.getoption("schedprof_dir_given") is not None
    base = config.invocation_params.dir if from_command_line else config.rootpath
    values["dir"] = Path(base, values["dir"])
    if (values["save"] or values["compare"]) and not _is_given(config, option_named("rounds")):
        values["rounds"] = ROUNDS_TO_COMPARE
    is_forced = config.getoption("schedprof_backend_given") is not None
    if OFF in values["backend"] and len(values["backend"]) > 1:
        raise SettingsError(
            f"schedprof: backend {','.join(values['backend'])!r} is contradictory: "
            "'off' stands alone"
        )
    return Settings(**values, is_forced=is_forced)


def _is_given(config: pytest.Config, option: Option) -> bool:
    return config.getoption(option.attribute) is not None or bool(config.getini(option.ini_name))


def _session_value(config: pytest.Config, option: Option) -> Any:
    given = config.getoption(option.attribute)
    ini = config.getini(option.ini_name) or None
    if option.adds_up:
        return (
            *(option.value(raw, option.ini_name) for raw in ini or ()),
            *(option.value(raw, option.flag_name) for raw in given or ()),
        )
    if given is not None:
        return option.value(given, option.flag_name)
    return option.default if ini is None else option.value(ini, option.ini_name)


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
    return session._replace(limit=_merged(layers), option=tuple(assigned), chosen=chosen, **values)


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


def _merged(layers: list[tuple[Limit, ...]]) -> tuple[Limit, ...]:
    """Most sessions have no limit: they need not import what reads them."""
    if not any(layers):
        return ()
    from pytest_schedprof.gates.limits import merge_limits

    return merge_limits(layers)


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
    read["limit"] = _merged([tuple(option_named("limit").value(text, source) for text in texts)])
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
