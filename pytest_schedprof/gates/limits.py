"""The limit language: `metric [ "(" pattern ")" ] "<=" bound`. docs/limits.md is its manual."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property

from pytest_schedprof.analysis.owners import NOT_SCHEDULER, OWNER_NAMES
from pytest_schedprof.errors import LimitError

METRICS = {"share": "%", "self": "%"}
"""Every metric and the unit of its bound."""

LIMITABLE_OWNERS = tuple(name for name in OWNER_NAMES if name not in NOT_SCHEDULER)

_METRIC = re.compile(r"[A-Za-z_]+")
_PATTERN = re.compile(r"[^()]*(?:\([^()]*\)[^()]*)*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_FUNCTION = re.compile(r"[\w.*?<>-]+:[\w.*?<>-]+")


@dataclass(frozen=True)
class Limit:
    """A bound on a metric of the functions, or the owner, that a pattern names."""

    metric: str
    pattern: str
    bound: float
    """A fraction of one for shares; the percent sign lives in the text only."""

    @property
    def key(self) -> tuple[str, str]:
        """What a closer limit must share with a farther one to replace it."""
        return (self.metric, self.pattern)

    @cached_property
    def owner(self) -> str | None:
        """The owner that the pattern names, None if it names functions."""
        return self.pattern[1:] if self.pattern.startswith("@") else None

    def __str__(self) -> str:
        return f"{self.metric}({self.pattern}) <= {format_percent(self.bound)}"


def format_percent(share: float) -> str:
    """A share as a user writes it, exact: 0.3 is `30%`."""
    text = format(Decimal(repr(share)) * 100, "f")
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text}%"


def merge_limits(layers: Iterable[Iterable[Limit]]) -> tuple[Limit, ...]:
    """Limits add up; of two with the same metric and pattern the later layer's holds."""
    merged: dict[tuple[str, str], Limit] = {}
    for layer in layers:
        merged.update({limit.key: limit for limit in layer})
    return tuple(merged.values())


def parse_limit(text: str) -> Limit:
    """Read one limit.

    Raises:
        LimitError: names the column at fault and what could stand there.
    """
    return _Parser(text).limit()


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def limit(self) -> Limit:
        metric = self._metric()
        self._expect("(", f"'(' and a function, as in {metric}(distributed.scheduler:*) <= 30%")
        pattern = self._pattern(metric)
        self._expect(")", "')'")
        self._expect("<=", "'<=' (a limit is an upper bound)")
        bound = self._bound()
        if self._at < len(self._text):
            raise self._error("the end of the limit")
        return Limit(metric, pattern, bound)

    def _metric(self) -> str:
        start = self._skip_space()
        word = self._take(_METRIC) or ""
        if word not in METRICS:
            self._at = start
            raise self._error(_one_of("a metric", word, tuple(METRICS)))
        return word

    def _pattern(self, metric: str) -> str:
        start = self._skip_space()
        pattern = (self._take(_PATTERN) or "").strip()
        if pattern.startswith("@"):
            self._check_owner(pattern[1:], metric, start)
        elif not _FUNCTION.fullmatch(pattern):
            self._at = start
            raise self._error("module:qualname (with * and ?), or @owner")
        return pattern

    def _check_owner(self, owner: str, metric: str, start: int) -> None:
        self._at = start
        if owner not in LIMITABLE_OWNERS:
            raise self._error("@" + _one_of("an owner", owner, LIMITABLE_OWNERS))
        if metric == "self":
            raise self._error(f"a function: an owner has one share, write share(@{owner})")
        self._at = start + 1 + len(owner)

    def _bound(self) -> float:
        start = self._skip_space()
        number = self._take(_NUMBER)
        self._skip_space()
        if number is None or not self._text.startswith("%", self._at):
            raise self._error("a bound in percent, as in 30%")
        self._at += 1
        self._skip_space()
        if float(number) > 100:
            self._at = start
            raise self._error("a bound of at most 100%: a share cannot exceed it")
        return float(Decimal(number) / 100)

    def _expect(self, token: str, wanted: str) -> None:
        self._skip_space()
        if not self._text.startswith(token, self._at):
            raise self._error(wanted)
        self._at += len(token)

    def _take(self, expression: re.Pattern[str]) -> str | None:
        match = expression.match(self._text, self._at)
        if match is None:
            return None
        self._at = match.end()
        return match.group()

    def _skip_space(self) -> int:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at

    def _error(self, wanted: str) -> LimitError:
        found = repr(self._text[self._at :]) if self._at < len(self._text) else "the end"
        return LimitError(
            f"schedprof: limit {self._text!r}: column {self._at + 1}: "
            f"expected {wanted}; found {found}"
        )


def _one_of(kind: str, word: str, known: tuple[str, ...]) -> str:
    close = get_close_matches(word, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{kind}: {', '.join(known)}{hint}"
