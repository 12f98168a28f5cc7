"""What patterns of limits on evidence name: measures, tasks and phases, instead of functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import get_close_matches

from pytest_schedprof.model.metric import ANY_KIND, METRICS
from pytest_schedprof.model.profile import compile_pattern

_FIGURE = re.compile(r"[a-z][a-z0-9_]*:[\w.*?-]+")
_PREFIX = re.compile(r"[\w.*?<>+-]+")


def choices(metric: str, pattern: str) -> Sequence[str]:
    """Return the names that match a pattern, of a metric with a closed list of them."""
    matches = compile_pattern(pattern).fullmatch
    return [name for name in METRICS[metric].choices if matches(name)]


def wanted_instead(metric: str, pattern: str) -> str:
    """Return what should stand where a pattern is that the metric cannot have; else empty."""
    if known := METRICS[metric].choices:
        kind = f"a {METRICS[metric].named}"
        return "" if choices(metric, pattern) else one_of(kind, pattern, known)
    if METRICS[metric].evidence == ANY_KIND:
        return "" if _FIGURE.fullmatch(pattern) else "kind:figure, as in queue:longest"
    return "" if _PREFIX.fullmatch(pattern) else "the prefix of a task's key, with * and ?"


def one_of(kind: str, word: str, known: tuple[str, ...]) -> str:
    """Say what is known, and which of it a word may have been meant for."""
    close = get_close_matches(word, known, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"{kind}: {', '.join(known)}{hint}"
