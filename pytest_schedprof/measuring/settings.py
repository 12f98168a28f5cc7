"""The settings of a session and of each test, merged into one frozen `Settings`.

How values are read comes first; then the command line and the ini file, a test's markers, and calls
from Python.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_schedprof.clusters import KINDS
from pytest_schedprof.errors import SettingsError, hint
from pytest_schedprof.evidence import ALL
from pytest_schedprof.evidence import KINDS as EVIDENCE
from pytest_schedprof.judge.limits import merge_limits, parse_limit
from pytest_schedprof.measuring.options import (
    AUTO,
    MARKER_KEYWORDS,
    NOTHING,
    OPTIONS,
    Option,
    is_given,
    option_named,
)
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.options import BOOLEAN, MOST, Reader, positive, read_names, read_size

if TYPE_CHECKING:
    import pytest

    from pytest_schedprof.clusters.contract import ClusterRequest

count = positive(int)

SECONDS = Reader(positive(float, most=86400), "a positive number of seconds, at most 86400 (a day)")
"""Reads a time to wait; some systems' calls refuse longer ones."""

COUNT = Reader(count, "a positive whole number")


def read_keep(raw: Any) -> int | None:
    """Read a size in bytes, or `all` for None."""
    if isinstance(raw, bool) or not isinstance(raw, (str, int)):
        raise TypeError(raw)
    return None if raw == "all" else read_size(str(raw))


def read_text(raw: Any) -> str:
    """Read text that is not empty; no name on any system has a NUL in it."""
    if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
        raise ValueError(raw)
    return raw.strip()


def read_cluster(raw: Any) -> str:
    """Read a kind of cluster, or an address."""
    kind = read_text(raw)
    if kind not in KINDS and "://" not in kind:
        raise ValueError(raw)
    return kind


def read_evidence(raw: Any) -> tuple[str, ...]:
    """Read names of kinds of evidence, or `all`; the registry of kinds checks the names."""
    names = read_names(raw)
    if ALL in names and len(names) > 1:
        raise ValueError(raw)
    return names


def read_scale(raw: Any) -> tuple[int, ...]:
    sizes = raw.split(",") if isinstance(raw, str) else [raw] if isinstance(raw, int) else list(raw)
    return tuple(sorted({count(size) for size in sizes}))


def read_percentage(raw: Any) -> float:
    number = float(read_text(raw).removesuffix("%")) / 100
    if not (raw.strip().endswith("%") and 0 <= number <= MOST):
        raise ValueError(raw)
    return number


def read_cluster_option(raw: Any) -> tuple[str, str]:
    """Read `name=value` as text."""
    name, equals, value = read_text(raw).partition("=")
    if not (equals and name.strip()):
        raise ValueError(raw)
    return name.strip(), value.strip()


def read_option(raw: Any) -> tuple[str, str, str]:
    """Read `backend.option=value` as text."""
    target, equals, value = read_text(raw).partition("=")
    backend, dot, name = target.strip().partition(".")
    if not (equals and dot and backend and name):
        raise ValueError(raw)
    return backend, name, value.strip()


READERS: Mapping[str, Reader] = {
    "backend": Reader(read_names, "names of backends, 'auto' or 'off'"),
    "dir": Reader(read_text, "a path"),
    "keep": Reader(read_keep, "a size such as 20MB or 0, or 'all'"),
    "runs": COUNT,
    "limit": Reader(
        lambda raw: parse_limit(read_text(raw)), "a limit such as 'share(@comm) <= 30%'"
    ),
    "strict": BOOLEAN,
    "check": BOOLEAN,
    "rate": Reader(positive(float), "a positive number of samples per second"),
    "workers": COUNT,
    "threads": COUNT,
    "cluster": Reader(
        read_cluster, f"{', '.join(map(repr, KINDS))}, or an address such as tcp://127.0.0.1:8786"
    ),
    "workload": Reader(read_text, "a path"),
    "rounds": COUNT,
    "seeds": COUNT,
    "scale": Reader(read_scale, "positive whole numbers such as 100,1000"),
    "evidence": Reader(read_evidence, f"any of {', '.join(EVIDENCE)}, or 'all'"),
    "save": Reader(read_text, "a name, a path or a URL"),
    "compare": Reader(read_text, "a name, a path, a URL, or 'latest'"),
    "tolerance": Reader(read_percentage, "a percentage such as 5%"),
    "against": Reader(read_text, "an interpreter, a requirement, a checkout or settings"),
    "budget": SECONDS,
    "timeout": SECONDS,
    "cluster_option": Reader(read_cluster_option, "name=value"),
    "option": Reader(read_option, "backend.option=value"),
}


def read_value(name: str, raw: Any, source: str) -> Any:
    """Convert a raw value of the option of that name.

    Raises:
        SettingsError: names the value, its source, and what it must be.
    """
    return READERS[name].value(name, raw, f" (from {source})")


OFF = "off"

ANY_BACKEND = "*"
"""Owner of an option that goes to every backend which knows it."""


class Settings(NamedTuple):
    """All settings of a session or, with its markers merged in, of one test."""

    backend: tuple[str, ...]
    dir: Path
    keep: int | None
    """Bytes; None for all."""
    runs: int
    limit: tuple[Limit, ...]
    strict: bool
    check: bool
    rate: float
    workers: int | None
    """None for the default of the kind of cluster."""
    threads: int | None
    """None for 1, or for those of the recorded workload."""
    cluster: str
    workload: str | None
    rounds: int | None
    """None for as many as a comparison needs."""
    seeds: int
    scale: tuple[int, ...]
    evidence: tuple[str, ...]
    save: str | None
    compare: str | None
    tolerance: float
    """Part of the whole; 0 if each rise counts."""
    against: str | None
    budget: float
    timeout: float
    cluster_option: tuple[tuple[str, str], ...]
    option: tuple[tuple[str, str, Any], ...]
    is_on: bool = False
    """Whether the session asks for profiles, of unmarked tests with the fixture too."""
    is_forced: bool = False
    """Whether markers are overridden: the command line names the backends, or profiling is off."""
    chosen: frozenset[str] = frozenset()
    """Names of the settings that a marker of the test sets."""

    @property
    def is_off(self) -> bool:
        return self.backend == (OFF,)

    @property
    def gathered(self) -> tuple[str, ...]:
        """Kinds of evidence to gather: those that were asked for, and those that limits bound."""
        bounded = (limit.evidence for limit in self.limit if limit.evidence)
        return tuple(dict.fromkeys((*self.evidence, *bounded)))

    @property
    def cluster_request(self) -> ClusterRequest:
        from pytest_schedprof.clusters.contract import ClusterRequest  # imports distributed
        from pytest_schedprof.clusters.options import is_known

        options = self.cluster_option
        # A session's workload concerns only tests whose cluster can have one.
        is_concerned = "workload" in self.chosen or is_known(self.cluster, "workload")
        if self.workload is not None and is_concerned:
            options += (("workload", self.workload),)
        return ClusterRequest(
            self.cluster, self.workers, self.threads, options, self.timeout, self.chosen
        )

    def options_of(self, backend: str, known: Collection[str]) -> dict[str, Any]:
        """Return the options for one backend; the closest value of each wins."""
        return {
            name: value
            for owner, name, value in self.option
            if owner == backend or (owner == ANY_BACKEND and name in known)
        }


def read_session(config: pytest.Config) -> Settings:
    """Return the session's settings: command line over ini file over default.

    Raises:
        SettingsError: for a wrong value; says where it came from and what it must be.
    """
    values = {option.name: _session_value(config, option) for option in OPTIONS}
    values["limit"] = merge_limits([values["limit"]])
    from_command_line = config.getoption("schedprof_dir_given") is not None
    base = config.invocation_params.dir if from_command_line else config.rootpath
    values["dir"] = Path(base, values["dir"])
    switch = option_named("backend")
    is_on, is_named = is_given(config, switch), config.getoption(switch.attribute) is not None
    for alone in (OFF, AUTO):
        if alone in values["backend"] and len(values["backend"]) > 1:
            raise SettingsError(
                f"schedprof: backend {','.join(values['backend'])!r} is contradictory: "
                f"{alone!r} cannot be combined with others"
            )
    is_on &= values["backend"] != (OFF,)
    is_forced = values["backend"] == (OFF,) or (is_named and values["backend"] != (AUTO,))
    return Settings(**values, is_on=is_on, is_forced=is_forced)


def _session_value(config: pytest.Config, option: Option) -> Any:
    argument = config.getoption(option.attribute)
    ini = _ini_value(config, option)
    if option.adds_up:
        return (
            *(read_value(option.name, raw, option.ini_name) for raw in ini or ()),
            *(read_value(option.name, raw, option.flag_name) for raw in argument or ()),
        )
    if argument is not None:
        return read_value(option.name, argument, option.flag_name)
    if ini is None:
        return option.default
    names = ",".join(ini) if isinstance(ini, list) else ini
    return read_value(option.name, names, option.ini_name)


def _ini_value(config: pytest.Config, option: Option) -> Any:
    """Return what the ini file says of an option; None if nothing."""
    try:
        value = config.getini(option.ini_name)
    except Exception as error:  # which one depends on pytest's version
        must_be = "a list of texts" if option.adds_up else READERS[option.name].must_be
        raise SettingsError(f"schedprof: {option.ini_name} must be {must_be}: {error}") from None
    return None if value in NOTHING else value


def overlay(session: Settings, markers: Iterable[pytest.Mark]) -> Settings:
    """Return a test's settings: its markers, the farthest first, over the session's.

    Raises:
        SettingsError: for an unknown keyword, or a value of the wrong kind.
    """
    limits, backend_options = [session.limit], list(session.option)
    marker_settings: dict[str, Any] = {}
    for marker in markers:
        limits.append(tuple(read_value("limit", text, "a marker") for text in marker.args))
        for name, raw in marker.kwargs.items():
            if name not in MARKER_KEYWORDS:
                raise SettingsError(
                    f"schedprof: marker keyword {name!r} is unknown{hint(name, MARKER_KEYWORDS)}; "
                    f"known: {', '.join(MARKER_KEYWORDS)}; limits are positional arguments"
                )
            if name == "options":
                backend_options.extend(_marker_options(marker, _mapping(raw)))
            elif name == "cluster_options":
                pairs = tuple((key, str(value)) for key, value in _mapping(raw).items())
                earlier = marker_settings.get("cluster_option", ())
                marker_settings["cluster_option"] = (*earlier, *pairs)
            else:
                marker_settings[name] = read_value(name, raw, "a marker")
    if session.is_forced:
        marker_settings.pop("backend", None)
    chosen = frozenset(marker_settings)
    if "workload" in dict(marker_settings.get("cluster_option", ())):
        marker_settings.setdefault("workload", None)  # in place of the session's
    inherited, kind = session.cluster_option, marker_settings.get("cluster", session.cluster)
    if inherited and kind != session.cluster:  # then those that the other kind has
        from pytest_schedprof.clusters.options import is_known  # imports distributed

        inherited = tuple(pair for pair in inherited if is_known(kind, pair[0]))
    marker_settings["cluster_option"] = (*inherited, *marker_settings.get("cluster_option", ()))
    return session._replace(
        limit=merge_limits(limits), option=tuple(backend_options), chosen=chosen, **marker_settings
    )


def _marker_options(
    marker: pytest.Mark, options: Mapping[str, Any]
) -> Iterator[tuple[str, str, Any]]:
    """Yield a marker's backend options as (backend, option, value).

    The marker's `options` are of the backend that it names, or a mapping for each backend.
    """
    named = read_value("backend", marker.kwargs.get("backend", AUTO), "a marker")
    owner = named[0] if len(named) == 1 and named[0] != AUTO else ANY_BACKEND
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
    read |= {name: read_value(name, raw, source) for name, raw in values.items()}
    read["limit"] = merge_limits([tuple(read_value("limit", text, source) for text in texts)])
    read["option"] = tuple(
        (backend, *item)
        for backend, of_backend in _mapping(options, source).items()
        for item in _mapping(of_backend, source).items()
    )
    return Settings(**{**read, "dir": Path(read["dir"])})


def _mapping(raw: Any, source: str = "a marker") -> Mapping[str, Any]:
    if not isinstance(raw, Mapping) or not all(isinstance(name, str) for name in raw):
        raise SettingsError(
            f"schedprof: options must be a dictionary of options by name, got {raw!r} "
            f"(from {source})"
        )
    return raw
