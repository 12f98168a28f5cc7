"""The base of backends that have no options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_schedprof.backends.contract import Backend, Setting
from pytest_schedprof.backends.options import read_options


@dataclass(frozen=True, slots=True)
class NoOptions:
    """There are none."""


class PlainBackend(Backend):
    """Refuses every option, and records none."""

    options_type = NoOptions

    def __init__(
        self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str] = ()
    ) -> None:
        read_options(NoOptions, self.name, options)
        self._patterns = tuple(patterns)

    @property
    def settings(self) -> Mapping[str, Setting]:
        """No options."""
        return {}
