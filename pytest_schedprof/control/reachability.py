"""Checks that a scheduler answers at an address, and finds out quickly why none does."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from dask.delayed import delayed
from distributed.client import _maybe_call_security_loader
from distributed.comm.addressing import parse_host_port
from distributed.comm.core import connect
from distributed.comm.registry import get_backend
from distributed.core import send_recv
from distributed.security import Security
from distributed.versions import get_versions

from pytest_schedprof.control.control import Control, Line, close_client, first_line, muted
from pytest_schedprof.errors import IncompatibleError, SchedulerLostError, SettingsError
from pytest_schedprof.model.result import differences

PATIENCE_S = 3.0
"""Seconds to retry: a scheduler that starts together with the tests needs a second or two."""

RETRY_S = 0.3

LOOK_S = 2.0
"""Seconds for one check of what else may listen there."""

TRIAL_S = 15.0
"""Seconds for an answer to what is asked once, after the scheduler has answered before."""

CONFIGURATION = "dask's configuration (distributed.comm.tls)"

ABOUT_TLS = (
    f"both sides need tls:// and certificates of one authority in {CONFIGURATION}, or tcp://"
)


class NoAnswerError(Exception):
    """No scheduler answers; the text says why and what to do."""


def open_line(address: str, security: Any, timeout_s: float) -> Control:
    """Connect to a scheduler that runs already.

    Raises:
        SettingsError: for what can be nobody's address.
        SchedulerLostError: if no scheduler answers there, or one that does not understand.
    """
    require_scheduler(address, security, timeout_s)
    try:
        return Control(address, security=security, timeout_s=timeout_s)
    except SchedulerLostError as error:
        if not (differing := version_differences(address, security)):
            raise
        raise SchedulerLostError(
            f"schedprof: dask's client does not get on with the scheduler at {address!r} "
            f"({error.__cause__}): {'; '.join(differing)}; install the same releases on both sides"
        ) from error


def version_differences(address: str, security: Any) -> tuple[str, ...]:
    """Return the versions that differ from the scheduler's, if it answers in time and sensibly."""
    own = get_versions()
    try:
        question = _ask(address, _arguments(address, security), TRIAL_S, "versions")
        versions = complete(asyncio.wait_for(question, TRIAL_S))
        python = tuple(side["host"]["python"].removesuffix(".final.0") for side in (own, versions))
        return differences(own["packages"], versions["packages"], python=(python[0], python[1]))
    except Exception:  # the error that they are to explain matters more
        return ()


def require_scheduler(address: str, security: Any, timeout_s: float) -> None:
    """Make sure that a scheduler answers at the address.

    Raises:
        SettingsError: for what can be nobody's address.
        SchedulerLostError: if none does; with the reason, where it can be known.
    """
    check_address(address)
    try:
        complete(_require(address, _arguments(address, security), timeout_s))
    except NoAnswerError as fault:
        raise SchedulerLostError(
            f"schedprof: no scheduler answers at {address!r}: {fault}"
        ) from fault.__cause__


def check_address(address: str) -> None:
    """Raise SettingsError for text that is not a possible address."""
    scheme, _, rest = address.partition("://")
    try:
        get_backend(scheme)
        if scheme in ("tcp", "tls") and not 0 < parse_host_port(rest)[1] < 2**16:
            raise ValueError("port must be 1 to 65535")
    except ValueError as error:
        raise SettingsError(
            f"schedprof: {address!r} is no scheduler's address ({error}); give one such as "
            "tcp://127.0.0.1:8786 or tls://scheduler:8786"
        ) from error


def _arguments(address: str, security: Any) -> dict[str, Any]:
    """Return arguments for connections, found as `Client` finds them."""
    security = security or _maybe_call_security_loader(address) or Security()
    try:
        arguments: dict[str, Any] = security.get_connection_args("client")
    except (OSError, ValueError) as error:
        raise NoAnswerError(
            f"the certificates of {CONFIGURATION} cannot be loaded: {error}"
        ) from error
    if address.startswith("tls://") and not arguments.get("ssl_context"):
        raise NoAnswerError(
            f"it needs certificates; name ca-file, client.cert and client.key in {CONFIGURATION}, "
            "as DASK_DISTRIBUTED__COMM__TLS__CA_FILE does"
        )
    return arguments


async def _require(address: str, arguments: dict[str, Any], timeout_s: float) -> None:
    identity = await _identity(address, arguments, timeout_s)
    if "workers" not in identity:
        known = identity.get("scheduler")
        owner = f" of the scheduler at {known!r}" if known else ""
        raise NoAnswerError(
            f"that is a {identity.get('type')}{owner}; give the address of a scheduler"
        )


async def _identity(address: str, arguments: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return the identity of whatever answers there.

    It is asked again until it is certainly no scheduler: a proxy may hang up until its scheduler is
    up. The deadline is kept here, because dask has none for the answer.
    """
    patience_s, deadline, reason = PATIENCE_S, time.monotonic() + timeout_s, ""
    while True:
        try:
            left_s = max(0.0, deadline - time.monotonic())
            question = _ask(address, arguments, timeout_s, "identity")
            return await asyncio.wait_for(question, min(patience_s, left_s))
        except NoAnswerError:
            raise
        except Exception as error:  # errors differ by the kind of connection
            if fault := await asyncio.to_thread(find_fault, address):
                raise NoAnswerError(fault) from error
            if text := first_line(error):  # that the time is over says nothing
                reason = f" ({type(error).__name__}: {text})"
            if time.monotonic() >= deadline:
                raise NoAnswerError(
                    f"no answer within {timeout_s:g} s{reason}; it hangs, or is no dask scheduler; "
                    f"{ABOUT_TLS}"
                ) from error
        patience_s *= 2
        await asyncio.sleep(RETRY_S)


async def _ask(
    address: str, arguments: dict[str, Any], timeout_s: float, operation: str
) -> dict[str, Any]:
    if address.startswith("tls://"):
        await asyncio.to_thread(_require_tls, address, arguments["ssl_context"])
    comm = await connect(address, timeout=timeout_s, **arguments)
    try:
        answer: dict[str, Any] = await send_recv(comm, op=operation)
        return answer
    finally:
        comm.abort()


def _require_tls(address: str, context: ssl.SSLContext) -> None:
    """Try it before tornado, which leaves a socket open if the other side has no TLS."""
    place = parse_host_port(address.removeprefix("tls://"))
    try:
        with (
            socket.create_connection(place, timeout=LOOK_S) as connection,
            context.wrap_socket(connection, server_hostname=place[0]) as encrypted,
        ):
            encrypted.recv(1)  # a refusal of our certificate comes with the first byte
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        pass  # a proxy hangs up until its scheduler is up
    except ssl.SSLError as error:
        raise NoAnswerError(f"{error.reason}; {ABOUT_TLS}") from error
    except OSError:
        pass  # perhaps it has not started yet


def find_fault(address: str) -> str | None:
    """Return what is certainly wrong there, or None if it may be a busy scheduler."""
    scheme, _, rest = address.partition("://")
    if scheme not in ("tcp", "tls"):
        return None
    try:
        with socket.create_connection(parse_host_port(rest), timeout=LOOK_S) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            is_web_server = connection.recv(8).startswith(b"HTTP/")
    except ConnectionRefusedError:
        return "nobody listens there; start one (`dask scheduler`), or correct the address"
    except (socket.gaierror, UnicodeError) as error:  # such as for two dots in a row
        reason = getattr(error, "strerror", error)
        return f"there is no such host ({reason}); correct the address"
    except OSError:
        return None
    if not is_web_server:
        return None
    return (
        "that is a web server, such as the dashboard; give the address of the scheduler itself, "
        "whose port is 8786 unless it was told another"
    )


def require_compatible(address: str, security: Any, name: str, timeout_s: float) -> None:
    """Let the scheduler compute something: connecting proves little, because graphs change.

    Args:
        name: name of its interpreter in messages.
        timeout_s: deadline for the connection.

    Raises:
        IncompatibleError: if it cannot, with the versions of both sides.
    """
    try:
        with muted("distributed.client"):
            _try(address, security, timeout_s)
    except Exception as error:  # an unknown message can raise anything
        versions = version_differences(address, security)
        differing = "; ".join(versions or ("both sides say the same versions",))
        words = f"{type(error).__name__}: {first_line(error)}"
        raise IncompatibleError(
            "schedprof: dask's client here does not get on with the scheduler of "
            f"{name!r} ({words}): {differing}; "
            "choose a release nearer to this side's, or compare two runs, each made in its own "
            "environment (schedprof compare)"
        ) from error


def _try(address: str, security: Any, timeout_s: float) -> None:
    line: Any = Line(address, security, timeout_s, "schedprof-trial")
    try:
        parts = [delayed(len)((number,), pure=True) for number in range(2)]
        for future in (line.submit(len, (1,)), line.compute(delayed(sum)([*parts, 1]))):
            line.sync(line.unless_broken, future._result, callback_timeout=TRIAL_S)
    finally:
        close_client(line, timeout_s=2)


def complete(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a new event loop of this thread, which backends observe.

    A loop that runs already, as around the body of `gen_cluster`, stands still meanwhile. Without
    `asyncio.run`, which would unset the thread's event loop. As there, what a Ctrl-C or a test's
    timeout interrupts is cancelled: others may wait until it has left its `finally`.
    """
    with _no_running_loop():
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(coroutine)
        except BaseException:
            if left := asyncio.all_tasks(loop):
                for task in left:
                    task.cancel()
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
            raise
        finally:
            loop.close()


@contextmanager
def _no_running_loop() -> Iterator[None]:
    """Leave the task and the loop that run in this thread, as event loops do between two tasks."""
    try:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
    except RuntimeError:
        yield
        return
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)
