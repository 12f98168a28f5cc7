"""The one table of options: what each is called in its three forms, and what it takes.

pytest imports this at every start, used or not: named tuples are made four times as fast as
frozen dataclasses, and what reads limits is imported when there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_schedprof.errors import SettingsError

if TYPE_CHECKING:
    import pytest

    from pytest_schedprof.gates.limits import Limit

DEFAULT_BACKEND = ("pyspy",)


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


CLUSTER_KINDS = ("local", "simulated", "docker")


def _cluster(raw: Any) -> str:
    text = _text(raw)
    if text not in CLUSTER_KINDS and "://" not in text:
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


EVIDENCE_KINDS = (
    "span",
    "report",
    "memory",
    "tasks",
    "transfers",
    "workers",
    "local",
    "phases",
)


def _evidence(raw: Any) -> tuple[str, ...]:
    words = _words(raw)
    if words == ("all",):
        return EVIDENCE_KINDS
    if not set(words) <= set(EVIDENCE_KINDS):
        raise ValueError(raw)
    return words


def _scale(raw: Any) -> tuple[int, ...]:
    sizes = raw.split(",") if isinstance(raw, str) else [raw] if isinstance(raw, int) else list(raw)
    return tuple(sorted({_positive(int)(size) for size in sizes}))


def _limit(raw: Any) -> Limit:
    from pytest_schedprof.gates.limits import parse_limit

    return parse_limit(_text(raw))


def _cluster_option(raw: Any) -> tuple[str, str]:
    """`name=value`, as text."""
    name, equals, value = _text(raw).partition("=")
    if not (equals and name.strip()):
        raise ValueError(raw)
    return name.strip(), value.strip()


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
        "workers of the cluster, default 4 of a local one and 1000 of a simulated one",
        _positive(int),
        "a positive whole number",
        None,
        metavar="N",
    ),
    Option(
        "threads",
        "threads of each worker, default 1",
        _positive(int),
        "a positive whole number",
        1,
        metavar="N",
    ),
    Option(
        "cluster",
        "'local' (default: a scheduler and workers in processes of their own), 'simulated' (a "
        "real scheduler with thousands of hollow workers), 'docker' (a compose project), or the "
        "address of a scheduler that runs already",
        _cluster,
        f"{', '.join(map(repr, CLUSTER_KINDS))}, or an address such as tcp://127.0.0.1:8786",
        "local",
        metavar="KIND",
    ),
    Option(
        "rounds",
        "run the body of each profiled test so many times, default 1, or 3 where baselines are "
        "saved or compared with; with 3 or more, intervals come from the scatter between rounds",
        _positive(int),
        "a positive whole number",
        1,
        metavar="N",
    ),
    Option(
        "scale",
        "sizes, comma separated: run the body at each, which schedprof_scale gives to the test; "
        "limits such as growth(bytecodes) <= 1.05 hold how costs grow with them",
        _scale,
        "positive whole numbers, as in 100,1000",
        (),
        metavar="SIZES",
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
        "evidence",
        f"what dask itself can tell of each profiled test, comma separated: of "
        f"{', '.join(EVIDENCE_KINDS)}; or 'all'",
        _evidence,
        f"of {', '.join(EVIDENCE_KINDS)}, or 'all'",
        (),
        metavar="KINDS",
    ),
    Option(
        "save",
        "save what this session measures as a baseline: a name, or a path or URL",
        _text,
        "a name, a path or a URL",
        None,
        metavar="NAME",
        in_marker=False,
    ),
    Option(
        "compare",
        "compare with a baseline: a name, a path, a URL, the directory of a run, or 'latest'; "
        "regressions fail",
        _text,
        "a name, a path, a URL, or 'latest'",
        None,
        metavar="NAME",
        in_marker=False,
    ),
    Option(
        "against",
        "run each test on a second scheduler too, in turns, and compare: an interpreter of another "
        "environment, a requirement such as distributed==2026.7.0, or a source checkout",
        _text,
        "an interpreter, a requirement or a checkout",
        None,
        metavar="WHAT",
        in_marker=False,
    ),
    Option(
        "budget",
        "seconds that a test may take to be decided with --schedprof-against, default 60",
        _positive(float, most=86400),
        "a positive number of seconds, a day (86400) at most",
        60.0,
        metavar="SECONDS",
    ),
    Option(
        "null",
        "with --schedprof-against also run each test on a third scheduler, of the same code as the "
        "first: what is called a regression there is a false alarm",
        _boolean,
        "true or false",
        False,
        is_flag=True,
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
        "cluster_option",
        "option of a local, simulated or docker cluster, as in duration=50ms; may be repeated. "
        "In a marker: cluster_options={'duration': '50ms'}",
        _cluster_option,
        "name=value",
        (),
        metavar="N=V",
        in_marker=False,
        adds_up=True,
        flag="--schedprof-cluster-option",
        ini="schedprof_cluster_options",
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

MARKER_KEYWORDS = (
    *(option.name for option in OPTIONS if option.in_marker),
    "options",
    "cluster_options",
)

MARKER_HELP = (
    "schedprof(*limits, "
    + ", ".join(f"{keyword}=..." for keyword in MARKER_KEYWORDS)
    + "): profile the scheduler during this test and fail it when a limit is broken, as in "
    'schedprof("share(distributed.stealing:*) <= 10%", backend="pyspy"). '
    "Markers of function, class and module add up; see docs/limits.md and docs/options.md."
)


def option_named(name: str) -> Option:
    """The one of that name."""
    return next(option for option in OPTIONS if option.name == name)


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
