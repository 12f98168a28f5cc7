"""The settings of a session: command line and ini file merged into one frozen `Settings`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.evidence import ALL
from pytest_schedprof.judge.limits import merge_limits
from pytest_schedprof.measuring.options import OPTIONS, Option, is_given, option_named
from pytest_schedprof.model.limit import Limit

if TYPE_CHECKING:
    import pytest

    from pytest_schedprof.clusters.contract import ClusterRequest

OFF = "off"
ROUNDS_TO_COMPARE = 3
"""Default rounds of tests that are saved or compared. Fewer show neither which counts are steady
nor how far times scatter."""

ANY_BACKEND = "*"
"""Owner of an option that goes to every backend which knows it."""


class Settings(NamedTuple):
    """All settings of a session or, with its markers merged in, of one test."""

    backend: tuple[str, ...]
    dir: Path
    keep: int | None
    """Bytes; None for all."""
    limit: tuple[Limit, ...]
    strict: bool
    rate: float
    workers: int | None
    """None for the default of the kind of cluster."""
    threads: int | None
    """None for 1, or for those of the recorded workload."""
    cluster: str
    workload: str | None
    rounds: int
    seeds: int
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
    """Whether the command line names the backends, which overrides markers."""
    chosen: frozenset[str] = frozenset()
    """Names of the settings that a marker of the test sets."""

    @property
    def is_off(self) -> bool:
        """Whether profiling is disabled."""
        return self.backend == (OFF,)

    @property
    def gathered(self) -> tuple[str, ...]:
        """Kinds of evidence to gather: those that were asked for, and those that limits bound."""
        if ALL in self.evidence:
            return self.evidence
        bounded = (limit.evidence for limit in self.limit if limit.evidence)
        return tuple(dict.fromkeys((*self.evidence, *bounded)))

    @property
    def recorded_option(self) -> tuple[tuple[str, str], ...]:
        """The workload as an option of the cluster.

        A session's workload concerns only tests whose cluster can have one.
        """
        if self.workload is None:
            return ()
        from pytest_schedprof.clusters.options import is_known  # imports distributed

        if "workload" not in self.chosen and not is_known(self.cluster, "workload"):
            return ()
        return (("workload", self.workload),)

    @property
    def cluster_request(self) -> ClusterRequest:
        """The settings that describe the cluster."""
        from pytest_schedprof.clusters.contract import ClusterRequest  # imports distributed

        return ClusterRequest(
            self.cluster,
            self.workers,
            self.threads,
            (*self.cluster_option, *self.recorded_option),
            self.timeout,
            self.chosen,
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
    if (values["save"] or values["compare"]) and not is_given(config, option_named("rounds")):
        values["rounds"] = ROUNDS_TO_COMPARE
    is_forced = config.getoption("schedprof_backend_given") is not None
    if OFF in values["backend"] and len(values["backend"]) > 1:
        raise SettingsError(
            f"schedprof: backend {','.join(values['backend'])!r} is contradictory: "
            "'off' cannot be combined with others"
        )
    return Settings(**values, is_forced=is_forced)


def _session_value(config: pytest.Config, option: Option) -> Any:
    argument = config.getoption(option.attribute)
    ini = config.getini(option.ini_name) or None
    if option.adds_up:
        return (
            *(option.value(raw, option.ini_name) for raw in ini or ()),
            *(option.value(raw, option.flag_name) for raw in argument or ()),
        )
    if argument is not None:
        return option.value(argument, option.flag_name)
    return option.default if ini is None else option.value(ini, option.ini_name)
