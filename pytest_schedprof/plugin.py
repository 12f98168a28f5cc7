"""The hooks; each a few lines that hand over to the rooms which know the matter."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof import hookspecs
from pytest_schedprof.collecting import Collector, run_of
from pytest_schedprof.errors import SchedprofError, as_own
from pytest_schedprof.fixtures import (
    CLUSTERS,
    RIVALS,
    SCHEDULER,
    SETTINGS,
    schedprof_cluster,
    schedprof_scale,
    schedprof_scheduler,
)
from pytest_schedprof.options import DEFAULT_BACKEND, MARKER_HELP, add_options
from pytest_schedprof.settings import Settings, read_session

if TYPE_CHECKING:
    from dask.callbacks import Callback

    from pytest_schedprof.backends.registry import BackendRegistry
    from pytest_schedprof.clusters.in_process import InProcess
    from pytest_schedprof.plan import Plan
    from pytest_schedprof.profiling import ProfiledTest

__all__ = ["schedprof_cluster", "schedprof_scale", "schedprof_scheduler"]

REGISTRY: pytest.StashKey[BackendRegistry] = pytest.StashKey()
PLAN: pytest.StashKey[Plan] = pytest.StashKey()
PROFILED: pytest.StashKey[ProfiledTest] = pytest.StashKey()


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
        config.pluginmanager.register(Collector(config), "schedprof-collector")


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
    from pytest_schedprof.profiling import ProfiledTest
    from pytest_schedprof.progress import showing
    from pytest_schedprof.scaling import giving

    scheduler = item.stash.get(SCHEDULER, None) or _own_process()
    rivals = item.stash.get(RIVALS, {})
    callbacks = _callbacks(item.config) if "local" in plan.settings.evidence else []
    profiled = ProfiledTest(item.nodeid, plan, run_of(item.config), scheduler, rivals, callbacks)
    item.stash[PROFILED] = profiled
    takes = showing(item.config, profiled)
    try:
        with giving(item, *next(takes)):
            outcome = yield
        for take, side in takes:
            with giving(item, take, side):
                item.runtest()
    except (KeyboardInterrupt, pytest.exit.Exception):
        profiled.break_off()
        profiled.assess()
        _keep_interrupted(item, profiled)
        raise
    finally:
        takes.close()
        profiled.assess()
    if complaint := profiled.complaint():  # only of a test that passed: see the finally above
        pytest.fail(complaint, pytrace=False)
    return outcome


def _callbacks(config: pytest.Config) -> Sequence[Callback]:
    from pytest_schedprof.callbacks import callbacks_of

    return callbacks_of(config)


def _own_process() -> InProcess:
    from pytest_schedprof.clusters.in_process import InProcess

    return InProcess()


def _keep_interrupted(item: pytest.Item, profiled: ProfiledTest) -> None:
    """pytest makes no report of a test that is interrupted: its record is written here."""
    from pytest_schedprof.reports.summary import pack

    collector = item.config.pluginmanager.get_plugin("schedprof-collector")
    try:
        result = profiled.conclude("interrupted")
    except SchedprofError:
        return  # the interrupt is what matters
    if collector is not None:
        collector.packed.append(pack(result, profiled.directory))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call" and PROFILED in item.stash:
        profiled = item.stash[PROFILED]
        del item.stash[PROFILED]  # a rerun of the test starts afresh
        _attach(item, report, profiled)
    return report


def _attach(item: pytest.Item, report: pytest.TestReport, profiled: ProfiledTest) -> None:
    """Give the report its result; a record that cannot be kept fails a test that passed."""
    from pytest_schedprof.reports.junit import properties_of
    from pytest_schedprof.reports.summary import pack

    complaint = profiled.complaint()
    if profiled.assessment.troubles and hasattr(report, "wasxfail"):
        # Who expects a failure does not expect a mistake of the profiling.
        del report.wasxfail
        report.outcome, report.longrepr = "failed", "\n".join(profiled.assessment.troubles)
    wasxfail = {"skipped": "xfailed", "passed": "xpassed"} if hasattr(report, "wasxfail") else {}
    try:
        result = profiled.conclude(wasxfail.get(report.outcome, report.outcome))
    except Exception as error:  # monkeypatches of the test are still in place
        complaint = "\n".join(filter(None, [complaint, str(as_own(error))]))
        if report.passed:
            report.outcome, report.longrepr = "failed", complaint
    else:
        report.__dict__["schedprof"] = pack(result, profiled.directory)
        # JUnit takes the properties of the teardown's report, which come from the item.
        for properties in (item.user_properties, report.user_properties):
            properties.extend(properties_of(result, profiled.directory))
    if complaint and complaint not in str(report.longrepr):
        report.sections.append(("schedprof", complaint))


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
