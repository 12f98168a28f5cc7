"""Every error a user can meet. Each names the value at fault and the remedy."""

from __future__ import annotations

from collections.abc import Sequence


class SchedprofError(Exception):
    """Root of all errors raised by this package; its text is written for the user."""


class SettingsError(SchedprofError):
    """An option, ini value or marker argument is wrong."""


class LimitError(SettingsError):
    """A limit cannot be read, or speaks of something that cannot be measured."""


class BackendUnavailableError(SchedprofError):
    """A known backend cannot work on this scheduler."""

    def __init__(self, reason: str, *remedies: str) -> None:
        super().__init__("; ".join([reason, *remedies]))
        self.reason = reason
        self.remedies = remedies
        """What can be done, each by itself."""


class BackendUnknownError(SettingsError):
    """No backend of that name is registered."""


class BackendNotInstalledError(BackendUnavailableError):
    """The backend's program or package is missing where the scheduler runs."""


class BackendNotPermittedError(BackendUnavailableError):
    """The operating system forbids the backend to look into the scheduler."""


class RecordingError(SchedprofError):
    """A recording could not start, broke off, or brought back nothing usable."""


class SchedulerLostError(SchedprofError):
    """The scheduler under test died or cannot be reached."""


class ClusterError(SchedprofError):
    """A cluster could not be started, reached or cleaned."""


class FormatError(SchedprofError):
    """A profile's or record's bytes are not what they should be."""


class ArtifactError(SchedprofError):
    """An artifact cannot be written or read."""


class BaselineError(SettingsError):
    """What was named to compare with is missing, corrupt, or of another kind."""


class LimitBrokenError(SchedprofError):
    """A limit of a profile does not hold, or under `strict` cannot be shown to hold."""


def as_own(error: Exception) -> SchedprofError:
    """Any error, also one nobody expected, as one whose text is written for the user."""
    if isinstance(error, SchedprofError):
        return error
    own = RecordingError(f"schedprof: unexpected {type(error).__name__}: {error}; please report it")
    own.__cause__ = error
    return own


def together(errors: Sequence[SchedprofError]) -> SchedprofError:
    """One error that tells of all: the only one itself, or one of their common class."""
    first, *others = errors
    if not others:
        return first
    kinds = {type(error) for error in errors}
    kind = kinds.pop() if len(kinds) == 1 else SchedprofError
    every = kind("\n".join(str(error) for error in errors))
    every.__cause__ = first
    return every
