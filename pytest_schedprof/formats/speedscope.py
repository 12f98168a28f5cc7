"""Reader and writer of speedscope's sampled profiles, as py-spy writes them.

Real files have three peculiarities: samples without any frame, threads without a name, and one
frame for each line of a function. The first are counted and left out, the second are kept. The
third are merged later, when the namer uses `Frame.line`.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator

import msgspec
from msgspec import Struct

from pytest_schedprof.errors import FormatError
from pytest_schedprof.formats import UNREADABLE
from pytest_schedprof.model.profile import Namer, SampleProfile, Stack

MOST_SECONDS = 1e9
"""Longest that a profile can last: thirty years."""


class Frame(msgspec.Struct, frozen=True, omit_defaults=True):
    """A line of a function."""

    name: str
    file: str | None = None
    line: int | None = None


class Samples(Struct, frozen=True):
    """One thread's samples: indexes into the file's stacks, in the order they were taken."""

    thread: str
    stacks: array[int]
    empty: int
    seconds: float = 0.0
    """Seconds that each sample stands for."""


class SpeedscopeFile(Struct, frozen=True):
    """A file; each distinct stack of frame indexes is stored once."""

    frames: list[Frame]
    stacks: list[tuple[int, ...]]
    threads: list[Samples]
    name: str = ""

    def counted(self) -> Iterator[tuple[str, tuple[int, ...], int]]:
        """Yield each thread's name with each of its stacks, and how often that was sampled."""
        for thread in self.threads:
            for index, count in Counter(thread.stacks).items():
                yield thread.thread, self.stacks[index], count


class _Profile(msgspec.Struct):
    name: str
    type: str
    # Raw keeps a sample as a slice of the file. Equal samples are equal bytes, so each distinct
    # stack is decoded once. Therefore 100 MB take about a second.
    samples: list[msgspec.Raw] = []
    startValue: float = 0.0  # noqa: N815
    endValue: float = 0.0  # noqa: N815


class _Shared(msgspec.Struct):
    frames: list[Frame]


class _File(msgspec.Struct):
    shared: _Shared
    profiles: list[_Profile]
    name: str = ""


def read_speedscope(content: bytes) -> SpeedscopeFile:
    """Parse a speedscope file of sampled profiles.

    Raises:
        FormatError: if the bytes are not such a file.
    """
    try:
        file = msgspec.json.decode(content, type=_File)
    except UNREADABLE as error:
        raise FormatError(
            f"schedprof: not a speedscope file: {error} ({len(content)} bytes); "
            "the profiler may have been cut off while writing"
        ) from error
    return _Reader(file).read()


class _Frames(msgspec.Struct):
    shared: _Shared


def holds_frame(content: bytes, name: str, path: str) -> bool:
    """Whether a function of this name and file is among the frames.

    The samples are not decoded, so 100 MB take a tenth of a second.
    """
    try:
        frames = msgspec.json.decode(content, type=_Frames).shared.frames
    except UNREADABLE:
        return False
    return any(frame.name == name and frame.file == path for frame in frames)


_STACK = msgspec.json.Decoder(tuple[int, ...])


class _Reader:
    def __init__(self, file: _File) -> None:
        self._file = file
        self._index_of: dict[bytes, int] = {}
        self._stacks: list[tuple[int, ...]] = []

    def read(self) -> SpeedscopeFile:
        threads = [self._thread(profile) for profile in self._file.profiles]
        return SpeedscopeFile(self._file.shared.frames, self._stacks, threads, self._file.name)

    def _thread(self, profile: _Profile) -> Samples:
        if profile.type != "sampled":
            raise FormatError(
                f"schedprof: speedscope profile {profile.name!r} is {profile.type!r}; "
                "only 'sampled' profiles hold samples"
            )
        samples = [bytes(raw) for raw in profile.samples]
        for raw in dict.fromkeys(samples):
            if raw not in self._index_of:
                self._index_of[raw] = len(self._stacks)
                self._stacks.append(self._decode(raw))
        indexes = array("q", map(self._index_of.__getitem__, samples))
        filled = array("q", filter(self._stacks.__getitem__, indexes))
        if not 0 <= profile.endValue - profile.startValue <= MOST_SECONDS:
            raise FormatError(
                f"schedprof: speedscope profile {profile.name!r} lasts from "
                f"{profile.startValue:g} to {profile.endValue:g}, which cannot be"
            )
        # Both writers that are read here give all samples the same weight.
        seconds = (profile.endValue - profile.startValue) / max(1, len(indexes))
        return Samples(profile.name, filled, len(indexes) - len(filled), seconds)

    def _decode(self, raw: bytes) -> tuple[int, ...]:
        try:
            stack = _STACK.decode(raw)
        except UNREADABLE as error:
            raise FormatError(f"schedprof: speedscope sample {raw[:80]!r}: {error}") from error
        if stack and (min(stack) < 0 or max(stack) >= len(self._file.shared.frames)):
            raise FormatError(
                f"schedprof: speedscope sample {raw[:80]!r} names a frame that the file "
                f"does not hold; it has {len(self._file.shared.frames)}"
            )
        return stack


class _Named(msgspec.Struct):
    name: str


def without_process(content: bytes, pid: int) -> bytes:
    """Leave out the threads of one process, in a file of py-spy's that has several."""
    try:
        whole = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
        profiles = msgspec.json.decode(whole["profiles"], type=list[msgspec.Raw])
        names = [msgspec.json.decode(profile, type=_Named).name for profile in profiles]
    except (*UNREADABLE, KeyError):
        return content  # its reader says what is wrong
    start = f"Process {pid} "
    kept = [
        profile for profile, name in zip(profiles, names, strict=True) if not name.startswith(start)
    ]
    return msgspec.json.encode({**whole, "profiles": kept})


def name_frames(
    file: SpeedscopeFile,
    namer: Namer,
    *,
    backend: str,
    mode: str,
    is_held_back: bool = False,
    is_of_cpu: bool = False,
) -> SampleProfile:
    """Merge the lines of each function and give every function its identity."""
    names = namer([(frame.file or "", frame.name, frame.line or 0) for frame in file.frames])
    index_of: dict[Stack, int] = {}
    merged = [
        index_of.setdefault(tuple(map(names.__getitem__, stack)), len(index_of))
        for stack in file.stacks
    ]
    return SampleProfile(
        backend=backend,
        mode=mode,
        stacks=tuple(index_of),
        threads=tuple(array("q", (merged[i] for i in samples.stacks)) for samples in file.threads),
        empty_samples=sum(samples.empty for samples in file.threads),
        is_held_back=is_held_back,
        is_of_cpu=is_of_cpu,
        sample_seconds=0.0
        if is_of_cpu
        else max((samples.seconds for samples in file.threads), default=0.0),
    )
