"""A recording that the agent keeps in its target, as the recorder sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pytest_schedprof.agent import recordings
from pytest_schedprof.backends.contract import RawProfile
from pytest_schedprof.clusters.contract import Target
from pytest_schedprof.errors import RecordingError

CHUNK_BYTES = 4 * 2**20


class RemoteRecording:
    """Ends a recording by its token and fetches its file in pieces.

    Subclasses refuse a profile that is not to be trusted.
    """

    def __init__(self, target: Target, token: str, backend: str) -> None:
        self._target = target
        self._token = token
        self._backend = backend

    def check(self, answer: Mapping[str, Any]) -> tuple[str, ...]:
        """Warnings of a recording that ended well, by what the agent says of it.

        Raises:
            RecordingError: if it did not.
        """
        return tuple(answer.get("warnings", ()))

    def doubt(self, answer: Mapping[str, Any]) -> str:
        """Why limits cannot be judged by a recording that ended well, by what the agent says."""
        return ""

    def verify(self, content: bytes) -> None:
        """Raises RecordingError for a file that lacks the proof of its truth."""

    def stop(self, *, timeout_s: float) -> RawProfile:
        """End the recording, check that it did its work, and fetch its file."""
        answer = self._end(timeout_s)
        if answer.get("problem") == "unknown":
            raise RecordingError(
                f"schedprof: {self._target.label} knows nothing of this {self._backend} recording; "
                "was it restarted?"
            )
        try:
            warnings = self.check(answer)
            content = self._fetch(answer["size"])
        finally:
            told = self._target.call(recordings.discard, self._token)
        self.verify(content)
        return RawProfile(content, (*warnings, *told), self.doubt(answer))

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


def already_at_work(backend: str, label: str, reason: str) -> RecordingError:
    """For a second recording where there can be but one."""
    return RecordingError(
        f"schedprof: another {backend} recording is under way on {label}; {reason}"
    )
