"""Further files that are made of samples, for other tools than speedscope."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.formats.flamegraph import write_flamegraph
from pytest_schedprof.formats.speedscope import read_speedscope
from pytest_schedprof.formats.timeline import write_timeline

SPEEDSCOPE = "speedscope"
"""What is recorded, and kept in any case."""

WRITERS = {
    "chrometrace": ("chrometrace.json", write_timeline),
    "flamegraph": ("svg", write_flamegraph),
}


def check_formats(backend: str, formats: Sequence[str]) -> None:
    """Raises SettingsError for a format that cannot be made."""
    known = sorted((SPEEDSCOPE, *WRITERS))
    for name in formats:
        if name not in known:
            raise SettingsError(
                f"schedprof: option {backend}.formats must be of {', '.join(known)}, got {name!r}"
            )


def pictures(backend: str, formats: Sequence[str], content: bytes) -> dict[str, bytes]:
    """The files of these formats, by the endings of their names."""
    wanted = [WRITERS[name] for name in formats if name in WRITERS]
    if not wanted:
        return {}
    file = read_speedscope(content)
    return {f"{backend}.{suffix}": write(file) for suffix, write in wanted}
