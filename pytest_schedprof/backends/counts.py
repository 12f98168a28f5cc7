"""counts: exact calls and bytecodes per task, the same number every run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from pytest_schedprof.agent import counts as agent
from pytest_schedprof.analysis.patterns import compile_pattern
from pytest_schedprof.backends.contract import Namer, Setting
from pytest_schedprof.backends.options import read_options
from pytest_schedprof.backends.remote import RemoteRecording, already_at_work
from pytest_schedprof.clusters.contract import Target
from pytest_schedprof.errors import RecordingError
from pytest_schedprof.formats.counts import read_counts
from pytest_schedprof.model.profile import CostProfile

TRAFFIC = frozenset({"messages_in", "messages_out", "bytes_in", "bytes_out"})


@dataclass(frozen=True, slots=True)
class CountsOptions:
    """Options of the backend."""

    modules: tuple[str, ...] = ("distributed.scheduler", "distributed.stealing")
    """Modules whose functions are counted, with wildcards; those that limits name are added."""
    bytecodes: bool = True
    """Count bytecodes too, not calls alone."""


class CountsBackend:
    """Counts what the functions of chosen modules do; nothing to install there."""

    name = "counts"
    suffix = "counts.json"
    drift = 0.0
    targets = frozenset({"scheduler"})
    sees_threads = agent.HAS_MONITORING
    disturbs = True

    def __init__(
        self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str] = ()
    ) -> None:
        self.options = read_options(CountsOptions, self.name, options)
        named = [pattern.partition(":")[0] for pattern in patterns]
        self.modules = tuple(dict.fromkeys([*self.options.modules, *named]))

    @property
    def metrics(self) -> frozenset[str]:
        """Bytecodes only if they are counted."""
        counted = {"calls", "transitions", *TRAFFIC}
        return frozenset({*counted, "bytecodes"} if self.options.bytecodes else counted)

    @property
    def mode(self) -> str:
        """Counts are the same with and without the others."""
        return ""

    @property
    def settings(self) -> Mapping[str, Setting]:
        """All options, and the modules as they came to be."""
        return {**asdict(self.options), "modules": list(self.modules)}

    def start(self, target: Target, *, timeout_s: float) -> RemoteRecording:
        """Begin to count; the agent has seen a call of its own counted."""
        modules = [compile_pattern(module).pattern for module in self.modules]
        arguments = (modules, self.options.bytecodes, target.client_id)
        answer = target.call(agent.start, *arguments, timeout_s=timeout_s)
        if answer.get("problem") == "busy":
            reason = "or a debugger, or a coverage tool: stop it first"
            raise already_at_work(self.name, target.label, reason)
        if answer.get("problem") == "failed":
            raise RecordingError(
                f"schedprof: the interpreter of {target.label} reports no calls; "
                "counts needs CPython"
            )
        return RemoteRecording(target, answer["token"], self.name)

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        """Parse the agent's file."""
        file = read_counts(content)
        return CostProfile(self.name, self.mode, file.functions, file.whole)

    def extras(self, content: bytes) -> Mapping[str, bytes]:
        """None."""
        return {}
