"""One table of options; command line, ini and marker merged into one frozen `Settings`.

pytest imports this at every start, used or not: named tuples are made four times as fast as
frozen dataclasses, and what reads limits is imported when there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_schedprof.errors import SettingsError

if TYPE_CHECKING:
    import pytest

    from pytest_schedprof.gates.limits import Limit

OFF = "off"
DEFAULT_BACKEND = ("pyspy",)
ANY_BACKEND = "*"
"""Owner of an option that whichever backend knows it takes."""


class Option(NamedTuple):
    """One setting in all the forms it takes."""

    name: str
    help: str
    read: Callable[[Any], Any]
    """From text or a marker's Python value; raises ValueError or TypeError."""
    wanted: str
    """What a value must be, for the message about one that is not."""
    default: Any
    metavar: str = ""
    in_marker: bool = True
    adds_up: bool = False
    """Whether it may be given several times, and all count."""
    is_flag: bool = False
    flag: str = ""
    """The command-line form, where it is not `--schedprof-<name>`."""
    ini: str = ""
    """The ini form, where it is not `schedprof_<name>`."""

    @property
    def flag_name(self) -> str:
        """As given on the command line."""
        return self.flag or f"--schedprof-{self.name}"

    @property
    def ini_name(self) -> str:
        """As given in pytest's ini file."""
        return self.ini or f"schedprof_{self.name}"

    @property
    def attribute(self) -> str:
        """Where pytest keeps the command line's value."""
        return f"schedprof_{self.name}_given"

    def value(self, raw: Any, source: str) -> Any:
        """The value, or an error that names it and its source."""
        try:
            return self.read(raw)
        except (ValueError, TypeError):
            raise SettingsError(
                f"schedprof: {self.name} must be {self.wanted}, got {raw!r} (from {source})"
            ) from None


def _positive(number: type[int] | type[float], most: float = float("inf")) -> Callable[[Any], Any]:
    def read(raw: Any) -> Any:
        if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
            raise TypeError(raw)
        value = number(raw)
        if not 0 < value < float("inf") or value > most or value != float(raw):
            raise ValueError(raw)
        return value

    return read


def _boolean(raw: Any) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True}
    words |= {"false": False, "no": False, "off": False, "0": False}
    if isinstance(raw, bool):
        return raw
    if not isinstance(raw, str) or raw.strip().lower() not in words:
        raise ValueError(raw)
    return words[raw.strip().lower()]


def _words(raw: Any) -> tuple[str, ...]:
    words = raw.split(",") if isinstance(raw, str) else list(raw)
    if not words or not all(isinstance(word, str) and word.strip() for word in words):
        raise ValueError(raw)
    return tuple(dict.fromkeys(word.strip() for word in words))


def _text(raw: Any) -> str:
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(raw)
    return raw.strip()


def _cluster(raw: Any) -> str:
    text = _text(raw)
    if text != "local" and "://" not in text:
        raise ValueError(raw)
    return text


def _targets(raw: Any) -> tuple[str, ...]:
    """The scheduler is always one of them: of it alone limits speak."""
    words = _words(raw)
    for word in words:
        kind, colon, rest = word.partition(":")
        is_kind = word in ("scheduler", "workers", "client") or "://" in word
        if not is_kind and not (kind == "workers" and colon and rest.isdecimal() and int(rest)):
            raise ValueError(raw)
    if "scheduler" not in words:
        raise ValueError(raw)
    return words


def _limit(raw: Any) -> Limit:
    from pytest_schedprof.gates.limits import parse_limit

    return parse_limit(_text(raw))


def _assignment(raw: Any) -> tuple[str, str, str]:
    """`backend.option=value`, as text."""
    target, equals, value = _text(raw).partition("=")
    backend, dot, name = target.strip().partition(".")
    if not (equals and dot and backend and name):
        raise ValueError(raw)
    return backend, name, value.strip()


OPTIONS: tuple[Option, ...] = (
    Option(
        "backend",
        "profile the scheduler with these backends, comma separated, whatever markers say; "
        "also in unmarked tests that use schedprof_scheduler; 'off' profiles nothing. "
        "As ini: for marked tests whose marker names none",
        _words,
        "names of backends, or 'off'",
        DEFAULT_BACKEND,
        metavar="NAMES",
        flag="--schedprof",
    ),
    Option(
        "dir",
        "directory of artifacts, default .schedprof; relative to the working directory, or in "
        "the ini file to the root directory",
        _text,
        "a path",
        ".schedprof",
        metavar="DIR",
        in_marker=False,
    ),
    Option(
        "limit",
        "limit of every profiled test, as in 'share(@stealing) <= 10%%'; may be repeated. "
        "In a marker: positional arguments",
        _limit,
        "a limit, as in 'share(@comm) <= 30%'",
        (),
        metavar="LIMIT",
        in_marker=False,
        adds_up=True,
        ini="schedprof_limits",
    ),
    Option(
        "strict",
        "an inconclusive limit fails the test",
        _boolean,
        "true or false",
        False,
        is_flag=True,
    ),
    Option(
        "rate",
        "samples per second of a sampling backend, default 100",
        _positive(float),
        "a positive number of samples per second",
        100.0,
        metavar="HZ",
    ),
    Option(
        "workers",
        "workers of the local cluster, default 4",
        _positive(int),
        "a positive whole number",
        4,
        metavar="N",
    ),
    Option(
        "cluster",
        "'local' (default: a scheduler and workers in processes of their own), or the address "
        "of a scheduler that runs already",
        _cluster,
        "'local', or an address such as tcp://127.0.0.1:8786",
        "local",
        metavar="KIND",
    ),
    Option(
        "rounds",
        "run the body of each profiled test so many times; with 3 or more, intervals come from "
        "the scatter between rounds",
        _positive(int),
        "a positive whole number",
        1,
        metavar="N",
    ),
    Option(
        "targets",
        "processes to observe, comma separated: 'scheduler', and beside it 'workers' (or "
        "'workers:2' for as many of their processes, or addresses of workers) and 'client'; "
        "limits speak of the scheduler",
        _targets,
        "'scheduler' and what else of 'workers', 'workers:N', 'client' and workers' addresses",
        ("scheduler",),
        metavar="KINDS",
    ),
    Option(
        "timeout",
        "seconds that starting or stopping a backend or a cluster may take, default 30",
        _positive(float, most=86400),  # longer waits are too long for some systems' calls
        "a positive number of seconds, a day (86400) at most",
        30.0,
        metavar="SECONDS",
    ),
    Option(
        "option",
        "option of one backend, as in pyspy.native=true; may be repeated. "
        "In a marker: options={'native': True}",
        _assignment,
        "backend.option=value",
        (),
        metavar="B.O=V",
        in_marker=False,
        adds_up=True,
        ini="schedprof_options",
    ),
)

MARKER_KEYWORDS = (*(option.name for option in OPTIONS if option.in_marker), "options")

MARKER_HELP = (
    "schedprof(*limits, "
    + ", ".join(f"{keyword}=..." for keyword in MARKER_KEYWORDS)
    + "): profile the scheduler during this test and fail it when a limit is broken, as in "
    'schedprof("share(distributed.stealing:*) <= 10%", backend="pyspy"). '
    "Markers of function, class and module add up; see docs/limits.md and docs/options.md."
)


class Settings(NamedTuple):
    """Everything that was decided for a session or, with its markers, for one test."""

    backend: tuple[str, ...]
    dir: Path
    limit: tuple[Limit, ...]
    strict: bool
    rate: float
    workers: int
    cluster: str
    rounds: int
    targets: tuple[str, ...]
    timeout: float
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


def add_options(parser: pytest.Parser) -> None:
    """Declare every option to pytest. Defaults are in the table alone."""
    group = parser.getgroup("schedprof", "profiling of dask schedulers")
    for option in OPTIONS:
        common: dict[str, Any] = {"dest": option.attribute, "default": None, "help": option.help}
        if option.is_flag:
            negative = option.flag_name.replace("--", "--no-", 1)
            group.addoption(option.flag_name, action="store_true", **common)
            group.addoption(negative, action="store_false", **{**common, "help": "the contrary"})
        else:
            action = "append" if option.adds_up else "store"
            group.addoption(option.flag_name, action=action, metavar=option.metavar, **common)
        kind: Literal["linelist", "string"] = "linelist" if option.adds_up else "string"
        parser.addini(option.ini_name, option.help.replace("%%", "%"), type=kind, default=None)


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
    is_forced = config.getoption("schedprof_backend_given") is not None
    if OFF in values["backend"] and len(values["backend"]) > 1:
        raise SettingsError(
            f"schedprof: backend {','.join(values['backend'])!r} is contradictory: "
            "'off' stands alone"
        )
    return Settings(**values, is_forced=is_forced)


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
    layers, values, assigned = [session.limit], {}, list(session.option)
    for marker in markers:
        _check_keywords(marker.kwargs)
        layers.append(tuple(_option("limit").value(text, "a marker") for text in marker.args))
        for name, raw in marker.kwargs.items():
            if name == "options":
                assigned.extend(_marker_options(marker, _mapping(raw)))
            else:
                values[name] = _option(name).value(raw, "a marker")
    if session.is_forced:
        values.pop("backend", None)
    return session._replace(
        limit=_merged(layers),
        option=tuple(assigned),
        chosen=frozenset(values),
        **values,
    )


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
    read |= {name: _option(name).value(raw, source) for name, raw in values.items()}
    read["limit"] = _merged([tuple(_option("limit").value(text, source) for text in texts)])
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


def _option(name: str) -> Option:
    return next(option for option in OPTIONS if option.name == name)
