"""Tests of tachyon, which is known but refused with a reason.

It is not in BACKENDS of test_contract.py, because the contract is about recording and this
release cannot record with it. When it can, add it there and remove the second test here.
"""

from __future__ import annotations

import pytest
from support import Project
from test_contract import BACKENDS

from pytest_schedprof.backends.builtin.tachyon import refusal
from pytest_schedprof.backends.registry import BUILTIN, BackendRegistry
from pytest_schedprof.errors import (
    BackendNotInstalledError,
    BackendUnavailableError,
    SettingsError,
)
from pytest_schedprof.remote.control import Control


def test_a_real_scheduler_is_refused_and_its_python_named(control: Control) -> None:
    python = control.call(version)
    with pytest.raises(BackendUnavailableError) as caught:
        BackendRegistry().make("tachyon", rate_hz=100, options={}).start(control, timeout_s=10)
    message = str(caught.value)
    assert f"runs Python {python}" in message
    assert control.address in message
    assert "use pyspy, or cputime" in message


def version() -> str:
    import platform

    return platform.python_version()


def test_every_builtin_keeps_the_contract_but_the_one_that_records_nothing() -> None:
    # In files of their own: not all of them work on any cluster.
    elsewhere = {"callgrind", "decisions", "intake", "objects", "perfcount", "stalls"}
    assert set(BUILTIN) - set(BACKENDS) == {"tachyon"} | elsewhere


@pytest.mark.parametrize("python", ["3.10.0", "3.11.7", "3.14.2rc1", "2.7.18"])
def test_before_python_315_it_is_not_installed(python: str) -> None:
    error = refusal(python, "the scheduler tcp://a")
    assert isinstance(error, BackendNotInstalledError)
    assert (
        f"comes with Python 3.15 and newer (profiling.sampling), and the scheduler tcp://a "
        f"runs Python {python}; use pyspy" in str(error)
    )


@pytest.mark.parametrize("python", ["3.15.0a1", "3.15.0", "3.16.1", "4.0.0"])
def test_from_python_315_on_it_is_not_driven_yet(python: str) -> None:
    error = refusal(python, "the scheduler tcp://a")
    assert not isinstance(error, BackendNotInstalledError)
    assert "this release does not drive tachyon yet" in str(error)


def test_it_has_no_options() -> None:
    with pytest.raises(SettingsError, match="backend 'tachyon' has no option 'mode'"):
        BackendRegistry().make("tachyon", rate_hz=100, options={"mode": "cpu"})


def test_a_session_fails_the_test_with_that_one_line(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof("share(@comm) <= 99%", backend="tachyon")
def test_it(schedprof_scheduler):
    assert schedprof_scheduler.client.submit(inc, 1).result() == 2
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*tachyon*scheduler*runs Python 3.*use pyspy, or cputime*"])
