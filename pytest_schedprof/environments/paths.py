"""What is on this session's path: the tests' own, the standard library, and what is installed."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SessionPaths:
    """Without the standard library, which every interpreter has its own of."""

    tests: tuple[str, ...]
    """Where tests find what is theirs: before all that is installed."""
    beside: tuple[str, ...]
    """Behind it: of checkouts, for the most part."""
    sites: tuple[str, ...]
    """Directories of packages, which are good for one minor version of Python."""

    def as_dict(self) -> dict[str, tuple[str, ...]]:
        """As it travels."""
        return asdict(self)


def session_paths(path: Sequence[str] | None = None) -> SessionPaths:
    """By their place in `sys.path`: before or behind the standard library."""
    path = sys.path if path is None else path
    library = _library()
    first = next((number for number, each in enumerate(path) if each in library), len(path))
    others = [(each, number < first) for number, each in enumerate(path) if each not in library]
    return SessionPaths(
        tests=tuple(each for each, is_early in others if each and is_early and not is_site(each)),
        beside=tuple(each for each, is_early in others if not is_early and not is_site(each)),
        sites=tuple(each for each, _ in others if is_site(each)),
    )


def is_site(path: str) -> bool:
    """Whether it is one that packages are installed to."""
    return not {"site-packages", "dist-packages"}.isdisjoint(Path(path).parts)


def _library() -> frozenset[str]:
    places = {Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    archive = f"python{sys.version_info[0]}{sys.version_info[1]}.zip"
    found = {place / "lib-dynload" for place in places} | {
        place.parent / archive for place in places
    }
    if sys.platform == "win32":
        base = Path(sys.base_prefix)
        found |= {base, base / "DLLs", base / archive}
    return frozenset(map(str, places | found))
