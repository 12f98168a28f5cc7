"""counts: exact calls and bytecodes per task, the same numbers in every run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from pytest_schedprof.agent import counts as agent
from pytest_schedprof.agent.counts import (
    CLIENT,
    HAS_MONITORING,
    ClientCounts,
    can_wait_for_clients,
)
from pytest_schedprof.agent.recordings import ENDING_S
from pytest_schedprof.backends.contract import RawProfile, Recording, Setting, Target
from pytest_schedprof.backends.remote import RemoteBackend, RemoteRecording
from pytest_schedprof.errors import RecordingError, SchedprofError
from pytest_schedprof.formats.counted import read_counts, with_more
from pytest_schedprof.model.backend import JSON, Artifact
from pytest_schedprof.model.profile import (
    CALLERS,
    CARRYING,
    DASKS,
    EVERYTHING,
    NOISE,
    SCHEDULING,
    WORKERS,
    CostProfile,
    Function,
    Namer,
    compile_pattern,
    is_of,
    is_work,
    module_of,
    spelt_out,
)

UNCOUNTED = {
    CLIENT: "the client is counted on clusters in virtual time, in tests that are no coroutines, "
    "and in tests that run no scheduler; there with the default options of counts"
}

UNCOUNTED_SIDES = dict.fromkeys(
    ("@client", "@worker"),
    "no worker's code was counted: that is in tests that make their own clusters, in virtual time",
)


class CountsOptions(Struct, frozen=True):
    modules: tuple[str, ...] = (EVERYTHING,)
    """Modules whose functions are counted, with wildcards; modules named in limits are added.

    A word of `WORDS` stands for several.
    """
    bytecodes: bool = True
    """Count bytecodes as well as calls."""
    detail: bool = False
    """Count calls by caller and bytecodes by line, for `schedprof explain`."""


def _without(*, is_newer: bool) -> str:
    """Return the remedy where another tool has the hook of a newer Python, or of an older one."""
    newer = "" if is_newer else ", or on Python 3.12 or newer"
    return f"run these tests without it (pytest --no-cov, or no `coverage run`){newer}"


class CountsRecording(RemoteRecording):
    """Doubts counts that are fewer than the scheduler's own."""

    holder = ""
    """The tool that has the hook of the test's process, for which the client is not counted."""

    def check(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        warnings = super().check(answer)
        if not self.holder:
            return warnings
        return (
            *warnings,
            f"counts did not see the client beside {self.holder}, which has the interpreter's hook "
            f"in the test's process: {_without(is_newer=HAS_MONITORING)}",
        )

    def doubt(self, answer: Mapping[str, Any]) -> str:
        if answer["seen"] >= answer["transitions"]:
            return ""
        return (
            f"counts saw {answer['seen']} of the scheduler's {answer['transitions']} transitions: "
            "another tool, such as coverage, may have taken the interpreter's hook meanwhile"
        )


class WithClient:
    """A recording on the scheduler, beside which the client's code is counted own."""

    def __init__(self, recording: Recording, own: ClientCounts) -> None:
        self._recording, self._own = recording, own

    def stop(self, *, timeout_s: float) -> RawProfile:
        """End both and add the client's counts to the scheduler's file."""
        counts, code = self._own.end()
        raw = self._recording.stop(timeout_s=timeout_s)
        return replace(raw, content=with_more(raw.content, counts, code))

    def abandon(self, *, timeout_s: float) -> None:
        """End both and throw away what they counted."""
        self.end_here()
        self._recording.abandon(timeout_s=timeout_s)

    def end_here(self) -> None:
        """End what counts in this process: the scheduler is lost, or nobody waits for it."""
        self._own.counter.end()


class CountsBackend(RemoteBackend):
    """Counts what the functions of chosen modules do; needs nothing installed on the scheduler."""

    name = "counts"
    rank = 20
    artifacts = (Artifact("counts.json", JSON),)
    options_type = CountsOptions
    measures = frozenset(
        {
            "calls",
            "bytecodes",
            CLIENT,
            "transitions",
            "messages_in",
            "messages_out",
            "bytes_in",
            "bytes_out",
        }
    )
    sees_threads = True
    disturbs = True
    is_reproduced = True
    module = agent

    def prepare(self) -> None:
        named = [pattern.partition(":")[0] for pattern in self.patterns if ":" in pattern]
        self.modules = tuple(dict.fromkeys([*self.options.modules, *named]))

    @property
    def metrics(self) -> frozenset[str]:
        return self.measures if self.options.bytecodes else self.measures - {"bytecodes", CLIENT}

    @property
    def settings(self) -> Mapping[str, Setting]:
        return {**super().settings, "modules": list(self.modules)}

    def begun(self, target: Target, answer: Mapping[str, Any]) -> Recording:
        recording = CountsRecording(target, answer, self)
        is_everything = EVERYTHING in self.options.modules and self.options.bytecodes
        if not (answer["is_timed"] and is_everything and can_wait_for_clients()):
            return recording
        own = ClientCounts(_expressions((SCHEDULING, *CARRYING)), _expressions((*NOISE, *WORKERS)))
        both = WithClient(recording, own)
        try:
            if own.counter.begin():
                return both
        except Exception:
            both.abandon(timeout_s=ENDING_S)  # nobody else knows it yet
            raise
        except BaseException:  # such as a Ctrl-C, after which the session ends all on the scheduler
            both.end_here()
            raise
        recording.holder = own.counter.holder()
        return recording

    def arguments(self, target: Target, timeout_s: float) -> tuple[Any, ...]:
        options = self.options
        return (self._counted(), options.bytecodes, options.detail, target.client_id)

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        if answer["problem"] == "taken":
            return RecordingError(
                f"schedprof: counts cannot work beside {answer['holder']}, which has the "
                f"interpreter's hook in {target.label}: {_without(is_newer=answer['is_newer'])}"
            )
        return RecordingError(
            f"schedprof: the interpreter of {target.label} reports no calls; counts needs CPython"
        )

    def _counted(self) -> dict[str, list[str]]:
        """Return expressions that tell the agent what to count."""
        named = [module for module in self.modules if module != EVERYTHING]
        is_everything = len(named) < len(self.modules)
        named = _expressions(named)

        def if_everything(*modules: str) -> list[str]:
            return _expressions(modules) if is_everything else []

        return {
            "modules": _expressions(self.modules),
            "noise": if_everything(*NOISE),
            "workers": if_everything(*WORKERS),
            "modules_here": [*named, *if_everything(SCHEDULING)],
            "callers_here": if_everything(*CALLERS),
            "modules_in_turns": [*named, *if_everything(DASKS)],
            "callers_in_turns": if_everything(DASKS),
            "ordered": [*named, *if_everything(SCHEDULING)],
        }

    def read(self, content: bytes, namer: Namer) -> CostProfile:
        file = read_counts(content)
        lacks = {} if any(CLIENT in counts for counts in file.functions.values()) else UNCOUNTED
        if not any(is_of(module_of(name), WORKERS) for name in file.functions):
            lacks = lacks | UNCOUNTED_SIDES
        if EVERYTHING not in self.options.modules:
            whole: Mapping[str, int] = file.whole
        else:
            whole = {**work_of(file.functions), **file.whole}
        return CostProfile(
            self.name,
            self.mode,
            file.functions,
            whole,
            lacks=lacks,
            is_everything=EVERYTHING in self.options.modules,
            code=file.code,
        )


def work_of(functions: Mapping[Function, Mapping[str, int]]) -> dict[str, int]:
    """Return the sums over the functions that work on tasks.

    What carries messages is not in them, because its counts depend on how these were batched.
    """
    sums: Counter[str] = Counter()
    for name, counts in functions.items():
        if is_work(name):
            sums.update(counts)
    return dict(sums)


def _expressions(modules: Iterable[str]) -> list[str]:
    return [compile_pattern(module).pattern for module in spelt_out(modules)]
