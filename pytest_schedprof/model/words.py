"""Words that users write for truth values, times and sizes; lists of names for users to read."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})


def read_boolean(value: object) -> bool:
    """Read a bool, or one of the words that ini files have for it, in any case.

    Raises:
        ValueError: for any other value.
    """
    word = str(value).strip().lower()
    if word not in TRUE | FALSE:
        raise ValueError(value)
    return word in TRUE


def listed(names: Sequence[str], last: str = "and") -> str:
    """Join names as in `a, b and c`.

    Args:
        names: one or several; of none the text is empty.
        last: the word before the last name.
    """
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


SIZES = {
    **{"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "pb": 10**15},
    **{"kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "pib": 2**50},
    **{"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "p": 10**15},
    **{"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40, "pi": 2**50},
}
"""All units of sizes that dask knows, too."""


def read_size(text: str) -> int:
    """Read a size such as `20MB`, `1GiB`, or a number of bytes.

    Raises:
        ValueError: for any other text, and for a size below 0.
    """
    parts = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)\s*", text.lower())
    if parts is None or parts[2] not in SIZES:
        raise ValueError(text)
    return int(float(parts[1]) * SIZES[parts[2]])


UNITS = {
    **{"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "": 1.0, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0},
    **{"d": 86400.0, "w": 604800.0, "nanosecond": 1e-9, "microsecond": 1e-6, "millisecond": 1e-3},
    **{"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86400.0, "week": 604800.0},
}
"""All units of times that dask knows, too; those that are words also with an s at the end."""


def read_seconds(text: str) -> float:
    """Read a time such as `500ms`, `10s`, `5min`, `2h`, `1d`, or a number of seconds.

    Raises:
        ValueError: for any other text, and for a time below 0.
    """
    parts = re.fullmatch(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*([a-z]*)\s*", text.lower())
    unit = parts[2] if parts else "?"
    unit = unit.removesuffix("s") if len(unit) > 4 else unit
    if parts is None or unit not in UNITS or not math.isfinite(float(parts[1])):
        raise ValueError(text)
    return float(parts[1]) * UNITS[unit]
