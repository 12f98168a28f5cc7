"""How a command of `schedprof` is told to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeAlias

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *,
    purpose: str,
    description: str,
    example: str,
) -> argparse.ArgumentParser:
    """Its parser; the example keeps its lines."""
    parser = commands.add_parser(
        name,
        help=purpose,
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser
