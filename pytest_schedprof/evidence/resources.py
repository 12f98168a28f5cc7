"""Samples memory and CPU of the test's process, for dask's local schedulers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from dask.diagnostics.profile import ResourceData, ResourceProfiler

from pytest_schedprof.evidence import usage

ENDING_S = 5.0


class Resources(ResourceProfiler):
    """Samples from a process that is started as a program, before the first graph.

    dask's own is forked beside running threads, or leaves Python's fork server behind, which tests
    of dask take for a leak.
    """

    def register(self) -> None:
        """Start the process, so that no graph waits for that."""
        self._tracker: Any = None
        with suppress(OSError):  # the system has no process to spare
            self._tracker = _Sampler(self._dt)
        super().register()

    def close(self) -> None:
        """End the process, and release its pipes if it was killed."""
        if self._tracker:
            self._tracker.shutdown()
            self._tracker = None

    def _start_collect(self) -> None:
        if self._is_running():  # type: ignore[no-untyped-call]
            self._tracker.begin()

    def _stop_collect(self) -> None:
        if self._is_running():  # type: ignore[no-untyped-call]
            self.results.extend(self._tracker.end())


class _Sampler:
    """The process that samples. If it is killed there are no samples, and the graph goes on."""

    def __init__(self, interval_s: float) -> None:
        command = [sys.executable, "-m", usage.__name__, str(os.getpid()), str(interval_s)]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=os.path.abspath(os.sep),  # no file beside the tests replaces a module
            start_new_session=True,  # a Ctrl-C is for the test
        )

    def is_alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def begin(self) -> None:
        """Sample from now on."""
        self._order(usage.BEGIN)

    def end(self) -> list[ResourceData]:
        """Return the samples since then."""
        self._order(usage.END)
        assert self._process.stdout
        line = self._process.stdout.readline()
        # It ends with the line's end, unless the process was killed.
        return [ResourceData(*each) for each in (json.loads(line) if line[-1:] == "\n" else ())]

    def shutdown(self) -> None:
        """End it. Processes that were forked meanwhile have the pipe, too, so closing is no end."""
        self._order(usage.END)
        self._order("")
        try:
            self._process.communicate(timeout=ENDING_S)
        except (subprocess.TimeoutExpired, OSError):
            self._process.kill()
            self._process.communicate()

    def _order(self, text: str) -> None:
        assert self._process.stdin
        with suppress(OSError):  # it was killed
            self._process.stdin.write(f"{text}\n")
            self._process.stdin.flush()
