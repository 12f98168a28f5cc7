"""An environment in which only what was asked for is another than here."""

from __future__ import annotations

import os
import sysconfig
import venv
from collections.abc import Sequence
from pathlib import Path

from pytest_schedprof.environments.installer import Installer
from pytest_schedprof.environments.needs import unmet
from pytest_schedprof.environments.paths import SessionPaths
from pytest_schedprof.errors import ClusterError

MODULE = "schedprof_behind"

LAST = f"~{MODULE}.pth"
"""Read after all others that are there; twice, so what it does is a module's, which comes once."""

BEHIND = """
# Made by pytest-schedprof: what is installed on the other side comes behind what is here.
import site
import sys
from importlib.machinery import PathFinder

# A checkout may be installed here by a finder that stands behind that of paths.
sys.meta_path.remove(PathFinder)
sys.meta_path.append(PathFinder)
for path in {sites!a}:
    site.addsitedir(path)
"""

MOST_ROUNDS = 10


def make(arguments: Sequence[str], place: Path, paths: SessionPaths, deadline: float) -> None:
    """Install what is asked for, and what that needs and does not find on this side."""
    venv.EnvBuilder(symlinks=os.name != "nt").create(place)
    own = _packages_in(place)
    installer = Installer(interpreter_in(place), deadline)
    wanted = list(arguments)
    for _ in range(MOST_ROUNDS):
        installer.install(wanted)
        wanted = unmet(str(own), [*paths.sites, *paths.beside])
        if not wanted:
            # Not before: what is built for it is built with tools of its own choice.
            (own / f"{MODULE}.py").write_text(BEHIND.format(sites=list(paths.sites)))
            (own / LAST).write_text(f"import {MODULE}\n")
            return
    raise ClusterError(
        f"schedprof: what {' '.join(arguments)!r} needs has no end: {', '.join(wanted)}"
    )


def interpreter_in(place: Path) -> Path:
    """Of an environment made here."""
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _packages_in(place: Path) -> Path:
    scheme = "nt" if os.name == "nt" else "posix_prefix"
    base = {"base": str(place), "platbase": str(place)}
    return Path(sysconfig.get_path("purelib", scheme, base))
