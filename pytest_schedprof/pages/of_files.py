"""Files beside a page: what they are, and what opens them."""

from __future__ import annotations

from pathlib import Path

from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.result import Result
from pytest_schedprof.pages.amounts import size_of
from pytest_schedprof.pages.views import EvidenceRow, FileRow

OPENS = (
    (".speedscope.json", "speedscope: drag it onto speedscope.app"),
    (".viztracer.json", "vizviewer FILE, or drag it onto Perfetto (ui.perfetto.dev)"),
    (".viztracer.json.gz", "vizviewer FILE, or drag it onto Perfetto (ui.perfetto.dev)"),
    (".chrometrace.json", "drag it onto Perfetto (ui.perfetto.dev)"),
    (".pstats", "python -m pstats FILE, or snakeviz FILE"),
    (".prof", "python -m pstats FILE, or snakeviz FILE"),
    (".memray.bin", "memray flamegraph FILE"),
    (".html", "any browser"),
    (".svg", "any browser"),
    (".json", "any editor; it is JSON"),
)

KINDS = {
    "span": "tasks by span: states, durations, the cluster's threads",
    "report": "dask's performance report",
    "memory": "what all workers held in memory",
    "tasks": "the task stream",
    "transfers": "what workers sent each other",
    "workers": "what workers' threads did",
    "local": "dask's local schedulers",
    "phases": "a computation's way, from client to scheduler",
}


def file_row(directory: Path, name: str) -> FileRow:
    """One file; what is gone has no size."""
    opens = next((text for ending, text in OPENS if name.endswith(ending)), "")
    try:
        size = size_of((directory / name).stat().st_size)
    except OSError:
        size = "not here"
    return FileRow(name, size, opens)


def file_rows(directory: Path, result: Result) -> tuple[FileRow, ...]:
    """Those of all backends and targets, and the record."""
    names = [name for backend in result.backends for name in backend.artifacts]
    names += [
        name
        for backend in result.backends
        for target in backend.targets
        for name in target.artifacts
    ]
    return tuple(file_row(directory, name) for name in [*names, "result.json"])


def evidence_rows(directory: Path, evidence: tuple[Evidence, ...]) -> tuple[EvidenceRow, ...]:
    """Pictures before data."""
    return tuple(
        EvidenceRow(
            each.kind,
            KINDS.get(each.kind, ""),
            tuple(file_row(directory, name) for name in sorted(each.artifacts, key=_is_data)),
            each.notes,
            each.missing,
        )
        for each in evidence
    )


def _is_data(name: str) -> bool:
    return name.endswith(".json")
