"""The base of the API's context managers: `with` and `async with`, and no hidden errors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType, TracebackType
from typing import Any, Generic, TypeVar

from distributed import Client

from pytest_schedprof.api.attachment import connected
from pytest_schedprof.errors import SchedprofError, SettingsError, as_own
from pytest_schedprof.evidence.code import calling_code

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
