"""Options of one backend, from text or Python values to a frozen dataclass."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from pytest_schedprof.errors import SettingsError

T = TypeVar("T")

TRUE = frozenset({"true", "yes", "on", "1"})
FALSE = frozenset({"false", "no", "off", "0"})


def read_options(kind: type[T], backend: str, given: Mapping[str, object]) -> T:
    """Build the dataclass of a backend's options.

    Raises:
        SettingsError: names the unknown option and the known ones, or the malformed value.
    """
    known = {field.name: _type_name(field.type) for field in fields(kind)}  # type: ignore[arg-type]
    for name in given:
        if name not in known:
            raise SettingsError(
                f"schedprof: backend {backend!r} has no option {name!r}; "
                f"known: {', '.join(sorted(known)) or 'none'}"
            )
    return kind(
        **{name: _convert(backend, name, known[name], value) for name, value in given.items()}
    )


def plain(options: Any) -> dict[str, Any]:
    """All options for the record, where there are lists and no tuples."""
    items = asdict(options).items()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in items}


def _type_name(annotation: Any) -> str:
    """As it was written, whether or not annotations are kept as text."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _convert(backend: str, name: str, type_name: str, value: object) -> Any:
    try:
        return _CONVERTERS[type_name](value)
    except (ValueError, TypeError):
        raise SettingsError(
            f"schedprof: option {backend}.{name} must be {_WORDS[type_name]}, got {value!r}"
        ) from None


def _to_bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in TRUE | FALSE:
        raise ValueError(value)
    return text in TRUE


def _to_words(value: object) -> tuple[str, ...]:
    if isinstance(value, (list, tuple)):
        return tuple(str(word) for word in value)
    if not isinstance(value, str):
        raise TypeError(value)
    return tuple(shlex.split(value))


_CONVERTERS: dict[str, Callable[[object], object]] = {
    "bool": _to_bool,
    "int": lambda value: int(str(value)),
    "float": lambda value: float(str(value)),
    "str": str,
    "tuple[str, ...]": _to_words,
}
_WORDS = {
    "bool": "true or false",
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "tuple[str, ...]": "a list of words",
}
