"""The releases of a package as versions to search."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from packaging.version import InvalidVersion, Version

from pytest_schedprof.bisecting.session import Runnable, UnmeasuredError
from pytest_schedprof.environments.interpreter import check_interpreter
from pytest_schedprof.environments.making import Packages, default_cache, environment_of
from pytest_schedprof.environments.releases import releases_of
from pytest_schedprof.errors import SchedprofError, SettingsError, quoted

MAKING_S = 900.0
PACKAGE = re.compile(r"[A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?")


class Releases:
    """Releases of one package, each in a cached environment of its own."""

    noun = "release"

    def __init__(self, package: str, names: Sequence[str]) -> None:
        self.package = package
        self.names = names

    def label(self, number: int) -> str:
        """Return the package with its version."""
        return f"{self.package} {self.names[number]}"

    def about(self, number: int) -> Sequence[str]:
        """Return nothing more: an index does not tell who made a release."""
        return ()

    def suspicion(self, functions: Mapping[str, float]) -> Mapping[int, float]:
        """Suspect all alike: what a release changed is not known before it is installed."""
        return {}

    @contextmanager
    def ready(self, number: int, place: Path) -> Iterator[Runnable]:
        """Make the environment, unless it is cached."""
        wanted = Packages((f"{self.package}=={self.names[number]}",))
        try:
            python = environment_of(wanted, default_cache(), time.monotonic() + MAKING_S)
            check_interpreter(python, wanted.requirements[0])
        except SchedprofError as error:
            reason = str(error).removeprefix("schedprof: ")
            raise UnmeasuredError(reason, is_lasting=False) from error
        yield Runnable(python, self.package.replace("-", "_"), python.parent.parent)


def releases_between(package: str, text: str) -> Releases:
    """Return the releases that a text like `2025.5.0..2026.8.0` or `2025.5.0,2026.8.0` names.

    Raises:
        SettingsError: if it names no two releases in order.
        ClusterError: if the package index does not tell which there are.
    """
    if not PACKAGE.fullmatch(package):
        raise SettingsError(f"schedprof: --package must be a package's name, got {quoted(package)}")
    if ".." not in text:
        named = sorted({_version(each, text) for each in text.split(",")})
        return Releases(package, _at_least_two([str(each) for each in named], text))
    first, last = (_version(each, text) for each in text.split("..", 1))
    if first >= last:
        raise SettingsError(
            f"schedprof: --releases must have the earlier release first, got {quoted(text)}"
        )
    known = releases_of(package)
    for end in (first, last):
        if end not in known:
            raise SettingsError(
                f"schedprof: {package} has no release {end}; those next to it are "
                f"{', '.join(map(str, _near(end, known))) or 'none'}"
            )
    return Releases(package, [str(each) for each in known if first <= each <= last])


def _at_least_two(names: list[str], text: str) -> list[str]:
    if len(names) < 2:
        raise SettingsError(
            f"schedprof: --releases must name two releases at least, got {quoted(text)}"
        )
    return names


def _near(version: Version, known: Sequence[Version]) -> list[Version]:
    below, above = ([v for v in known if v < version], [v for v in known if v > version])
    return [*below[-2:], *above[:2]]


def _version(text: str, whole: str) -> Version:
    try:
        return Version(text.strip())
    except InvalidVersion:
        raise SettingsError(
            "schedprof: --releases must be FIRST..LAST, as 2025.5.0..2026.8.0, or several with "
            f"commas, got {quoted(whole)}"
        ) from None
