"""Tests of what holds for every command of `schedprof`."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_schedprof.cli.main import COMMANDS, main, parser_of

DOCS = Path(__file__).parents[2] / "docs"


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Parsers of all commands, by name."""
    (commands,) = [
        action
        for action in parser_of(COMMANDS)._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return dict(commands.choices)


PARSERS = parsers()


def test_each_file_is_one_command() -> None:
    assert len(PARSERS) == len(COMMANDS)


@pytest.mark.parametrize("name", PARSERS)
def test_help_of_each_command_shows_an_example_of_it(name: str) -> None:
    text = PARSERS[name].format_help()
    example = text.partition("\nexample")[2]
    assert f"schedprof {name}" in example
    assert "exit status:" in example or "exit status," in example


@pytest.mark.parametrize("name", PARSERS)
def test_each_command_is_documented(name: str) -> None:
    assert f"| [`{name}`](" in (DOCS / "options.md").read_text()


ASK_BASH = """
source "$1"
COMP_WORDS=(schedprof "${@:2}")
COMP_CWORD=$(($# - 1))
$(complete -p schedprof | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
echo "${COMPREPLY[@]}"
"""


def test_bash_completes_commands_options_and_values(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "completion"
    script.write_text(capsys.readouterr().out)

    def completed(*words: str) -> set[str]:
        command = ["bash", "-c", ASK_BASH, "bash", str(script), *words]
        return set(subprocess.check_output(command, text=True).split())

    assert completed("") == set(PARSERS)
    assert completed("prune", "--k") == {"--keep"}
    assert {"pprof", "pstats"} <= completed("export", "--format", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_have_scripts_too(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [name for name in PARSERS if name not in script] == []


def test_without_shtab_it_is_told_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "pip install 'pytest-schedprof[completion]'" in capsys.readouterr().err
