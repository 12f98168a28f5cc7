"""The base of the API's context managers: `with` and `async with`, and no hidden errors."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import CodeType, TracebackType
from typing import Any, Generic, TypeVar

from distributed import Client

from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.clusters.attached import AttachedCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import (
    ClusterError,
    RecordingError,
    SchedprofError,
    SettingsError,
    as_own,
    together,
)
from pytest_schedprof.evidence.report import calling_code
from pytest_schedprof.measuring.markers import read_call
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.store.run_directory import check_room, make_directory, write


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
        trouble = self._end(failed=error is not None)
        if trouble is not None:
            if error is None:
                raise trouble
            error.add_note(str(trouble))

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

    def _end(self, *, failed: bool) -> SchedprofError | None:
        try:
            with self._opened:
                self.end(failed=failed)
        except Exception as error:
            return as_own(error)
        return None


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


log = logging.getLogger(__name__)


def file_block(
    source: str,
    backend: str,
    path: str | os.PathLike[str],
    client: Client | None,
    *,
    timeout: float,
    rate: float = 100,
    options: Mapping[str, object],
) -> Block[Path]:
    """Return a context manager that records with a backend and writes one file.

    Args:
        source: the function that was called, for messages.
        backend: its name.
        path: of the file, on this machine; missing directories are made before the body runs.
        client: the client of the scheduler; by default the current one.
        timeout: seconds to wait for the profiler to start or stop.
        rate: samples per second, for a backend that samples.
        options: of the backend.

    Raises:
        SettingsError: for an invalid argument.
    """
    settings = read_call(source, (), {}, rate=rate, timeout=timeout)
    made = BackendRegistry().make(backend, rate_hz=settings.rate, options=options)
    return _FileBlock(made, path, client, settings.timeout)


class _FileBlock(Block[Path]):
    """Records with one backend and writes its file unchanged."""

    def __init__(
        self,
        backend: Backend,
        path: str | os.PathLike[str],
        client: Client | None,
        timeout_s: float,
    ) -> None:
        super().__init__(client)
        self._backend = backend
        self._path = Path(path).absolute()  # the body may change the working directory
        self._timeout_s = timeout_s

    def begin(self, client: Client, opened: ExitStack) -> Path:
        """Start the profiler; raise before the body runs if it does not work."""
        make_directory(self._path.parent)
        check_room(self._path)
        cluster = Attachment(client, timeout_s=self._timeout_s)
        opened.callback(cluster.close)
        self._recorder = Recorder(
            cluster.control,
            [self._backend],
            self._timeout_s,
            death=cluster.death,
            tell=partial(log.warning, "schedprof: %s"),
        )
        self._round = opened.enter_context(ExitStack())
        self._round.enter_context(self._recorder.round())
        self._raise_trouble()
        return self._path

    def end(self, *, failed: bool) -> None:
        """Write the file, even if the body failed."""
        self._round.close()
        self._raise_trouble()
        (segment,) = self._recorder.rounds[0]
        self._write(segment.raw[self._backend.name])

    def _raise_trouble(self) -> None:
        if self._recorder.errors:
            raise together(self._recorder.errors)

    def _write(self, raw: RawProfile) -> None:
        for text in raw.warnings:
            log.warning("schedprof: %s", text)
        write(self._path, self._page(raw.content) or raw.content)

    def _page(self, content: bytes) -> bytes | None:
        """Return what the backend makes of its recording, such as viztracer's page, if asked to."""
        try:
            return next(iter(self._backend.extras(content).values()), None)
        except Exception as error:
            trace = self._path.with_name(self._path.name + ".json")
            write(trace, content)
            raise RecordingError(
                f"schedprof: {str(self._path)!r} could not be created ({error}); the recording "
                f"was written to {str(trace)!r}"
            ) from error
