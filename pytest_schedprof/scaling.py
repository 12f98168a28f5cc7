"""Tests that run at several scales: which ask for one, and how they are given it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.settings import Settings


def with_scale(item: pytest.Item, settings: Settings) -> Settings:
    """The settings of a test; a session's scales are for the tests that ask for one.

    Raises:
        SettingsError: for scales that the test cannot be given.
    """
    asks = "schedprof_scale" in _arguments(item)
    if settings.scale and "scale" in settings.chosen and not asks:
        raise SettingsError(
            f"schedprof: {item.nodeid!r} has scale {', '.join(map(str, settings.scale))} but does "
            "not ask how large its workload is to be; give it the fixture schedprof_scale, as an "
            "argument of the test itself"
        )
    if settings.scale and asks and (others := _that_know_the_scale(item)):
        raise SettingsError(
            f"schedprof: fixture {others[0]!r} takes schedprof_scale, but is made once for all "
            f"sizes of {item.nodeid!r}; take schedprof_scale in the test alone"
        )
    return settings if asks else settings._replace(scale=())


def _arguments(item: pytest.Item) -> Sequence[str]:
    """Fixtures that the test takes itself, without those that these take."""
    return getattr(getattr(item, "_fixtureinfo", None), "argnames", ())


def _that_know_the_scale(item: pytest.Item) -> list[str]:
    """Other fixtures of the test to which each size would be the first one."""
    definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return [
        name
        for name, found in definitions.items()
        if any("schedprof_scale" in each.argnames for each in found)
    ]


def give_scale(item: pytest.Item, scale: int) -> None:
    """What runs a test's body takes its arguments from here each time."""
    arguments = getattr(item, "funcargs", {})
    if scale and "schedprof_scale" in arguments:
        arguments["schedprof_scale"] = scale
