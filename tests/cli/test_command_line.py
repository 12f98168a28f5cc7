"""Tests of what holds for every command of `schedprof`."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import psutil
import pytest
from support import descendants, runs, wait_for

from pytest_schedprof.cli import main
from pytest_schedprof.errors import ArtifactError, SchedprofError

DOCS = Path(__file__).parents[2] / "docs"


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Parsers of all commands, by name."""
    (commands,) = [
        action
        for action in main.parser_of(main.COMMANDS)._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return dict(commands.choices)


PARSERS = parsers()


def test_each_file_is_one_command() -> None:
    files = Path(main.__file__).parent.glob("*.py")
    assert {file.stem for file in files} - {"__init__", "main"} == set(main.COMMANDS)


@pytest.mark.parametrize("name", PARSERS)
def test_help_of_each_command_shows_an_example_of_it(name: str) -> None:
    text = PARSERS[name].format_help()
    example = text.partition("\nexample")[2]
    assert f"schedprof {name}" in example
    assert "exit status:" in example or "exit status," in example


@pytest.mark.parametrize("name", PARSERS)
def test_each_command_is_documented(name: str) -> None:
    assert f"| [`{name}`](" in (DOCS / "options.md").read_text()


def test_many_items_are_done_in_several_processes_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    done = list(main.at_once(partial(place_and, 3), range(main.MANY)))
    assert [product for _, product in done] == [3 * item for item in range(main.MANY)]
    assert os.getpid() not in {place for place, _ in done}
    (alone,) = main.at_once(partial(place_and, 3), [5])
    assert alone == (os.getpid(), 15)


def place_and(factor: int, item: int) -> tuple[int, int]:
    return os.getpid(), factor * item


def test_what_one_process_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(ArtifactError, match="'run' is corrupt"):
        list(main.at_once(refuse, range(main.MANY)))


def test_a_helper_that_is_killed_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    with pytest.raises(SchedprofError, match="a process that helped was killed"):
        list(main.at_once(os._exit, range(main.MANY)))


def refuse(item: int) -> None:
    raise ArtifactError(f"schedprof: {'run'!r} is corrupt")


HANGING = """
import os, time
from pytest_schedprof.cli import main

if __name__ == "__main__":
    os.cpu_count = lambda: 2
    list(main.at_once(time.sleep, [600] * main.MANY))
"""


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_processes_end_with_the_command(end: signal.Signals, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(HANGING)
    with subprocess.Popen([sys.executable, str(script)]) as process:
        command = psutil.Process(process.pid)
        wait_for(lambda: len(descendants(command)) >= 2, "the helpers' start")
        helpers = descendants(command)
        process.send_signal(end)
        assert process.wait(60) == -end
    wait_for(lambda: not any(map(runs, helpers)), "the helpers' end")
