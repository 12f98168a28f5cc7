"""Repeats tests under several seeds: each becomes as many tests, named by their seeds.

So a seed that fails can be run again by its name, and baselines compare each seed with itself.
"""

from __future__ import annotations

import pytest

from pytest_schedprof.clusters.options import is_known
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.measuring.settings import Settings

FIXTURE = "schedprof_seed"


def parametrize(metafunc: pytest.Metafunc, settings: Settings) -> None:
    """Repeat a test under as many seeds as its settings say, if its cluster has any."""
    if settings.seeds == 1 or not is_known(settings.cluster, "seed"):
        return
    if FIXTURE not in metafunc.fixturenames:
        metafunc.fixturenames.append(FIXTURE)
    first = seed_of(settings)
    seeds = range(first, first + settings.seeds)
    metafunc.parametrize(FIXTURE, seeds, indirect=True, ids=[f"seed{seed}" for seed in seeds])


def seed_of(settings: Settings) -> int:
    """Return the seed of the cluster that the settings describe; a wrong one is refused later."""
    text = dict(settings.cluster_option).get("seed", "0")
    return int(text) if text.removeprefix("-").isdigit() else 0


def with_seed(item: pytest.Item, settings: Settings) -> Settings:
    """Return the settings with the seed that the test's name has, if any.

    Raises:
        SettingsError: if a marker wants seeds of a cluster that has none.
    """
    seed = getattr(getattr(item, "callspec", None), "params", {}).get(FIXTURE)
    if seed is not None:
        option = (*settings.cluster_option, ("seed", str(seed)))
        return settings._replace(cluster_option=option)
    if settings.seeds > 1 and "seeds" in settings.chosen:
        raise SettingsError(
            f"schedprof: {item.nodeid!r} has seeds={settings.seeds}, but nothing is drawn from a "
            f"seed in a cluster {settings.cluster!r}; use cluster='virtual'"
        )
    return settings
