"""Runs a test's body under the profiler as often as its plan says, and completes its report.

`measuring/profiling.py` describes the path from here.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Generator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import chain
from typing import Any

import pytest
from dask.callbacks import Callback
from dask.diagnostics.progress import ProgressBar
from msgspec.structs import replace

from pytest_schedprof import plugin
from pytest_schedprof.backends.registry import LIGHTEST
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.clusters.options import is_known
from pytest_schedprof.errors import SchedprofError, SettingsError, as_own, without_secrets
from pytest_schedprof.evidence.contract import Need
from pytest_schedprof.evidence.report import source_of
from pytest_schedprof.measuring.options import AUTO, OPTIONS
from pytest_schedprof.measuring.plan import BodyRun, Plan
from pytest_schedprof.measuring.profiling import ProfiledTest
from pytest_schedprof.measuring.settings import Settings
from pytest_schedprof.measuring.sides import Side
from pytest_schedprof.model.result import VIRTUAL
from pytest_schedprof.plugin.calm import (
    check,
    clean_process,
    forget_runs,
    is_possible,
    tmp_files,
    virtual_time,
)
from pytest_schedprof.plugin.collecting import collector_of
from pytest_schedprof.plugin.races import story
from pytest_schedprof.plugin.stash import (
    HAS_FAILED_SUBTEST,
    OTHER_SCHEDULER,
    PROFILED,
    SCHEDULER,
    TMP_FILES,
    run_of,
)
from pytest_schedprof.report.junit import pack, properties_of
from pytest_schedprof.virtual.relay import RefusalError

SEED = "schedprof_seed"


def parametrize(metafunc: pytest.Metafunc, settings: Settings) -> None:
    """Repeat a test under as many seeds as its settings say, if its cluster has any."""
    if settings.seeds == 1 or not is_known(settings.cluster, "seed"):
        return
    if SEED not in metafunc.fixturenames:
        metafunc.fixturenames.append(SEED)
    first = seed_of(settings)
    seeds = range(first, first + settings.seeds)
    metafunc.parametrize(SEED, seeds, indirect=True, ids=[f"seed{seed}" for seed in seeds])


def seed_of(settings: Settings) -> int:
    """Return the seed of the cluster that the settings describe; a wrong one is refused later."""
    try:
        return int(dict(settings.cluster_option).get("seed", "0"))
    except ValueError:
        return 0


def with_seed(item: pytest.Item, settings: Settings) -> Settings:
    """Return the settings with the seed that the test's name has, if any.

    Raises:
        SettingsError: if a marker wants seeds of a cluster that has none.
    """
    seed = getattr(getattr(item, "callspec", None), "params", {}).get(SEED)
    if seed is not None:
        option = (*settings.cluster_option, ("seed", str(seed)))
        return settings._replace(cluster_option=option)
    if "seeds" in settings.chosen:
        mistake = f"schedprof: {item.nodeid!r} has seeds={settings.seeds}, but "
        if is_known(settings.cluster, "seed"):
            raise SettingsError(
                f"{mistake}its marker came too late to repeat it: put it on the test function, its "
                "class or its module"
            )
        raise SettingsError(
            f"{mistake}nothing is drawn from a seed in a cluster {settings.cluster!r}; use "
            "cluster='virtual'"
        )
    return settings


def with_scale(item: pytest.Item, settings: Settings) -> Settings:
    """Return the settings of a test, with scales only if it takes the fixture schedprof_scale.

    Raises:
        SettingsError: if scales or other schedulers cannot be passed to the test.
    """
    arguments = getattr(getattr(item, "_fixtureinfo", None), "argnames", ())
    takes_scale = "schedprof_scale" in arguments  # the test function itself
    if settings.scale and "scale" in settings.chosen and not takes_scale:
        raise SettingsError(
            f"schedprof: {item.nodeid!r} has scale {', '.join(map(str, settings.scale))} but does "
            "not use the fixture schedprof_scale; add it to the test function's arguments"
        )
    if settings.scale and takes_scale:
        _check_fixtures(item, "schedprof_scale", "all sizes")
    if settings.against:
        _check_fixtures(item, "schedprof_scheduler", "both schedulers")
    return settings if takes_scale else settings._replace(scale=())


def _check_fixtures(item: pytest.Item, fixture: str, span: str) -> None:
    """Refuse other fixtures that take this one: they are set up once and keep its first value."""
    fixtures = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    for name, definitions in fixtures.items():
        if any(fixture in definition.argnames for definition in definitions):
            raise SettingsError(
                f"schedprof: fixture {name!r} uses {fixture}, but is set up once for {span} of "
                f"{item.nodeid!r}; use {fixture} only in the test function"
            )


@contextmanager
def arguments_for_run(item: pytest.Item, body_run: BodyRun, side: Side) -> Iterator[None]:
    """Pass the scale and the scheduler of a side to one run of the body.

    `item.funcargs` is changed in place, because whatever runs the body reads the arguments there
    each time. The side's client is the current one meanwhile.
    """
    before = dict(arguments := getattr(item, "funcargs", {}))
    if body_run.scale and "schedprof_scale" in arguments:
        arguments["schedprof_scale"] = body_run.scale
    client: AbstractContextManager[Any] = nullcontext()
    configured = client
    if OTHER_SCHEDULER in item.stash:
        scheduler: Any = side.scheduler
        arguments["schedprof_scheduler"] = scheduler
        client = scheduler.client.as_current()
        configured = plugin.against.configured_for(item, scheduler)
    try:
        with configured, side.run(body_run), client:
            yield
    except Exception:
        if side.name:
            text = f"The body ran on the scheduler of {side.name} when it failed."
            item.add_report_section("call", "schedprof", text)
        raise
    finally:
        arguments.update(before)


def run_profiled(item: pytest.Item, plan: Plan) -> Generator[None, Any, Any]:
    """Record the run of the body that pytest makes, and make the other runs of the plan."""
    profiled = item.stash[PROFILED] = _profiled(item, plan)
    try:
        return (yield from _run_and_judge(item, profiled))
    finally:
        profiled.is_over = True


def _run_and_judge(item: pytest.Item, profiled: ProfiledTest) -> Generator[None, Any, Any]:
    plan = profiled.plan
    item.stash[TMP_FILES] = tmp_files(item)
    profiled.begin()
    is_drawn = "seed" in dict(plan.settings.cluster_option)
    seed = seed_of(plan.settings) if is_drawn else None
    try:
        outcome = yield from _run_body(item, profiled, seed)
    except (KeyboardInterrupt, pytest.exit.Exception):
        _keep_interrupted(item, profiled)
        raise
    except (Exception, pytest.fail.Exception) as error:
        if seed is not None and profiled.is_calm and not profiled.unprofiled:
            error.add_note(f"schedprof: under seed {seed}: {story(item, seed, error)}")
        raise
    if _has_failed(item):  # a test of unittest; any other that failed has left by a `raise` above
        return outcome
    if complaint := _complaint(item, profiled):
        pytest.fail(complaint, pytrace=False)
    is_checked = plan.settings.check and profiled.is_calm and not profiled.unprofiled
    if is_checked and (parting := check(item, seed)):
        pytest.fail(parting, pytrace=False)
    return outcome


def _complaint(item: pytest.Item, profiled: ProfiledTest) -> str | None:
    """Say why a test that passed must fail; None if it need not fail."""
    return profiled.complaint(_command(item), item.config.invocation_params.dir)


def id_of(item: pytest.Item) -> str:
    """Return the test's ID without the group that pytest-xdist appends by `--dist=loadgroup`."""
    own = f"{item.parent.nodeid}::{item.name}" if item.parent else item.nodeid
    return own if item.nodeid.startswith(f"{own}@") else item.nodeid


def _command(item: pytest.Item) -> str:
    """Return the command that runs the test again with the options of this session."""
    place = os.path.relpath(item.path, item.config.invocation_params.dir)
    words = ["pytest", "::".join([place, *id_of(item).split("::")[1:]])]
    for option in OPTIONS:
        given = item.config.getoption(option.attribute)
        if given is None or option.name == "save":
            continue
        if option.is_flag:
            words.append(option.flag_name if given else option.negative_name)
        elif given == AUTO and option.default == (AUTO,):  # its value may be left out
            words.append(option.flag_name)
        else:
            values = given if option.adds_up else [given]
            words += [f"{option.flag_name}={value}" for value in values]
    return without_secrets(shlex.join(words))


def _run_body(
    item: pytest.Item, profiled: ProfiledTest, seed: int | None
) -> Generator[None, Any, Any]:
    """Make all runs of the body, and assess them however they end."""
    body_runs = profiled.schedule.body_runs()
    in_time = partial(virtual_time, seed) if profiled.is_calm else nullcontext
    clean = clean_process if profiled.is_calm else nullcontext
    try:
        with clean(), arguments_for_run(item, *next(body_runs)), in_time():
            outcome = yield
        for body_run, side in body_runs:
            if _has_failed(item):
                break
            profiled.keep_rounds()
            forget_runs(item)
            with clean(), arguments_for_run(item, body_run, side), in_time():
                item.runtest()
        profiled.is_whole = not _has_failed(item)
    except RefusalError as error:
        profiled.refuse(str(error))
        forget_runs(item)
        return item.runtest()
    except TimeoutError as error:
        settings = profiled.plan.settings
        backends = ", ".join(settings.backend)
        if backends != LIGHTEST and settings.cluster != VIRTUAL:  # there it costs no time
            error.add_note(
                f"schedprof: it ran out of time while {backends} recorded. What slows a test least "
                f"is {LIGHTEST}: --schedprof={LIGHTEST}, or backend={LIGHTEST!r} in the marker."
            )
        raise
    except (KeyboardInterrupt, pytest.exit.Exception):
        profiled.schedule.break_off()
        raise
    finally:
        body_runs.close()
        profiled.assess()
    return outcome


def _has_failed(item: pytest.Item) -> bool:
    """Whether the body of a test of unittest failed or skipped, which it does not raise."""
    return bool(getattr(item, "_excinfo", None))


def _profiled(item: pytest.Item, plan: Plan) -> ProfiledTest:
    """Profile the scheduler of the test's fixture, or else schedulers in this process."""
    other_scheduler = item.stash.get(OTHER_SCHEDULER, None)
    module = getattr(item, "module", None)
    if plan.launcher and SCHEDULER in item.stash and module:
        # Else these schedulers, which are slow, import it within the window, with the first of its
        # functions. With what it imports itself, pytest for one, that takes longer than most tests.
        for slow in filter(None, (item.stash[SCHEDULER], other_scheduler)):
            slow.import_early(module.__name__)
    callbacks = _callbacks_of(item.config) if plan.needs(Need.CALLBACKS) else []
    # Last, because it patches dask until the test ends, and a user's hook may raise.
    scheduler = item.stash.get(SCHEDULER, None) or InProcess(
        plan.needs_scheduler, may_be_virtual=is_possible(plan)
    )
    return ProfiledTest(
        id_of(item),
        replace(plan, kind=scheduler.cluster.kind),
        run_of(item.config),
        scheduler,
        other_scheduler,
        callbacks,
        must_have_scheduler=plan.settings.strict or _demands_scheduler(item, plan),
        code=partial(source_of, getattr(item, "function", None)),
    )


def _callbacks_of(config: pytest.Config) -> Sequence[Callback]:
    """Return the callbacks for dask's local schedulers; under `-v -s` also dask's progress bar."""
    callbacks = list(chain.from_iterable(config.hook.pytest_schedprof_callbacks()))
    terminal = sys.__stdout__  # not what the test's fixtures put in its place
    is_watched = config.get_verbosity() >= 1 and config.getoption("capture", None) == "no"
    if is_watched and terminal and terminal.isatty():
        callbacks.append(ProgressBar(out=terminal))
    return callbacks


def _demands_scheduler(item: pytest.Item, plan: Plan) -> bool:
    """Whether a marker stands on the test function, or on the parameters of this run of it.

    One on a module or a class, or from a conftest, means each test that has a scheduler. If the
    command line chose the backends, they may be others than those of a test that needs none.
    """
    if plan.settings.is_forced and plan.limits_client_alone:
        return False
    on_function = getattr(getattr(item, "obj", None), "pytestmark", ())
    on_parameters = getattr(getattr(item, "callspec", None), "marks", ())
    return any(mark.name == "schedprof" for mark in [*on_function, *on_parameters])


def _keep_interrupted(item: pytest.Item, profiled: ProfiledTest) -> None:
    """Write the record of an interrupted test here, because pytest makes no report of it."""
    if profiled.unprofiled:
        return
    try:
        profiled.conclude(result := profiled.final("interrupted"))
    except SchedprofError:
        return  # the interrupt is what matters
    if not hasattr(item.config, "workerinput"):
        collector_of(item.config).keep(item.nodeid, pack(result, profiled.directory))


def plain_report(
    item: pytest.Item, call: pytest.CallInfo[None], error: BaseException
) -> pytest.TestReport:
    """Return a report without a traceback of a body that failed, because pytest cannot make one."""
    return pytest.TestReport(
        item.nodeid,
        item.location,
        {},
        "failed",
        f"{type(error).__name__}: {error}",
        "call",
        duration=call.duration,
        start=call.start,
        stop=call.stop,
    )


def attach(item: pytest.Item, report: pytest.TestReport) -> None:
    """Attach the result to the test's report; fail a passed test whose record cannot be written."""
    profiled = item.stash.get(PROFILED, None)
    if profiled is None:
        return
    if not profiled.is_over:  # the report of a subtest: the body goes on, or runs again
        item.stash[HAS_FAILED_SUBTEST] = report.failed or item.stash.get(HAS_FAILED_SUBTEST, False)
        return
    del item.stash[PROFILED]  # a rerun makes its own
    has_failed_subtest = item.stash.get(HAS_FAILED_SUBTEST, False)
    item.stash[HAS_FAILED_SUBTEST] = False
    profiled.is_whole &= not has_failed_subtest
    if profiled.unprofiled:
        is_told = bool(profiled.refusal) or not profiled.must_have_scheduler
        report.__dict__["schedprof_unprofiled"] = is_told and _outcome(report) != "skipped"
        report.__dict__["schedprof_refusal"] = profiled.refusal
        return
    complaint = None
    try:
        complaint = _complaint(item, profiled)
        if profiled.errors and hasattr(report, "wasxfail"):  # it was marked for another failure
            del report.wasxfail
            report.outcome, report.longrepr = "failed", "\n".join(map(str, profiled.errors))
        outcome = "failed" if has_failed_subtest else _outcome(report)
        result = profiled.final(outcome)
        report.__dict__["schedprof"] = pack(result, profiled.directory)
        # JUnit takes the properties of the teardown's report, which come from the item.
        properties = list(properties_of(result, profiled.directory))  # thousands of tests keep them
        for known in (item.user_properties, report.user_properties):  # of another attempt, too
            known[:] = [pair for pair in known if not pair[0].startswith("schedprof_")]
            known += properties
        profiled.conclude(result)  # last: the session tells of tests that it cannot keep
    except Exception as error:  # the test's monkeypatches are still active
        complaint = "\n".join(filter(None, [complaint, str(as_own(error))]))
        if report.passed:
            report.outcome, report.longrepr = "failed", complaint
    if complaint and complaint not in str(report.longrepr):
        report.sections.append(("schedprof", complaint))


def _outcome(report: pytest.TestReport) -> str:
    """Return the outcome as pytest reports it, with xfailed and xpassed."""
    expected = {"skipped": "xfailed", "passed": "xpassed"} if hasattr(report, "wasxfail") else {}
    return expected.get(report.outcome, report.outcome)
