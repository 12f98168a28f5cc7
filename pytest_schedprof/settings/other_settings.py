"""Read the settings that `--schedprof-against` names: those of the other side's cluster."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_schedprof.clusters import KINDS, option_names
from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.settings.options import option_named

if TYPE_CHECKING:
    from pytest_schedprof.clusters.contract import ClusterRequest

NUMBERS = ("workers", "threads")
"""Settings of a cluster that are options of the plugin; all others are options of clusters."""

PREFIX, DASKS = "config:", "config."
"""How an option of dask is given here, and as an option of a cluster."""

ASSIGNMENT = re.compile(r"(?:config:\s*)?[\w.-]+\s*=(?!=)")
"""Matches the start of a setting; a requirement has two signs, as `distributed==2026.7.0`."""

SEPARATOR = re.compile(rf",\s*(?={ASSIGNMENT.pattern})")
"""Matches a comma before a setting: values such as `uniform(1ms, 2ms)` have others."""


@dataclass(frozen=True, slots=True)
class OtherSettings:
    """Settings of the other side's cluster, over those of the test."""

    workers: int | None = None
    threads: int | None = None
    options: tuple[tuple[str, str], ...] = ()
    """Options of the cluster, as `--schedprof-cluster-option` takes them."""

    def applied_to(self, request: ClusterRequest) -> ClusterRequest:
        """Return the request of a test with these settings."""
        return replace(
            request,
            workers=self.workers or request.workers,
            threads=self.threads or request.threads,
            options=(*request.options, *self.options),
        )


def read_other_settings(spec: str) -> OtherSettings | None:
    """Return the settings that a text names; None if it names an environment instead.

    Raises:
        SettingsError: for a setting that is unknown or has a wrong value.
    """
    if not (spec.strip().startswith(PREFIX) or ASSIGNMENT.match(spec.strip())):
        return None
    given = list(_assignments(spec.strip()))
    numbers = {name: _number(name, text, spec) for name, text in given if name in NUMBERS}
    options = tuple((name, text) for name, text in given if name not in NUMBERS)
    return OtherSettings(**numbers, options=options)


def _assignments(spec: str) -> Iterator[tuple[str, str]]:
    """Yield names and values; after the prefix, names that are not known here are dask's."""
    is_dasks = False
    for part in SEPARATOR.split(spec):
        is_dasks = is_dasks or part.startswith(PREFIX)
        name, equals, text = (each.strip() for each in part.removeprefix(PREFIX).partition("="))
        if not (name and equals):
            raise SettingsError(
                f"schedprof: against {quoted(spec)}: {quoted(part)} must be NAME=VALUE, "
                "or config:KEY=VALUE for an option of dask"
            )
        yield _full_name(name, spec, is_dasks=is_dasks), text


def _full_name(name: str, spec: str, *, is_dasks: bool) -> str:
    """Return the name of an option of clusters, or of one of `NUMBERS`."""
    known = list(
        dict.fromkeys([*NUMBERS, *(each for kind in KINDS for each in option_names(kind))])
    )
    section, dot, rest = name.partition(".")
    if name in known or (dot and rest and f"{section}.*" in known):
        return name
    if is_dasks:
        return f"{DASKS}{name}"
    near = difflib.get_close_matches(name, known, 1)
    raise SettingsError(
        f"schedprof: against {quoted(spec)}: there is no setting {name!r}; "
        + (f"did you mean {near[0]!r}? " if near else "")
        + f"known: {', '.join(known)}; options of dask are given as config:KEY=VALUE, and "
        "requirements with two signs, as distributed==2026.7.0"
    )


def _number(name: str, text: str, spec: str) -> int:
    value: int = option_named(name).value(text, f"against {spec!r}")
    return value
