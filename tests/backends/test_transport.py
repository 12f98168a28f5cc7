"""The agent in a process that has nothing of this package."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from pytest_schedprof.agent import counts, facts, names, viztracer
from pytest_schedprof.clusters.transport import as_source, is_of_agent

BARE = """
import pickle, sys
before = set(sys.meta_path)
function = pickle.load(sys.stdin.buffer)
assert pickle.loads(pickle.dumps(function)) is function
(name,) = function([(sys.argv[1], "name_places", 1)])
print(name, len(set(sys.meta_path) - before), "pytest_schedprof" in sys.modules)
"""


def test_runs_where_nothing_is_installed() -> None:
    """Not even site-packages; and names of its own code show whose it is."""
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
        len(pickle.dumps(as_source(each))) for each in (names.name_places, viztracer.start)
    )
    assert small < 12_000
    assert small < large
    sent = pickle.dumps(as_source(counts.start)).decode("latin1")
    assert "class Monitor" in sent  # counts imports monitoring
    assert "class Flow" in sent  # which imports blocks
    assert "class SignalSampler" not in sent


def test_who_has_it_does_not_read_it_again() -> None:
    sent = pickle.dumps(as_source(facts.versions))
    first, again = pickle.loads(sent), pickle.loads(sent)
    assert first is again
    assert first is not facts.versions  # a copy, under its own name
    assert first() == facts.versions()


def test_what_is_no_agents_travels_by_value() -> None:
    assert is_of_agent(facts.versions)
    assert not is_of_agent(test_what_is_no_agents_travels_by_value)
    assert not is_of_agent(lambda: 0)
