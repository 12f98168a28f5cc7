"""Tests of each backend on a scheduler in a container without this package."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from containers import build, composed, output
from observed import TRANSITION, Observed
from support import Project

from pytest_schedprof.control.control import Control


def test_each_backend(project: Project, address: str) -> None:
    observed = Observed(project, address, "pyspy", "cputime", "counts", "viztracer")
    observed.outcome.assert_outcomes(passed=1)
    for backend in ("pyspy", "cputime"):
        assert observed.has_seen_burning(backend)
        assert "burn_scheduler_cpu" in observed.artifact(backend)
    assert 4 < observed.calls_per_task(TRANSITION) < 8
    events = json.loads(observed.artifact("viztracer"))["traceEvents"]
    assert any("burn_scheduler_cpu" in event["name"] for event in events)


def look_around(dask_scheduler: Any) -> tuple[bool, bool, int]:
    import os
    from importlib.util import find_spec

    return bool(find_spec("pytest")), bool(find_spec("pytest_schedprof")), os.getuid()


def test_the_container_holds_no_pytest_and_runs_as_nobodys_root(address: str) -> None:
    with Control(address) as control:
        assert control.call(look_around) == (False, False, 1000)


def test_image_without_profilers(project: Project) -> None:
    image = {"SCHEDPROF_IMAGE": "schedprof-dask-bare", "PROFILERS": ""}
    build(**image)
    with composed(services=["scheduler", "worker-1"], **image) as place:
        address = f"tcp://{place}"
        Observed(project, address, "cputime", "counts").outcome.assert_outcomes(passed=1)
        refused = Observed(project, address, "pyspy").outcome
        refused.assert_outcomes(failed=1)
        refused.stdout.fnmatch_lines(["schedprof: *py-spy*install*py-spy*"])


def test_tls_between_the_parts(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output(sys.executable, "certificates.py", str(tmp_path / "tls"))
    with composed(
        "docker-compose.tls.yml",
        services=["scheduler", "worker-1"],
        SCHEDPROF_TLS=str(tmp_path / "tls"),
        SCHEDPROF_USER=str(os.getuid() or "dask"),  # the user that may read the key
    ) as place:
        for name, file in {"CA_FILE": "cert", "CLIENT__CERT": "cert", "CLIENT__KEY": "key"}.items():
            path = tmp_path / "tls" / f"{file}.pem"
            monkeypatch.setenv(f"DASK_DISTRIBUTED__COMM__TLS__{name}", str(path))
        observed = Observed(project, f"tls://{place}", "pyspy", "counts")
        observed.outcome.assert_outcomes(passed=1)
        assert observed.has_seen_burning("pyspy")
