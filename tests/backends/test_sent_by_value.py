"""Tests of the names of code that was sent by value, which may have no file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import cloudpickle

from pytest_schedprof.agent.names import SENT, name_places

READ = """
import pickle, sys
from pytest_schedprof.agent.names import name_places
kind, function = pickle.load(sys.stdin.buffer)
codes = [kind.transition.__code__, function.__code__]
if "gone" in sys.argv:
    del kind, function
print(*name_places([(c.co_filename, c.co_name, c.co_firstlineno) for c in codes]))
"""


class Plugin:
    def transition(self) -> None:
        pass


def function() -> None:
    pass


def names_elsewhere(directory: Path, *arguments: str) -> list[str]:
    """Return the names that a process gives which cannot import this module."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        content = cloudpickle.dumps((Plugin, function))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    command = [sys.executable, "-c", READ, *arguments]
    done = subprocess.run(command, input=content, capture_output=True, check=True, cwd=directory)
    names: bytes = done.stdout
    return names.decode().split()


def test_methods_sent_by_value_have_the_module_of_their_class(tmp_path: Path) -> None:
    method, _ = names_elsewhere(tmp_path)
    module = __name__.rpartition(".")[2]
    assert method.rpartition(":")[0].endswith(module)
    assert method.endswith((":Plugin.transition", ":transition"))


def test_functions_sent_by_value_have_one_name_whether_they_live_or_not(tmp_path: Path) -> None:
    _, alive = names_elsewhere(tmp_path)
    _, gone = names_elsewhere(tmp_path, "gone")
    assert alive == gone
    assert alive.endswith(":function")


def test_code_of_no_class_is_told_to_have_been_sent() -> None:
    assert name_places([(SENT, "burn.<locals>.burnt", 7)]) == [f"{SENT}:burn.<locals>.burnt"]
