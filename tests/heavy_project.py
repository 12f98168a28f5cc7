"""A project with a plugin of the scheduler, and with a change that makes it slower."""

from __future__ import annotations

PROJECT = """
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "heavy"
version = "1"

[tool.hatch.build]
dev-mode-dirs = ["."]
"""

MODULE = """
from distributed import SchedulerPlugin


class Counter(SchedulerPlugin):
    count = 0

    def transition(self, key, start, finish, *args, **kwargs):
        self.count += 1
"""

MORE = """\
        for number in range(50):
            self.count += number
"""

TEST = """
import pytest
from distributed import wait
from heavy import Counter


@pytest.mark.schedprof
def test_tasks(schedprof_scheduler):
    client = schedprof_scheduler.client
    client.register_plugin(Counter(), name="counter")
    wait(client.map(str, range(20), pure=False))
"""

FILES = {"pyproject.toml": PROJECT, "heavy.py": MODULE, "tests/test_heavy.py": TEST}

LINES = (MODULE.count("\n") + 1, MODULE.count("\n") + MORE.count("\n"))
"""First and last line of `MORE` when it is added to the module."""
