"""Tests of the cluster option `dashboard`: the scheduler serves it, and a viewer is seen."""

from __future__ import annotations

import pytest
from support import Project

from pytest_schedprof.clusters.options import check_cluster_options, has_dashboard
from pytest_schedprof.errors import SettingsError

BODY = """
from urllib.error import HTTPError
from urllib.request import urlopen

from bokeh.client import pull_session

def plugins(dask_scheduler):
    return set(dask_scheduler.plugins)

def test_viewed(schedprof_scheduler):
    client = schedprof_scheduler.client
    before = client.run_on_scheduler(plugins)
    session = pull_session(url=client.dashboard_link)
    wait(client.map(inc, range(20), pure=False))
    assert "task-stream" in client.run_on_scheduler(plugins) - before
    session.close()

def test_without(schedprof_scheduler):
    with pytest.raises(HTTPError) as caught:
        urlopen(schedprof_scheduler.client.dashboard_link)
    caught.value.close()  # Python 3.14 warns of one that is not
"""


@pytest.mark.slow
def test_with_a_viewer_and_without_a_dashboard(project: Project) -> None:
    options = ("--schedprof=counts", "--schedprof-cluster=simulated", "--schedprof-workers=4")
    project.write(BODY)
    with_it = project.run(*options, "--schedprof-cluster-option=dashboard=true", "-k", "viewed")
    with_it.assert_outcomes(passed=1, deselected=1)
    cluster = project.result().cluster
    assert cluster is not None
    assert dict(cluster.options or {})["dashboard"] == "true"
    project.run(*options, "-k", "without").assert_outcomes(passed=1, deselected=1)


def test_it_is_true_or_false() -> None:
    assert has_dashboard({"dashboard": "true"})
    assert not has_dashboard({})
    with pytest.raises(SettingsError, match="dashboard must be true or false, got 'maybe'"):
        check_cluster_options("simulated", {"dashboard": "maybe"})
    with pytest.raises(SettingsError, match="has no option 'dashboard'"):
        check_cluster_options("virtual", {"dashboard": "true"})
