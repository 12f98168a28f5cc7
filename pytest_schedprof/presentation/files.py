"""Files and evidence of a test: their order, and which programs open them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pytest_schedprof.model.backend import FileKind, KnownBackends, artifacts_of, kind_of
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.result import Result


class ShownFile(NamedTuple):
    """A file of a test, and its kind if that is known."""

    name: str
    kind: FileKind | None = None

    @property
    def opener(self) -> str:
        """The program that opens the file; empty for one that any editor opens."""
        return self.kind.opener if self.kind else ""

    @property
    def how(self) -> str:
        """How to open the file; empty if unknown."""
        return self.kind.how if self.kind else ""


RECORD = ShownFile("result.json", kind_of("result.json"))
"""The record of the test."""


def profile_files(result: Result, known: KnownBackends) -> list[ShownFile]:
    """Return the scheduler's files from all backends, then those of other processes."""
    names = [(each.backend, name) for each in result.backends for name in each.artifacts]
    names += [
        (each.backend, name)
        for each in result.backends
        for target in each.targets
        for name in target.artifacts
    ]
    return [ShownFile(name, kind_of(name, artifacts_of(of, known))) for of, name in names]


def evidence_files(evidence: Evidence) -> list[ShownFile]:
    """Return the files of one kind of evidence."""
    return [ShownFile(name, kind_of(name)) for name in evidence.artifacts]


def pictures_first(files: Sequence[ShownFile]) -> list[ShownFile]:
    """Return files with those of data last."""
    return sorted(files, key=lambda file: file.name.endswith(".json"))


def evidence_notes(evidence: Sequence[Evidence]) -> Iterator[str]:
    """Return why kinds of evidence are missing, then what else there is to note."""
    for reason in dict.fromkeys(each.missing for each in evidence if each.missing):
        kinds = ", ".join(each.kind for each in evidence if each.missing == reason)
        yield f"no {kinds}: {reason}"
    yield from dict.fromkeys(text for each in evidence for text in each.notes)
