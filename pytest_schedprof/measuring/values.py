"""How the values of the plug-in's options are read, from text or from Python values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_schedprof.clusters import KINDS
from pytest_schedprof.evidence import ALL
from pytest_schedprof.evidence import KINDS as EVIDENCE
from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.limit import Limit
from pytest_schedprof.model.options import BOOLEAN, Reader, positive
from pytest_schedprof.model.words import read_size

count = positive(int)

wait = positive(float, most=86400)
"""Reads a time to wait; some systems' calls refuse longer ones."""


def kept(raw: Any) -> int | None:
    """Read a size in bytes, or `all` for None."""
    if isinstance(raw, bool) or not isinstance(raw, (str, int)):
        raise TypeError(raw)
    return None if raw == "all" else read_size(str(raw))


def words(raw: Any) -> tuple[str, ...]:
    """Read words, comma separated or in a list, without duplicates."""
    names = raw.split(",") if isinstance(raw, str) else list(raw)
    if not names or not all(isinstance(word, str) and word.strip() for word in names):
        raise ValueError(raw)
    return tuple(dict.fromkeys(word.strip() for word in names))


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
    names = words(raw)
    for word in names:
        kind, colon, rest = word.partition(":")
        is_kind = word in ("scheduler", "workers", "client") or "://" in word
        if not is_kind and not (kind == "workers" and colon and count(rest)):
            raise ValueError(raw)
    if "scheduler" not in names:
        raise ValueError(raw)
    return names


def evidence(raw: Any) -> tuple[str, ...]:
    """Read names of kinds of evidence, or `all`; the registry of kinds checks the names."""
    names = words(raw)
    if ALL in names and len(names) > 1:
        raise ValueError(raw)
    return names


def scale(raw: Any) -> tuple[int, ...]:
    """Read sizes and sort them."""
    sizes = raw.split(",") if isinstance(raw, str) else [raw] if isinstance(raw, int) else list(raw)
    return tuple(sorted({count(size) for size in sizes}))


def limit(raw: Any) -> Limit:
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


READERS: Mapping[str, Reader] = {
    "backend": Reader(words, "names of backends, or 'off'"),
    "dir": Reader(text, "a path"),
    "keep": Reader(kept, "a size such as 20MB or 0, or 'all'"),
    "limit": Reader(limit, "a limit such as 'share(@comm) <= 30%'"),
    "strict": BOOLEAN,
    "rate": Reader(positive(float), "a positive number of samples per second"),
    "workers": Reader(count, "a positive whole number"),
    "threads": Reader(count, "a positive whole number"),
    "cluster": Reader(
        cluster, f"{', '.join(map(repr, KINDS))}, or an address such as tcp://127.0.0.1:8786"
    ),
    "workload": Reader(text, "a path"),
    "rounds": Reader(count, "a positive whole number"),
    "seeds": Reader(count, "a positive whole number"),
    "scale": Reader(scale, "positive whole numbers such as 100,1000"),
    "targets": Reader(
        targets, "'scheduler' and any of 'workers', 'workers:N', 'client' and addresses of workers"
    ),
    "evidence": Reader(evidence, f"any of {', '.join(EVIDENCE)}, or 'all'"),
    "save": Reader(text, "a name, a path or a URL"),
    "compare": Reader(text, "a name, a path, a URL, or 'latest'"),
    "against": Reader(text, "an interpreter, a requirement, a checkout or settings"),
    "budget": Reader(wait, "a positive number of seconds, at most 86400 (a day)"),
    "null": BOOLEAN,
    "timeout": Reader(wait, "a positive number of seconds, at most 86400 (a day)"),
    "cluster_option": Reader(cluster_option, "name=value"),
    "option": Reader(assignment, "backend.option=value"),
}
"""Readers by the name of the option."""
