"""Tests of making environments from local wheels, and of programs that are no interpreters."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

import pytest

from pytest_schedprof.clusters.contract import ClusterSpec
from pytest_schedprof.clusters.environments import (
    Packages,
    environment_of,
    installed,
    interpreter_for,
    interpreter_in,
    make,
    name_of,
)
from pytest_schedprof.clusters.session import start
from pytest_schedprof.errors import ClusterError, SchedprofError, SettingsError

MAKING_S = 400.0


def wheel(path: Path, name: str, version: str, *needs: str) -> str:
    """Write a package of one module that has its version; return a requirement for it."""
    file = path / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(f"{name}.py", f"version = {version!r}\n")
        lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
        lines += [f"Requires-Dist: {need}" for need in needs]
        archive.writestr(f"{about}/METADATA", "\n".join(lines))
        archive.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{about}/RECORD", "")
    return f"{name}@{file.as_uri()}"


def made(path: Path, arguments: list[str], sites: tuple[str, ...]) -> Callable[[str], str]:
    """Make an environment with these packages; return a function that evaluates code there."""
    place = path / "environment"
    make(Packages(tuple(arguments)), place, sites, time.monotonic() + MAKING_S)

    def evaluate(expression: str) -> str:
        program = f"import sys; sys.path.remove(''); print({expression})"
        return subprocess.check_output(
            [str(interpreter_in(place)), "-c", program], text=True
        ).strip()

    return evaluate


FINDER = """
import sys
from importlib.util import spec_from_file_location

class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return spec_from_file_location(name, {file!r}) if name == "edited" else None

sys.meta_path.append(Finder)
"""
"""The finder of a checkout, as setuptools installs it."""


CHECKOUT = """
[build-system]
requires = []

[project]
name = "edited"
version = "{version}"
"""


def install_checkout(site: Path, version: str) -> None:
    site.mkdir(parents=True, exist_ok=True)
    (site / "checkout.py").write_text(f"version = {version!r}\n")
    (site / "finder.py").write_text(FINDER.format(file=str(site / "checkout.py")))
    (site / "__editable__.edited.pth").write_text("import finder\n")
    about = site / f"edited-{version}.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: edited\nVersion: {version}\n")
    source = site.parent / f"source-{version}"
    source.mkdir()
    (source / "pyproject.toml").write_text(CHECKOUT.format(version=version))
    origin = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (about / "direct_url.json").write_text(json.dumps(origin))


def test_what_is_asked_for_is_installed_and_all_else_is_as_on_this_side(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    install_checkout(site, "1")
    deep = wheel(tmp_path, "deep", "3")
    named = wheel(tmp_path, "edited", "2", "iniconfig>=1", deep, "absent; extra == 'more'")
    sites = (str(site), *(path for path in sys.path if path.endswith("site-packages")))
    environment = made(tmp_path, [named], sites)
    assert environment("__import__('edited').version") == "2"
    assert environment("__import__('deep').version") == "3"
    assert environment("__import__('iniconfig').__file__") == __import__("iniconfig").__file__


@pytest.mark.parametrize(("need", "version"), [("edited>=1", "1"), ("edited>=2", "2")])
def test_a_checkout_of_this_side_stays_unless_its_version_is_excluded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, need: str, version: str
) -> None:
    site = tmp_path / "site-packages"
    install_checkout(site, "1")
    wheel(tmp_path, "edited", "2")
    monkeypatch.setenv("UV_FIND_LINKS", str(tmp_path))
    environment = made(tmp_path, [wheel(tmp_path, "named", "1", need)], (str(site),))
    assert environment("__import__('edited').version") == version


def test_what_a_broken_removal_leaves_is_no_package(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    (site / "removed-1.dist-info").mkdir(parents=True)
    (site / "nameless-1.dist-info").mkdir()
    (site / "nameless-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\n")
    install_checkout(site, "1")
    assert list(installed([str(site)])) == ["edited"]


def test_without_uv_one_line_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "uv", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError) as caught:
        interpreter_for("distributed==2026.7.0", tmp_path / "cache", MAKING_S)
    assert "pip install 'pytest-schedprof[against]'" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.slow
def test_extras_that_are_asked_for_are_installed_with_those_that_they_need(tmp_path: Path) -> None:
    deep = wheel(tmp_path, "deep", "3", f"{wheel(tmp_path, 'deeper', '4')} ; extra == 'all'")
    needs = (f"{deep.replace('deep@', 'deep[all] @ ')} ; extra == 'more'", "absent; extra == 'no'")
    named = wheel(tmp_path, "wide", "2", *needs).replace("wide@", "wide[more] @ ")
    environment = made(tmp_path, [named], ())
    assert environment("__import__('deep').version") == "3"
    assert environment("__import__('deeper').version") == "4"


def test_a_checkout_there_wins_over_a_package_here(tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    site.mkdir(parents=True)
    (site / "edited.py").write_text("version = 'of this side'\n")
    (site / "only_here.py").write_text("")
    environment = made(tmp_path, [wheel(tmp_path, "unrelated", "1")], (str(site),))
    own = Path(environment("__import__('unrelated').__file__")).parent
    install_checkout(own, "2")
    assert environment("__import__('edited').version") == "2"
    assert environment("__import__('only_here').__file__") == str(site / "only_here.py")


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ("distributed=2026.7.0", "no such comparison operator"),
        ("distributed==2026.7.0 ???", "expected '-c', '-e', '-r' or the start of a requirement"),
        (f"dask {Path(__file__).parent}", "does not appear to be a Python project"),
    ],
)
def test_what_is_neither_a_requirement_nor_a_checkout_is_told_in_one_line(
    tmp_path: Path, spec: str, cause: str
) -> None:
    with pytest.raises(ClusterError, match=f"cannot be installed: .*{cause}") as caught:
        interpreter_for(spec, tmp_path / "cache", MAKING_S)
    assert "\n" not in str(caught.value)


def test_a_text_too_long_for_a_path_is_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="there is nothing at"):
        interpreter_for(f"distributed=={'1' * 300} ./missing", tmp_path)


def test_needs_that_contradict_each_other_are_told(tmp_path: Path) -> None:
    three = [wheel(tmp_path, "three", version).replace("@", " @ ") for version in "12"]
    named = [wheel(tmp_path, name, "1", need) for name, need in zip("ab", three, strict=True)]
    with pytest.raises(ClusterError, match=r"cannot be installed: .*three"):
        made(tmp_path, named, ())


def test_an_environment_is_made_once_also_by_two_sessions_at_a_time(tmp_path: Path) -> None:
    packages = Packages((wheel(tmp_path, "one", "1"),))
    cache = tmp_path / "cache"

    def get() -> Path:
        return environment_of(packages, cache, time.monotonic() + MAKING_S)

    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: get(), range(2))
    assert first == second
    assert [path.name for path in cache.iterdir()] == [name_of(packages)]
    written = os.stat(first.parent.parent / "pyvenv.cfg").st_mtime_ns
    assert get() == first
    assert os.stat(first.parent.parent / "pyvenv.cfg").st_mtime_ns == written


def test_what_cannot_be_made_leaves_nothing_and_what_is_unused_is_removed(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    old, new = cache / f"old-{0:016x}", cache / f"new-{0:016x}"
    foreign, dangling = cache / "somebody else's", cache / "dangling"
    for path in (old, new, foreign, cache / "making-left"):
        path.mkdir(parents=True)
        os.utime(path, (0, 0))
    os.utime(new)
    dangling.symlink_to("nothing")
    with pytest.raises(ClusterError, match=r"nothing\.whl"):
        interpreter_for(f"one @ {(tmp_path / 'nothing.whl').as_uri()}", cache, MAKING_S)
    assert set(cache.iterdir()) == {new, foreign, dangling}


def test_making_ends_in_time(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="was not installed in time; see whether the network"):
        interpreter_for(wheel(tmp_path, "one", "1"), tmp_path / "cache", 0.0)
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ClusterError, match="no environment can be kept in"):
        interpreter_for(wheel(tmp_path, "one", "1"), tmp_path / "file" / "cache", MAKING_S)


def test_without_a_home_directory_only_what_is_made_needs_a_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container that runs as any user."""
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    with pytest.raises(SettingsError, match=r"no home directory .* set XDG_CACHE_HOME"):
        interpreter_for(wheel(tmp_path, "one", "1"))
    python = script(tmp_path, answer(rest=NEW))
    assert interpreter_for(python, timeout_s=1.0).path == Path(python)


def script(path: Path, said: str) -> str:
    """Write a program that is not Python and prints this; return its path."""
    file = path / "python"
    file.write_text(f"#!/bin/sh\necho '{said}'\n")
    file.chmod(0o755)
    return str(file)


def answer(implementation: str = "CPython", python: str = "3.11.7", rest: str = "") -> str:
    return f'schedprof: {{"implementation": "{implementation}", "python": "{python}"{rest}}}'


OLD = ', "versions": {"dask": "2023.1.0", "distributed": "2023.1.0"}'
NEW = ', "versions": {"dask": "2026.7.0", "distributed": "2026.7.0"}'
NONE = ', "trouble": "ModuleNotFoundError: No module named distributed"'


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("who is there?", "is no Python (it said 'who is there?')"),
        (answer("PyPy"), "is PyPy; profilers know CPython alone"),
        (answer(python="3.10.18", rest=OLD), "is Python 3.10.18; it must be 3.11 or newer"),
        (answer(rest=OLD), "has distributed 2023.1.0; it must be 2024.8.0 or newer"),
        (answer(rest=NONE), "cannot import distributed (ModuleNotFoundError: No module named"),
    ],
)
def test_an_interpreter_that_cannot_run_a_scheduler_is_refused(
    tmp_path: Path, said: str, words: str
) -> None:
    python = script(tmp_path, said)
    with pytest.raises(SettingsError) as caught:
        interpreter_for(python, tmp_path, 1.0)
    assert str(caught.value).startswith(f"schedprof: {python!r} ")
    assert words in str(caught.value)


def test_a_command_of_a_relative_directory_of_the_path_can_run_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = script(tmp_path, answer(rest=NEW))
    monkeypatch.chdir(tmp_path.parent)
    monkeypatch.setenv("PATH", tmp_path.name, prepend=os.pathsep)
    assert interpreter_for("python", tmp_path, 1.0).path == Path(python)


def test_a_file_that_does_not_run_is_no_interpreter(tmp_path: Path) -> None:
    (tmp_path / "python").touch()
    with pytest.raises(SchedprofError, match=r"is no Python \(Permission denied\)"):
        interpreter_for(str(tmp_path / "python"), tmp_path, 1.0)


@pytest.mark.parametrize("version", ["0+unknown", "0+untagged.1.gabcdef0", "2024.8.0+3.gabcdef0"])
def test_a_checkout_without_tags_is_no_old_release(tmp_path: Path, version: str) -> None:
    versions = f', "versions": {{"dask": "2026.8.0", "distributed": "{version}"}}'
    python = script(tmp_path, answer(rest=versions))
    assert interpreter_for(python, tmp_path, 1.0).versions["distributed"] == version


def test_a_python_between_two_releases_has_a_version(tmp_path: Path) -> None:
    python = script(tmp_path, answer(python="3.15.0a5+", rest=NEW))
    assert interpreter_for(python, tmp_path, 1.0).python == "3.15.0a5+"


def test_this_interpreter_says_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "distributed").mkdir()
    (tmp_path / "distributed" / "__init__.py").touch()
    # Neither the working directory nor PYTHONPATH may stand for what is installed.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    interpreter = interpreter_for(sys.executable, tmp_path, 1.0)
    assert interpreter.path == Path(sys.executable)
    assert interpreter.python == ".".join(map(str, sys.version_info[:3]))
    assert interpreter.versions["distributed"] == metadata.version("distributed")


@pytest.mark.parametrize("kind", ["docker", "tcp://127.0.0.1:8786"])
def test_clusters_that_are_not_our_own_have_an_interpreter_of_their_own(kind: str) -> None:
    words = "has an interpreter of its own; .* can run cluster 'local' or 'simulated'"
    with pytest.raises(SettingsError, match=words):
        start(ClusterSpec(kind, interpreter="/usr/bin/python3"), timeout_s=1)
