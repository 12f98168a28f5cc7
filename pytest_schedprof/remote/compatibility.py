"""Checks that dask's client here can use a scheduler of another release."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from dask.delayed import delayed

from pytest_schedprof.errors import IncompatibleError
from pytest_schedprof.remote.control import Line
from pytest_schedprof.remote.reachability import version_differences
from pytest_schedprof.remote.warnings_off import any_versions, muted

TRIAL_S = 15.0

INCOMPATIBLE = "dask's client here does not get on with the scheduler of"
"""Start of the message, by which other programs can recognise it."""


def require_compatible(address: str, security: Any, name: str, timeout_s: float) -> None:
    """Let the scheduler compute something: connecting proves little, because graphs change.

    Args:
        address: address of the scheduler.
        security: security for TLS.
        name: name of its interpreter in messages.
        timeout_s: deadline for the connection.

    Raises:
        IncompatibleError: if it cannot, with the versions of both sides.
    """
    try:
        with muted("distributed.client"):
            _try(address, security, timeout_s)
    except Exception as error:  # an unknown message can raise anything
        told = version_differences(address, security) or ("both sides say the same versions",)
        words = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise IncompatibleError(
            f"schedprof: {INCOMPATIBLE} {name!r} ({words}): {'; '.join(told)}; "
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
        parts = [delayed(len)((each,), pure=True) for each in range(2)]
        for asked in (line.submit(len, (1,)), line.compute(delayed(sum)([*parts, 1]))):
            line.sync(line.unless_broken, asked._result, callback_timeout=TRIAL_S)
    finally:
        with suppress(OSError, TimeoutError):
            line.close(timeout=2)
