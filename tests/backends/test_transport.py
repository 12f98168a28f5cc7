"""Tests of the agent on its way to other processes, also to one without this package."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import cloudpickle
import pytest
from distributed import LocalCluster

from pytest_schedprof.agent import counts, facts, names, viztracer
from pytest_schedprof.control.control import (
    DIRECTORY,
    Control,
    as_module,
    as_source,
    is_of_agent,
    relative_imports,
)
from pytest_schedprof.errors import RecordingError

BARE = """
import pickle, sys
before = set(sys.meta_path)
function = pickle.load(sys.stdin.buffer)
assert pickle.loads(pickle.dumps(function)) is function
(name,) = function([(sys.argv[1], "name_places", 1)])
print(name, len(set(sys.meta_path) - before), "pytest_schedprof" in sys.modules)
"""


def test_runs_where_nothing_is_installed() -> None:
    """Run it without site-packages; names of its own code must show that they are the agent's."""
    answer = subprocess.run(
        [sys.executable, "-I", "-S", "-c", BARE, str(Path(names.__file__))],
        input=pickle.dumps(as_source(names.name_places), protocol=4),
        capture_output=True,
        check=True,
    ).stdout.decode()
    name, finders, is_installed = answer.split()
    assert name.startswith("schedprof_agent_")
    assert name.endswith(".names:name_places")
    assert (finders, is_installed) == ("1", "False")


def test_a_function_brings_what_its_module_imports_and_no_more() -> None:
    small, large = (
        len(pickle.dumps(as_source(function))) for function in (names.name_places, viztracer.start)
    )
    needed = [DIRECTORY / f"{name}.py" for name in ("unpack", "__init__", "names")]
    assert small < sum(len(path.read_bytes()) for path in needed) + 1000
    assert small < large
    sent = pickle.dumps(as_source(counts.start)).decode("latin1")
    assert "class Monitor" in sent  # counts imports monitoring
    assert "class Flow" in sent  # monitoring imports blocks
    assert "class SignalSampler" not in sent


def test_who_has_it_does_not_read_it_again() -> None:
    sent = pickle.dumps(as_source(facts.versions))
    first, again = pickle.loads(sent), pickle.loads(sent)
    assert first is again
    assert first is not facts.versions  # a copy in a module of another name
    assert first() == facts.versions()


def test_what_is_no_agents_travels_by_value() -> None:
    assert is_of_agent(facts.versions)
    assert not is_of_agent(test_what_is_no_agents_travels_by_value)
    assert not is_of_agent(lambda: 0)


WITHOUT_THIS_PACKAGE = """
import pickle, sys
sys.path[1:1] = sys.argv[1:]  # no .pth file is read there, by which this package may be installed

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pytest_schedprof":
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
for pickled in pickle.load(sys.stdin.buffer):
    module = pickle.loads(pickled)
    print(module.__name__.rpartition(".")[2])
    package = module.__name__.partition(".")[0]
    # So that the next one brings all that it needs. Libraries have finders of their own.
    for finder in [finder for finder in sys.meta_path if getattr(finder, "package", "") == package]:
        sys.meta_path.remove(finder)
    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        del sys.modules[name]
"""

MODULES = sorted(path.stem for path in DIRECTORY.glob("*.py") if path.stem != "__init__")


def test_every_module_of_the_agent_arrives_where_this_package_is_not() -> None:
    """Each alone, with the standard library and what a scheduler has."""
    site = Path(cloudpickle.__file__).parents[1]
    sent = [pickle.dumps(as_module(name), protocol=4) for name in MODULES]
    process = subprocess.run(
        [sys.executable, "-I", "-S", "-c", WITHOUT_THIS_PACKAGE, str(site)],
        input=pickle.dumps(sent),
        capture_output=True,
        timeout=1500,
    )
    assert process.returncode == 0, process.stderr.decode()
    assert process.stdout.decode().split() == MODULES


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from .a import x", {"a"}),
        ("from .a import (\n    x,\n    y,\n)", {"a"}),
        ("from .a import x as y", {"a"}),
        ("from .a import x, \\\n    y", {"a"}),
        ("from . import a, b as c", {"a", "b"}),
        ("from . import (\n    a,\n)", {"a"}),
        ("def f():\n    from .a import x", {"a"}),
        ("try:\n    from . import a\nexcept ImportError:\n    from .b import a", {"a", "b"}),
        ("import os\nfrom sys import path", set()),
        ("'from .a import x'  # from .b import y", set()),
    ],
)
def test_imports_are_found_however_they_are_written(source: str, expected: set[str]) -> None:
    assert relative_imports(source) == expected


def fill_disk(dask_worker: Any = None) -> None:
    raise OSError(28, "No space left on device")


def test_what_fails_on_a_worker_is_not_the_end_of_the_scheduler() -> None:
    with (
        LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address=":0") as own,
        Control(own.scheduler_address) as control,
    ):
        (worker,) = control.call(facts.workers)
        for function, reason in ((fill_disk, "OSError"), (facts.workers, "AttributeError")):
            failed = f"{function.__name__} failed on the worker {worker}: {reason}: "
            with pytest.raises(RecordingError, match=failed):
                control.call_workers(function)
        assert control.call(facts.workers) == (worker,)


class Unreadable:
    def __reduce__(self) -> Any:
        return eval, ("1 / 0",)


def test_what_cannot_be_unpacked_there_is_one_clear_error(control: Control) -> None:
    def function(value: object = Unreadable()) -> None:
        """Arrive nowhere, for want of the default value."""

    failed = "function failed on the scheduler .*: ZeroDivisionError: division by zero"
    with pytest.raises(RecordingError, match=failed):
        control.call(function)
    assert control.is_up
