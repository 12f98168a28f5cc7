"""The one table of options: what each is called in its three forms, and what it takes.

pytest imports this at every start, used or not: named tuples are made four times as fast as
frozen dataclasses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from pytest_schedprof import values
from pytest_schedprof.errors import SettingsError

if TYPE_CHECKING:
    import pytest

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


OPTIONS: tuple[Option, ...] = (
    Option(
        "backend",
        "profile the scheduler with these backends, comma separated, whatever markers say; "
        "also in unmarked tests that use schedprof_scheduler; 'off' profiles nothing. "
        "As ini: for marked tests whose marker names none",
        values.words,
        "names of backends, or 'off'",
        DEFAULT_BACKEND,
        metavar="NAMES",
        flag="--schedprof",
    ),
    Option(
        "dir",
        "directory of artifacts, default .schedprof; relative to the working directory, or in "
        "the ini file to the root directory",
        values.text,
        "a path",
        ".schedprof",
        metavar="DIR",
        in_marker=False,
    ),
    Option(
        "limit",
        "limit of every profiled test, as in 'share(@stealing) <= 10%%'; may be repeated. "
        "In a marker: positional arguments",
        values.limit,
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
        values.boolean,
        "true or false",
        False,
        is_flag=True,
    ),
    Option(
        "rate",
        "samples per second of a sampling backend, default 100",
        values.positive(float),
        "a positive number of samples per second",
        100.0,
        metavar="HZ",
    ),
    Option(
        "workers",
        "workers of the cluster, default 4 of a local one and 1000 of a simulated one",
        values.positive(int),
        "a positive whole number",
        None,
        metavar="N",
    ),
    Option(
        "threads",
        "threads of each worker, default 1",
        values.positive(int),
        "a positive whole number",
        1,
        metavar="N",
    ),
    Option(
        "cluster",
        "'local' (default: a scheduler and workers in processes of their own), 'simulated' (a "
        "real scheduler with thousands of hollow workers), 'docker' (a compose project), or the "
        "address of a scheduler that runs already",
        values.cluster,
        f"{', '.join(map(repr, values.CLUSTER_KINDS))}, or an address such as tcp://127.0.0.1:8786",
        "local",
        metavar="KIND",
    ),
    Option(
        "rounds",
        "run the body of each profiled test so many times, default 1, or 3 where baselines are "
        "saved or compared with; with 3 or more, intervals come from the scatter between rounds",
        values.positive(int),
        "a positive whole number",
        1,
        metavar="N",
    ),
    Option(
        "scale",
        "sizes, comma separated: run the body at each, which schedprof_scale gives to the test; "
        "limits such as growth(bytecodes) <= 1.05 hold how costs grow with them",
        values.scale,
        "positive whole numbers, as in 100,1000",
        (),
        metavar="SIZES",
    ),
    Option(
        "targets",
        "processes to observe, comma separated: 'scheduler', and beside it 'workers' (or "
        "'workers:2' for as many of their processes, or addresses of workers) and 'client'; "
        "limits speak of the scheduler",
        values.targets,
        "'scheduler' and what else of 'workers', 'workers:N', 'client' and workers' addresses",
        ("scheduler",),
        metavar="KINDS",
    ),
    Option(
        "evidence",
        f"what dask itself can tell of each profiled test, comma separated: of "
        f"{', '.join(values.EVIDENCE_KINDS)}; or 'all'",
        values.evidence,
        f"of {', '.join(values.EVIDENCE_KINDS)}, or 'all'",
        (),
        metavar="KINDS",
    ),
    Option(
        "save",
        "save what this session measures as a baseline: a name, or a path or URL",
        values.text,
        "a name, a path or a URL",
        None,
        metavar="NAME",
        in_marker=False,
    ),
    Option(
        "compare",
        "compare with a baseline: a name, a path, a URL, the directory of a run, or 'latest'; "
        "regressions fail",
        values.text,
        "a name, a path, a URL, or 'latest'",
        None,
        metavar="NAME",
        in_marker=False,
    ),
    Option(
        "against",
        "run each test on a second scheduler too, in turns, and compare: an interpreter of another "
        "environment, a requirement such as distributed==2026.7.0, or a source checkout",
        values.text,
        "an interpreter, a requirement or a checkout",
        None,
        metavar="WHAT",
        in_marker=False,
    ),
    Option(
        "budget",
        "seconds that a test may take to be decided with --schedprof-against, default 60",
        values.positive(float, most=86400),
        "a positive number of seconds, a day (86400) at most",
        60.0,
        metavar="SECONDS",
    ),
    Option(
        "null",
        "with --schedprof-against also run each test on a third scheduler, of the same code as the "
        "first: what is called a regression there is a false alarm",
        values.boolean,
        "true or false",
        False,
        is_flag=True,
    ),
    Option(
        "timeout",
        "seconds that starting or stopping a backend or a cluster may take, default 30",
        values.positive(float, most=86400),  # longer waits are too long for some systems' calls
        "a positive number of seconds, a day (86400) at most",
        30.0,
        metavar="SECONDS",
    ),
    Option(
        "cluster_option",
        "option of a local, simulated or docker cluster, as in duration=50ms; may be repeated. "
        "In a marker: cluster_options={'duration': '50ms'}",
        values.cluster_option,
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
        values.assignment,
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
