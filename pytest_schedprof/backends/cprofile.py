"""cProfile: calls and time of every function on the event loop's thread."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping

from msgspec import Struct

from pytest_schedprof.agent import cprofile as agent
from pytest_schedprof.backends.remote import RemoteBackend, RemoteRecording
from pytest_schedprof.errors import RecordingError
from pytest_schedprof.formats.pstats import read_costs, write_pstats
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.profile import CostProfile, Namer

PICTURE_S = 60.0


class CProfileOptions(Struct, frozen=True):
    callgraph: bool = True
    """Also draw the call graph, if gprof2dot and graphviz are installed."""


class CProfileRecording(RemoteRecording):
    """A cProfile recording of one scheduler."""

    def verify(self, content: bytes) -> None:
        proofs = (agent.proof_of_begin, agent.proof_of_end)
        if not all(proof.__name__.encode() in content for proof in proofs):
            raise RecordingError(
                "schedprof: cProfile's file does not hold the calls that prove it was at work; "
                "another profiler took its place on the scheduler"
            )


class CProfileBackend(RemoteBackend):
    """Records with the standard library's profiler; needs nothing installed on the scheduler."""

    name = "cprofile"
    rank = 30
    artifacts = (Artifact("cprofile.json", JSON),)
    options_type = CProfileOptions
    measures = frozenset({"calls", "seconds"})
    sees_threads = False
    disturbs = True
    module = agent
    recording = CProfileRecording
    busy = "one thread has room for one profiler only: stop the other first"

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        return CostProfile(self.name, self.mode, read_costs(content, namer))

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        stats = write_pstats(content)
        has_tools = importlib.util.find_spec("gprof2dot") and shutil.which("dot")
        picture = {"cprofile.svg": draw(stats)} if self.options.callgraph and has_tools else {}
        return {"cprofile.pstats": stats, **picture}


def draw(stats: bytes) -> bytes:
    """Draw the call graph with gprof2dot and graphviz."""
    with tempfile.NamedTemporaryFile(suffix=".pstats") as file:
        file.write(stats)
        file.flush()
        command = [sys.executable, "-m", "gprof2dot", "-f", "pstats", file.name]
        graph = subprocess.run(command, capture_output=True, check=True, timeout=PICTURE_S).stdout
    return subprocess.run(
        ["dot", "-Tsvg"], input=graph, capture_output=True, check=True, timeout=PICTURE_S
    ).stdout
