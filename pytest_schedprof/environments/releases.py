"""Ask the package index which releases a package has."""

from __future__ import annotations

import re
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from packaging.version import InvalidVersion, Version

from pytest_schedprof.environments.making import run, uv_program
from pytest_schedprof.errors import ClusterError

ASKING_S = 120.0
LINE = re.compile(r"^Available versions: (.*)$", re.MULTILINE)


def releases_of(package: str) -> list[Version]:
    """Return the releases that fit this Python, the oldest first; no pre-releases.

    Raises:
        ClusterError: if the index does not answer, or has no such package.
    """
    asking = ["tool", "run", f"--python={sys.executable}", "pip", "index", "versions", package]
    with tempfile.TemporaryDirectory(prefix="schedprof-index-") as place:
        deadline = time.monotonic() + ASKING_S
        status, output = run([uv_program(), *asking], deadline=deadline, cwd=Path(place))
    line = LINE.search(output)
    if status or not line:
        reason = (output.strip().splitlines() or ["no answer"])[-1]
        raise ClusterError(
            f"schedprof: the package index does not tell the releases of {package!r} ({reason}); "
            "name them yourself: --releases=A,B,C"
        )
    releases = []
    for text in line[1].split(","):
        with suppress(InvalidVersion):
            releases.append(Version(text.strip()))
    return sorted(releases)
