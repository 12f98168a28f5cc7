"""Reads the values of options, as text or as Python values, and lists names for users to read.

Options of the plug-in, of backends, of kinds of evidence and of clusters are all read here.
"""

from __future__ import annotations

import math
import re
import shlex
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from inspect import get_annotations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, TypeVar

from pytest_schedprof.errors import SettingsError, hint, quoted

if TYPE_CHECKING:  # clusters read their options where msgspec may not be installed
    from msgspec import Struct

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


def listed(names: Sequence[str]) -> str:
    """Join names as in `a, b and c`; of none the text is empty."""
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


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
    unit = unit.removesuffix("s") if len(unit) > 3 else unit
    if parts is None or unit not in UNITS or not math.isfinite(float(parts[1])):
        raise ValueError(text)
    return float(parts[1]) * UNITS[unit]


T = TypeVar("T", bound="Struct")

Names: TypeAlias = tuple[str, ...]
"""Type of an option of names, in a list or separated by commas."""
Seconds: TypeAlias = float
"""Type of an option that is a time, as a number or as `500ms`."""

MOST = 10**9
"""Largest number that an option can have, unless it has a smaller bound."""


class Reader(NamedTuple):
    """How the value of an option is read."""

    read: Callable[[Any], Any]
    """Raises ValueError, TypeError, or OverflowError for a number above `MOST`."""
    must_be: str
    """What a value must be, for the message."""

    def value(self, option: str, raw: object, source: str = "") -> Any:
        """Read a value.

        Args:
            option: what the message calls it.
            raw: the value as it was given.
            source: where it was given, in brackets.

        Raises:
            SettingsError: names the value and what it must be.
        """
        try:
            return self.read(raw)
        except (ValueError, TypeError, OverflowError) as error:
            most = f" of at most {MOST}" if isinstance(error, OverflowError) else ""
            raise SettingsError(
                f"schedprof: {option} must be {self.must_be}{most}, got {quoted(raw)}{source}"
            ) from None


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


def read_options(
    kind: type[T], owner: str, raw: Mapping[str, object], *, noun: str = "backend"
) -> T:
    """Build the struct of a backend's options, or of those of another thing that has some.

    Raises:
        SettingsError: names the unknown option and the known ones, or the malformed value.
    """
    annotations = ChainMap(*map(get_annotations, kind.__mro__))
    readers = {name: _reader_of(annotations[name]) for name in kind.__struct_fields__}
    for name in raw:
        if name not in readers:
            raise SettingsError(
                f"schedprof: {noun} {owner!r} has no option {name!r}{hint(name, readers)}; "
                f"known: {', '.join(sorted(readers)) or 'none'}"
            )
    values = {name: readers[name].value(f"option {owner}.{name}", raw[name]) for name in raw}
    return kind(**values)


def _reader_of(annotation: Any) -> Reader:
    """Return the reader for an annotation, whether or not annotations are kept as text."""
    is_class = isinstance(annotation, type) and not hasattr(annotation, "__args__")
    return READERS[annotation.__name__ if is_class else str(annotation)]


def check_above_zero(option: str, value: float | None) -> None:
    """Check an amount that may be left out.

    Raises:
        SettingsError: if it is 0 or less.
    """
    if value is not None and not value > 0:
        raise SettingsError(f"schedprof: option {option} must be above 0, got {value:g}")


def check_choice(option: str, value: str, known: Sequence[str]) -> None:
    """Check a word that must be one of those known, of which one may be empty.

    Raises:
        SettingsError: names the known ones.
    """
    if value not in known:
        raise SettingsError(
            f"schedprof: option {option} must be one of {', '.join(filter(None, known))}, got "
            f"{value!r}"
        )


def plain(options: Any) -> dict[str, Any]:
    """Return all options for the record: lists instead of tuples."""
    named = ((name, getattr(options, name)) for name in options.__struct_fields__)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in named}


def _words(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(str(word) for word in value)
    if not isinstance(value, str):
        raise TypeError(value)
    return tuple(shlex.split(value))


def read_names(raw: Any) -> Names:
    """Read names, comma separated or in a list, without duplicates."""
    names = raw.split(",") if isinstance(raw, str) else list(raw)
    if not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError(raw)
    return tuple(dict.fromkeys(name.strip() for name in names))


def _number(kind: type[int] | type[float], value: object) -> int | float:
    number = kind(str(value))
    if not -MOST <= number <= MOST:
        raise ValueError(value)
    return number


def _seconds(value: object) -> Seconds:
    return _number(float, read_seconds(value) if isinstance(value, str) else value)


BOOLEAN = Reader(read_boolean, "true or false")

READERS: Mapping[str, Reader] = {
    "bool": BOOLEAN,
    "int": Reader(lambda value: _number(int, value), f"a whole number of at most {MOST}"),
    "float": Reader(lambda value: _number(float, value), f"a number of at most {MOST}"),
    "str": Reader(str, "text"),
    "tuple[str, ...]": Reader(_words, "a list of words"),
    "Names": Reader(read_names, "names, separated by commas"),
    "Seconds | None": Reader(_seconds, f"a time such as 500ms or 2s, of at most {MOST} s"),
    "Any": Reader(lambda value: value, "anything"),
}
"""Readers by the type of an option, as its struct has it."""
