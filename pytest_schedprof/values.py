"""What options are given as, in text or as Python values: readers, each of one kind of value.

They raise ValueError or TypeError; the table of options names the value and where it came from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_schedprof.gates.limits import Limit

CLUSTER_KINDS = ("local", "simulated", "docker")
EVIDENCE_KINDS = ("span", "report", "memory", "tasks", "transfers", "workers", "local", "phases")


def positive(number: type[int] | type[float], most: float = float("inf")) -> Callable[[Any], Any]:
    """Reader of numbers above 0."""

    def read(raw: Any) -> Any:
        if isinstance(raw, bool) or not isinstance(raw, (str, int, float)):
            raise TypeError(raw)
        value = number(raw)
        if not 0 < value < float("inf") or value > most or value != float(raw):
            raise ValueError(raw)
        return value

    return read


def boolean(raw: Any) -> bool:
    """In any of the words that ini files have for it."""
    meant = {"true": True, "yes": True, "on": True, "1": True}
    meant |= {"false": False, "no": False, "off": False, "0": False}
    if isinstance(raw, bool):
        return raw
    if not isinstance(raw, str) or raw.strip().lower() not in meant:
        raise ValueError(raw)
    return meant[raw.strip().lower()]


def words(raw: Any) -> tuple[str, ...]:
    """Comma separated, or in a list; each once."""
    given = raw.split(",") if isinstance(raw, str) else list(raw)
    if not given or not all(isinstance(word, str) and word.strip() for word in given):
        raise ValueError(raw)
    return tuple(dict.fromkeys(word.strip() for word in given))


def text(raw: Any) -> str:
    """Not empty."""
    if not isinstance(raw, str) or not raw.strip():
        raise ValueError(raw)
    return raw.strip()


def cluster(raw: Any) -> str:
    """A kind, or an address."""
    kind = text(raw)
    if kind not in CLUSTER_KINDS and "://" not in kind:
        raise ValueError(raw)
    return kind


def targets(raw: Any) -> tuple[str, ...]:
    """The scheduler is always one of them: of it alone limits speak."""
    given = words(raw)
    for word in given:
        kind, colon, rest = word.partition(":")
        is_kind = word in ("scheduler", "workers", "client") or "://" in word
        if not is_kind and not (kind == "workers" and colon and rest.isdecimal() and int(rest)):
            raise ValueError(raw)
    if "scheduler" not in given:
        raise ValueError(raw)
    return given


def evidence(raw: Any) -> tuple[str, ...]:
    """Kinds, or all of them."""
    given = words(raw)
    if given == ("all",):
        return EVIDENCE_KINDS
    if not set(given) <= set(EVIDENCE_KINDS):
        raise ValueError(raw)
    return given


def scale(raw: Any) -> tuple[int, ...]:
    """Sizes, from the smallest up."""
    sizes = raw.split(",") if isinstance(raw, str) else [raw] if isinstance(raw, int) else list(raw)
    return tuple(sorted({positive(int)(size) for size in sizes}))


def limit(raw: Any) -> Limit:
    """Read by the grammar, which is imported when there is one to read."""
    from pytest_schedprof.gates.limits import parse_limit

    return parse_limit(text(raw))


def cluster_option(raw: Any) -> tuple[str, str]:
    """`name=value`, as text."""
    name, equals, value = text(raw).partition("=")
    if not (equals and name.strip()):
        raise ValueError(raw)
    return name.strip(), value.strip()


def assignment(raw: Any) -> tuple[str, str, str]:
    """`backend.option=value`, as text."""
    target, equals, value = text(raw).partition("=")
    backend, dot, name = target.strip().partition(".")
    if not (equals and dot and backend and name):
        raise ValueError(raw)
    return backend, name, value.strip()
