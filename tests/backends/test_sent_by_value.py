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


def test_methods_have_the_module_of_their_class_and_functions_one_name(tmp_path: Path) -> None:
    method, function = names_elsewhere(tmp_path)
    assert method.rpartition(":")[0].endswith(__name__.rpartition(".")[2])
    assert method.endswith((":Plugin.transition", ":transition"))
    assert function.endswith(":function")
    assert names_elsewhere(tmp_path, "gone")[1] == function  # whether it lives or not


def test_code_of_no_class_is_told_to_have_been_sent() -> None:
    assert name_places([(SENT, "burn.<locals>.burnt", 7)]) == [f"{SENT}:burn.<locals>.burnt"]
