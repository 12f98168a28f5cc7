"""Tests that are the same under another ID."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection


def renamed_tests(vanished: Collection[str], new: Collection[str]) -> list[tuple[str, str]]:
    """Pairs that have the same name in another place, if they are the only ones of that name."""
    olds, news = Counter(map(_name, vanished)), Counter(map(_name, new))
    return [
        (old, candidate)
        for old in sorted(vanished)
        for candidate in new
        if _name(old) == _name(candidate) and olds[_name(old)] == news[_name(candidate)] == 1
    ]


def _name(test_id: str) -> str:
    return test_id.rpartition("::")[2]
