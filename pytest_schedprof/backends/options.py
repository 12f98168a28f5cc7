"""Reads options of a backend or a kind of evidence, text or values, into a frozen dataclass."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias, TypeVar

from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.model.words import read_boolean, read_seconds

T = TypeVar("T")

Names: TypeAlias = tuple[str, ...]
"""Type of an option of names, in a list or separated by commas."""
Seconds: TypeAlias = float
"""Type of an option that is a time, as a number or as `500ms`."""


def read_options(
    kind: type[T], owner: str, given: Mapping[str, object], *, what: str = "backend"
) -> T:
    """Build the dataclass of a backend's options, or of those of another thing that has some.

    Raises:
        SettingsError: names the unknown option and the known ones, or the malformed value.
    """
    known = {field.name: _type_name(field.type) for field in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise SettingsError(
                f"schedprof: {what} {owner!r} has no option {name!r}; "
                f"known: {', '.join(sorted(known)) or 'none'}"
            )
    return kind(
        **{name: _convert(owner, name, known[name], value) for name, value in given.items()}
    )


def check_above_zero(option: str, value: float | None) -> None:
    """Check an amount that may be left out.

    Raises:
        SettingsError: if it is 0 or less.
    """
    if value is not None and not value > 0:
        raise SettingsError(f"schedprof: option {option} must be above 0, got {value:g}")


def plain(options: Any) -> dict[str, Any]:
    """Return all options for the record: lists instead of tuples, and objects by their class."""
    named = ((field.name, getattr(options, field.name)) for field in fields(options))
    return {
        name: list(map(name_of, value)) if isinstance(value, tuple) else value
        for name, value in named
    }


def name_of(value: object) -> str:
    """Return a word as it is, and the class of any other object."""
    return value if isinstance(value, str) else type(value).__qualname__


def _type_name(annotation: Any) -> str:
    """Return an annotation as it was written, whether or not annotations are kept as text."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _convert(owner: str, name: str, type_name: str, value: object) -> Any:
    try:
        return _CONVERTERS[type_name](value)
    except (ValueError, TypeError, OverflowError):
        raise SettingsError(
            f"schedprof: option {owner}.{name} must be {_WORDS[type_name]}, got {quoted(value)}"
        ) from None


def _to_words(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(str(word) for word in value)
    if not isinstance(value, str):
        raise TypeError(value)
    return tuple(shlex.split(value))


def _to_names(value: object) -> Names:
    given = value.split(",") if isinstance(value, str) else _to_words(value)
    names = tuple(dict.fromkeys(word.strip() for word in given))
    if not all(names) or not names:
        raise ValueError(value)
    return names


def _to_things(value: object) -> tuple[Any, ...]:
    """Keep objects as they are: they are for the scheduler."""
    return tuple(value) if isinstance(value, (list, tuple)) else _to_words(value)


MOST = 10**9
"""Largest number that an option can have."""


def _to_number(value: object, kind: type[int] | type[float]) -> int | float:
    number = kind(str(value))
    if not -MOST <= number <= MOST:
        raise ValueError(value)
    return number


def _to_seconds(value: object) -> Seconds:
    return _to_number(read_seconds(value) if isinstance(value, str) else value, float)


_CONVERTERS: dict[str, Callable[[object], object]] = {
    "bool": read_boolean,
    "int": lambda value: _to_number(value, int),
    "float": lambda value: _to_number(value, float),
    "str": str,
    "tuple[str, ...]": _to_words,
    "Names": _to_names,
    "Seconds | None": _to_seconds,
    "tuple[Any, ...]": _to_things,
    "Any": lambda value: value,
}
_WORDS = {
    "bool": "true or false",
    "int": f"a whole number of at most {MOST}",
    "float": f"a number of at most {MOST}",
    "str": "text",
    "tuple[str, ...]": "a list of words",
    "Names": "names, separated by commas",
    "Seconds | None": f"a time such as 500ms or 2s, of at most {MOST} s",
    "tuple[Any, ...]": "a list",
    "Any": "anything",
}
