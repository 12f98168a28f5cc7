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

LAST = "~schedprof.pth"
"""Read after all others that are there."""

BEHIND = (
    "import sys, site; from importlib.machinery import PathFinder; "
    "sys.meta_path.remove(PathFinder); sys.meta_path.append(PathFinder); "
    "list(map(site.addsitedir, {sites!a}))\n"
)
"""What is installed on this side comes behind. A checkout may be installed by a finder that stands
behind that of paths: it is moved before it, or a package of this side would be found first."""

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
            line = BEHIND.format(sites=list(paths.sites))
            (own / LAST).write_text(line, encoding="utf-8")
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
