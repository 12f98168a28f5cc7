"""Context managers that write one profiler's file: names kept from scheduler-profiling."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path

from distributed import Client

from pytest_schedprof.api.attachment import Attachment
from pytest_schedprof.api.block import Block
from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.backends.registry import find_backends
from pytest_schedprof.errors import RecordingError, together
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.settings.markers import read_call
from pytest_schedprof.storage.run_directory import check_room, write

logger = logging.getLogger(__name__)

PICTURES = {".svg": {"formats": "flamegraph"}}
"""Options for py-spy by the suffix of the path."""

FORMATS = {".html": "html", ".gz": "json.gz"}
"""Format for viztracer by the suffix of the path; json for every other suffix."""


def pyspy_on_scheduler(
    path: str | os.PathLike[str],
    *,
    client: Client | None = None,
    rate: float = 100,
    timeout: float = 30,
    **options: object,
) -> Block[Path]:
    """Profile the scheduler with py-spy while the body of a `with` or `async with` runs.

    Args:
        path: of the speedscope file, on this machine; with the suffix `.svg` a flame graph is
            written instead.
        client: the client of the scheduler; by default the current one.
        rate: samples per second.
        timeout: seconds to wait for py-spy to start or stop.
        options: options of the backend as in docs/backends.md, for example `native=True`.

    Raises:
        SettingsError: for an invalid argument.
    """
    settings = read_call("pyspy_on_scheduler", (), {}, rate=rate, timeout=timeout)
    by_path = PICTURES.get(Path(path).suffix, {})
    backend = find_backends().make("pyspy", rate_hz=settings.rate, options={**by_path, **options})
    return _FileBlock(backend, path, client, settings.timeout)


def viztrace_scheduler(
    path: str | os.PathLike[str],
    *,
    client: Client | None = None,
    timeout: float = 30,
    **options: object,
) -> Block[Path]:
    """Trace the scheduler with viztracer while the body of a `with` or `async with` runs.

    Args:
        path: of the trace, on this machine; the suffix chooses between `.json`, `.json.gz` and
            viztracer's own page, `.html`.
        client: the client of the scheduler; by default the current one.
        timeout: seconds to wait for viztracer to start or stop.
        options: options of the backend as in docs/backends.md, for example
            `trace_sparse="distributed.Scheduler.update_graph"`.

    Raises:
        SettingsError: for an invalid argument.
    """
    settings = read_call("viztrace_scheduler", (), {}, timeout=timeout)
    by_path = {"format": FORMATS.get(Path(path).suffix, "json")}
    backend = find_backends().make(
        "viztracer", rate_hz=settings.rate, options={**by_path, **options}
    )
    return _FileBlock(backend, path, client, settings.timeout)


class _FileBlock(Block[Path]):
    """Records with one backend and writes its file unchanged."""

    def __init__(
        self,
        backend: Backend,
        path: str | os.PathLike[str],
        client: Client | None,
        timeout_s: float,
    ) -> None:
        super().__init__(client)
        self._backend = backend
        self._path = Path(path).absolute()  # the body may change the working directory
        self._timeout_s = timeout_s

    def begin(self, client: Client, opened: ExitStack) -> Path:
        """Start the profiler; raise before the body runs if it does not work."""
        check_room(self._path)
        cluster = Attachment(client, timeout_s=self._timeout_s)
        opened.callback(cluster.close)
        self._recorder = Recorder(
            cluster.control, [self._backend], self._timeout_s, death=cluster.death
        )
        self._round = opened.enter_context(ExitStack())
        self._round.enter_context(self._recorder.round())
        self._raise_trouble()
        return self._path

    def end(self, *, failed: bool) -> None:
        """Write the file, even if the body failed."""
        self._round.close()
        self._raise_trouble()
        (segment,) = self._recorder.rounds[0]
        self._write(segment.raw[self._backend.name])

    def _raise_trouble(self) -> None:
        if self._recorder.errors:
            raise together(self._recorder.errors)

    def _write(self, raw: RawProfile) -> None:
        for text in raw.warnings:
            logger.warning("schedprof: %s", text)
        write(self._path, self._page(raw.content) or raw.content)

    def _page(self, content: bytes) -> bytes | None:
        """Return what the backend makes of its recording, such as viztracer's page, if asked to."""
        try:
            return next(iter(self._backend.extras(content).values()), None)
        except Exception as error:
            trace = self._path.with_name(self._path.name + ".json")
            write(trace, content)
            raise RecordingError(
                f"schedprof: {str(self._path)!r} could not be created ({error}); the recording "
                f"was written to {str(trace)!r}"
            ) from error
