"""Options of clusters that are started here, as `--schedprof-cluster-option` takes them."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from typing import Any

import dask.config

from pytest_schedprof.clusters import KINDS, option_names
from pytest_schedprof.errors import SettingsError, hint
from pytest_schedprof.model.options import BOOLEAN
from pytest_schedprof.virtual.behaviour import VIRTUAL_TRAITS, read_trait

UNKNOWN = object()

FREE_SECTIONS = (
    "distributed.scheduler.default-task-durations.",
    "distributed.worker.resources.",
    "distributed.nanny.environ.",
    "distributed.nanny.pre-spawn-environ.",
)
"""Sections of dask's configuration whose keys users choose."""

EVENT_LOOP, UVLOOP = "distributed.admin.event-loop", "uvloop"


def is_known(kind: str | None, name: str) -> bool:
    """Return whether this kind of cluster, or any kind if None, has an option of that name."""
    first, dot, rest = name.partition(".")
    return (f"{first}.*" if dot and rest else name) in _known(kind)


def _known(kind: str | None) -> tuple[str, ...]:
    kinds = KINDS if kind is None else (kind,)
    return tuple(dict.fromkeys(name for known in kinds for name in option_names(known)))


def check_cluster_options(kind: str | None, options: Mapping[str, str]) -> None:
    """Check options before anything is started; those of all kinds together if the kind is None.

    Raises:
        SettingsError: for an option that is unknown or malformed.
    """
    for name in options:
        if not is_known(kind, name):
            known = _known(kind)
            raise SettingsError(
                f"schedprof: cluster {kind or ' or '.join(KINDS)!r} has no option {name!r}"
                f"{hint(name, known)}; known: {', '.join(known) or 'none'}"
            )
    is_encrypted(options)
    for name in VIRTUAL_TRAITS:
        read_trait(name, options)
    for key in config_of(options):
        _check_sections(key)


def _check_sections(key: str) -> None:
    """Refuse an option of dask below one that is no section: dask would raise a bare TypeError."""
    for section in (key[:place] for place, sign in enumerate(key) if sign == "."):
        if not isinstance(dask.config.get(section, {}), Mapping):
            raise SettingsError(
                f"schedprof: dask has no configuration key {key!r}: {section!r} is no section"
            )


def check_known_to_dask(options: Mapping[str, str]) -> None:
    """Check that dask knows its options and can use their values here.

    This is not done for every cluster: another release, or a plugin of the user, may know others.

    Raises:
        SettingsError: names the option, and similar ones.
    """
    importlib.import_module("distributed")  # adds its options to those of dask
    for key in config_of(options):
        if dask.config.get(key, UNKNOWN) is UNKNOWN and not key.startswith(FREE_SECTIONS):
            known = list(_keys(dask.config.global_config))
            ending = [name for name in known if name.endswith(f".{key}")]
            near = ending or difflib.get_close_matches(key, known, 2)
            raise SettingsError(
                f"schedprof: dask has no configuration key {key!r}"
                + (f"; did you mean {' or '.join(map(repr, near))}?" if near else "")
            )
    loop = config_of(options).get(EVENT_LOOP)
    if loop == UVLOOP and importlib.util.find_spec(UVLOOP) is None:
        raise SettingsError(
            f"schedprof: {EVENT_LOOP}={UVLOOP} needs a package that is not installed here: "
            f"pip install {UVLOOP}"
        )


def _keys(section: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in section.items():
        if isinstance(value, Mapping) and value:
            yield from _keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def is_encrypted(options: Mapping[str, str]) -> bool:
    """Return whether the processes must use TLS."""
    is_on: bool = BOOLEAN.value("cluster option tls", options.get("tls", "false"))
    return is_on


def config_of(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of dask for the cluster's processes, without their prefix."""
    return _under("config.", options)


def with_settings(text: str, options: Mapping[str, str]) -> str:
    """Return why a cluster did not start, with the settings of dask that it may be due to.

    If the reason names the value of one of them, dask refused that one.
    """
    settings = {name: value for name, value in options.items() if name.startswith("config.")}
    words = {word.strip(".") for word in re.findall(r"[^\s'\"`(),:;]+", text)}
    named = {name: value for name, value in settings.items() if value in words}
    if not settings:
        return text
    assigned = ", ".join(f"{name}={value}" for name, value in (named or settings).items())
    trouble = "dask refuses" if named else "a cluster did not start with"
    return f"schedprof: {trouble} {assigned}: {text.removeprefix('schedprof: ')}"


def worker_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the keywords of each `distributed.Worker`."""
    return _under("worker.", options)


def _under(prefix: str, options: Mapping[str, str]) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): dask.config.interpret_value(text)
        for name, text in options.items()
        if name.startswith(prefix)
    }
