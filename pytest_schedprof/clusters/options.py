"""Options of clusters of our own, by name: `tls`, `config.*`, and those of the kind."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import dask.config

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.simulation.behaviour import TRAITS, read_behaviour

NOTHING: Mapping[str, str] = MappingProxyType({})

KNOWN = {
    "local": ("tls", "config.*", "worker.*"),
    "simulated": ("tls", "config.*", *TRAITS),
    "docker": ("compose_file", "service", "port", "tls"),
}
"""What each kind takes. `worker.*` are keywords of `distributed.Worker`, `config.*` dask's."""

FLAGS = {"true": True, "yes": True, "on": True, "1": True}
FLAGS |= {"false": False, "no": False, "off": False, "0": False}


def is_known(kind: str | None, name: str) -> bool:
    """Whether a kind of cluster, or without one any, has an option of that name."""
    first, dot, rest = name.partition(".")
    return (f"{first}.*" if dot and rest else name) in _known(kind)


def _known(kind: str | None) -> tuple[str, ...]:
    if kind is None:
        return tuple(dict.fromkeys(name for each in KNOWN.values() for name in each))
    return KNOWN.get(kind, ())


def check_cluster_options(kind: str | None, options: Mapping[str, str]) -> None:
    """What can be known before anything is started; without a kind, of all kinds together.

    Raises:
        SettingsError: for an option that is unknown or malformed.
    """
    for name in options:
        if not is_known(kind, name):
            near = difflib.get_close_matches(name, _known(kind), 1)
            raise SettingsError(
                f"schedprof: cluster {kind or ' or '.join(KNOWN)!r} has no option {name!r}; "
                + (f"did you mean {near[0]!r}? " if near else "")
                + f"known: {', '.join(_known(kind)) or 'none'}"
            )
    is_encrypted(options)
    read_behaviour(options)


def is_encrypted(options: Mapping[str, str]) -> bool:
    """Whether the processes are to speak TLS."""
    text = options.get("tls", "false")
    if text.strip().lower() not in FLAGS:
        raise SettingsError(f"schedprof: cluster option tls must be true or false, got {text!r}")
    return FLAGS[text.strip().lower()]


def config_of(options: Mapping[str, str]) -> dict[str, Any]:
    """dask's own configuration of the cluster's processes."""
    return _under("config.", options)


def worker_options(options: Mapping[str, str]) -> dict[str, Any]:
    """Keywords for each worker."""
    return _under("worker.", options)


def _under(prefix: str, options: Mapping[str, str]) -> dict[str, Any]:
    return {
        name.removeprefix(prefix): dask.config.interpret_value(text)
        for name, text in options.items()
        if name.startswith(prefix)
    }
