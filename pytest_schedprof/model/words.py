"""Words that users write for truth values, and lists of names for users to read."""

from __future__ import annotations

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
