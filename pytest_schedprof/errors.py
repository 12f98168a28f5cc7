"""Every error a user can meet. Each names the value at fault and the remedy."""

from __future__ import annotations


class SchedprofError(Exception):
    """Root of all errors raised by this package; its text is written for the user."""


def told(error: Exception) -> str:
    """What to tell the user of an error that must not be raised, also one nobody expected."""
    if isinstance(error, SchedprofError):
        return str(error)
    return f"schedprof: unexpected {type(error).__name__}: {error}; please report it"


class SettingsError(SchedprofError):
    """An option, ini value or marker argument is wrong."""


class LimitError(SettingsError):
    """A limit cannot be read, or speaks of something that cannot be measured."""


class BackendUnavailableError(SchedprofError):
    """A known backend cannot work on this scheduler."""


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
