"""Tests that the documented format of recorded workloads is enough to read one."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from pytest_schedprof.formats.workload import read_workload
from pytest_schedprof.workloads import collections as recorded

PAGE = Path(__file__).parents[2] / "docs" / "production.md"
FILES = Path(recorded.__file__).parent / "files"


def read_by_the_docs(path: Path) -> list[str]:
    """Run the program of the page in a fresh interpreter."""
    (program,) = re.findall(r"```python\n(import struct\n.*?)```", PAGE.read_text(), re.DOTALL)
    assert "pytest_schedprof" not in program
    done = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def expected(content: bytes) -> list[str]:
    workload = read_workload(content)
    prefixes = {task.number: task.group.prefix for graph in workload.graphs for task in graph.tasks}
    seconds: defaultdict[str, float] = defaultdict(float)
    for number, result in workload.results.items():
        seconds[prefixes.get(number, "?")] += result.seconds + sum(result.failed)
    return [f"{prefix}\t{spent:.6f}" for prefix, spent in sorted(seconds.items())]


@pytest.mark.parametrize("name", ["recorded_shuffle", "recorded_rechunk", "recorded_sweep"])
def test_the_program_of_the_page_reads_it(name: str) -> None:
    path = FILES / f"{name}.schedprof"
    assert read_by_the_docs(path) == expected(path.read_bytes())


def test_the_program_of_the_page_reads_up_to_the_last_whole_block(tmp_path: Path) -> None:
    content = (FILES / "recorded_sweep.schedprof").read_bytes()
    cut = tmp_path / "cut.schedprof"
    cut.write_bytes(content[: len(content) * 2 // 3])
    assert read_by_the_docs(cut) == expected(cut.read_bytes())
