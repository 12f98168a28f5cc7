"""Read what `--schedprof-against` names: an interpreter, or packages for a new environment."""

from __future__ import annotations

import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from pytest_schedprof.errors import SettingsError

FORMS = (
    "a Python interpreter, an environment's directory, a requirement such as "
    "distributed==2026.7.0, a source checkout, or settings such as workers=200"
)

BUILD_FILES = ("pyproject.toml", "setup.py", "setup.cfg")
"""Files that a checkout has one of; its dependencies are read from them at installation."""

COMMAND = re.compile(r"python[\d.]*(\.exe)?")
LOOSE = re.compile(r"\s*([<>=!~]=?=?|@)\s*")
SEPARATOR = re.compile(r"(?:,\s*|\s+)(?![<>=!~])")
PIN = re.compile(r"===?[^*,]+$|@[0-9a-f]{40}$")
"""Matches the end of a requirement that allows only one version or one commit."""


@dataclass(frozen=True, slots=True)
class Packages:
    """Packages to install for the other side, each in the form that pip accepts."""

    requirements: tuple[str, ...] = ()
    checkouts: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Arguments for an installer; checkouts are editable, so that changes take effect."""
        return [*self.requirements, *(word for each in self.checkouts for word in ("-e", each))]

    def identity(self) -> list[str]:
        """Return the texts that identify an environment with these packages.

        The date is one of them unless all requirements are pinned: others are resolved every day.
        """
        pinned = all(PIN.search(each) for each in self.requirements)
        built = [
            file.read_text(encoding="utf-8", errors="replace")
            for each in self.checkouts
            for name in BUILD_FILES
            if (file := Path(each, name)).is_file()
        ]
        return [*self.arguments, *built, "" if pinned else time.strftime("%Y-%m-%d")]


def read_wanted(spec: str) -> Path | Packages:
    """Return the path of an existing interpreter, or packages.

    Raises:
        SettingsError: if the text names neither.
    """
    spec = spec.strip()
    if COMMAND.fullmatch(spec) and (command := shutil.which(spec)):
        return Path(command)
    if is_path(spec) and _place(spec).exists():  # as a whole, since a path may have spaces
        place = _place(spec)
        return Packages((), (str(place),)) if _is_checkout(place) else _interpreter_at(place)
    words = [word for word in SEPARATOR.split(LOOSE.sub(r"\1", spec)) if word]
    if not words:
        raise SettingsError(f"schedprof: nothing was named to compare with; give {FORMS}")
    return Packages(
        tuple(_requirement(word) for word in words if not is_path(word)),
        tuple(_checkout(word) for word in words if is_path(word)),
    )


def is_path(text: str) -> bool:
    """Return whether pip takes it for a path: `./distributed` is one, `distributed` is not."""
    seps = [each for each in (os.sep, os.altsep) if each]
    return "://" not in text and (text[:1] in (".", "~") or any(each in text for each in seps))


def _place(text: str) -> Path:
    """Make a path absolute without following links: an environment's interpreter is a link."""
    return Path(os.path.abspath(os.path.expanduser(text)))


def _is_checkout(place: Path) -> bool:
    return any((place / name).is_file() for name in BUILD_FILES)


def _interpreter_at(place: Path) -> Path:
    if not place.is_dir():
        return place
    for inside in ("bin/python", "Scripts/python.exe", "python.exe"):
        if (place / inside).exists():
            return place / inside
    raise SettingsError(
        f"schedprof: {str(place)!r} is neither an environment (no bin/python in it) nor a source "
        f"checkout (no {' or '.join(BUILD_FILES[:2])}); give {FORMS}"
    )


def _checkout(word: str) -> str:
    place = _place(word)
    if not place.exists():
        raise SettingsError(f"schedprof: there is nothing at {str(place)!r}; give {FORMS}")
    if not _is_checkout(place):
        raise SettingsError(
            f"schedprof: {str(place)!r} is no source checkout "
            f"(no {' or '.join(BUILD_FILES[:2])} in it)"
        )
    return str(place)


def _requirement(word: str) -> str:
    if "://" in word and "@" not in word.partition("://")[0]:
        return word  # a URL without a name, which pip accepts
    try:
        Requirement(word)
    except InvalidRequirement as error:
        reason = str(error).partition("\n")[0]
        raise SettingsError(
            f"schedprof: {word!r} is no requirement ({reason}); give {FORMS}"
        ) from None
    return word
