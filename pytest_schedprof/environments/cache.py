"""Environments that were made, kept for the next session."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import time
from hashlib import sha256
from pathlib import Path

from pytest_schedprof.environments.making import interpreter_in, make
from pytest_schedprof.environments.needs import installed
from pytest_schedprof.environments.paths import session_paths
from pytest_schedprof.environments.wanted import Packages
from pytest_schedprof.errors import ClusterError

LAYOUT = "1"
"""Another for environments that are made in another way."""

UNUSED_DAYS = 30
UNFINISHED_DAYS = 1

NAME = re.compile(r".+-[0-9a-f]{16}")
MAKING = "making-"


def default_cache() -> Path:
    """Where the system keeps what can be made again."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pytest-schedprof" / "environments"


def environment_of(wanted: Packages, cache: Path, deadline: float) -> Path:
    """The interpreter of an environment with these packages; made, if there is none yet.

    It comes to its name when it is whole, so that neither an interrupt nor another session that
    makes the same leaves a broken one.
    """
    place = cache / name_of(wanted)
    try:
        if not interpreter_in(place).exists():
            _make(wanted, place, deadline)
        os.utime(place)  # as a sign that it is in use
    except OSError as error:
        raise ClusterError(
            f"schedprof: no environment can be kept in {str(cache)!r}: {error}"
        ) from error
    return interpreter_in(place)


def name_of(wanted: Packages) -> str:
    """Readable, and with a hash of all that makes an environment what it is."""
    here = sorted(f"{name}=={version}" for name, version in installed(_behind()).items())
    parts = [LAYOUT, sys.version, sys.prefix, sys.base_prefix, *wanted.identity(), *here]
    digest = sha256("\0".join(parts).encode()).hexdigest()[:16]
    words = [*wanted.requirements, *(Path(each).name for each in wanted.checkouts)]
    readable = re.sub(r"[^\w.=]+", "-", "+".join(words)).strip("-")
    return f"{readable[:60]}-{digest}"


def _behind() -> list[str]:
    paths = session_paths()
    return [*paths.sites, *paths.beside]


def _make(wanted: Packages, place: Path, deadline: float) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    _remove_old(place.parent)
    made = Path(tempfile.mkdtemp(prefix=MAKING, dir=place.parent))
    try:
        make(wanted.arguments, made, session_paths(), deadline)
        if not interpreter_in(place).exists():  # it may be one whose interpreter is gone
            shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
    except OSError:
        if not interpreter_in(place).exists():  # else another session was first
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _remove_old(cache: Path) -> None:
    """What nobody has used for long, and what was left unfinished."""
    for place in cache.iterdir():
        days = (time.time() - place.stat().st_mtime) / 86400
        unfinished = place.name.startswith(MAKING) and days > UNFINISHED_DAYS
        if unfinished or (NAME.fullmatch(place.name) and days > UNUSED_DAYS):
            shutil.rmtree(place, ignore_errors=True)
