"""Tests of what holds for every command of `schedprof`."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pytest_schedprof.cli.main import COMMANDS, parser_of

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
