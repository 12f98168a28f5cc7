"""Tests of what holds for every command of `schedprof`."""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from measured import TRANSITION, counted, measured

from pytest_schedprof.backends.registry import BUILTIN
from pytest_schedprof.cli import main
from pytest_schedprof.store.baselines import save

DOCS = Path(__file__).parents[2] / "docs"


(SUBPARSERS,) = [
    action
    for action in main.parser_of(main.COMMANDS)._actions
    if isinstance(action, argparse._SubParsersAction)
]
PARSERS: dict[str, argparse.ArgumentParser] = SUBPARSERS.choices
"""Parsers of all commands, by name."""


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


@pytest.mark.parametrize(
    ("status", "line", "words"),
    [
        (2, "bisect --releases=1..2 '--package=a b' test_it.py", "must be a package's name"),
        (2, "bisect --releases=2026.8.0..2025.5.0 test_it.py", "the earliest first"),
        (
            2,
            "bisect --releases=2025.5.2..2025.6.1 test_it.py",
            "distributed has no two releases in '2025.5.2..2025.6.1'",
        ),
        (2, "bisect --releases=new..old test_it.py", "--releases must be FIRST..LAST"),
        (2, "bisect --releases=1,2 --metric=banana test_it.py", "--metric 'banana' is unknown; "),
        (128, "bisect test_it.py", "nothing to run: give a pytest command after --, or --releases"),
        (2, "doctor --backend pyspi", f"(did you mean 'pyspy'?); known: {', '.join(BUILTIN)}"),
        (2, "doctor --option idle", "must be backend.option=value, got 'idle' (from --option)"),
        (2, "doctor --option pyspy.idl=1", "no option 'idl' (did you mean 'idle'?); known: "),
        (2, "doctor --timeout soon", "timeout must be a positive number of seconds"),
        (2, "doctor 127.0.0.1:8786", "'127.0.0.1:8786' is no scheduler's address ("),
        (2, "explain --metric=banana", "metric 'banana' is not divided among functions; known: "),
        (2, "explain a b c d", "'d' is too much: give a test, and two runs or baselines"),
        (2, "explain no such", "there is no '.schedprof/baselines/no'"),
        (1, "explain test_x", "no run in"),
        (2, "record tcp://127.0.0.1:1 -o a --seconds=-1", "must be a positive number, got '-1'"),
    ],
)
def test_a_mistake_is_one_clear_line(
    status: int,
    line: str,
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main.main(shlex.split(line)) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("schedprof: ")
    assert output.err.count("\n") == 1
    assert words in output.err


@pytest.mark.parametrize(
    ("output", "status", "words"),
    [
        pytest.param(
            *("/dev/full", 2, "schedprof: No space left on device\n"),
            marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has it"),
        ),
        ("&{unread}", 141, ""),
        ("&-", 0, ""),
    ],
)
def test_no_output_that_is_full_or_closed_says_that_something_regressed(
    output: str, status: int, words: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "good.json")
    save(file, "", "run-1", [measured(counted({TRANSITION: 1.0}))])
    reading, unread = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pytest_schedprof", "compare", file, file]
    line = f"{shlex.join(command)} >{output.format(unread=unread)}"
    done = subprocess.run(
        ["bash", "-c", line], pass_fds=[unread], stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(unread)
    assert (done.returncode, done.stderr) == (status, words)
