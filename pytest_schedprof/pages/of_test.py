"""From a test's record and files to what its page shows."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from pytest_schedprof.model.place import Environment
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.pages.flame import Flame, flame
from pytest_schedprof.pages.of_changes import comparison_views
from pytest_schedprof.pages.of_costs import cost_table, whole_facts
from pytest_schedprof.pages.of_files import evidence_rows, file_rows
from pytest_schedprof.pages.of_limits import limit_rows
from pytest_schedprof.pages.of_samples import function_rows, left_out, owner_rows
from pytest_schedprof.pages.others import Other
from pytest_schedprof.pages.reading import read_samples
from pytest_schedprof.pages.tree import call_tree
from pytest_schedprof.pages.views import BackendView, Fact, TestPage


def page_of_test(
    result: Result, directory: Path, run: Path, other: Other | None = None
) -> TestPage:
    """All of it."""
    builder = _Backends(directory, other)
    return TestPage(
        test_id=result.test_id,
        outcome=result.outcome,
        verdict=result.verdict.value,
        run_id=run.name,
        up=Path(os.path.relpath(run, directory)).as_posix(),
        facts=tuple(_facts(result)),
        troubles=result.troubles,
        limits=limit_rows(result.backends),
        unjudged=result.unjudged,
        backends=tuple(builder.view(*each) for each in enumerate(result.backends)),
        compared_with=result.baseline,
        comparisons=comparison_views(result.comparisons),
        null=comparison_views(result.null),
        evidence=evidence_rows(directory, result.evidence),
        files=file_rows(directory, result),
        settings=tuple(_settings(result)),
    )


@dataclass(frozen=True, slots=True)
class _Backends:
    directory: Path
    other: Other | None

    def view(self, number: int, backend: BackendResult) -> BackendView:
        flames, reason = self._flames(f"flame-{number}", backend)
        return BackendView(
            id=f"backend-{number}",
            name=backend.backend + (f" ({backend.mode})" if backend.mode else ""),
            headline=_headline(backend),
            notes=_notes(backend),
            owners=owner_rows(backend),
            functions=function_rows(backend),
            left_out=left_out(backend),
            flames=flames,
            no_flame=reason,
            whole=whole_facts(backend.costs, backend.window.tasks),
            costs=cost_table(backend),
        )

    def _flames(self, id: str, backend: BackendResult) -> tuple[tuple[Flame, ...], str]:
        if backend.shares is None:
            return (), ""
        mine = read_samples(self.directory, backend)
        if not mine.stacks:
            return (), mine.problem or "no busy sample of the scheduler"
        before = self.other.backend(backend) if self.other else None
        theirs = read_samples(self.other.directory, before) if self.other and before else None
        if self.other and before and theirs and theirs.stacks:
            tree = call_tree(mine.stacks, theirs.stacks)
            return (flame(id, tree, backend, before, self.other.name),), ""
        return (flame(id, call_tree(mine.stacks), backend),), ""


def _notes(backend: BackendResult) -> tuple[str, ...]:
    """A doubt is often a warning too: then it is told once, as the graver of both."""
    doubt = (f"nothing can be judged by it: {backend.doubt}",) if backend.doubt else ()
    return (*doubt, *(text for text in backend.warnings if text != backend.doubt))


def _headline(backend: BackendResult) -> str:
    window, words = backend.window, []
    if backend.shares:
        words.append(f"{backend.shares.busy_samples:,} busy samples")
    words.append(f"{window.tasks:,} tasks in {window.seconds:.2f} s")
    if cost := window.cpu_us_per_task:
        words.append(f"{cost:,.0f} us of scheduler CPU per task")
    if window.seconds:
        words.append(f"{window.cpu_seconds / window.seconds:.0%} of a core")
    if window.rounds > 1:
        words.append(f"{window.rounds} rounds")
    return ", ".join(words)


def _facts(result: Result) -> list[Fact]:
    facts = [Fact("started", result.started_at[:19].replace("T", " ") + " UTC")]
    if result.cluster:
        cluster = result.cluster
        text = f"{cluster.kind}, {cluster.workers} workers, {cluster.threads} threads"
        facts.append(Fact("cluster", text))
    return [*facts, *machine_facts(result.environment)]


def machine_facts(environment: Environment | None) -> list[Fact]:
    """Where the scheduler ran and of what versions."""
    if environment is None:
        return []
    versions = environment.versions
    shown = [f"{name} {versions[name]}" for name in ("distributed", "dask") if name in versions]
    return [
        Fact("versions", ", ".join([*shown, f"Python {environment.scheduler_python}"])),
        Fact("machine", environment.scheduler_machine or environment.machine),
    ]


def _settings(result: Result) -> list[Fact]:
    """What one looks up: of the backends, the packages and the scheduler."""
    found = [Fact("pytest-schedprof", result.schedprof_version)]
    for backend in result.backends:
        told = ", ".join(f"{key}={value}" for key, value in backend.settings.items())
        found.append(Fact(backend.backend, told or "no options"))
    if result.environment:
        environment = result.environment
        found += [Fact("platform", environment.scheduler_platform)]
        found += [Fact(*item) for item in environment.versions.items()]
        found += [Fact("differs", text) for text in environment.differences]
        found += [Fact(*item) for item in environment.configuration.items()]
    return found
