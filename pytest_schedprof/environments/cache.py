"""Cache of environments that were made for `--schedprof-against`."""

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
"""Version of the way in which environments are made; part of their hash."""

UNUSED_DAYS = 30
UNFINISHED_DAYS = 1

NAME = re.compile(r".+-[0-9a-f]{16}")
MAKING = "making-"


def default_cache() -> Path:
    """Return the directory of environments in the user's cache directory."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pytest-schedprof" / "environments"


def environment_of(wanted: Packages, cache: Path, deadline: float) -> Path:
    """Return the interpreter of an environment with these packages, made if it is not cached.

    A new environment is renamed to its final name when it is complete, so that neither an interrupt
    nor another session that makes the same one leaves a broken one.
    """
    place = cache / name_of(wanted)
    try:
        if not interpreter_in(place).exists():
            _make(wanted, place, deadline)
        os.utime(place)  # marks it as in use
    except OSError as error:
        raise ClusterError(
            f"schedprof: no environment can be kept in {str(cache)!r}: {error}"
        ) from error
    return interpreter_in(place)


def name_of(wanted: Packages) -> str:
    """Return a readable name with a hash of everything that the environment depends on."""
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
        if not interpreter_in(place).exists():  # a directory there may have lost its interpreter
            shutil.rmtree(place, ignore_errors=True)
        made.rename(place)
    except OSError:
        if not interpreter_in(place).exists():  # otherwise another session was faster
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _remove_old(cache: Path) -> None:
    """Remove environments that were not used for long, and unfinished ones."""
    for place in cache.iterdir():
        days = (time.time() - place.stat().st_mtime) / 86400
        unfinished = place.name.startswith(MAKING) and days > UNFINISHED_DAYS
        if unfinished or (NAME.fullmatch(place.name) and days > UNUSED_DAYS):
            shutil.rmtree(place, ignore_errors=True)
