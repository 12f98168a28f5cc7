"""Arguments of each run of a test's body: one of its scales, and the scheduler of one side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof import plugin
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.plugin.stash import OTHER_SCHEDULERS
from pytest_schedprof.settings.session import Settings

if TYPE_CHECKING:
    from pytest_schedprof.measuring.plan import BodyRun
    from pytest_schedprof.measuring.sides import Side


def with_scale(item: pytest.Item, settings: Settings) -> Settings:
    """Return the settings of a test, with scales only if it takes the fixture schedprof_scale.

    Raises:
        SettingsError: if scales or other schedulers cannot be passed to the test.
    """
    takes_scale = "schedprof_scale" in _arguments(item)
    if settings.scale and "scale" in settings.chosen and not takes_scale:
        raise SettingsError(
            f"schedprof: {item.nodeid!r} has scale {', '.join(map(str, settings.scale))} but does "
            "not use the fixture schedprof_scale; add it to the test function's arguments"
        )
    if settings.scale and takes_scale:
        _check_fixtures(item, "schedprof_scale", "all sizes")
    if settings.against:
        _check_fixtures(item, "schedprof_scheduler", "both schedulers")
    return settings if takes_scale else settings._replace(scale=())


def _check_fixtures(item: pytest.Item, fixture: str, what: str) -> None:
    """Refuse other fixtures that take this one: they are set up once and keep its first value."""
    if others := _fixtures_that_take(fixture, item):
        raise SettingsError(
            f"schedprof: fixture {others[0]!r} uses {fixture}, but is set up once for {what} of "
            f"{item.nodeid!r}; use {fixture} only in the test function"
        )


def _arguments(item: pytest.Item) -> Sequence[str]:
    """Return the fixtures that the test function itself takes, without indirect ones."""
    return getattr(getattr(item, "_fixtureinfo", None), "argnames", ())


def _fixtures_that_take(fixture: str, item: pytest.Item) -> list[str]:
    """Return the names of the test's fixtures that take this one."""
    definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return [
        name
        for name, found in definitions.items()
        if any(fixture in each.argnames for each in found)
    ]


@contextmanager
def arguments_for_run(item: pytest.Item, body_run: BodyRun, side: Side) -> Iterator[None]:
    """Pass the scale and the scheduler of a side to one run of the body.

    `item.funcargs` is changed in place, because whatever runs the body reads the arguments there
    each time. The side's client is the current one meanwhile.
    """
    before = dict(arguments := getattr(item, "funcargs", {}))
    if body_run.scale and "schedprof_scale" in arguments:
        arguments["schedprof_scale"] = body_run.scale
    client: AbstractContextManager[Any] = nullcontext()
    configured = client
    if OTHER_SCHEDULERS in item.stash:
        scheduler: Any = side.scheduler
        arguments["schedprof_scheduler"] = scheduler
        client = scheduler.client.as_current()
        configured = plugin.against.configured_like(item, side)
    try:
        with configured, side.run(body_run), client:
            yield
    except Exception:
        if side.name:
            text = f"The body ran on the scheduler of {side.name} when it failed."
            item.add_report_section("call", "schedprof", text)
        raise
    finally:
        arguments.update(before)
