"""The limit language: `metric [ "(" pattern ")" ] "<=" bound`. docs/limits.md is its manual.

A bound is a number with its unit, or `baseline`, `baseline * 1.05`, `baseline + 2pp`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from decimal import Decimal
from difflib import get_close_matches
from functools import cached_property

from pytest_schedprof.analysis.owners import NOT_SCHEDULER, OWNER_NAMES
from pytest_schedprof.analysis.phases import CLIENT_OWNERS
from pytest_schedprof.errors import LimitError
from pytest_schedprof.model.metric import GROWING, METRICS, PERCENT, Metric, format_amount

LIMITABLE_OWNERS = tuple(name for name in OWNER_NAMES if name not in NOT_SCHEDULER)

POINTS = "pp"
"""Percentage points: what is added to a baseline that is a share."""

_METRIC = re.compile(r"[A-Za-z_]+")
_PATTERN = re.compile(r"[^()]*(?:\([^()]*\)[^()]*)*")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_UNIT = re.compile(r"%|[A-Za-z]+")
_FUNCTION = re.compile(r"[\w.*?<>-]+:[\w.*?<>-]+")


@dataclass(frozen=True)
class Limit:
    """A bound on a metric of the functions, or the owner, that a pattern names."""

    metric: str
    pattern: str
    """Empty for the scheduler as a whole."""
    bound: float
    """In the unit of results: a fraction of one, seconds, bytes. `30%` is 0.3."""
    unit: str = "%"
    """In which the bound was written."""
    of: str = ""
    """The metric whose growth is limited; empty for every other limit."""
    factor: float = 0.0
    """How often the baseline is in the bound, beside what `bound` says; 0 of an absolute limit."""

    @property
    def is_relative(self) -> bool:
        """Whether a baseline is needed to judge it."""
        return self.factor > 0

    @property
    def key(self) -> tuple[str, str, str, bool]:
        """What a closer limit must share with a farther one to replace it."""
        return (self.metric, self.of, self.pattern, self.is_relative)

    @property
    def measured(self) -> str:
        """The metric that a backend must measure."""
        return self.of or self.metric

    @cached_property
    def owner(self) -> str | None:
        """The owner that the pattern names, None if it names functions."""
        return self.pattern[1:] if self.pattern.startswith("@") else None

    @property
    def is_of_client(self) -> bool:
        """Whether it bounds a phase that the scheduler does not see."""
        return self.owner in CLIENT_OWNERS

    def __str__(self) -> str:
        words = ", ".join(filter(None, (self.of, self.pattern)))
        subject = f"({words})" if words else ""
        return f"{self.metric}{subject} <= {self._bound}"

    @property
    def _bound(self) -> str:
        units = {**METRICS[self.metric].units, POINTS: PERCENT["%"]}
        amount = format_amount(self.bound, self.unit, units[self.unit])
        if not self.is_relative:
            return amount
        times = "" if self.factor == 1 else f" * {format_amount(self.factor, '', Decimal(1))}"
        return f"baseline{times}{f' + {amount}' if self.bound else ''}"


def merge_limits(layers: Iterable[Iterable[Limit]]) -> tuple[Limit, ...]:
    """Limits add up; of two with the same metric and pattern the later layer's holds."""
    merged: dict[tuple[str, str, str, bool], Limit] = {}
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
        name = self._metric()
        metric = METRICS[name]
        of, pattern = self._growing() if metric.of_metric else ("", self._subject(name, metric))
        self._expect("<=", "'<=' (a limit is an upper bound)")
        is_relative = self._is_next("baseline")
        limit = self._relative(metric, pattern) if is_relative else self._bound(metric)
        self._skip_space()
        if self._at < len(self._text):
            raise self._error("the end of the limit")
        return replace(limit, metric=name, pattern=pattern, of=of)

    def _is_next(self, word: str) -> bool:
        self._skip_space()
        return self._text.startswith(word, self._at)

    def _relative(self, metric: Metric, pattern: str) -> Limit:
        """`baseline`, times a factor or plus an amount."""
        if metric.of_metric or pattern[1:] in CLIENT_OWNERS:
            subject = "growth" if metric.of_metric else pattern
            raise self._error(f"{_bound_wanted(metric)} ({subject} has no baseline)")
        self._expect("baseline", "'baseline'")
        factor = 1.0
        if self._is_next("*"):
            self._at += 1
            factor = self._factor()
        if not self._is_next("+"):
            return Limit("", "", 0.0, min(metric.units, key=len), factor=factor)
        self._at += 1
        more = self._bound(_addable(metric))
        return replace(more, factor=factor)

    def _factor(self) -> float:
        self._skip_space()
        number = self._take(_NUMBER)
        if number is None or not float(number):
            raise self._error("a factor above 0, as in baseline * 1.05")
        return float(number)

    def _metric(self) -> str:
        start = self._skip_space()
        word = self._take(_METRIC) or ""
        if word not in METRICS:
            self._at = start
            raise self._error(_one_of("a metric", word, tuple(METRICS)))
        return word

    def _subject(self, name: str, metric: Metric) -> str:
        """The pattern in its brackets, which some metrics need and some cannot have."""
        self._skip_space()
        if not metric.of_functions or (
            metric.of_whole and not self._text.startswith("(", self._at)
        ):
            return ""
        example = f"{name}(distributed.scheduler:*) <= {_example(metric)}"
        self._expect("(", f"'(' and a function, as in {example}")
        pattern = self._pattern(name)
        self._expect(")", "')'")
        return pattern

    def _growing(self) -> tuple[str, str]:
        """Of `growth(calls, pattern)` what is in the brackets; the pattern may be missing."""
        self._expect("(", "'(' and a metric, as in growth(bytecodes) <= 1.05")
        start = self._skip_space()
        of = self._take(_METRIC) or ""
        if of not in GROWING:
            self._at = start
            raise self._error(_one_of("a metric that can grow", of, GROWING))
        self._skip_space()
        pattern = ""
        if not METRICS[of].of_whole:
            self._require_comma(of)
        if METRICS[of].of_functions and self._text.startswith(",", self._at):
            self._at += 1
            pattern = self._pattern(of)
        self._expect(")", "')'")
        return of, pattern

    def _require_comma(self, of: str) -> None:
        if not self._text.startswith(",", self._at):
            raise self._error(f"', ' and a function, as in growth({of}, @transitions) <= 1.05")

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
        if owner not in (known := LIMITABLE_OWNERS + CLIENT_OWNERS):
            raise self._error("@" + _one_of("an owner", owner, known))
        if metric == "self":
            raise self._error(f"a function: an owner has one share, write share(@{owner})")
        if owner in CLIENT_OWNERS and metric != "cpu":
            raise self._error(f"an owner in the scheduler: of @{owner} there is cpu alone")
        self._at = start + 1 + len(owner)

    def _bound(self, metric: Metric) -> Limit:
        start = self._skip_space()
        number = self._take(_NUMBER)
        self._skip_space()
        unit = self._take(_UNIT) or ""
        if number is None or unit not in metric.units:
            self._at -= len(unit)
            raise self._error(_bound_wanted(metric))
        self._skip_space()
        if metric.units is PERCENT and float(number) > 100:
            self._at = start
            raise self._error("a bound of at most 100%: a share cannot exceed it")
        return Limit("", "", float(Decimal(number) * metric.units[unit]), unit)

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


def _addable(metric: Metric) -> Metric:
    """With the units of what may be added to a baseline: a percent of a share says not of what."""
    return metric._replace(units={POINTS: PERCENT["%"]}) if metric.units is PERCENT else metric


def _example(metric: Metric) -> str:
    return "30%" if metric.units is PERCENT else f"6.1{min(metric.units, key=len)}"


def _bound_wanted(metric: Metric) -> str:
    if metric.units is PERCENT:
        return "a bound in percent, as in 30%, or the baseline, as in baseline + 2pp"
    if POINTS in metric.units:
        return "percentage points, as in baseline + 2pp"
    units = ", ".join(unit for unit in metric.units if unit)
    return f"a number with its unit ({units})" if units else "a number without a unit, as in 6.1"
