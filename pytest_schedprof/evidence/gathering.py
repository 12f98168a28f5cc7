"""All kinds of evidence of one test. None of them can make the test fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from pytest_schedprof.errors import as_own
from pytest_schedprof.evidence.contract import (
    NO_SCHEDULER,
    EvidenceUnavailableError,
    Kind,
    Need,
    ObservedTest,
    RunFigures,
)
from pytest_schedprof.model.evidence import Evidence, RunAmounts
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.store.records import MOST
from pytest_schedprof.store.run_directory import write


class Gathering:
    """Kinds of evidence that are at work around each run of a test's body.

    A kind that fails is left out from then on, and the reason is kept.
    """

    def __init__(self, kinds: Sequence[type[Kind]], test: ObservedTest) -> None:
        self._descriptions = {kind.name: kind.description for kind in kinds}
        self._missing: dict[str, str] = {}
        self._kinds: dict[str, Kind] = {}
        self._numbers = count(1)
        self._scales: dict[int, int] = {}
        self.kept: tuple[Evidence, ...] | None = None
        """What the record says of each kind; None until `keep` was called."""
        for kind in kinds:
            self._missing[kind.name] = ""
            with self._noting(kind.name):
                self._kinds[kind.name] = _make(kind, test)

    @contextmanager
    def around(self, scale: int = 0) -> Iterator[None]:
        """Have all kinds at work during one run of the body, at a size of its workload."""
        number = next(self._numbers)
        self._scales[number] = scale
        with ExitStack() as opened:
            for _, kind in self._at_work():
                opened.enter_context(self._guarded(kind, number))
            yield

    def keep(
        self,
        directory: Path | None,
        results: Sequence[BackendResult],
        before: Gathering | None = None,
    ) -> None:
        """End all kinds and write their files into the directory, if there is one; only once.

        Args:
            directory: of the side's files.
            before: evidence of the other side, which has been kept.
        """
        if self.kept is None:
            theirs = dict(before._at_work()) if before else {}
            for name, kind in self._at_work():
                kind.before = theirs.get(name)
            self.kept = self._keep(directory, results)

    def _keep(
        self, directory: Path | None, results: Sequence[BackendResult]
    ) -> tuple[Evidence, ...]:
        kept = {}
        for name, kind in self._at_work():
            with self._noting(name):
                brought = kind.bring(results)
                amounts = tuple(self._amounts(figures) for figures in brought.figures)
                files = _written(name, brought.files, directory) if directory else ()
                kept[name] = Evidence(
                    name, files, brought.notes, description=kind.description, amounts=amounts
                )
        for name, kind in self._kinds.items():
            with self._noting(name):
                kind.close()
        return tuple(
            kept.get(name, Evidence(name, (), (), missing, self._descriptions[name]))
            for name, missing in self._missing.items()
        )

    def _amounts(self, figures: RunFigures) -> RunAmounts:
        scales = tuple(self._scales.get(number, 0) for number in figures.by_run)
        amounts = tuple(map(float, figures.by_run.values()))  # they may be numpy's, or anything
        if not all(abs(amount) <= MOST for amount in amounts):  # also one that is not a number
            raise EvidenceUnavailableError(
                f"its figure {figures.subject!r} must be numbers of at most {MOST:g}, got "
                f"{', '.join(map(str, amounts))}"
            )
        return RunAmounts(figures.metric, figures.subject, amounts, scales if all(scales) else ())

    def _at_work(self) -> list[tuple[str, Kind]]:
        return [(name, kind) for name, kind in self._kinds.items() if not self._missing[name]]

    @contextmanager
    def _guarded(self, kind: Kind, number: int) -> Iterator[None]:
        """Keep errors of the kind and errors of the body apart: neither sees the other's."""
        run = ExitStack()
        with self._noting(kind.name):
            run.enter_context(kind.around(number))
        try:
            yield
        finally:
            with self._noting(kind.name):
                run.close()

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        """Keep the first error of a kind as the reason why it is missing."""
        try:
            yield
        except Exception as error:  # dask's instruments may raise anything
            reason = str(as_own(error)).removeprefix("schedprof: ")
            line = reason.strip().partition("\n")[0] or type(error).__name__
            self._missing[name] = self._missing[name] or line


def _make(kind: type[Kind], test: ObservedTest) -> Kind:
    if Need.SCHEDULER in kind.needs and test.known_scheduler is None:
        from pytest_schedprof.evidence.in_process import HERE  # imports all kinds that it has

        if kind not in HERE:
            raise EvidenceUnavailableError(NO_SCHEDULER)
        kind = HERE[kind]
    return kind(test)


def _written(name: str, files: Mapping[str, bytes], directory: Path) -> tuple[str, ...]:
    """Write files, unless one could overwrite another of the test, or lie outside."""
    for file in files:
        if not file.startswith(f"{name}.") or Path(file).name != file:
            raise EvidenceUnavailableError(f"its file {file!r} must be named {name}.SUFFIX")
    for file, content in files.items():
        write(directory / file, content)
    return tuple(files)
