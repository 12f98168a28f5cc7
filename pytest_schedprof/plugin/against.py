"""Sessions with --schedprof-against: the other side's interpreter or settings, and its clusters."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import dask.config
import pytest
from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.clusters import KINDS, option_names
from pytest_schedprof.clusters.contract import ClusterRequest
from pytest_schedprof.clusters.environments import interpreter_for
from pytest_schedprof.clusters.options import (
    check_cluster_options,
    check_known_to_dask,
    config_of,
    with_settings,
)
from pytest_schedprof.clusters.session import ClusterSession
from pytest_schedprof.clusters.under_test import SchedulerUnderTest
from pytest_schedprof.errors import (
    ClusterError,
    IncompatibleError,
    SchedulerLostError,
    SettingsError,
    hint,
    quoted,
)
from pytest_schedprof.measuring.settings import Settings, read_value
from pytest_schedprof.plugin.stash import (
    AGAINST_WHAT,
    INCOMPATIBLE,
    INTERPRETER,
    OTHER_CLUSTERS,
    OTHER_SCHEDULER,
    OTHER_SETTINGS,
    cluster_request_of,
    session_settings,
)

NUMBERS = ("workers", "threads")
"""Settings of a cluster that are options of the plugin; all others are options of clusters."""

PREFIX, DASKS = "config:", "config."
"""How an option of dask is given here, and as an option of a cluster."""

ASSIGNMENT = re.compile(r"(?:config:\s*)?[\w.-]+\s*=(?!=)")
"""Matches the start of a setting; a requirement has two signs, as `distributed==2026.7.0`."""

SEPARATOR = re.compile(rf",\s*(?={ASSIGNMENT.pattern})")
"""Matches a comma before a setting: values such as `uniform(1ms, 2ms)` have others."""


class OtherSettings(Struct, frozen=True):
    """Settings of the other side's cluster, over those of the test."""

    workers: int | None = None
    threads: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    """Options of the cluster, as `--schedprof-cluster-option` takes them."""

    def applied_to(self, request: ClusterRequest) -> ClusterRequest:
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
        name: read_value(name, text, f"against {spec!r}")
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
    raise SettingsError(
        f"schedprof: against {quoted(spec)}: there is no setting {name!r}{hint(name, known)}; "
        f"known: {', '.join(known)}; options of dask are given as config:KEY=VALUE, and "
        "requirements with two signs, as distributed==2026.7.0"
    )


NO_OTHERS = OtherSettings()

TURNS = ("--schedprof-against", "--schedprof-budget")
"""Options that only a session in turns has; a value follows each."""

PACKAGE = "pytest-schedprof"

BASELINE = "the-other-side"
"""Name of the baseline in the commands that are proposed instead of a session in turns."""


def prepare_against(config: pytest.Config, against: str) -> None:
    """Find out what the other side is before the first test, so that errors show at once.

    Raises:
        SchedprofError: if no interpreter can run a scheduler of that kind, or settings are wrong.
    """
    compare = session_settings(config).compare
    if compare is not None:
        raise SettingsError(
            f"schedprof: --schedprof-against={against} and --schedprof-compare={compare} cannot be "
            "used together; give one of them"
        )
    if settings := read_other_settings(against):
        check_cluster_options(None, dict(settings.options))
        check_known_to_dask(dict(settings.options))
        config.stash[OTHER_SETTINGS] = settings
        text = f"{against} and the same code"
    else:
        interpreter = config.stash[INTERPRETER] = interpreter_for(against)
        versions = ", ".join(f"{name} {version}" for name, version in interpreter.versions.items())
        text = f"{versions} on Python {interpreter.python}: {interpreter.path}"
    config.stash[AGAINST_WHAT] = text


def other_scheduler(
    item: pytest.Item, settings: Settings, cluster: Any, opened: ExitStack
) -> SchedulerUnderTest:
    """Open the scheduler that one test is compared with; it stays open while the test runs.

    Raises:
        SettingsError: if the test's cluster is not of a kind that can be started twice.
        ClusterError: if the other side cannot be started, or is incompatible with dask here.
    """
    config = item.config
    if INCOMPATIBLE in config.stash:
        raise config.stash[INCOMPATIBLE]  # another attempt takes long and ends the same way
    kind = getattr(cluster, "kind", type(cluster).__name__)
    has_settings = OTHER_SETTINGS in config.stash
    possible = [name for name, kind in KINDS.items() if kind.takes_interpreter or has_settings]
    if settings.cluster not in possible or kind != settings.cluster:
        raise SettingsError(
            f"schedprof: against {settings.against!r} needs a second cluster like the test's, "
            f"which can be {' or '.join(possible)}; this test has {kind!r}"
        )
    try:
        return _open(
            _other_clusters(config), cluster_request_of(item), _other_settings(config), opened
        )
    except IncompatibleError as error:
        config.stash[INCOMPATIBLE] = _with_commands(config, error)
        raise config.stash[INCOMPATIBLE] from error


def _open(
    session: ClusterSession, request: ClusterRequest, settings: OtherSettings, opened: ExitStack
) -> SchedulerUnderTest:
    request = settings.applied_to(request)
    with _configured(settings):  # options of the client are read when it is made
        cluster = session.cluster(request)
        try:
            return opened.enter_context(session.scheduler(cluster, request))
        except (KeyError, TypeError, SchedulerLostError) as error:
            reason = f"{type(error).__name__}: {error}"
            raise ClusterError(with_settings(reason, dict(settings.options))) from error


def configured_for(item: pytest.Item, scheduler: object) -> AbstractContextManager[Any]:
    """Give the test's process the options of dask of a side: some are read by its client."""
    is_other = scheduler is item.stash[OTHER_SCHEDULER]
    return _configured(_other_settings(item.config) if is_other else NO_OTHERS)


def _configured(settings: OtherSettings) -> AbstractContextManager[Any]:
    configured: AbstractContextManager[Any] = dask.config.set(config_of(dict(settings.options)))
    return configured


def _other_settings(config: pytest.Config) -> OtherSettings:
    """Return the settings in which the other side differs from the test's."""
    return config.stash.get(OTHER_SETTINGS, NO_OTHERS)


def _with_commands(config: pytest.Config, error: IncompatibleError) -> IncompatibleError:
    """Add the commands that compare the two sides as two runs, each with a client of its own."""
    interpreter = config.stash[INTERPRETER]
    path = str(interpreter.path)
    arguments = list(without_turns(config.invocation_params.args))
    install = [] if interpreter.has_plugin else [[path, "-m", "pip", "install", PACKAGE]]
    commands = [
        *install,
        [path, "-m", "pytest", *arguments, f"--schedprof-save={BASELINE}"],
        [sys.executable, "-m", "pytest", *arguments, f"--schedprof-compare={BASELINE}"],
    ]
    return IncompatibleError("\n".join([f"{error}:", *map(shlex.join, commands)]))


def without_turns(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments of a command line except those about a session in turns."""
    is_value = False
    for argument in map(str, arguments):
        name, equals, _ = argument.partition("=")
        if name in TURNS:
            is_value = not equals
        elif not is_value:
            yield argument
        else:
            is_value = False


def _other_clusters(config: pytest.Config) -> ClusterSession:
    """Return the other side's clusters, which all tests share."""
    if OTHER_CLUSTERS not in config.stash:
        interpreter = config.stash.get(INTERPRETER, None)
        config.stash[OTHER_CLUSTERS] = ClusterSession(str(interpreter.path) if interpreter else "")
    return config.stash[OTHER_CLUSTERS]
