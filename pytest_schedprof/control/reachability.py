"""Checks that a scheduler answers at an address, and finds out quickly why none does."""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from dask.delayed import delayed
from distributed.client import _maybe_call_security_loader
from distributed.comm.addressing import parse_host_port
from distributed.comm.core import connect
from distributed.comm.registry import get_backend
from distributed.core import send_recv
from distributed.security import Security
from distributed.versions import get_versions

from pytest_schedprof.control.control import Control, Line, any_versions, first_line, muted
from pytest_schedprof.errors import IncompatibleError, SchedulerLostError, SettingsError
from pytest_schedprof.model.result import differences

PATIENCE_S = 3.0
"""Seconds to retry: a scheduler that starts together with the tests needs a second or two."""

RETRY_S = 0.3

LOOK_S = 2.0
"""Seconds for one check of what else may listen there."""

CONFIGURATION = "dask's configuration (distributed.comm.tls)"


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
    """Return the versions that differ from the scheduler's, if it answers."""
    try:
        versions = complete(_ask(address, _arguments(address, security), LOOK_S, "versions"))
    except (NoAnswerError, OSError):
        return ()
    own = get_versions()
    python = tuple(side["host"]["python"].removesuffix(".final.0") for side in (own, versions))
    return differences(own["packages"], versions["packages"], python=(python[0], python[1]))


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
    try:
        identity = await _identity(address, arguments, timeout_s)
    except NoAnswerError:
        raise
    except Exception as error:  # errors differ by the kind of connection
        raise NoAnswerError(f"{type(error).__name__}: {first_line(error)}") from error
    if "workers" not in identity:
        known = identity.get("scheduler")
        owner = f" of the scheduler at {known!r}" if known else ""
        raise NoAnswerError(
            f"that is a {identity.get('type')}{owner}; give the address of a scheduler"
        )


async def _identity(address: str, arguments: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Return the identity of whatever answers there.

    The deadline is kept here, because dask retries until its own and has none for the answer.
    """
    answer = asyncio.ensure_future(_ask_again(address, arguments, timeout_s))
    soon = min(PATIENCE_S, timeout_s)
    try:
        for patience_s in filter(None, (soon, timeout_s - soon)):
            if (await asyncio.wait([answer], timeout=patience_s))[0]:
                return answer.result()
            context = arguments.get("ssl_context")
            if fault := await asyncio.to_thread(find_fault, address, context, is_silent=True):
                raise NoAnswerError(fault)
        raise NoAnswerError(f"no answer within {timeout_s:g} s; it hangs, or is no dask scheduler")
    finally:
        answer.cancel()
        await asyncio.gather(answer, return_exceptions=True)


async def _ask_again(address: str, arguments: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    """Retry until it is certainly no scheduler: a proxy may hang up until its scheduler is up."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return await _ask(address, arguments, timeout_s, "identity")
        except NoAnswerError:
            raise
        except Exception as error:
            context = arguments.get("ssl_context")
            if fault := await asyncio.to_thread(find_fault, address, context, is_silent=False):
                raise NoAnswerError(fault) from error
            if time.monotonic() > deadline:
                raise
        await asyncio.sleep(RETRY_S)


async def _ask(
    address: str, arguments: dict[str, Any], timeout_s: float, operation: str
) -> dict[str, Any]:
    if address.startswith("tls://"):
        # Checked first, because tornado leaves a socket open if the other side has no TLS.
        await asyncio.to_thread(_require_tls, address, arguments["ssl_context"])
    comm = await connect(address, timeout=timeout_s, **arguments)
    try:
        answer: dict[str, Any] = await send_recv(comm, op=operation)
        return answer
    finally:
        comm.abort()


def _require_tls(address: str, context: ssl.SSLContext) -> None:
    try:
        fault = _look(address, context, is_silent=False)
    except OSError:
        return  # perhaps it has not started yet
    if fault:
        raise NoAnswerError(fault)


def find_fault(address: str, context: ssl.SSLContext | None, *, is_silent: bool) -> str | None:
    """Return what is certainly wrong there, or None if it may be a busy scheduler.

    Args:
        address: address of the expected scheduler.
        is_silent: whether the other side keeps the connection without an answer, or ended it.
    """
    try:
        return _look(address, context, is_silent=is_silent)
    except ConnectionRefusedError:
        return "nobody listens there; start one (`dask scheduler`), or correct the address"
    except socket.gaierror as error:
        return f"there is no such host ({error.strerror}); correct the address"
    except OSError:
        return None


def _look(address: str, context: ssl.SSLContext | None, *, is_silent: bool) -> str | None:
    scheme, _, rest = address.partition("://")
    if scheme not in ("tcp", "tls"):
        return None
    place = parse_host_port(rest)
    with socket.create_connection(place, timeout=LOOK_S) as connection:
        if scheme == "tls" and context:
            return _fault_of_tls(connection, place[0], context)
        if not is_silent and (fault := _fault_of_plain(connection)):
            return fault
    with socket.create_connection(place, timeout=LOOK_S) as connection:
        return _fault_of_web_server(connection)


def _fault_of_tls(connection: socket.socket, host: str, context: ssl.SSLContext) -> str | None:
    try:
        with context.wrap_socket(connection, server_hostname=host) as encrypted:
            encrypted.recv(1)  # a refusal of our certificate comes with the first byte
    except ssl.SSLCertVerificationError as error:
        return (
            f"its certificate is not by the authority of {CONFIGURATION}, ca-file "
            f"({error.verify_message}); name the authority's that signed it"
        )
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        return None  # a proxy hangs up until its scheduler is up
    except ssl.SSLError as error:
        if _is_alert(error):
            return (
                f"it refuses the certificate of {CONFIGURATION}, client.cert ({error.reason}); "
                "name one that the cluster's authority signed"
            )
        return "it does not speak TLS; write tcp:// if it is a scheduler's"
    return None


def _fault_of_plain(connection: socket.socket) -> str | None:
    """Return the fault of a server that ended a plain connection, if it speaks TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        if not _is_alert(error):
            return None
    return f"it speaks TLS; write tls://, with the cluster's certificates in {CONFIGURATION}"


def _fault_of_web_server(connection: socket.socket) -> str | None:
    connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
    if not connection.recv(8).startswith(b"HTTP/"):
        return None
    return (
        "that is a web server, such as the dashboard; give the address of the scheduler itself, "
        "whose port is 8786 unless it was told another"
    )


def _is_alert(error: ssl.SSLError) -> bool:
    """Whether the other side sent a TLS alert, and so speaks TLS."""
    return "ALERT" in (error.reason or "")


TRIAL_S = 15.0

INCOMPATIBLE = "dask's client here does not get on with the scheduler of"
"""Start of the message, by which other programs can recognise it."""


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
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise IncompatibleError(
            f"schedprof: {INCOMPATIBLE} {name!r} ({words}): {differing}; "
            "choose a release nearer to this side's, or compare two runs, each made in its own "
            "environment (schedprof compare)"
        ) from error


def _try(address: str, security: Any, timeout_s: float) -> None:
    with any_versions():
        line: Any = Line(
            address,
            security=security,
            set_as_default=False,
            timeout=timeout_s,
            name="schedprof-trial",
        )
    try:
        parts = [delayed(len)((number,), pure=True) for number in range(2)]
        for future in (line.submit(len, (1,)), line.compute(delayed(sum)([*parts, 1]))):
            line.sync(line.unless_broken, future._result, callback_timeout=TRIAL_S)
    finally:
        with suppress(OSError, TimeoutError):
            line.close(timeout=2)


def complete(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a new event loop of this thread, which backends observe.

    A loop that runs already, as around the body of `gen_cluster`, stands still meanwhile. Without
    `asyncio.run`, which would unset the thread's event loop.
    """
    with _no_running_loop():
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(coroutine)
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
