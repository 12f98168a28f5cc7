"""The two sides of a measurement compared: where the tests run, and the scheduler."""

from __future__ import annotations

from collections.abc import Mapping


def differences(
    here: Mapping[str, str], there: Mapping[str, str], *, python: tuple[str, str]
) -> tuple[str, ...]:
    """What is not the same on both sides, in words; `python` is that of here and of there."""
    sides = [("Python", *python)]
    sides += [(name, version, there[name]) for name, version in here.items() if name in there]
    return tuple(
        f"{name} is {one} where the tests run and {other} where the scheduler does"
        for name, one, other in sides
        if one != other
    )
