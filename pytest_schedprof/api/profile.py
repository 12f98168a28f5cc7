"""Any backends around a body, with limits and a record: what the plugin does for a test."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import Client

from pytest_schedprof.api.attachment import Attachment
from pytest_schedprof.api.block import Block
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.under_test import Measure, SchedulerUnderTest
from pytest_schedprof.errors import (
    LimitBrokenError,
    LimitError,
    RecordingError,
    SchedprofError,
    SettingsError,
    together,
)
from pytest_schedprof.gates.limits import Limit
from pytest_schedprof.layers import read_call
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.plan import make_plan
from pytest_schedprof.profiling import ProfiledTest
from pytest_schedprof.recorder import no_watch
from pytest_schedprof.settings import Settings
from pytest_schedprof.storage.run_directory import check_room, make_directory


def profile_scheduler(
    backends: str | Sequence[str] = "pyspy",
    directory: str | os.PathLike[str] | None = None,
    *,
    client: Client | None = None,
    name: str = "profile_scheduler",
    limits: str | Iterable[str] = (),
    strict: bool = False,
    rate: float = 100,
    timeout: float = 30,
    targets: str | Sequence[str] = "scheduler",
    evidence: str | Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Block[SchedulerProfile]:
    """Profile the scheduler while the body of a `with` or `async with` runs, and judge it.

    The body runs once, so all backends observe it at the same time: of those that slow the
    scheduler down there can be one, and then only its own metrics can have limits.

    Args:
        backends: names, in a list or separated by commas.
        directory: where artifacts and `result.json` are to be, made if need be; by default
            they are not kept.
        client: whose scheduler; the current client by default.
        name: what the record calls the body, as `test_id`.
        limits: as in a marker; one that is broken raises LimitBrokenError after the body.
        strict: whether a limit that is inconclusive raises too.
        rate: samples per second of a backend that samples.
        timeout: seconds that starting or stopping a backend may take.
        targets: what is observed: `scheduler`, and beside it `workers`, `workers:2`, addresses
            of workers, `client`.
        evidence: kinds of what dask itself can tell, or `all`.
        options: those of each backend, as in `{"pyspy": {"native": True}}`.

    Raises:
        SettingsError: for an argument that cannot be.
    """
    source = "profile_scheduler"
    values = {"backend": backends, "strict": strict, "rate": rate, "timeout": timeout}
    values["targets"] = targets
    if evidence:
        values["evidence"] = evidence
    settings = read_call(source, limits, options or {}, **values)
    BackendRegistry().check(settings.backend)
    for backend, _, _ in settings.option:
        if backend not in settings.backend:
            raise SettingsError(
                f"schedprof: options are given for {backend!r}, which is not among the backends "
                f"{', '.join(settings.backend)}"
            )
    return _ProfileBlock(settings, None if directory is None else Path(directory), client, name)


class SchedulerProfile:
    """What `profile_scheduler` gives to its body."""

    def __init__(self, profiled: ProfiledTest) -> None:
        self._profiled = profiled
        self._result: Result | None = None

    @property
    def result(self) -> Result:
        """The record, as in result.json; there is one after the body.

        Raises:
            RecordingError: within the body.
        """
        if self._result is None:
            raise RecordingError("schedprof: there is a result only after the body of the `with`")
        return self._result

    def measure(self) -> Measure:
        """Profile only what happens inside: `with profile.measure():`, or `async with`."""
        return Measure(self._profiled.recorder.measure)


class _ProfileBlock(Block[SchedulerProfile]):
    """Records, assesses and keeps as the plugin does for a test."""

    def __init__(
        self, settings: Settings, directory: Path | None, client: Client | None, name: str
    ) -> None:
        super().__init__(client)
        self._settings = settings
        self._place = _Place(directory and directory.absolute())
        self._name = name

    def begin(self, client: Client, opened: ExitStack) -> SchedulerProfile:
        """Raises what keeps the backends from working, before the body runs."""
        plan = make_plan(self._settings, BackendRegistry(), self._place)
        _check_together(plan.backends, self._settings.limit)
        cluster = Attachment(client, timeout_s=self._settings.timeout)
        opened.callback(cluster.close)
        scheduler = SchedulerUnderTest(client, cluster, cluster.control)
        self._profiled = ProfiledTest(self._name, plan, self._place, scheduler)
        if self.is_async:
            self._profiled.recorder.watch = no_watch
        self._round = opened.enter_context(ExitStack())
        self._round.enter_context(self._profiled.once())
        if errors := self._profiled.recorder.errors:
            raise together(errors)
        self._profile = SchedulerProfile(self._profiled)
        return self._profile

    def end(self, *, failed: bool) -> None:
        """The result is there and kept before anything is raised."""
        self._round.close()
        profiled = self._profiled
        profiled.assess()
        result = _warned(profiled.record("failed" if failed else "passed"), profiled.plan.backends)
        self._profile._result = result
        errors = list(profiled.assessment.errors)
        try:
            profiled.keep(result)
        except SchedprofError as error:
            errors.append(error)
        errors += [LimitBrokenError(text) for text in profiled.broken()]
        if errors:
            raise together(errors)


class _Place:
    """The directory that the caller gave, if any: artifacts are in it, not below."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def prepare(self) -> None:
        """Make it, and see that records can be written to it."""
        if self._path is not None:
            make_directory(self._path)
            check_room(self._path / "result.json")

    def new_test(self, test_id: str) -> Path | None:
        """The same for whatever is profiled."""
        return self._path


def _warned(result: Result, backends: Sequence[Backend]) -> Result:
    """Say of what was observed beside a backend that slows the scheduler down that it was.

    Of the latter, that evidence was gathered meanwhile: its instruments are in what it measured.
    """
    for name in (backend.name for backend in backends if backend.disturbs):
        beside = f"recorded while {name} slowed the scheduler down"
        own = "evidence was gathered meanwhile, and is in all figures" if result.evidence else ""
        noted = (
            _with_warning(each, own if each.backend == name else beside) for each in result.backends
        )
        result = replace(result, backends=tuple(noted))
    return result


def _with_warning(result: BackendResult, text: str) -> BackendResult:
    return replace(result, warnings=(*result.warnings, text)) if text else result


def _check_together(backends: Sequence[Backend], limits: Sequence[Limit]) -> None:
    """What slows the scheduler down spoils what another backend measures of it."""
    disturbing = [backend for backend in backends if backend.disturbs]
    if len(disturbing) > 1:
        raise SettingsError(
            f"schedprof: {' and '.join(each.name for each in disturbing)} each slow the scheduler "
            "down, and a body runs only once: profile it once with each"
        )
    for limit in limits if disturbing else ():
        if limit.measured not in disturbing[0].metrics:
            raise LimitError(
                f"schedprof: limit {str(limit)!r} cannot be judged while {disturbing[0].name} "
                "slows the scheduler down: profile the body without it"
            )
