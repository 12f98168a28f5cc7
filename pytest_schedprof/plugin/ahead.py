"""Starts the next test's cluster while a test runs, where that disturbs nothing."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace

import pytest

from pytest_schedprof import plugin
from pytest_schedprof.clusters.contract import ClusterRequest
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.model.metric import METRICS
from pytest_schedprof.plugin.hooks import has_fixture, settings_of
from pytest_schedprof.plugin.stash import FOLLOWING, backends_of, clusters_of, item_settings
from pytest_schedprof.settings.session import Settings


def begin_next(item: pytest.Item) -> None:
    """Begin to start the cluster of the test that follows one.

    A second process would disturb whatever goes by the clock. So both tests must be measured by
    counts alone, and there must be a processor to spare.
    """
    following = item.config.stash.get(FOLLOWING, None)
    if following is None or not has_fixture(following) or not _is_processor_free(item.config):
        return
    with suppress(SchedprofError):  # the setup of that test raises it again
        settings = _with_seed(following)
        both = item_settings(item), settings
        if all(_goes_by_counts(item.config, each) for each in both):
            clusters_of(item.config).begin(_request(item.config, settings))


def _with_seed(item: pytest.Item) -> Settings:
    settings = settings_of(item)
    return plugin.seeds.with_seed(item, settings) if settings.seeds > 1 else settings


def _is_processor_free(config: pytest.Config) -> bool:
    """Whether there is one beside that of the test and its cluster, which work in turns."""
    return (os.cpu_count() or 1) > 1 and not hasattr(config, "workerinput")


def _goes_by_counts(config: pytest.Config, settings: Settings) -> bool:
    known = backends_of(config)
    measured = {metric for name in settings.backend for metric in known.facts_of(name).measures}
    return bool(measured) and all(METRICS[metric].is_exact for metric in measured)


def _request(config: pytest.Config, settings: Settings) -> ClusterRequest:
    """Return the cluster that the settings ask for, started as their backends need it."""
    launchers = (backends_of(config).launcher_of(name) for name in settings.backend)
    return replace(settings.cluster_request, launcher=next(filter(None, launchers), ()))
