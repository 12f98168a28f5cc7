"""The hooks of pytest that this plugin implements, and its fixtures.

Each hook hands over to the module that does it. pytest imports this module at every
start: see `plugin/__init__.py` for what is imported later.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, suppress
from copy import copy
from inspect import iscoroutinefunction, unwrap
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof import plugin
from pytest_schedprof.clusters import KINDS as CLUSTER_KINDS
from pytest_schedprof.measuring.options import (
    AUTO,
    MARKER_HELP,
    OPTIONS,
    add_options,
    check_ini_names,
    is_given,
    option_named,
)
from pytest_schedprof.plugin import hookspecs
from pytest_schedprof.plugin.stash import (
    AGAINST_WHAT,
    CLUSTERS,
    HAS_BEGUN,
    NOT_CALM,
    OTHER_CLUSTERS,
    OTHER_SCHEDULER,
    PLAN,
    REFERENCE,
    RUN,
    SCHEDULER,
    SETTINGS,
    STARTED_AT,
    backends_of,
    cluster_request_of,
    clusters_of,
    item_settings,
    kinds_of,
    run_of,
    session_settings,
    why_not_calm,
)

if TYPE_CHECKING:
    from pytest_schedprof.clusters.contract import Cluster
    from pytest_schedprof.clusters.under_test import SchedulerUnderTest
    from pytest_schedprof.measuring.plan import Plan
    from pytest_schedprof.measuring.settings import Settings

MARKER = "schedprof"

REMEDY = (
    "mark those that make their own cluster (@pytest.mark.schedprof), or let tests take the "
    "fixture schedprof_scheduler"
)
"""What to do if no test was profiled, unless it is known why not."""


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Let `--schedprof tests/` have a path after it, which would be taken for its value."""
    flag = option_named("backend").flag_name
    if flag in args:
        args[:] = [f"{flag}={AUTO}" if word == flag else word for word in args]
        namespace = copy(early_config.option)
        namespace.confcutdir = early_config.known_args_namespace.confcutdir  # by pytest itself
        early_config.known_args_namespace = parser.parse_known_args(args, namespace)
    yield


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER_HELP)
    try:
        check_ini_names(config)
        # Nothing can be wrong with defaults: they are read when needed.
        if any(is_given(config, option) for option in OPTIONS):
            _check_before_the_first_test(config, session_settings(config))
    except plugin.errors.SchedprofError as error:
        raise pytest.UsageError(str(error)) from None
    from_controller = getattr(config, "workerinput", {})
    config.stash[STARTED_AT] = from_controller.get("schedprof_started_at", time.time())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Listener(config), "schedprof-listener")


def _check_before_the_first_test(config: pytest.Config, settings: Settings) -> None:
    """Check what the session's options name: mistakes must not wait for the first test."""
    if not settings.is_off:
        if settings.evidence:
            kinds_of(config).check(settings.evidence)
        owners = {owner for owner, _, _ in settings.option}
        if owners:
            owners -= {*kinds_of(config).names}
        if names := {*settings.backend, *owners} - {AUTO}:
            backends_of(config).check(sorted(names))
        for owner in sorted(owners):
            backends_of(config).check_options(owner, settings.options_of(owner, ()))
    if settings.cluster_option:  # of any kind of cluster, because markers may choose another kind
        plugin.cluster_options.check_cluster_options(None, dict(settings.cluster_option))
    if settings.workload is not None:
        plugin.cluster_options.check_cluster_options(None, {"workload": settings.workload})
    if settings.is_off:
        return
    if settings.against is not None:
        plugin.against.prepare_against(config, settings.against)
    if settings.save is not None:
        plugin.collecting.check_place(settings.save, str(settings.dir))
    if settings.compare is not None:
        plugin.collecting.load_reference(config, settings.compare)


def pytest_report_header(config: pytest.Config) -> list[str]:
    settings, lines = config.stash.get(SETTINGS, None), []
    if settings is not None and settings.is_on:
        is_auto = settings.backend == (AUTO,)
        choice = "backends chosen for each test" if is_auto else ", ".join(settings.backend)
        place = f"cluster {settings.cluster}, artifacts in {settings.dir}"
        lines.append(f"schedprof: {choice}; {place}")
        if is_auto and (substitution := plugin.plan.substitution(settings)):
            lines.append(f"schedprof: {substitution}")
    if settings is not None and settings.is_off and (settings.save or settings.compare):
        lines.append("schedprof: off, so nothing is saved or compared")
    if AGAINST_WHAT in config.stash:
        lines.append(f"schedprof: against {config.stash[AGAINST_WHAT]}")
    return lines


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[Any]) -> None:
    """Start the workers in a way that suits the settings."""
    settings = session_settings(config)
    if settings.cluster == "virtual" and settings.is_on:
        plugin.calm.launch_workers(specs)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a pytest-xdist worker the run of the controller, so that it writes into the same."""
    node.workerinput["schedprof_run"] = run_of(node.config).run_id
    node.workerinput["schedprof_started_at"] = node.config.stash[STARTED_AT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take from a pytest-xdist worker why its tests were not in virtual time."""
    if reason := getattr(node, "workeroutput", {}).get("schedprof_not_calm"):
        node.config.stash[NOT_CALM] = reason


def pytest_collection(session: pytest.Session) -> None:
    """Let a process of the first cluster import distributed while tests are collected."""
    config = session.config
    if SETTINGS not in config.stash or config.option.collectonly:
        return
    settings = session_settings(config)
    kind = CLUSTER_KINDS.get(settings.cluster)
    has_processes = kind is not None and kind.takes_interpreter
    # With options it would have imported distributed under another configuration.
    if settings.is_on and has_processes and not settings.cluster_option:
        with suppress(Exception):  # the first cluster tells what is wrong
            config.add_cleanup(plugin.child.start_server_ahead())


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Repeat tests that take the fixture, or make their own cluster, under many seeds."""
    item = metafunc.definition
    if not (has_fixture(item) or _is_concerned(item)):
        return
    session = session_settings(metafunc.config)
    markers = item.iter_markers(MARKER)
    if session.seeds == 1 and not any("seeds" in marker.kwargs for marker in markers):
        return  # as in most sessions: then nothing more is imported
    with suppress(plugin.errors.SchedprofError):  # the test's setup raises it again
        settings = settings_of(item)
        if has_fixture(item) or (_is_virtual(item, settings) and _is_profiled(item, settings)):
            plugin.running.parametrize(metafunc, settings)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Choose the run before the first test, because pytest-forked runs each in a process."""
    config = session.config
    if config.option.collectonly:
        return
    profiled = [
        item
        for item in session.items
        if _is_concerned(item) and _is_profiled(item, session_settings(config))
    ]
    if not profiled:
        return
    with suppress(plugin.errors.SchedprofError):  # the test's setup raises it again
        alone = (item for item in profiled if not has_fixture(item))
        if any(_is_virtual(item, settings_of(item)) for item in alone):
            plugin.calm.begin_again(config)
    run_of(config)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> None:
    """Warm up backends before other plugins look at what the process holds."""
    if not _is_concerned(item):
        return
    with suppress(plugin.errors.SchedprofError):  # the test's setup raises it again
        settings = settings_of(item)
        if _is_profiled(item, settings) and not has_fixture(item):
            backends_of(item.config).warm_up(settings.backend)


def pytest_runtest_setup(item: pytest.Item) -> None:
    is_ours = has_fixture(item) or item.get_closest_marker(MARKER) is not None
    if sys.platform == "win32" and is_ours:
        pytest.skip("schedprof: schedulers are profiled on Linux and macOS")
    if not _is_concerned(item):
        return
    try:
        _plan(item)
    except plugin.errors.SchedprofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _plan(item: pytest.Item) -> None:
    """Merge the test's markers into its settings and, if it is profiled, make its plan."""
    settings = settings_of(item)
    is_profiled = _is_profiled(item, settings)
    if not is_profiled:  # then there is nothing to compare
        settings = settings._replace(against=None)
    if settings.scale or settings.against:
        settings = plugin.running.with_scale(item, settings)
    if settings.seeds > 1:
        settings = plugin.running.with_seed(item, settings)
    item.stash[SETTINGS] = settings
    if is_profiled:
        item.stash[PLAN] = _plan_of(item.config, settings)


def settings_of(item: pytest.Item) -> Settings:
    """Return the session's settings with those of the test's markers merged in."""
    settings = session_settings(item.config)
    markers = list(item.iter_markers(MARKER))
    if markers:  # the closest one wins
        settings = plugin.settings.overlay(settings, markers[::-1])
    if settings.backend == (AUTO,) and _is_profiled(item, settings):
        # As those of `gen_cluster` are; a cluster of a synchronous test has its loop in a thread.
        function = getattr(item, "function", None)
        is_coroutine = function is not None and iscoroutinefunction(unwrap(function))
        is_apart = has_fixture(item) or _is_virtual(item, settings)
        return plugin.plan.choose_backends(
            settings,
            backends_of(item.config),
            in_main_thread=is_coroutine and not is_apart,
            is_apart=is_apart,
        )
    return settings


def _plan_of(config: pytest.Config, settings: Settings) -> Plan:
    gathered = settings.gathered
    kinds = kinds_of(config).kinds(gathered) if gathered else ()
    reference = config.stash.get(REFERENCE, None)
    run = run_of(config)
    plan = plugin.plan.make_plan(settings, backends_of(config), run, reference, kinds)
    if HAS_BEGUN not in config.stash:
        plugin.collecting.begin_run(run, config.stash[STARTED_AT], config.rootpath)
        config.stash[HAS_BEGUN] = True
    return plan


def _is_concerned(item: pytest.Item) -> bool:
    """Whether a test is marked, or the session's settings were needed already.

    Any other test has the defaults as its settings and is not profiled.
    """
    return SETTINGS in item.config.stash or item.get_closest_marker(MARKER) is not None


def _is_profiled(item: pytest.Item, settings: Settings) -> bool:
    """Whether to profile a test: a marked one, or with --schedprof one that takes the fixture."""
    if settings.is_off:
        return False
    is_marked = item.get_closest_marker(MARKER) is not None
    return is_marked or (settings.is_on and (has_fixture(item) or _is_virtual(item, settings)))


def _is_virtual(item: pytest.Item, settings: Settings) -> bool:
    """Whether a test makes its own cluster, which is to run in virtual time."""
    if settings.cluster != "virtual" or has_fixture(item) or NOT_CALM in item.config.stash:
        return False  # as in most sessions
    return plugin.calm.is_suited(item)


def has_fixture(item: pytest.Item) -> bool:
    return "schedprof_scheduler" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    plan = item.stash.get(PLAN, None)
    if plan is None:
        return (yield)
    return (yield from plugin.running.run_profiled(item, plan))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    is_profiled = call.when == "call" and PLAN in item.stash
    try:
        report = yield
    except Exception:  # a test may leave patched what pytest itself makes reports with
        if not is_profiled or call.excinfo is None:
            raise
        report = plugin.running.plain_report(item, call, call.excinfo.value)
    if is_profiled:
        plugin.running.attach(item, report)
    if call.when == "teardown" and PLAN in item.stash:
        del item.stash[PLAN]  # pytest keeps each item until the session ends
    return report


class Listener:
    """Receives results of profiled tests, also from pytest-xdist workers.

    The module that collects them is imported with the first one.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        packed, outcome = report.__dict__.pop("schedprof", None), str(report.outcome)
        is_rerun = outcome == "rerun"  # of attempts that are repeated the last one counts
        if packed is not None:
            plugin.collecting.collector_of(self.config).keep(
                report.nodeid, packed, is_repeated=is_rerun
            )
        elif is_rerun and (kept := self.config.pluginmanager.get_plugin("schedprof-collector")):
            kept.repeat(report.nodeid)  # its body has passed, and its teardown failed
        if getattr(report, "schedprof_unprofiled", False) and not is_rerun:
            tests = plugin.collecting.collector_of(self.config).unprofiled
            tests[report.nodeid] = report.schedprof_refusal

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Tell that `--schedprof` profiled nothing: a job must not be green because of that."""
        settings = self.config.stash.get(SETTINGS, None)
        is_given = self.config.getoption(option_named("backend").attribute) is not None
        is_meant = is_given and settings is not None and not settings.is_off
        has_run = {"passed", "failed"} & terminalreporter.stats.keys()
        reason = why_not_calm(self.config) or (REMEDY if is_meant and has_run else "")
        if reason and not self.config.pluginmanager.has_plugin("schedprof-collector"):
            terminalreporter.write_line(f"schedprof: no test was profiled: {reason}", yellow=True)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Keep the session's results: the last hook, because pytest-xdist ends its workers here."""
        if _is_anything_to_keep(self.config):
            plugin.collecting.collector_of(self.config).finish(session)


def _is_anything_to_keep(config: pytest.Config) -> bool:
    """Whether a profiled test has begun, or must have been run for what was asked."""
    settings = config.stash.get(SETTINGS, None)
    if settings is None or settings.is_off or config.option.collectonly:
        return False
    if settings.save is not None or settings.compare is not None:
        return True
    has_begun = HAS_BEGUN in config.stash or config.pluginmanager.has_plugin("schedprof-collector")
    # In a process that runs no test itself, as with pytest-xdist and pytest-forked, look for it.
    return has_begun or (RUN in config.stash and config.stash[RUN].path.is_dir())


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session's clusters, also after a Ctrl-C and after an error at start-up."""
    for key in (CLUSTERS, OTHER_CLUSTERS):
        if key in config.stash:
            clusters = config.stash[key]
            del config.stash[key]
            try:
                clusters.close()
            except plugin.errors.SchedprofError as error:  # pytest would show its traceback
                sys.stderr.write(f"{error}\n")


DEFAULT_SCALE = 1000
"""Size of the workload of a test without `scale`."""


@pytest.fixture
def schedprof_cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster to profile: local by default, one for the whole session.

    Override it with a fixture of any scope that returns a dask Cluster, a Client or an address.
    """
    try:
        return clusters_of(request.config).cluster(cluster_request_of(request.node))
    except plugin.errors.SchedprofError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


@pytest.fixture
def schedprof_scale(request: pytest.FixtureRequest) -> int:
    """The size of the workload: each of those that `scale` lists in turn, or else 1000."""
    scale = item_settings(request.node).scale
    return scale[0] if scale else DEFAULT_SCALE


@pytest.fixture
def schedprof_seed(request: pytest.FixtureRequest) -> int:
    """The seed of the cluster: each of those that `seeds` asks for, or else its option `seed`."""
    return int(plugin.running.seed_of(item_settings(request.node)))


@pytest.fixture
def schedprof_scheduler(
    request: pytest.FixtureRequest, schedprof_cluster: Any
) -> Iterator[SchedulerUnderTest]:
    """The scheduler under test, with `.client`, `.address`, `.pid`, `.workers`, `.measure()`."""
    clusters = clusters_of(request.config)
    try:
        with ExitStack() as opened:
            settings = item_settings(request.node)
            scheduler = opened.enter_context(
                clusters.scheduler(schedprof_cluster, cluster_request_of(request.node))
            )
            if settings.against is not None:
                request.node.stash[OTHER_SCHEDULER] = plugin.against.other_scheduler(
                    request.node, settings, schedprof_cluster, opened
                )
            request.node.stash[SCHEDULER] = scheduler
            try:
                yield scheduler
            finally:  # pytest keeps items until the session ends, but this client is closed
                del request.node.stash[SCHEDULER]
                if OTHER_SCHEDULER in request.node.stash:
                    del request.node.stash[OTHER_SCHEDULER]
    except plugin.errors.SchedprofError as error:
        if request.session.exitstatus == pytest.ExitCode.INTERRUPTED:
            return  # after a Ctrl-C pytest would end with this error's traceback
        raise pytest.fail.Exception(str(error), pytrace=False) from None
