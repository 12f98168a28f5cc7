"""Tests of what stands in the way of names: functions whose names only `exec` can make, under every
backend on a real scheduler, and modules that do something if they are looked at.
"""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from support import recorded

from pytest_schedprof.agent.instructions import symbols
from pytest_schedprof.agent.names import find_functions, name_places, sources_of
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.control.control import Control
from pytest_schedprof.model.profile import CostProfile, SampleProfile

NAMES = ("x" * 10_000, 'a"b', "a\x1b[31mb", "a\nb", "a\\b", "<b>|`", "é\u202e", "a\x07b")

SECONDS = 0.05


def run_named(names: list[str], seconds: float) -> None:
    """Run a function of each name for some CPU time, each in a file of its own."""
    import time

    for number, name in enumerate(names):
        place: dict[str, Any] = {"time": time}
        source = (
            "def spin(until):\n"
            "    while time.thread_time() < until:\n"
            "        for _ in range(100):\n            pass\n"
        )
        exec(compile(source, f"/schedprof-{number}.py", "exec"), place)
        spin = place["spin"]
        spin.__code__ = spin.__code__.replace(co_name=name, co_qualname=name)
        spin(time.thread_time() + seconds)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["counts", "cprofile", "cputime", "memray", "pyspy", "viztracer"])
def test_a_function_of_any_name_can_be_profiled(control: Control, name: str) -> None:
    backend = BackendRegistry().make(name, rate_hz=200, options={})
    expected = len(NAMES) - (name == "pyspy")  # which does not show the longest name
    seen: set[str] = set()
    for _ in range(20):  # a sampler that waits for a processor may miss a function
        raw = recorded(control, backend, run_named, list(NAMES), SECONDS)
        profile = backend.read(raw.content, control.name_places)
        if name in ("counts", "memray"):  # of known modules, or with memory
            return
        if isinstance(profile, SampleProfile):
            functions = {function for stack in profile.stacks for function in stack}
        else:
            functions = set(profile.functions)
        seen |= {name for name in functions if re.match("schedprof-[0-9]:(?!<module>)", name)}
        if len(seen) >= expected:
            break
    assert len(seen) == expected


def test_a_file_whose_name_is_not_utf_8_can_be_profiled(control: Control) -> None:
    for name in ("counts", "cprofile", "cputime"):  # viztracer ends the process
        backend = BackendRegistry().make(name, rate_hz=100, options={})
        raw = recorded(control, backend, run_named, ["a\udcff"], SECONDS)
        profile = backend.read(raw.content, control.name_places)
        if name == "cprofile":  # which misses no call, and leaves no module out
            assert isinstance(profile, CostProfile)
            assert any(re.match("schedprof-0:(?!<module>)", called) for called in profile.functions)


class Proxy:
    """Is evaluated by whoever asks of which class it is, as the settings of Django."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("settings are not configured")


def test_names_are_found_without_evaluating_a_lazy_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = types.ModuleType("of_a_user")
    exec("def function(): pass", vars(module))
    module.settings = Proxy()
    monkeypatch.setitem(sys.modules, "of_a_user", module)
    name = "of_a_user:function"
    assert find_functions({"of_a_user:*": "of_a_user:.*"}, 9) == {"of_a_user:*": [name]}


def test_names_are_found_without_loading_a_lazy_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "lazy.py"
    file.write_text("raise OSError('libfoo.so: cannot open shared object file')")
    spec = importlib.util.spec_from_file_location("lazy", file)
    assert spec is not None
    assert spec.loader is not None
    spec.loader = importlib.util.LazyLoader(spec.loader)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "lazy", module)
    place = (__file__, "run_named", run_named.__code__.co_firstlineno)
    assert name_places([place]) == [f"{__name__}:run_named"]
    assert find_functions({"lazy:*": "lazy:.*"}, 9) == {"lazy:*": []}
    if sys.platform == "linux":
        assert list(symbols())


class Replacement:
    """Stands in the place of a module, which may put it there itself."""


def test_an_object_in_the_place_of_a_module_has_no_functions_that_are_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "of_a_user", Replacement())
    texts = sources_of(["of_a_user:work", f"{__name__}:run_named"])
    assert list(texts) == [f"{__name__}:run_named"]
    assert find_functions({"of_a_user:*": "of_a_user:.*"}, 9) == {"of_a_user:*": []}


@pytest.mark.skipif(sys.platform != "linux", reason="the interpreter names functions on Linux")
def test_names_that_the_interpreter_tells_can_have_line_breaks_and_be_cut_off() -> None:
    """The first two lines are of one function, and the disk was full after the last one's begin."""
    file = Path(f"/tmp/perf-{os.getpid()}.map")
    here = f"py::run_named:{__file__}"
    with file.open("x") as entries:  # no interpreter of a test writes its own
        entries.write(f"7f00 1c py::a\nb\x85c:/place/of.py\n7f1c 2a {here}\n7f46 1")
    try:
        first, second = [symbol for symbol in symbols() if symbol[0] < 0x8000]
    finally:
        file.unlink()
    assert first == (0x7F00, 0x1C, "py::of:a b c")
    assert second == (0x7F1C, 0x2A, f"py::{__name__}:run_named")


def test_a_path_among_the_places_of_modules_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [Path("/place"), "", "/place"])
    assert name_places([("/place/package/module.py", "function", 1)]) == ["package.module:function"]
