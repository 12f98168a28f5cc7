"""Options of clusters that are started here, as `--schedprof-cluster-option` takes them."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import dask.config

from pytest_schedprof.clusters import KINDS, option_names
from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.model.words import read_boolean
from pytest_schedprof.simulation.traits import VIRTUAL_TRAITS, read_trait

NOTHING: Mapping[str, str] = MappingProxyType({})


def is_known(kind: str | None, name: str) -> bool:
    """Return whether this kind of cluster, or any kind if None, has an option of that name."""
    first, dot, rest = name.partition(".")
    return (f"{first}.*" if dot and rest else name) in _known(kind)


def _known(kind: str | None) -> tuple[str, ...]:
    if kind is None:
        return tuple(dict.fromkeys(name for each in KINDS for name in option_names(each)))
    return option_names(kind)


def check_cluster_options(kind: str | None, options: Mapping[str, str]) -> None:
    """Check options before anything is started; those of all kinds together if the kind is None.

    Raises:
        SettingsError: for an option that is unknown or malformed.
    """
    for name in options:
        if not is_known(kind, name):
            near = difflib.get_close_matches(name, _known(kind), 1)
            raise SettingsError(
                f"schedprof: cluster {kind or ' or '.join(KINDS)!r} has no option {name!r}; "
                + (f"did you mean {near[0]!r}? " if near else "")
                + f"known: {', '.join(_known(kind)) or 'none'}"
            )
    is_encrypted(options)
    for name in VIRTUAL_TRAITS:
        read_trait(name, options)


def is_encrypted(options: Mapping[str, str]) -> bool:
    """Return whether the processes must use TLS."""
    text = options.get("tls", "false")
    try:
        return read_boolean(text)
    except ValueError:
        message = f"schedprof: cluster option tls must be true or false, got {quoted(text)}"
        raise SettingsError(message) from None


def config_of(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the options of dask for the cluster's processes, without their prefix."""
    return _under("config.", options)


def worker_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Return the keywords of each `distributed.Worker`."""
    return _under("worker.", options)


def _under(prefix: str, options: Mapping[str, str]) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): dask.config.interpret_value(text)
        for name, text in options.items()
        if name.startswith(prefix)
    }
