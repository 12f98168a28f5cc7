"""The table of options: the names of each on the command line, in ini files and in markers.

pytest imports this module at every start, so `Option` is a plain class: creating the class
of a named tuple takes half a millisecond, and that of a dataclass more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pytest_schedprof.clusters import DEFAULT as DEFAULT_CLUSTER
from pytest_schedprof.clusters import KINDS as CLUSTERS
from pytest_schedprof.evidence import KINDS as EVIDENCE

if TYPE_CHECKING:
    import pytest

AUTO = "auto"
"""Stands for the backends that a test's limits need, or else for the best one for its cluster."""
DEFAULT_BISECTED = ("counts", "virtual")
"""Backend and cluster of a search: counts in virtual time decide with one run."""

IniType: TypeAlias = Literal["string", "bool", "linelist", "int", "float"]


class Option:
    """One setting in all its forms."""

    def __init__(
        self,
        name: str,
        help: str,
        default: Any,
        metavar: str = "",
        in_marker: bool = True,
        adds_up: bool = False,
        stem: str = "",
        ini_type: IniType = "string",
    ) -> None:
        self.name = name
        self.help = help
        self.default = default
        self.metavar = metavar
        self.in_marker = in_marker and not adds_up
        self.adds_up = adds_up
        """Whether it may be given several times; the values are collected."""
        stem = stem or f"schedprof_{name}"
        self.flag_name = f"--{stem.replace('_', '-')}"
        """Name on the command line."""
        self.negative_name = self.flag_name.replace("--", "--no-", 1)
        """Name on the command line that turns a flag off."""
        self.ini_name = f"{stem}{'s' if adds_up else ''}"
        """Name in pytest's ini file."""
        self.attribute = f"schedprof_{name}_given"
        """Attribute of pytest's options that holds the command line's value."""
        self.is_flag = default is False
        self.ini_type: IniType = "bool" if self.is_flag else "linelist" if adds_up else ini_type
        """Type of the value in the ini file, by pytest's names."""


_CLUSTER_NAMES = tuple(CLUSTERS)

_DESCRIBED_CLUSTERS = ", ".join(
    f"{name!r} ({'default: ' if name == DEFAULT_CLUSTER else ''}{kind.description})"
    for name, kind in CLUSTERS.items()
)

_DEFAULT_WORKERS = " and ".join(
    f"{kind.default_workers} of a {name} one"
    for name, kind in CLUSTERS.items()
    if kind.default_workers
)

OPTIONS: tuple[Option, ...] = (
    Option(
        "backend",
        "profile the scheduler with these backends (comma separated), of unmarked tests that use "
        "schedprof_scheduler too. 'auto' takes those that each test's limits need, else counts; "
        "'off' disables profiling. On the command line a name overrides markers; in the ini file "
        "(schedprof = auto) it is for tests whose marker names none. In a marker: backend",
        (AUTO,),
        metavar="NAMES",
        stem="schedprof",
    ),
    Option(
        "dir",
        "directory for artifacts, default .schedprof; relative to the working directory, or in "
        "the ini file to the root directory",
        ".schedprof",
        metavar="DIR",
        in_marker=False,
    ),
    Option(
        "keep",
        "size of the recordings to keep of a test that passed without any change, for example "
        "20MB, or 0 for none; of any other test all are kept. default all",
        None,
        metavar="SIZE",
    ),
    Option(
        "runs",
        "number of earlier runs to keep in the directory for artifacts, default 10; when a session "
        "ends, older ones are removed that no baseline there needs",
        10,
        metavar="N",
        in_marker=False,
        ini_type="int",
    ),
    Option(
        "limit",
        "limit for every profiled test, for example 'share(@stealing) <= 10%%'; may be repeated. "
        "In a marker: positional arguments",
        (),
        metavar="LIMIT",
        adds_up=True,
    ),
    Option("strict", "fail tests whose limits are inconclusive", False),
    Option(
        "check",
        "run each test that makes its own cluster in virtual time twice more, and fail it at the "
        "first event that differs",
        False,
    ),
    Option(
        "rate",
        "samples per second for sampling backends, default 100",
        100.0,
        metavar="HZ",
        ini_type="float",
    ),
    Option(
        "workers",
        f"number of workers, default {_DEFAULT_WORKERS}",
        None,
        metavar="N",
        ini_type="int",
    ),
    Option("threads", "threads per worker, default 1", None, metavar="N", ini_type="int"),
    Option(
        "cluster",
        f"{_DESCRIBED_CLUSTERS}, or the address of a running scheduler",
        DEFAULT_CLUSTER,
        metavar="KIND",
    ),
    Option(
        "workload",
        "file of schedprof record: hollow workers run its tasks as they were in reality; workers "
        "and threads are those of the file unless given",
        None,
        metavar="FILE",
    ),
    Option(
        "rounds",
        "number of times to run the body of each profiled test, default 1, or 3 with "
        "--schedprof-save or --schedprof-compare unless each round is the same, as counts are in "
        "virtual time; from 3 on, intervals are computed from the scatter between rounds",
        None,
        metavar="N",
        ini_type="int",
    ),
    Option(
        "seeds",
        "repeat each test under this many seeds of a simulated cluster or one in virtual time, as "
        "tests of their own; default 1",
        1,
        metavar="N",
        ini_type="int",
    ),
    Option(
        "scale",
        "run the body at each of these sizes (comma separated), which the test gets from the "
        "fixture schedprof_scale; limits such as growth(bytecodes) <= 1.05 bound how costs grow",
        (),
        metavar="SIZES",
    ),
    Option(
        "evidence",
        f"data from dask's own instruments to collect for each profiled test (comma separated): "
        f"{', '.join(EVIDENCE)}; or 'all'",
        (),
        metavar="KINDS",
        ini_type="linelist",
    ),
    Option(
        "save",
        "save the results of this session as a baseline: a name, a path or a URL",
        None,
        metavar="NAME",
        in_marker=False,
    ),
    Option(
        "compare",
        "compare with a baseline: a name, a path, a URL, the directory of a run, or 'latest'; "
        "tests that regressed fail",
        None,
        metavar="NAME",
        in_marker=False,
    ),
    Option(
        "tolerance",
        "part of a test's whole cost, for example 5%%, by which its figures may rise in a "
        "comparison; default 0%%, so that each rise counts that is more than noise",
        0.0,
        metavar="PERCENT",
    ),
    Option(
        "against",
        "also run each test on a second scheduler, in turns, and compare: the interpreter of "
        "another environment, a requirement such as distributed==2026.7.0, a source checkout, or "
        "settings such as workers=200 or config:distributed.scheduler.worker-saturation=inf",
        None,
        metavar="WHAT",
        in_marker=False,
    ),
    Option(
        "budget",
        "with --schedprof-against: seconds to spend on each test at most, default 60",
        60.0,
        metavar="SECONDS",
        ini_type="float",
    ),
    Option(
        "timeout",
        "seconds to wait for a backend or a cluster to start or stop, default 30",
        30.0,
        metavar="SECONDS",
        ini_type="float",
    ),
    Option(
        "cluster_option",
        f"option of a {', '.join(_CLUSTER_NAMES[:-1])} or {_CLUSTER_NAMES[-1]} cluster, for "
        "example duration=50ms; may be repeated. "
        "In a marker: cluster_options={'duration': '50ms'}",
        (),
        metavar="N=V",
        adds_up=True,
    ),
    Option(
        "option",
        "option of a backend, for example pyspy.native=true; may be repeated. "
        "In a marker: options={'native': True}",
        (),
        metavar="B.O=V",
        adds_up=True,
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
    + "): profile the scheduler during this test and fail it if a limit is broken, for example "
    'schedprof("share(distributed.stealing:*) <= 10%", backend="pyspy"). '
    "Markers of function, class and module add up; see docs/limits.md and docs/options.md."
)


def option_named(name: str) -> Option:
    return next(option for option in OPTIONS if option.name == name)


def is_given(config: pytest.Config, option: Option) -> bool:
    """Whether the command line or the ini file sets an option."""
    if config.getoption(option.attribute) is not None:
        return True
    try:
        return config.getini(option.ini_name) not in NOTHING
    except Exception:  # of another type than it must be, as whoever reads it will tell
        return True


NOTHING: tuple[object, ...] = (None, "", [])
"""What the ini file says of a setting that it leaves out or empty."""


def check_ini_names(config: pytest.Config) -> None:
    """Refuse a setting of ours that does not exist: pytest only warns of it.

    Raises:
        SettingsError: names it, and a similar one.
    """
    known = [option.ini_name for option in OPTIONS]
    settings = getattr(config, "_inicfg", None)  # since pytest 9 the public name warns
    for name in config.inicfg if settings is None else settings:
        if name.startswith("schedprof") and name not in known:
            from pytest_schedprof.errors import SettingsError, hint

            raise SettingsError(
                f"schedprof: there is no setting {name!r}{hint(name, known)}; "
                f"known: {', '.join(known)}"
            )


def add_options(parser: pytest.Parser) -> None:
    """Declare every option to pytest, without defaults: those are applied from the table."""
    group = parser.getgroup("schedprof", "profiling of dask schedulers")
    for option in OPTIONS:
        common: dict[str, Any] = {"dest": option.attribute, "default": None, "help": option.help}
        if option.is_flag:
            group.addoption(option.flag_name, action="store_true", **common)
            common["help"] = f"turn {option.name} off"
            group.addoption(option.negative_name, action="store_false", **common)
        else:
            common["action"] = "append" if option.adds_up else "store"
            if option.default == (AUTO,):  # its value may be left out
                common |= {"nargs": "?", "const": AUTO}
            group.addoption(option.flag_name, metavar=option.metavar, **common)
        described = option.ini_name, option.help.replace("%%", "%")
        try:
            parser.addini(*described, type=option.ini_type, default=None)
        except AssertionError:  # pytest before 8.4 has no numbers
            parser.addini(*described, type="string", default=None)
