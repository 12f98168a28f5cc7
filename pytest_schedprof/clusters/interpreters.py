"""What another interpreter gets of this session: directories to import from, and variables."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

OURS = ("PYTHONPATH", "PYTHONHOME", "__PYVENV_LAUNCHER__")
"""Environment variables that would make another interpreter import packages of this one."""


class SessionPaths(NamedTuple):
    """Entries of `sys.path` without the standard library, which each interpreter has its own of."""

    tests: tuple[str, ...]
    """Directories of tests, which come before the standard library."""
    beside: tuple[str, ...]
    """Directories after the standard library that are not `sites`: mostly editable checkouts."""
    sites: tuple[str, ...]
    """Directories of installed packages, which fit one minor version of Python only."""


def import_path() -> list[str]:
    """Return `sys.path` as Python reads it: it skips what is no text, such as a `Path`."""
    return [entry for entry in sys.path if isinstance(entry, str)]


def session_paths(path: Sequence[str] | None = None) -> SessionPaths:
    """Sort the entries of `sys.path` by their position before or after the standard library."""
    path = import_path() if path is None else path
    library = _library()
    first = next((number for number, entry in enumerate(path) if entry in library), len(path))
    others = [(entry, number < first) for number, entry in enumerate(path) if entry not in library]
    return SessionPaths(
        tests=tuple(e for e, is_early in others if e and is_early and not is_site(e)),
        beside=tuple(e for e, is_early in others if not is_early and not is_site(e)),
        sites=tuple(e for e, _ in others if is_site(e)),
    )


def homes_of_dask() -> list[str]:
    """Return where this session found dask and distributed if that is a checkout.

    Else a process would import those that are installed: it reads a relative `PYTHONPATH` in
    another directory, and knows nothing of pytest's setting `pythonpath`.
    """
    specs = filter(None, map(find_spec, ("distributed", "dask")))
    places = (place for spec in specs for place in spec.submodule_search_locations or ())
    homes = dict.fromkeys(str(Path(place).absolute().parent) for place in places)
    return [home for home in homes if not is_site(home)]


def _library() -> frozenset[str]:
    places = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    places |= {place / "lib-dynload" for place in places} | {
        place.parent / archive for place in places
    }
    return frozenset(map(str, places))


def is_site(path: str) -> bool:
    """Return whether packages are installed to this directory."""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def environment_elsewhere() -> dict[str, str]:
    """Return this process's environment variables for another interpreter.

    Variables of this interpreter are left out, and its programs come last on the PATH.
    """
    variables = {name: value for name, value in os.environ.items() if name not in OURS}
    programs = (variables.get("PATH"), sysconfig.get_path("scripts"))
    return {**variables, "PATH": os.pathsep.join(filter(None, programs))}
