"""The limit language: `metric [ "(" pattern ")" ] "<=" bound`. docs/limits.md explains it.

A bound is a number with its unit, or `baseline`, `baseline * 1.05`, `baseline + 2pp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from msgspec.structs import replace

from pytest_schedprof.errors import LimitError, hint, quoted
from pytest_schedprof.judge.owners import COUNTED, NOT_SCHEDULER, OWNER_NAMES
from pytest_schedprof.judge.phases import CLIENT_OWNERS
from pytest_schedprof.model.limit import POINTS, Limit, LimitResult
from pytest_schedprof.model.metric import (
    ANY_KIND,
    BYTECODES,
    CALLS,
    GROWING,
    GROWTH,
    METRICS,
    PERCENT,
    SPELLINGS,
    Metric,
    Subject,
)
from pytest_schedprof.model.profile import compile_pattern
from pytest_schedprof.model.result import SIDES_IN_TURNS

_FIGURE = re.compile(r"[a-z][a-z0-9_]*:[\w.*?-]+")
_PREFIX = re.compile(r"[\w.*?<>+-]+")


def choices(metric: str, pattern: str) -> Sequence[str]:
    """Return the names that match a pattern, of a metric with a closed list of them."""
    matches = compile_pattern(pattern).fullmatch
    return [name for name in METRICS[metric].choices if matches(name)]


def expected_instead(metric: str, pattern: str) -> str:
    """Return what should stand where a pattern is that the metric cannot have; else empty."""
    if known := METRICS[metric].choices:
        kind = f"a {METRICS[metric].named}"
        return "" if choices(metric, pattern) else one_of(kind, pattern, known)
    if METRICS[metric].evidence == ANY_KIND:
        return "" if _FIGURE.fullmatch(pattern) else "kind:figure, as in queue:longest"
    return "" if _PREFIX.fullmatch(pattern) else "the prefix of a task's key, with * and ?"


def one_of(kind: str, word: str, known: tuple[str, ...]) -> str:
    """Say what is known, and which of it a word may have been meant for."""
    return f"{kind}{hint(word, known)}: {', '.join(known)}"


LIMITABLE_OWNERS = tuple(name for name in OWNER_NAMES if name not in NOT_SCHEDULER)

MOST = 1e15
"""Largest number in a limit: above everything that can be measured, and exact as a float."""

_METRIC = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")
_PATTERN = re.compile(r"[^()]*(?:\([^()]*\)[^()]*)*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_UNIT = re.compile(r"%|[A-Za-z]+")
_FUNCTION = re.compile(r"[\w.*?<>-]+:[\w.*?<>-]+")


def merge_limits(layers: Iterable[Iterable[Limit]]) -> tuple[Limit, ...]:
    """Merge limits of several layers; a later one replaces one with the same metric and pattern."""
    merged: dict[tuple[str, str, str, bool], Limit] = {}
    for layer in layers:
        merged.update({limit.key: limit for limit in layer})
    return tuple(merged.values())


def parse_limit(text: str) -> Limit:
    """Read one limit.

    Raises:
        LimitError: names the column of the mistake and what is expected there.
    """
    return _Parser(text).limit()


def parsed_limit(result: LimitResult) -> Limit | None:
    """Return the limit of a result; None if this release does not know its metric."""
    limit = result.parsed
    return limit if {limit.metric, limit.measured} <= METRICS.keys() else None


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def limit(self) -> Limit:
        name = self._metric()
        metric = METRICS[name]
        grown, pattern = self._growing() if name == GROWTH else ("", self._subject(name, metric))
        self._expect("<=", "'<=' (a limit is an upper bound)")
        is_relative = self._is_next("baseline")
        limit = self._relative(name, pattern) if is_relative else self._bound(metric)
        self._skip_space()
        if self._at < len(self._text):
            raise self._error("the end of the limit")
        return replace(limit, metric=name, pattern=pattern, of=grown)

    def _is_next(self, word: str) -> bool:
        self._skip_space()
        return self._text.startswith(word, self._at)

    def _relative(self, name: str, pattern: str) -> Limit:
        """Read `baseline`, optionally times a factor and plus an amount."""
        metric = METRICS[name]
        if name == GROWTH or pattern[1:] in CLIENT_OWNERS:
            subject = name if name == GROWTH else pattern
            raise self._error(f"{_bound_expected(metric)} ({subject} has no baseline)")
        self._expect("baseline", "'baseline'")
        factor = 1.0
        if self._is_next("*"):
            self._at += 1
            factor = self._factor()
        if not self._is_next("+"):
            return Limit("", "", 0.0, min(metric.units, key=len), factor=factor)
        self._at += 1
        if metric.units is PERCENT:  # only percentage points are not ambiguous here
            metric = replace(metric, units={POINTS: PERCENT["%"]})
        return replace(self._bound(metric), factor=factor)

    def _factor(self) -> float:
        start = self._skip_space()
        number = self._take(_NUMBER)
        if number is None or not float(number):
            raise self._error("a factor above 0, as in baseline * 1.05")
        return self._bounded(float(number), start)

    def _metric(self) -> str:
        start = self._skip_space()
        word = self._word()
        if word not in METRICS:
            self._at = start
            raise self._error(one_of("a metric", word, tuple(METRICS)))
        return word

    def _word(self) -> str:
        """Read the name of a metric, or how limits write it, as `stall(p99)`."""
        for spelling, name in SPELLINGS.items():
            if self._text.startswith(spelling, self._at):
                self._at += len(spelling)
                return name
        return self._take(_METRIC) or ""

    def _subject(self, name: str, metric: Metric) -> str:
        """Read the pattern in brackets, which some metrics need and some cannot have."""
        has_pattern = self._is_next("(")
        if has_pattern and Subject.FUNCTIONS not in metric.subjects:
            raise self._error(f"'<=': {_without_pattern(name)}")
        if not has_pattern and Subject.WHOLE in metric.subjects:
            return ""
        bound = "30%" if metric.units is PERCENT else f"6.1{min(metric.units, key=len)}"
        example = f"{name}({metric.example}) <= {bound}"
        self._expect("(", f"'(' and a {metric.named or 'function'}, as in {example}")
        pattern = self._pattern(name)
        self._expect(")", "')'")
        return pattern

    def _growing(self) -> tuple[str, str]:
        """Read the metric and the optional pattern in `growth(calls, pattern)`."""
        self._expect("(", "'(' and a metric, as in growth(bytecodes) <= 1.05")
        start = self._skip_space()
        metric = self._word()
        if metric not in GROWING:
            self._at = start
            raise self._error(one_of("a metric that can grow", metric, GROWING))
        pattern = ""
        has_pattern = self._is_next(",")
        if not has_pattern and Subject.WHOLE not in METRICS[metric].subjects:
            named, like = METRICS[metric].named or "function", METRICS[metric].example
            raise self._error(f"', ' and a {named}, as in growth({metric}, {like}) <= 1.05")
        if has_pattern:
            if Subject.FUNCTIONS not in METRICS[metric].subjects:
                raise self._error(f"')': {_without_pattern(metric)}")
            self._at += 1
            pattern = self._pattern(metric)
        self._expect(")", "')'")
        return metric, pattern

    def _pattern(self, metric: str) -> str:
        start = self._skip_space()
        pattern = (self._take(_PATTERN) or "").strip()
        if METRICS[metric].named:
            if instead := expected_instead(metric, pattern):
                self._at = start
                raise self._error(instead)
        elif pattern.startswith("@"):
            self._check_owner(pattern[1:], metric, start)
        elif not _FUNCTION.fullmatch(pattern):
            self._at = start
            example = f", as *:*.{pattern} for any of that name" if pattern.isidentifier() else ""
            raise self._error(f"module:qualname (with * and ?){example}, or @owner")
        return pattern

    def _check_owner(self, owner: str, metric: str, start: int) -> None:
        self._at = start
        counted = COUNTED if METRICS[metric].is_exact else ()
        sides = sorted(SIDES_IN_TURNS) if metric in (CALLS, BYTECODES) else ()
        if owner not in (known := (*LIMITABLE_OWNERS, *CLIENT_OWNERS, *counted, *sides)):
            raise self._error("@" + one_of("an owner", owner, known))
        if Subject.OWNERS not in METRICS[metric].subjects:
            raise self._error(f"a function: an owner has one share, write share(@{owner})")
        if owner in CLIENT_OWNERS and Subject.CLIENT not in METRICS[metric].subjects:
            raise self._error(f"an owner in the scheduler: @{owner} has only cpu")
        self._at = start + 1 + len(owner)

    def _bound(self, metric: Metric) -> Limit:
        start = self._skip_space()
        number = self._take(_NUMBER)
        self._skip_space()
        unit = self._take(_UNIT) or ""
        if number is None or unit not in metric.units:
            self._at -= len(unit)
            raise self._error(_bound_expected(metric, "" if unit else number))
        if metric.units is PERCENT and float(number) > 100:
            self._at = start
            raise self._error("a bound of at most 100%: a share cannot exceed it")
        amount = self._bounded(float(Decimal(number) * metric.units[unit]), start)
        return Limit("", "", amount, unit)

    def _bounded(self, number: float, start: int) -> float:
        if number > MOST:
            self._at = start
            raise self._error(f"a number of at most {MOST:g}")
        return number

    def _expect(self, token: str, expected: str) -> None:
        if not self._is_next(token):
            raise self._error(expected)
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

    def _error(self, expected: str) -> LimitError:
        rest = quoted(self._text[self._at :]) if self._at < len(self._text) else "the end"
        return LimitError(
            f"schedprof: limit {quoted(self._text)}: column {self._at + 1}: "
            f"expected {expected}; found {rest}"
        )


def _without_pattern(name: str) -> str:
    others = [spelling for spelling in SPELLINGS if spelling.startswith(f"{name}(")]
    more = f"; there is also {' and '.join(others)}" if others else ""
    return f"{name} is of the whole scheduler and takes no pattern{more}"


def _bound_expected(metric: Metric, number: str | None = None) -> str:
    """Return what a bound looks like, for example this number with a unit."""
    if metric.units is PERCENT:
        share = f"{100 * float(number):g}" if number and float(number) <= 1 else number or "30"
        return f"a bound in percent, as in {share}%, or the baseline, as in baseline + 2pp"
    if POINTS in metric.units:
        return "percentage points, as in baseline + 2pp"
    units = [unit for unit in metric.units if unit]
    if not units:
        return "a number without a unit, as in 6.1"
    return f"a number with its unit ({', '.join(units)}), as in {number or 5}{units[0]}"
