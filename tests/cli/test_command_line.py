"""Tests of what holds for every command of `schedprof`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pytest_schedprof.cli import main

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
