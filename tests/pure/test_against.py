"""Tests of `--schedprof-against`: packages, checkouts and interpreters, or other settings."""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
import time
from pathlib import Path

import dask.config
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_schedprof.clusters.contract import ClusterRequest
from pytest_schedprof.clusters.environments import Packages, cause_of, read_spec
from pytest_schedprof.clusters.fork_server import changed
from pytest_schedprof.clusters.interpreters import session_paths
from pytest_schedprof.clusters.options import check_known_to_dask, config_of
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.plugin.against import OtherSettings, read_other_settings

COMMIT = "distributed@git+https://example.org/distributed@" + "0123456789" * 4


@pytest.mark.parametrize(
    ("spec", "requirements"),
    [
        ("distributed==2026.7.0", ["distributed==2026.7.0"]),
        (" distributed == 2026.7.0 ", ["distributed==2026.7.0"]),
        ("distributed==2026.7.0,dask==2026.7.0", ["distributed==2026.7.0", "dask==2026.7.0"]),
        ("distributed==2026.7.0  dask", ["distributed==2026.7.0", "dask"]),
        ("distributed >= 2026.1, < 2026.7, tornado", ["distributed>=2026.1,<2026.7", "tornado"]),
        ("distributed!=2026.6,~=2026.1", ["distributed!=2026.6,~=2026.1"]),
        (f"{COMMIT.replace('@', ' @ ', 1)} dask", [COMMIT, "dask"]),
        ("git+https://example.org/distributed", ["git+https://example.org/distributed"]),
    ],
)
def test_requirements_may_be_separated_by_commas_and_spaces(
    spec: str, requirements: list[str]
) -> None:
    assert read_spec(spec) == Packages(tuple(requirements))


def test_checkouts_are_named_by_their_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("distributed", "with space"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "pyproject.toml").touch()
    monkeypatch.chdir(tmp_path)
    checkout = str(tmp_path / "distributed")
    assert read_spec(checkout) == Packages((), (checkout,))
    assert read_spec("./distributed, dask") == Packages(("dask",), (checkout,))
    assert read_spec("./with space") == Packages((), (str(tmp_path / "with space"),))
    # As in pip, a name without a separator is a package.
    assert read_spec("distributed") == Packages(("distributed",))
    assert Packages(("dask",), (checkout,)).lines == ["dask", f"-e {Path(checkout).as_uri()}"]


def test_an_interpreter_is_named_by_its_path_its_environment_or_its_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.symlink_to(sys.executable)
    (tmp_path / "bin" / "python3.99").symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert read_spec(str(python)) == python  # the path itself, not the target of the link
    assert read_spec(str(tmp_path)) == python
    assert read_spec("python3.99") == tmp_path / "bin" / "python3.99"


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("  ", "nothing was named"),
        (",", "nothing was named"),
        ("/no/such/place", "there is nothing at '/no/such/place'"),
        (str(Path(__file__).parent), "is neither an environment"),
    ],
)
def test_what_is_neither_is_refused_with_what_can_be_given(spec: str, words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read_spec(spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("requirement", "is_pinned"),
    [
        ("distributed==2026.7.0", True),
        (COMMIT, True),
        ("distributed", False),
        ("distributed==2026.*", False),
        ("distributed>=2026.1", False),
        ("distributed@git+https://example.org/distributed@main", False),
    ],
)
def test_what_is_not_pinned_is_looked_up_anew_each_day(requirement: str, is_pinned: bool) -> None:
    today = time.strftime("%Y-%m-%d")
    assert (today not in Packages((requirement,)).identity()) == is_pinned


def test_a_checkout_is_made_anew_when_what_it_needs_may_have_changed(tmp_path: Path) -> None:
    checkout = Packages((), (str(tmp_path),))
    (tmp_path / "setup.py").write_text("one")
    first = checkout.identity()
    assert checkout.identity() == first
    (tmp_path / "setup.py").write_text("two")
    assert checkout.identity() != first


NO_NETWORK = """\
Using Python 3.11.7 environment at: x
error: Request failed after 3 retries in 6.1s
  cause: Failed to fetch: https://localhost:1/simple/distributed/
  cause: Connection refused (os error 111)
"""

CONTRADICTION = """\
error: No solution found when resolving dependencies
  cause: Because distributed==2026.3.0 depends on dask>=2026.3.0,<2026.3.1 and you require
         dask==2026.7.0, we can conclude that your requirements are incompatible.
"""

BUILDING = """\
error: The build backend returned an error
  cause: Call to `setuptools.build_meta` failed (exit status: 1)

         [stderr]
         Traceback (most recent call last):
           File "<string>", line 1, in <module>
         ValueError: no build today
"""


@pytest.mark.parametrize(
    ("output", "cause"),
    [
        (NO_NETWORK, "Request failed after 3 retries in 6.1s: Connection refused (os error 111)"),
        (
            CONTRADICTION,
            "No solution found when resolving dependencies: Because distributed==2026.3.0 depends "
            "on dask>=2026.3.0,<2026.3.1 and you require dask==2026.7.0, we can conclude that your "
            "requirements are incompatible.",
        ),
        (BUILDING, "The build backend returned an error: ValueError: no build today"),
        ("error: Distribution not found at: x", "Distribution not found at: x"),
        ("strange\nwords\n\n", "strange words"),
        ("", "no reason"),
    ],
)
def test_of_what_uv_says_the_cause_is_kept_in_one_line(output: str, cause: str) -> None:
    assert cause_of(output) == cause


def test_the_path_of_tests_is_told_from_what_is_installed() -> None:
    library = sysconfig.get_path("stdlib")
    site, early_site = "/env/lib/python3/site-packages", "/apps/site-packages"
    path = ["", "/tests", early_site, library, f"{library}/lib-dynload", site, "/checkout"]
    paths = session_paths(path)
    assert paths.tests == ("/tests",)
    assert paths.beside == ("/checkout",)
    assert paths.sites == (early_site, site)


def test_only_what_differs_from_its_defaults_is_said_to_another_release() -> None:
    defaults = {"scheduler": {"stealing": True, "interval": "1s"}, "comm": {"retries": 0}, "a": {}}
    config = {"scheduler": {"stealing": True, "interval": "2s"}, "comm": {"retries": 0}, "b": None}
    assert changed(config, defaults) == {"scheduler": {"interval": "2s"}, "b": None}
    assert changed({**config, "a": {"new": 1}}, defaults)["a"] == {"new": 1}


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
    ],
)
def test_settings_are_assignments_separated_by_commas(spec: str, settings: OtherSettings) -> None:
    assert read_other_settings(spec) == settings


@pytest.mark.parametrize(
    "spec",
    [
        "distributed==2026.7.0",
        "distributed>=2026.7.0",
        "distributed @ git+https://example.org/x?a=b",
        "../workers=3/bin/python",
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
    expected = [
        (name if name.startswith(("config.", "worker.")) else f"config.{name}", value)
        for name, value in pairs
    ]
    assert list(settings.options) == expected


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("worker=200", "there is no setting 'worker' (did you mean 'workers'?)"),
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
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SettingsError, match="pip install uvloop"):
        check_known_to_dask({"config.distributed.admin.event-loop": "uvloop"})
