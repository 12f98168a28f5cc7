"""Make an environment that differs from this one only in the packages that were asked for."""

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
"""Name of a file that `site` reads after all others. `site` reads it twice, so it only imports a
module, which runs once."""

BEHIND = """
# Made by pytest-schedprof: packages of the other environment come after those installed here.
import site
import sys
from importlib.machinery import PathFinder

# A checkout may be installed here by a finder that comes after the path finder.
sys.meta_path.remove(PathFinder)
sys.meta_path.append(PathFinder)
for path in {sites!a}:
    site.addsitedir(path)
"""

MOST_ROUNDS = 10


def make(arguments: Sequence[str], place: Path, paths: SessionPaths, deadline: float) -> None:
    """Install packages, and dependencies of theirs that are not met by this side's packages."""
    venv.EnvBuilder(symlinks=os.name != "nt").create(place)
    own = _packages_in(place)
    installer = Installer(interpreter_in(place), deadline)
    wanted = list(arguments)
    for _ in range(MOST_ROUNDS):
        installer.install(wanted)
        wanted = unmet(str(own), [*paths.sites, *paths.beside], arguments)
        if not wanted:
            # Last, so that packages are built with their own choice of build tools.
            (own / f"{MODULE}.py").write_text(BEHIND.format(sites=list(paths.sites)))
            (own / LAST).write_text(f"import {MODULE}\n")
            return
    raise ClusterError(
        f"schedprof: what {' '.join(arguments)!r} needs has no end: {', '.join(wanted)}"
    )


def interpreter_in(place: Path) -> Path:
    """Return the path of the interpreter in an environment."""
    return place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def _packages_in(place: Path) -> Path:
    scheme = "nt" if os.name == "nt" else "posix_prefix"
    base = {"base": str(place), "platbase": str(place)}
    return Path(sysconfig.get_path("purelib", scheme, base))
