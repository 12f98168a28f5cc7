"""Readers of option values, from text or from Python values, one for each kind of value.

They raise ValueError or TypeError, or OverflowError for a number above `MOST`. `Option.value` turns
these into a message with the source.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pytest_schedprof.clusters import KINDS
from pytest_schedprof.evidence import ALL

if TYPE_CHECKING:
    from pytest_schedprof.model.limit import Limit


MOST = 10**9
"""Largest number that an option can have, unless its row has a smaller bound."""


def positive(number: type[int] | type[float], most: float = MOST) -> Callable[[Any], Any]:
    """Return a reader of numbers above 0."""

    def read(raw: Any) -> Any:
        if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
            raise TypeError(raw)
        try:
            value = number(raw)
        except OverflowError:
            value = float("inf")
        if value > most:
            raise (OverflowError if most == MOST else ValueError)(raw)
        if not value > 0 or value != float(raw):
            raise ValueError(raw)
        return value

    return read


rate = positive(float)

count = positive(int)

wait = positive(float, most=86400)
"""Reads a time to wait; some systems' calls refuse longer ones."""


def boolean(raw: Any) -> bool:
    """Read a boolean; its reader is imported only when there is one."""
    from pytest_schedprof.model.words import read_boolean

    return read_boolean(raw)


def kept(raw: Any) -> int | None:
    """Read a size in bytes, or `all` for None; its reader is imported only when there is one."""
    from pytest_schedprof.model.words import read_size

    if isinstance(raw, bool) or not isinstance(raw, (str, int)):
        raise TypeError(raw)
    return None if raw == "all" else read_size(str(raw))


def words(raw: Any) -> tuple[str, ...]:
    """Read words, comma separated or in a list, without duplicates."""
    given = raw.split(",") if isinstance(raw, str) else list(raw)
    if not given or not all(isinstance(word, str) and word.strip() for word in given):
        raise ValueError(raw)
    return tuple(dict.fromkeys(word.strip() for word in given))


def text(raw: Any) -> str:
    """Read text that is not empty; no name on any system has a NUL in it."""
    if not isinstance(raw, str) or not raw.strip() or "\0" in raw:
        raise ValueError(raw)
    return raw.strip()


def cluster(raw: Any) -> str:
    """Read a kind of cluster, or an address."""
    kind = text(raw)
    if kind not in KINDS and "://" not in kind:
        raise ValueError(raw)
    return kind


def targets(raw: Any) -> tuple[str, ...]:
    """Read targets; the scheduler must be among them, because limits apply to it."""
    given = words(raw)
    for word in given:
        kind, colon, rest = word.partition(":")
        is_kind = word in ("scheduler", "workers", "client") or "://" in word
        if not is_kind and not (kind == "workers" and colon and count(rest)):
            raise ValueError(raw)
    if "scheduler" not in given:
        raise ValueError(raw)
    return given


def evidence(raw: Any) -> tuple[str, ...]:
    """Read names of kinds of evidence, or `all`; the registry of kinds checks the names."""
    given = words(raw)
    if ALL in given and len(given) > 1:
        raise ValueError(raw)
    return given


def scale(raw: Any) -> tuple[int, ...]:
    """Read sizes and sort them."""
    sizes = raw.split(",") if isinstance(raw, str) else [raw] if isinstance(raw, int) else list(raw)
    return tuple(sorted({count(size) for size in sizes}))


def limit(raw: Any) -> Limit:
    """Read a limit; the grammar is imported only when there is one."""
    from pytest_schedprof.judge.limits import parse_limit

    return parse_limit(text(raw))


def cluster_option(raw: Any) -> tuple[str, str]:
    """Read `name=value` as text."""
    name, equals, value = text(raw).partition("=")
    if not (equals and name.strip()):
        raise ValueError(raw)
    return name.strip(), value.strip()


def assignment(raw: Any) -> tuple[str, str, str]:
    """Read `backend.option=value` as text."""
    target, equals, value = text(raw).partition("=")
    backend, dot, name = target.strip().partition(".")
    if not (equals and dot and backend and name):
        raise ValueError(raw)
    return backend, name, value.strip()
