"""`profile_scheduler`: profile a body as the plugin does a test; the base of all such blocks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Generic, TypeVar

from distributed import Client
from msgspec.structs import replace

from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.attached import AttachedCluster
from pytest_schedprof.clusters.under_test import Measure, SchedulerUnderTest
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import (
    ClusterError,
    LimitBrokenError,
    LimitError,
    RecordingError,
    SchedprofError,
    SettingsError,
    as_own,
    together,
)
from pytest_schedprof.evidence.contract import EvidenceRegistry
from pytest_schedprof.evidence.report import calling_code, source_of
from pytest_schedprof.measuring.assessment import keep_record
from pytest_schedprof.measuring.judging import broken
from pytest_schedprof.measuring.plan import make_plan
from pytest_schedprof.measuring.profiling import ProfiledTest
from pytest_schedprof.measuring.recorder import no_watch
from pytest_schedprof.measuring.settings import Settings, read_call
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.result import Result
from pytest_schedprof.store.run_directory import RESULT_FILE, check_room, make_directory


def connected(client: Client | None) -> Client:
    """Return the client, or the current one, if it is connected.

    Raises:
        ClusterError: if there is no client, or it is not connected.
    """
    if client is None:
        try:
            client = Client.current()
        except ValueError:
            raise ClusterError(
                "schedprof: there is no current dask client; create one first "
                "(`client = distributed.Client()`), or pass client="
            ) from None
    if not isinstance(client, Client):
        raise SettingsError(f"schedprof: client must be a distributed.Client, got {client!r}")
    if client.scheduler is None or client.status != "running":
        raise ClusterError(
            f"schedprof: the client is not connected (its status is {client.status!r}); "
            "an asynchronous one must be awaited first"
        )
    return client


class Attachment(AttachedCluster):
    """The scheduler of a client, with a control line of our own to it."""

    def __init__(self, client: Client, *, timeout_s: float) -> None:
        assert client.scheduler is not None  # checked by `connected`
        super().__init__(str(client.scheduler.address), client.security)
        self.control = Control(self.address, security=self.security, timeout_s=timeout_s)

    def death(self, patience_s: float = 0) -> str | None:
        """Say that the control line broke, which it does at once when the scheduler dies."""
        if self.control.is_up:
            return None
        return f"the line to the scheduler {self.address} broke: it died or was closed"

    def close(self) -> None:
        """Close the control line; the cluster belongs to the caller."""
        self.control.close()


T = TypeVar("T")


class Block(Generic[T]):
    """A context manager for `with` and `async with`; subclasses define `begin` and `end`."""

    def __init__(self, client: Client | None) -> None:
        self._client = client
        self._opened = ExitStack()
        self.is_async = False
        """Whether `begin` and `end` are called in another thread than the body runs in."""
        self.caller: CodeType | None = None
        """The code that the body is a part of."""

    def begin(self, client: Client, opened: ExitStack) -> T:
        """Prepare for the body; `opened` is closed after `end`, or if this raises."""
        raise NotImplementedError

    def end(self, *, failed: bool) -> None:
        """Finish after the body, which may have failed."""
        raise NotImplementedError

    def __enter__(self) -> T:
        self.caller = calling_code()
        client = connected(self._client)
        if client.asynchronous:
            raise SettingsError(
                "schedprof: the client is asynchronous and runs on this event loop, which `with` "
                "would block: use `async with`"
            )
        return self._begin(client)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            with self._opened:
                self.end(failed=error is not None)
        except Exception as trouble:
            own = as_own(trouble)
            if error is None:
                raise own from own.__cause__
            error.add_note(str(own))

    async def __aenter__(self) -> T:
        self.caller = calling_code()
        client = connected(self._client)
        self.is_async = True
        try:
            return await _in_thread(self._begin, client)
        except asyncio.CancelledError:
            await _in_thread(self._opened.close)
            raise

    async def __aexit__(self, *error: Any) -> None:
        await _in_thread(self.__exit__, *error)

    def _begin(self, client: Client) -> T:
        with ExitStack() as stack:
            value = self.begin(client, stack)
            self._opened = stack.pop_all()
        return value


async def _in_thread(call: Callable[..., T], *args: Any) -> T:
    """Run the call in a thread, so that the event loop and a scheduler on it keep running.

    If the caller is cancelled meanwhile, wait for the call to end before raising: whatever it
    started must be known before it can be ended.
    """
    task = asyncio.ensure_future(asyncio.to_thread(call, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # retrieved, or asyncio would log that it never was
        raise


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
    evidence: str | Sequence[str] = (),
    options: Mapping[str, Mapping[str, Any]] | None = None,
) -> Block[SchedulerProfile]:
    """Profile the scheduler while the body of a `with` or `async with` runs, and judge it.

    The body runs once, so all backends observe it at the same time. Only one of them may slow the
    scheduler down, and then limits are only possible on its own metrics.

    Args:
        backends: names, in a list or separated by commas.
        directory: where to write artifacts and `result.json`, created if it does not exist; by
            default nothing is written.
        client: the client of the scheduler; by default the current one.
        name: the name of the body in the record, as `test_id`.
        limits: as in a marker; a broken one raises LimitBrokenError after the body.
        strict: whether an inconclusive limit raises too.
        rate: samples per second for sampling backends.
        timeout: seconds to wait for a backend to start or stop.
        evidence: kinds of data from dask's own instruments, or `all`.
        options: options of each backend, for example `{"pyspy": {"native": True}}`.

    Raises:
        SettingsError: for an invalid argument.
    """
    source = "profile_scheduler"
    values = {"backend": backends, "strict": strict, "rate": rate, "timeout": timeout}
    if evidence:
        values["evidence"] = evidence
    settings = read_call(source, limits, options or {}, **values)
    BackendRegistry().check(settings.backend)
    EvidenceRegistry().check(settings.evidence)
    for backend, _, _ in settings.option:
        if backend not in (*settings.backend, *EvidenceRegistry().names):
            raise SettingsError(
                f"schedprof: options are given for {backend!r}, which is not one of the backends "
                f"{', '.join(settings.backend)}, and no kind of evidence"
            )
    return _ProfileBlock(settings, None if directory is None else Path(directory), client, name)


class SchedulerProfile:
    """The value of `with profile_scheduler() as profile`."""

    def __init__(self, profiled: ProfiledTest) -> None:
        self._profiled = profiled
        self._result: Result | None = None

    @property
    def result(self) -> Result:
        """The record, as in result.json, once the body has ended.

        Raises:
            RecordingError: inside the body.
        """
        if self._result is None:
            raise RecordingError("schedprof: the result is available only after the `with` block")
        return self._result

    def measure(self) -> Measure:
        """Profile only the inner block: `with profile.measure():`, or `async with`."""
        return Measure(self._profiled.recorder.measure)


class _ProfileBlock(Block[SchedulerProfile]):
    """Records, judges and writes as the plugin does for a test."""

    def __init__(
        self, settings: Settings, directory: Path | None, client: Client | None, name: str
    ) -> None:
        super().__init__(client)
        self._settings = settings
        self._place = _GivenDirectory(directory and directory.absolute())
        self._name = name

    def begin(self, client: Client, opened: ExitStack) -> SchedulerProfile:
        """Start the backends; raise before the body runs if one does not work."""
        kinds = EvidenceRegistry().kinds(self._settings.gathered)
        plan = make_plan(self._settings, BackendRegistry(), self._place, evidence=kinds)
        _check_together(plan.backends, self._settings.limit)
        cluster = Attachment(client, timeout_s=self._settings.timeout)
        opened.callback(cluster.close)
        scheduler = SchedulerUnderTest(client, cluster, cluster.control)
        code = partial(source_of, self.caller)
        self._profiled = ProfiledTest(self._name, plan, self._place, scheduler, code=code)
        opened.callback(self._profiled.end_evidence)
        if self.is_async:
            self._profiled.recorder.watch = no_watch
        self._round = opened.enter_context(ExitStack())
        self._round.enter_context(self._profiled.schedule.once())
        if errors := self._profiled.recorder.errors:
            raise together(errors)
        self._profile = SchedulerProfile(self._profiled)
        return self._profile

    def end(self, *, failed: bool) -> None:
        """Judge and write the result before raising anything."""
        self._round.close()
        profiled = self._profiled
        profiled.assess()
        profiled.is_whole = not failed
        result = _warned(profiled.record("failed" if failed else "passed"), profiled.plan.backends)
        self._profile._result = result
        errors = list(profiled.errors)
        try:
            keep_record(profiled.directory, result)
        except SchedprofError as error:
            errors.append(error)
        names = [name for backend in result.backends for name in backend.artifacts]
        file = profiled.directory / names[0] if profiled.directory and names else None
        limits = broken(result, file, is_strict=self._settings.strict)
        errors += map(LimitBrokenError, limits)
        if errors:
            raise together(errors)


class _GivenDirectory:
    """The directory that the caller gave, if any: artifacts go directly into it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    def prepare(self) -> None:
        """Make the directory and check that records can be written to it."""
        if self._path is not None:
            make_directory(self._path)
            check_room(self._path / RESULT_FILE)

    def new_test(self, test_id: str) -> Path | None:
        """Return the same directory for every test."""
        return self._path


def _warned(result: Result, backends: Sequence[Backend]) -> Result:
    """Add warnings to results that were recorded while a backend slowed the scheduler down.

    That backend's own result gets a warning if evidence was gathered meanwhile, because it
    measured the instruments of evidence too.
    """
    for name in (backend.name for backend in backends if backend.disturbs):
        note = f"recorded while {name} slowed the scheduler down"
        own = "all figures include the cost of gathering evidence" if result.evidence else ""
        texts = [own if backend.backend == name else note for backend in result.backends]
        noted = (
            replace(backend, warnings=(*backend.warnings, text)) if text else backend
            for backend, text in zip(result.backends, texts, strict=True)
        )
        result = replace(result, backends=tuple(noted))
    return result


def _check_together(backends: Sequence[Backend], limits: Sequence[Limit]) -> None:
    """Refuse combinations in which one backend would spoil what another one measures."""
    disturbing = [backend for backend in backends if backend.disturbs]
    if len(disturbing) > 1:
        names = " and ".join(backend.name for backend in disturbing)
        raise SettingsError(
            f"schedprof: {names} cannot record at the same time, because each slows the "
            "scheduler down: profile once with each"
        )
    for limit in limits if disturbing else ():
        if not limit.evidence and limit.measured not in disturbing[0].metrics:
            raise LimitError(
                f"schedprof: limit {str(limit)!r} cannot be judged while {disturbing[0].name} "
                "slows the scheduler down: profile without it"
            )
