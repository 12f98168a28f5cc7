"""A context manager that writes one profiler's file to a path."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from distributed import Client

from pytest_schedprof.api.attachment import Attachment
from pytest_schedprof.api.block import Block
from pytest_schedprof.backends.contract import Backend, RawProfile
from pytest_schedprof.backends.registry import find_backends
from pytest_schedprof.errors import RecordingError, together
from pytest_schedprof.measuring.recorder import Recorder
from pytest_schedprof.settings.markers import read_call
from pytest_schedprof.storage.run_directory import check_room, make_directory, write

logger = logging.getLogger(__name__)


def file_block(
    source: str,
    backend: str,
    path: str | os.PathLike[str],
    client: Client | None,
    *,
    timeout: float,
    rate: float = 100,
    options: Mapping[str, object],
) -> Block[Path]:
    """Return a context manager that records with a backend and writes one file.

    Args:
        source: the function that was called, for messages.
        backend: its name.
        path: of the file, on this machine; missing directories are made before the body runs.
        client: the client of the scheduler; by default the current one.
        timeout: seconds to wait for the profiler to start or stop.
        rate: samples per second, for a backend that samples.
        options: of the backend.

    Raises:
        SettingsError: for an invalid argument.
    """
    settings = read_call(source, (), {}, rate=rate, timeout=timeout)
    made = find_backends().make(backend, rate_hz=settings.rate, options=options)
    return _FileBlock(made, path, client, settings.timeout)


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
        make_directory(self._path.parent)
        check_room(self._path)
        cluster = Attachment(client, timeout_s=self._timeout_s)
        opened.callback(cluster.close)
        self._recorder = Recorder(
            cluster.control,
            [self._backend],
            self._timeout_s,
            death=cluster.death,
            tell=partial(logger.warning, "schedprof: %s"),
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
