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
    **{"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9},
    **{"kib": 2**10, "mib": 2**20, "gib": 2**30},
}


def read_size(text: str) -> int:
    """Read a size such as `20MB`, `1GiB`, or a number of bytes.

    Raises:
        ValueError: for any other text, and for a size below 0.
    """
    found = re.fullmatch(r"\s*(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)\s*", text.lower())
    if found is None or found[2] not in SIZES:
        raise ValueError(text)
    return int(float(found[1]) * SIZES[found[2]])


UNITS = {"ms": 1e-3, "": 1.0, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def read_seconds(text: str) -> float:
    """Read a time such as `500ms`, `10s`, `5min`, `2h`, `1d`, or a number of seconds.

    Raises:
        ValueError: for any other text, and for a time below 0.
    """
    found = re.fullmatch(r"\s*([0-9.e+]+)\s*([a-z]*)\s*", text)
    if found is None or found[2] not in UNITS or not math.isfinite(float(found[1])):
        raise ValueError(text)
    return float(found[1]) * UNITS[found[2]]
