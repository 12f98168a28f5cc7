"""Facts about backends and their files, which pages, reports and commands are handed as data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct, field


class FileKind(Struct, frozen=True):
    """A format of files, which says what opens them."""

    opener: str
    """Name of what opens such a file, as `schedprof show` prints it."""
    how: str
    """How to open it, as a page says it."""


SPEEDSCOPE = FileKind("speedscope", "speedscope: drag it onto speedscope.app")
"""Samples of stacks as speedscope reads them."""

TRACE = FileKind(
    "vizviewer, or Perfetto", "vizviewer FILE, or drag it onto Perfetto (ui.perfetto.dev)"
)
"""A Chrome trace that a tracer wrote, plain or compressed with gzip."""

PSTATS = FileKind("python -m pstats, or snakeviz", "python -m pstats FILE, or snakeviz FILE")
"""A file of Python's cProfile. Nothing of ours loads it."""

PAGE = FileKind("a browser", "any browser")
"""A web page or a picture."""

CALLGRIND = FileKind(
    "kcachegrind", "kcachegrind FILE, qcachegrind FILE, or callgrind_annotate FILE"
)

JSON = FileKind("", "any editor; it is JSON")

ENDINGS: Mapping[str, FileKind] = {
    ".speedscope.json": SPEEDSCOPE,
    ".pstats": PSTATS,
    ".prof": PSTATS,
    ".html": PAGE,
    ".svg": PAGE,
    ".json": JSON,
}
"""Kinds of files that their ending tells, whatever wrote them."""


class Artifact(Struct, frozen=True):
    """A kind of file that a backend leaves of each recording."""

    ending: str
    """End of the file's name, as in `scheduler.<ending>`; unique among all backends."""
    kind: FileKind


class BackendFacts(Struct, frozen=True):
    """Declarations of a backend, which are known without making one."""

    name: str
    rank: int | None
    artifacts: tuple[Artifact, ...]
    measures: frozenset[str]
    sees_threads: bool
    disturbs: bool
    needs: tuple[str, ...]


KnownBackends = Mapping[str, BackendFacts]
"""Facts by the name of the backend. A backend that is not installed is missing."""

NO_BACKENDS: KnownBackends = {}


def artifacts_of(backend: str, known: KnownBackends) -> tuple[Artifact, ...]:
    """Return the artifacts that a backend declares; none if it is not installed."""
    facts = known.get(backend)
    return facts.artifacts if facts else ()


def kind_of(name: str, artifacts: Iterable[Artifact] = ()) -> FileKind | None:
    """Return the kind of a file by the ending of its name, or None if it is unknown.

    Args:
        artifacts: of the backend that left it; without them only `ENDINGS` are known.
    """
    for artifact in artifacts:
        if name.endswith(f".{artifact.ending}"):
            return artifact.kind
    return next((kind for ending, kind in ENDINGS.items() if name.endswith(ending)), None)


def rank_of(backend: str, known: KnownBackends) -> float:
    """Return the rank of a backend; one without a rank comes last."""
    facts = known.get(backend)
    return float("inf") if facts is None or facts.rank is None else facts.rank


def recommended(backends: Iterable[BackendFacts]) -> list[str]:
    """Return the names of the backends that have a rank, the most recommended first."""
    ranked = [(backend.rank, backend.name) for backend in backends if backend.rank is not None]
    return [name for _, name in sorted(ranked)]


SECCOMP_FILTER = 2
"""Value of `Privileges.seccomp` if a filter is active."""


class Privileges(Struct, frozen=True):
    """Privileges of the scheduler's process, as found by the agent."""

    platform: str = "linux"
    uid: int = 0
    interpreter: str = ""
    container: str = ""
    """`kubernetes`, another kind of container, or empty for none."""
    refused_calls: Mapping[str, str] = field(default_factory=dict)
    """System calls that a filter refuses, with the error or the signal."""
    seccomp: int = 0
    """Value in /proc; 2 is a filter."""
    may_ptrace: bool = False
    """Whether a child of the process, such as py-spy, has CAP_SYS_PTRACE."""
    was_given_ptrace: bool = False
    """Whether its container has CAP_SYS_PTRACE; a process of another user than root lacks it."""
    no_new_privileges: bool = False
    ptrace_scope: int = -1
    """Yama's setting; -1 if the kernel has no Yama."""
    is_dumpable: bool = True
    security_label: str = ""
    """Label that AppArmor or SELinux gives the process."""


class Machine(Struct, frozen=True):
    """A process and the machine that it runs on."""

    pid: int
    uid: int
    user: str
    """User name, empty if the user ID has none."""
    python: str
    implementation: str
    interpreter: str
    platform: str
    versions: dict[str, str]
    tick_hz: float
    """Frequency of the kernel's clock; 0 if unknown."""
    directory: str
    """Directory of files: of recordings on a scheduler, of artifacts here."""
    free_bytes: int


class ClockOffset(Struct, frozen=True):
    """How far the scheduler's clock is ahead of the clock here."""

    seconds: float
    uncertainty: float
    """Half of the round trip of the measurement, which is its largest error."""


class BackendCheck(Struct, frozen=True):
    """Whether a recording of one backend could be started, stopped and read."""

    name: str
    is_chosen: bool
    works: bool
    seconds: float
    reason: str = ""
    remedies: tuple[str, ...] = ()
    rank: int | None = None
    """Position in the order in which backends are recommended; None for one that never is."""
    notes: dict[str, str] = field(default_factory=dict)
    """What a fact about the scheduler means for the backend, by the name of the fact."""


class Checkup(Struct, frozen=True):
    """All findings."""

    address: str
    is_own: bool
    """Whether the scheduler was started for the check."""
    here: Machine
    scheduler: Machine
    workers: int
    loop_in_main_thread: bool
    privileges: Privileges
    clock: ClockOffset
    differences: tuple[str, ...]
    """Differences between both sides, in words."""
    backends: tuple[BackendCheck, ...]

    @property
    def works(self) -> bool:
        return all(backend.works for backend in self.backends if backend.is_chosen)
