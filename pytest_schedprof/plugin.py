"""The hooks; each a few lines that hand over to the rooms which know the matter."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof import hookspecs
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.fixtures import (
    CLUSTERS,
    SETTINGS,
    STARTED_AT,
    schedprof_cluster,
    schedprof_scale,
    schedprof_scheduler,
)
from pytest_schedprof.options import DEFAULT_BACKEND, MARKER_HELP, add_options
from pytest_schedprof.settings import Settings, read_session

if TYPE_CHECKING:
    from pytest_schedprof.backends.registry import BackendRegistry
    from pytest_schedprof.plan import Plan

__all__ = ["schedprof_cluster", "schedprof_scale", "schedprof_scheduler"]

REGISTRY: pytest.StashKey[BackendRegistry] = pytest.StashKey()
PLAN: pytest.StashKey[Plan] = pytest.StashKey()


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER_HELP)
    try:
        settings = config.stash[SETTINGS] = read_session(config)
        _check_names(config, settings)
        _check_cluster_options(settings)
        _prepare_comparisons(config, settings)
    except SchedprofError as error:
        raise pytest.UsageError(str(error)) from None
    if not hasattr(config, "workerinput"):
        config.stash[STARTED_AT] = time.time()
        config.pluginmanager.register(Listener(config), "schedprof-listener")


def _check_names(config: pytest.Config, settings: Settings) -> None:
    """Of backends, where any are given: a mistake in them must not wait for the first test."""
    owners = [owner for owner, _, _ in settings.option]
    if not settings.is_off and (owners or settings.backend != DEFAULT_BACKEND):
        _registry(config).check([*settings.backend, *owners])


def _check_cluster_options(settings: Settings) -> None:
    """Of whichever kind: markers may choose another one than the session does."""
    if settings.cluster_option:
        from pytest_schedprof.clusters.options import check_cluster_options

        check_cluster_options(None, dict(settings.cluster_option))


def _prepare_comparisons(config: pytest.Config, settings: Settings) -> None:
    """What is missing for one must not wait for the first test."""
    if settings.is_off:
        return
    if settings.against is not None:
        from pytest_schedprof.against import prepare_against

        prepare_against(config, settings.against)
    if settings.compare is not None:
        from pytest_schedprof.baselines import load_reference

        load_reference(config, settings.compare)


def pytest_report_header(config: pytest.Config) -> str | None:
    settings = config.stash[SETTINGS]
    if settings.is_off or not settings.is_forced:
        return None
    return (
        f"schedprof: {', '.join(settings.backend)} at {settings.rate:g} Hz, "
        f"cluster {settings.cluster}, artifacts in {settings.dir}"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Every pytest-xdist worker writes into the controller's run."""
    from pytest_schedprof.collecting import run_of

    node.workerinput["schedprof_run"] = run_of(node.config).run_id


def pytest_runtest_setup(item: pytest.Item) -> None:
    session = item.config.stash[SETTINGS]
    markers = list(item.iter_markers("schedprof"))
    try:
        settings = _with_markers(session, markers)
        is_profiled = _is_profiled(item, settings, bool(markers))
        if not is_profiled:  # then there is nothing to compare
            settings = settings._replace(against=None)
        if settings.scale or settings.against:
            from pytest_schedprof.scaling import with_scale

            settings = with_scale(item, settings)
        item.stash[SETTINGS] = settings
        if is_profiled:
            item.stash[PLAN] = _plan(item.config, settings)
    except SchedprofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _with_markers(session: Settings, markers: list[pytest.Mark]) -> Settings:
    """The closest marker wins."""
    if not markers:
        return session
    from pytest_schedprof.layers import overlay

    return overlay(session, markers[::-1])


def _plan(config: pytest.Config, settings: Settings) -> Plan:
    """Of one test."""
    from pytest_schedprof.baselines import REFERENCE
    from pytest_schedprof.collecting import run_of
    from pytest_schedprof.plan import make_plan

    return make_plan(settings, _registry(config), run_of(config), config.stash.get(REFERENCE, None))


def _is_profiled(item: pytest.Item, settings: Settings, is_marked: bool) -> bool:
    """A marked test without the fixture has its scheduler in this process."""
    has_scheduler = "schedprof_scheduler" in getattr(item, "fixturenames", ())
    return not settings.is_off and (is_marked or (settings.is_forced and has_scheduler))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    plan = item.stash.get(PLAN, None)
    if plan is None:
        return (yield)
    from pytest_schedprof.running import run_profiled

    return (yield from run_profiled(item, plan))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and PLAN in item.stash:
        from pytest_schedprof.running import attach

        attach(item, report)
    return report


class Listener:
    """Hears of profiled tests, from whichever pytest-xdist worker; with the first, there is
    something to collect."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        packed = getattr(report, "schedprof", None)
        if packed is not None:
            from pytest_schedprof.collecting import collect

            collect(self.config, packed)


def pytest_enter_pdb(config: pytest.Config) -> None:
    from pytest_schedprof.progress import IN_DEBUGGER

    config.stash[IN_DEBUGGER] = True


def pytest_leave_pdb(config: pytest.Config) -> None:
    from pytest_schedprof.progress import IN_DEBUGGER

    config.stash[IN_DEBUGGER] = False


def pytest_unconfigure(config: pytest.Config) -> None:
    """Also reached after a Ctrl-C and after errors at start-up."""
    if CLUSTERS in config.stash:
        config.stash[CLUSTERS].close()
        del config.stash[CLUSTERS]


def _registry(config: pytest.Config) -> BackendRegistry:
    if REGISTRY not in config.stash:
        from pytest_schedprof.backends.registry import BackendRegistry

        config.stash[REGISTRY] = BackendRegistry(config.hook.pytest_schedprof_backends())
    return config.stash[REGISTRY]
