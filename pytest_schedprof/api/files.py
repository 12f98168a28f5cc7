"""One profiler around a body, its own file at a path: the names kept from scheduler-profiling."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from pathlib import Path

from distributed import Client

from pytest_schedprof.api.attachment import Attachment
from pytest_schedprof.api.block import Block
from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.errors import RecordingError, together
from pytest_schedprof.layers import read_call
from pytest_schedprof.recorder import Recorder
from pytest_schedprof.storage.run_directory import check_room, write

logger = logging.getLogger(__name__)

PICTURES = {".svg": {"formats": "flamegraph"}}
"""py-spy's options by the end of the path."""

FORMATS = {".html": "html", ".gz": "json.gz"}
"""viztracer's format by the end of the path; json for every other."""


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
        path: where the speedscope file is to be, on this machine; one that ends in `.svg` is a
            flame graph.
        client: whose scheduler; the current client by default.
        rate: samples per second.
        timeout: seconds that starting or stopping py-spy may take.
        options: as in docs/backends.md, `native=True` for example.

    Raises:
        SettingsError: for an argument that cannot be.
    """
    settings = read_call("pyspy_on_scheduler", (), {}, rate=rate, timeout=timeout)
    by_path = PICTURES.get(Path(path).suffix, {})
    backend = BackendRegistry().make("pyspy", rate_hz=settings.rate, options={**by_path, **options})
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
        path: where the trace is to be, on this machine; its end chooses between `.json`,
            `.json.gz` and viztracer's own page, `.html`.
        client: whose scheduler; the current client by default.
        timeout: seconds that starting or stopping viztracer may take.
        options: as in docs/backends.md, `trace_sparse="distributed.Scheduler.update_graph"` for
            example.

    Raises:
        SettingsError: for an argument that cannot be.
    """
    settings = read_call("viztrace_scheduler", (), {}, timeout=timeout)
    by_path = {"format": FORMATS.get(Path(path).suffix, "json")}
    backend = BackendRegistry().make(
        "viztracer", rate_hz=settings.rate, options={**by_path, **options}
    )
    return _FileBlock(backend, path, client, settings.timeout)


class _FileBlock(Block[Path]):
    """Records with one backend and writes what came back, as it came."""

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
        """Raises what keeps the profiler from working, before the body runs."""
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
        """Write the file, also of a body that failed."""
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
        """What the backend makes of its recording, as viztracer's page, if that is asked for."""
        try:
            return next(iter(self._backend.extras(content).values()), None)
        except Exception as error:
            trace = self._path.with_name(self._path.name + ".json")
            write(trace, content)
            raise RecordingError(
                f"schedprof: {str(self._path)!r} could not be made ({error}); the recording "
                f"itself is {str(trace)!r}"
            ) from error
