"""Makes further files of samples, for tools other than speedscope."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.formats.flamegraph import write_flamegraph
from pytest_schedprof.formats.speedscope import read_speedscope
from pytest_schedprof.formats.stays import write_raw
from pytest_schedprof.formats.timeline import write_timeline

RECORDED = "speedscope"
"""Format of the recording itself, which is always kept."""

WRITERS = {
    "chrometrace": ("chrometrace.json", write_timeline),
    "flamegraph": ("svg", write_flamegraph),
    "raw": ("raw.txt", write_raw),
}


def check_formats(backend: str, formats: Sequence[str]) -> None:
    """Raise SettingsError for a format that cannot be made."""
    known = sorted((RECORDED, *WRITERS))
    for name in formats:
        if name not in known:
            raise SettingsError(
                f"schedprof: option {backend}.formats must be of {', '.join(known)}, got {name!r}"
            )


def pictures(backend: str, formats: Sequence[str], content: bytes) -> dict[str, bytes]:
    """Make files of these formats from a speedscope file; return them by their endings."""
    wanted = [WRITERS[name] for name in formats if name in WRITERS]
    if not wanted:
        return {}
    file = read_speedscope(content)
    return {f"{backend}.{suffix}": write(file) for suffix, write in wanted}
