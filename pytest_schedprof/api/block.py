"""What every context manager of the API has in common: both kinds of `with`, and hiding nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Generic, TypeVar

from distributed import Client

from pytest_schedprof.api.attachment import connected
from pytest_schedprof.errors import SchedprofError, SettingsError, as_own

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Block(Generic[T]):
    """Something that lasts as long as a body, for `with` and for `async with`."""

    def __init__(self, client: Client | None) -> None:
        self._client = client
        self._opened = ExitStack()
        self.is_async = False
        """Whether `begin` is called in another thread than the body."""

    def begin(self, client: Client, opened: ExitStack) -> T:
        """What comes before the body; `opened` is closed after `end`, or if this raises."""
        raise NotImplementedError

    def end(self, *, failed: bool) -> None:
        """What comes after the body; told whether that failed."""
        raise NotImplementedError

    def __enter__(self) -> T:
        client = connected(self._client)
        if client.asynchronous:
            raise SettingsError(
                "schedprof: the client is asynchronous and lives in this very event loop, which "
                "must not stand still: write `async with` instead of `with`"
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
            _note(error, trouble)

    async def __aenter__(self) -> T:
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
    """Call it to its end, in a thread, so that the event loop and a scheduler on it stay alive.

    Also when the caller is cancelled meanwhile: what was begun must be known to be ended.
    """
    task = asyncio.ensure_future(asyncio.to_thread(call, *args))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain that nobody did
        raise


def _note(error: BaseException, trouble: SchedprofError) -> None:
    """Tell of trouble beside the body's own error."""
    if hasattr(error, "add_note"):
        error.add_note(str(trouble))
    else:  # before Python 3.11
        logger.error("%s", trouble)
