"""What each run of a test's body is given: one of its scales, and the scheduler of one side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.fixtures import RIVALS
from pytest_schedprof.settings import Settings

if TYPE_CHECKING:
    from pytest_schedprof.plan import Take
    from pytest_schedprof.sides import Side


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
    if settings.scale and asks and (others := _that_take("schedprof_scale", item)):
        raise SettingsError(
            f"schedprof: fixture {others[0]!r} takes schedprof_scale, but is made once for all "
            f"sizes of {item.nodeid!r}; take schedprof_scale in the test alone"
        )
    if settings.against and (others := _that_take("schedprof_scheduler", item)):
        raise SettingsError(
            f"schedprof: fixture {others[0]!r} takes schedprof_scheduler, but is made once for "
            f"both schedulers of {item.nodeid!r}; take schedprof_scheduler in the test alone"
        )
    return settings if asks else settings._replace(scale=())


def _arguments(item: pytest.Item) -> Sequence[str]:
    """Fixtures that the test takes itself, without those that these take."""
    return getattr(getattr(item, "_fixtureinfo", None), "argnames", ())


def _that_take(fixture: str, item: pytest.Item) -> list[str]:
    """Other fixtures of the test to which whatever it gives would be what it gave first."""
    definitions = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return [
        name
        for name, found in definitions.items()
        if any(fixture in each.argnames for each in found)
    ]


@contextmanager
def giving(item: pytest.Item, take: Take, side: Side) -> Iterator[None]:
    """One run of the body, on a side and at a scale.

    What runs a test's body takes its arguments from the same place each time, and the default
    client is that of the side.
    """
    before = dict(arguments := getattr(item, "funcargs", {}))
    if take.scale and "schedprof_scale" in arguments:
        arguments["schedprof_scale"] = take.scale
    client: AbstractContextManager[Any] = nullcontext()
    if RIVALS in item.stash:
        scheduler: Any = side.scheduler
        arguments["schedprof_scheduler"] = scheduler
        client = scheduler.client.as_current()
    try:
        with side.run(take), client:
            yield
    except Exception:
        if side.name:
            text = f"The body ran on the scheduler of {side.name} when it failed."
            item.add_report_section("call", "schedprof", text)
        raise
    finally:
        arguments.update(before)
