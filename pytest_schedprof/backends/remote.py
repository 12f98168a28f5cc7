"""A recording that the agent keeps in its target, controlled from here."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, ClassVar

from pytest_schedprof.agent import recordings
from pytest_schedprof.backends.contract import Backend, RawProfile, Recording, Target
from pytest_schedprof.errors import BackendUnavailableError, RecordingError, SchedprofError

CHUNK_BYTES = 4 * 2**20

FULL_BYTES = 64 * 2**10
"""Free bytes below which a disk counts as full: profilers write in blocks."""


class RemoteRecording:
    """Ends a recording by its token and fetches its file in pieces.

    Subclasses refuse a profile that cannot be trusted.
    """

    def __init__(self, target: Target, answer: Mapping[str, Any], backend: Backend) -> None:
        """Take over the recording that the agent began.

        Args:
            answer: of the agent, with the `token`.
            backend: whose recording it is.
        """
        self._target = target
        self._token = answer["token"]
        self._backend = backend

    def check(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the warnings for a recording, by the agent's answer when it ended.

        Raises:
            RecordingError: if the recording did not end well.
        """
        return tuple(answer.get("warnings", ()))

    def doubt(self, answer: Mapping[str, Any]) -> str:
        """Return why limits cannot be judged by a recording that ended well; else empty."""
        return ""

    def verify(self, content: bytes) -> None:
        """Raise RecordingError for a file that lacks the proof that the profiler was at work."""

    def stop(self, *, timeout_s: float) -> RawProfile:
        """End the recording, check that it did its work, and fetch its file."""
        answer = self._end(timeout_s)
        if answer.get("problem") == "unknown":
            raise RecordingError(
                f"schedprof: {self._target.label} knows nothing of this {self._backend.name} "
                "recording; was it restarted?"
            )
        try:
            try:
                warnings = self.check(answer)
                content = self._fetch(answer["size"])
            finally:
                faults = self._target.call(recordings.discard, self._token)
            self.verify(content)
        except RecordingError as error:
            raise _for_want_of_room(error, answer, self._target.label) from error
        return RawProfile(content, (*warnings, *faults), self.doubt(answer))

    def abandon(self, *, timeout_s: float) -> None:
        """End the recording and delete its file unread."""
        self._end(timeout_s)
        self._target.call(recordings.discard, self._token)

    def _end(self, timeout_s: float) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = self._target.call(
            recordings.stop, self._token, timeout_s, timeout_s=timeout_s
        )
        return answer

    def _fetch(self, size: int) -> bytes:
        pieces = (
            self._target.call(recordings.fetch, self._token, offset, CHUNK_BYTES)
            for offset in range(0, size, CHUNK_BYTES)
        )
        return b"".join(pieces)


def _for_want_of_room(
    error: RecordingError, answer: Mapping[str, Any], label: str
) -> RecordingError:
    """Return the error, or one that names the full disk which is the cause of it."""
    room = answer["room"]
    if room["free"] >= FULL_BYTES:
        return error
    return RecordingError(
        f"schedprof: the disk with {room['place']!r} is full where {label} runs, so the profile is "
        f"not complete: make room, or start it with another TMPDIR "
        f"({str(error).removeprefix('schedprof: ')})"
    )


class RemoteBackend(Backend, is_base=True):
    """A backend whose work is done by a module of `agent`, on the thread of the scheduler.

    The module's `start` returns a `token`, or the `problem` that it has.
    """

    drift = 0.0
    needs: ClassVar[tuple[str, ...]] = ()

    module: ModuleType
    recording: ClassVar[type[RemoteRecording]] = RemoteRecording
    busy: ClassVar[str] = "stop it first"
    """What to do if another recording is under way."""
    refusals: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Problems, each with its reason and with remedies. A reason may name the `label` of the target
    and whatever the agent's answer has."""

    def start(self, target: Target, *, timeout_s: float) -> Recording:
        arguments = self.arguments(target, timeout_s)
        answer: Mapping[str, Any] = target.call(self.module.start, *arguments, timeout_s=timeout_s)
        if answer.get("problem") == "busy":
            raise already_at_work(self.name, target.label, self.busy)
        if "problem" in answer:
            raise self.refusal(answer, target, timeout_s)
        return self.begun(target, answer)

    def begun(self, target: Target, answer: Mapping[str, Any]) -> Recording:
        """Return the recording that the agent began."""
        return self.recording(target, answer, self)

    def arguments(self, target: Target, timeout_s: float) -> tuple[Any, ...]:
        """Return the arguments of the agent's `start`."""
        return (target.client_id,)

    def refusal(
        self, answer: Mapping[str, Any], target: Target, timeout_s: float
    ) -> SchedprofError:
        """Return the error for a problem other than a recording under way."""
        known = {problem: rest for problem, *rest in self.refusals}
        reason, *remedies = known[answer["problem"]]
        text = reason.format(label=target.label, **answer)
        return BackendUnavailableError(f"schedprof: {text}", *remedies)


def already_at_work(backend: str, label: str, reason: str) -> RecordingError:
    """Return the error for a second recording where only one is possible."""
    return RecordingError(
        f"schedprof: another {backend} recording is under way on {label}; {reason}"
    )
