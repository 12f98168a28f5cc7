"""All kinds of evidence of one test: none of them can make it fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path

from pytest_schedprof.errors import as_own
from pytest_schedprof.evidence.contract import Brought, Kind
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.result import BackendResult
from pytest_schedprof.storage.run_directory import write


class Gathering:
    """Kinds that are at work around each take of a test.

    A kind that fails is left out from there on, and the reason kept: evidence is for whoever
    looks, and no test depends on it.
    """

    def __init__(self, makers: Mapping[str, Callable[[], Kind]]) -> None:
        self._missing: dict[str, str] = {}
        self._kinds: dict[str, Kind] = {}
        self._numbers = count(1)
        self.kept: tuple[Evidence, ...] | None = None
        """None until it is kept."""
        for name, make in makers.items():
            self._missing[name] = ""
            with self._noting(name):
                self._kinds[name] = make()

    @contextmanager
    def take(self) -> Iterator[None]:
        """Around one run of the body."""
        number = next(self._numbers)
        with ExitStack() as opened:
            for name, kind in self._at_work():
                opened.enter_context(self._guarded(name, kind.take(number)))
            yield

    def keep(self, directory: Path | None, found: Sequence[BackendResult]) -> None:
        """What each kind brought, once, with its files in the directory if there is one."""
        if self.kept is None:
            self.kept = self._keep(directory, found)

    def _keep(self, directory: Path | None, found: Sequence[BackendResult]) -> tuple[Evidence, ...]:
        kept = {}
        for name, kind in self._at_work():
            with self._noting(name):
                kept[name] = _kept(name, kind.bring(found), directory)
        for name, kind in self._kinds.items():
            with self._noting(name):
                kind.close()
        return tuple(
            kept.get(name, Evidence(name, (), missing=missing))
            for name, missing in self._missing.items()
        )

    def _at_work(self) -> list[tuple[str, Kind]]:
        return [(name, kind) for name, kind in self._kinds.items() if not self._missing[name]]

    @contextmanager
    def _guarded(self, name: str, take: AbstractContextManager[None]) -> Iterator[None]:
        """What the body raises is none of the kind's business, nor the other way about."""
        is_open = False
        with self._noting(name):
            take.__enter__()
            is_open = True
        try:
            yield
        finally:
            if is_open:
                with self._noting(name):
                    take.__exit__(None, None, None)

    @contextmanager
    def _noting(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # dask's instruments may raise anything
            told = str(as_own(error)).removeprefix("schedprof: ")
            self._missing[name] = self._missing[name] or told.partition("\n")[0]


def _kept(name: str, brought: Brought, directory: Path | None) -> Evidence:
    if directory is None:
        return Evidence(name, (), brought.notes)
    for file, content in brought.files.items():
        write(directory / file, content)
    return Evidence(name, tuple(brought.files), brought.notes)
