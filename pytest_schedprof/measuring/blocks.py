"""The base of the API's context managers: `with` and `async with`, and no hidden errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType, TracebackType
from typing import Any, Generic, TypeVar

from distributed import Client

from pytest_schedprof.clusters.attached import AttachedCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import ClusterError, SettingsError, as_own
from pytest_schedprof.evidence.report import calling_code


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
