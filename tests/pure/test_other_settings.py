"""Tests of how settings of the other side are read from the text of `--schedprof-against`."""

from __future__ import annotations

import importlib.util

import dask.config
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_schedprof.clusters.contract import ClusterRequest
from pytest_schedprof.clusters.options import check_known_to_dask, config_of
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.plugin.against import OtherSettings, read_other_settings

SATURATION = "distributed.scheduler.worker-saturation"


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        ("workers=200", OtherSettings(workers=200)),
        (" threads = 2 , workers=8 ", OtherSettings(workers=8, threads=2)),
        (f"config:{SATURATION}=inf", OtherSettings(options=((f"config.{SATURATION}", "inf"),))),
        (
            "config:a.b=1,c.d-e=[1, 2], workers=3, config.f=x=y",
            OtherSettings(
                workers=3,
                options=(("config.a.b", "1"), ("config.c.d-e", "[1, 2]"), ("config.f", "x=y")),
            ),
        ),
        (
            "duration=uniform(1ms, 2ms),worker.nthreads=3,config:a.b={'x': 1}",
            OtherSettings(
                options=(
                    ("duration", "uniform(1ms, 2ms)"),
                    ("worker.nthreads", "3"),
                    ("config.a.b", "{'x': 1}"),
                )
            ),
        ),
    ],
)
def test_settings_are_assignments_separated_by_commas(spec: str, settings: OtherSettings) -> None:
    assert read_other_settings(spec) == settings


@pytest.mark.parametrize(
    "spec",
    [
        "distributed==2026.7.0",
        "distributed ==2026.7.0,tornado==6.4",
        "distributed>=2026.7.0",
        "distributed @ git+https://example.org/x?a=b",
        "../workers=3/bin/python",
        "./checkout",
        "python3.12",
        "workers",
    ],
)
def test_what_names_an_environment_is_none(spec: str) -> None:
    assert read_other_settings(spec) is None


NAMES = st.from_regex(r"[a-z][a-z-]{0,8}(\.[a-z][a-z-]{0,8}){1,3}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9.]{1,6}|\[1, 2\]|uniform\(1ms, 2ms\)", fullmatch=True)


@settings(max_examples=25)
@given(st.lists(st.tuples(NAMES, VALUES), min_size=1, max_size=5), st.sampled_from([",", ", "]))
def test_every_key_of_a_list_is_one_of_dask(pairs: list[tuple[str, str]], comma: str) -> None:
    spec = "config:" + comma.join(f"{name}={value}" for name, value in pairs)
    settings = read_other_settings(spec)
    assert settings is not None
    expected = [(name if _is_option(name) else f"config.{name}", value) for name, value in pairs]
    assert list(settings.options) == expected


def _is_option(name: str) -> bool:
    return name.startswith(("config.", "worker."))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("worker=200", "there is no setting 'worker'; did you mean 'workers'?"),
        ("distributed=2026.7.0", "as distributed==2026.7.0"),
        ("workers=0", "workers must be a positive whole number, got '0'"),
        ("workers=", "workers must be a positive whole number, got ''"),
        ("threads=2.5", "threads must be a positive whole number"),
        ("config:", "'config:' must be NAME=VALUE"),
        ("config:a.b", "'config:a.b' must be NAME=VALUE"),
        ("config:=1", "'config:=1' must be NAME=VALUE"),
    ],
)
def test_what_is_no_setting_is_one_clear_line(spec: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_other_settings(spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_are_those_of_the_test_but_for_the_differences() -> None:
    request = ClusterRequest("local", None, 2, (("tls", "true"),), 30.0)
    settings = read_other_settings("workers=3,tls=false")
    assert settings is not None
    changed = settings.applied_to(request)
    assert (changed.workers, changed.threads, changed.kind) == (3, 2, "local")
    assert dict(changed.options) == {"tls": "false"}  # of an option given twice the last one counts
    assert OtherSettings().applied_to(request) == request


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("worker-saturation", f"'worker-saturation'; did you mean {SATURATION!r}?"),
        ("distributed.scheduler.worker-saturatoin", f"did you mean {SATURATION!r} or"),
        ("nothing.like.it", "dask has no configuration key 'nothing.like.it'"),
    ],
)
def test_a_key_that_dask_does_not_know_is_told_with_similar_ones(key: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_known_to_dask({f"config.{key}": "1"})
    assert words in str(caught.value)


def test_keys_of_dask_and_of_the_user_are_known() -> None:
    own = "distributed.scheduler.default-task-durations.mine"
    with dask.config.set({"my-plugin.option": 1}):
        check_known_to_dask({f"config.{key}": "1" for key in (SATURATION, own, "my-plugin.option")})
    assert config_of({f"config.{SATURATION}": "inf"}) == {SATURATION: "inf"}


def test_an_event_loop_that_is_not_installed_is_told_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options = {"config.distributed.admin.event-loop": "uvloop"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="pip install uvloop"):
        check_known_to_dask(options)
