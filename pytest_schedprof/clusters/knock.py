"""Whether a dask scheduler answers at an address; a client would wait long to find out."""

from __future__ import annotations

import asyncio
from typing import Any

from distributed.comm.addressing import parse_address
from distributed.core import rpc
from distributed.security import Security

from pytest_schedprof.errors import SchedulerLostError, SettingsError

SCHEMES = ("tcp", "tls", "ucx", "ws", "wss")


def check_address(address: str) -> None:
    """Raises SettingsError for what cannot be an address, before anybody is asked."""
    try:
        scheme, place = parse_address(address, strict=True)
        host, _, port = place.rpartition(":")
        is_one = scheme in SCHEMES and bool(host) and 0 < int(port) < 65536
    except ValueError:
        is_one = False
    if not is_one:
        raise SettingsError(
            f"schedprof: {address!r} is no scheduler's address; give one such as "
            "tcp://127.0.0.1:8786 or tls://scheduler:8786"
        )


def knock(address: str, *, security: Security | None = None, timeout_s: float) -> None:
    """Ask who is there.

    Raises:
        SchedulerLostError: if nobody answers, or somebody else than a scheduler.
    """
    try:
        kind = asyncio.run(_kind(address, security or Security(), timeout_s))
    except Exception as error:  # whoever listens there may answer with anything
        raise SchedulerLostError(
            f"schedprof: no scheduler answers at {address!r} within {timeout_s:g} s "
            f"({_words(error)}); is it a dask scheduler's, started and reachable from here?"
        ) from error
    if kind != "Scheduler":
        raise SchedulerLostError(
            f"schedprof: a dask {kind} answers at {address!r}; give the scheduler's address"
        )


async def _kind(address: str, security: Security, timeout_s: float) -> str:
    """What the server there says that it is; who never answers is left to himself."""
    asking = asyncio.ensure_future(_ask(address, security, timeout_s))
    done, _ = await asyncio.wait([asking], timeout=timeout_s + 1)
    if not done:
        asking.cancel()
        raise TimeoutError("somebody listens there and does not answer as dask does")
    return str(asking.result()["type"])


async def _ask(address: str, security: Security, timeout_s: float) -> Any:
    arguments = security.get_connection_args("client")
    async with rpc(address, connection_args=arguments, timeout=timeout_s) as server:
        return await server.identity()


def _words(error: BaseException) -> str:
    """The last cause knows most, if it says anything."""
    words = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
    while error.__cause__ is not None:
        error = error.__cause__
        if text := str(error).partition("\n")[0]:
            words = f"{type(error).__name__}: {text}"
    return words
