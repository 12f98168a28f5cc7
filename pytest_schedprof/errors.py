"""Errors that users can see. Each names the value at fault and the remedy.

Their text, like every text for a terminal, is passed through `printable`, and has no secrets of
URLs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def printable(text: str, encoding: str = "utf-8", keep: str = "\n\t") -> str:
    """Escape what a terminal would obey or cannot show: names in records may hold anything.

    Args:
        text: for a terminal, or JSON, which stays valid because its escapes are the same.
        keep: characters to leave as they are although they are not printable.
    """

    def shown(match: re.Match[str]) -> str:
        character = match.group()
        return (
            character
            if character in keep or _is_shown(character, encoding)
            else _escaped(character)
        )

    return UNUSUAL.sub(shown, text)


UNUSUAL = re.compile("[^ -~]")
"""Characters that are not known to be printable."""


QUOTE = r"['\"](?=[\w%])"
"""Matches a quotation mark inside of a URL, and not the one that ends it."""

USER = rf"\b(?!abfss?:)(\w+://)(?:[^/\s'\"]|{QUOTE})+@"
"""Matches user and password of a URL; in those of Azure's file system it is the container."""

QUERY = rf"(://(?:[^\s'\"?]|{QUOTE})*\?)(?:[^\s'\"]|{QUOTE})*[^\s'\".,:;)]"
"""Matches the query of a URL, without the mark of punctuation that may follow in a sentence."""


def without_secrets(text: str) -> str:
    """Return a text for other eyes: URLs in it without user, password, and signature."""
    return re.sub(QUERY, r"\1***", re.sub(USER, r"\1***@", text))


MOST_QUOTED = 200
"""Characters of a wrong value that a message repeats."""


def quoted(value: object) -> str:
    """Return the `repr` of a wrong value, cut if it is long."""
    try:
        text = repr(value)
    except ValueError:  # a whole number of thousands of digits
        return "a number of thousands of digits"
    return text if len(text) <= MOST_QUOTED else f"{text[:MOST_QUOTED]}..."


def hint(word: str, known: Iterable[str]) -> str:
    """Return which known word a wrong one is most similar to, as a question; empty if to none."""
    from difflib import get_close_matches  # takes a millisecond of each start

    near = get_close_matches(word, [*known], 1)
    return f" (did you mean {near[0]!r}?)" if near else ""


def _is_shown(character: str, encoding: str) -> bool:
    if not character.isprintable():
        return False
    try:
        character.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _escaped(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place : place + 2].hex()}" for place in range(0, len(units), 2))


class SchedprofError(Exception):
    """Base of all errors raised by this package; its text is written for users."""

    def __str__(self) -> str:
        return printable(without_secrets(super().__str__()))


class SettingsError(SchedprofError):
    """An option, ini value or marker argument is wrong."""


class LimitError(SettingsError):
    """A limit cannot be parsed, or is about something that cannot be measured."""


class BackendUnavailableError(SchedprofError):
    """A known backend cannot work on this scheduler."""

    def __init__(self, reason: str, *remedies: str) -> None:
        super().__init__("; ".join([reason, *remedies]))
        self.reason = reason
        self.remedies = remedies
        """Ways to solve it, of which one is enough."""


class BackendUnknownError(SettingsError):
    """No backend of that name is registered."""


class BackendInvalidError(SettingsError):
    """A backend that a hook adds cannot be used."""


class BackendNotInstalledError(BackendUnavailableError):
    """The backend's program or package is missing where the scheduler runs."""


class BackendNotPermittedError(BackendUnavailableError):
    """The operating system does not allow the backend to observe the scheduler."""


class RecordingError(SchedprofError):
    """A recording could not start, ended early, or brought back nothing usable."""


class StuckError(SchedprofError):
    """Nothing can happen any more in a cluster in virtual time."""


class PlaceholderError(SchedprofError):
    """A test uses the value of a task on a cluster whose workers compute nothing."""


class MissingValueError(PlaceholderError, AttributeError):
    """A test uses an attribute of such a value; who only looks for it does not find it."""


class SchedulerLostError(SchedprofError):
    """The scheduler under test died or cannot be reached."""


class ClusterError(SchedprofError):
    """A cluster could not be started, reached or cleaned up."""


class NoSchedulerError(ClusterError):
    """A marked test without the fixture ran no scheduler in its own process."""


class IncompatibleError(ClusterError):
    """dask's client here cannot use a scheduler of another release."""


class FormatError(SchedprofError):
    """The content of a profile or record is not in the expected format."""


class ArtifactError(SchedprofError):
    """An artifact cannot be written or read."""


class BaselineError(SettingsError):
    """A baseline is missing, corrupt, or of another kind."""


class ForgeError(SchedprofError):
    """GitHub refuses a request, or gives no answer that can be used."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status
        """Of HTTP; 0 without an answer."""


class LimitBrokenError(SchedprofError):
    """A limit does not hold, or under `strict` is inconclusive."""


def as_own(error: Exception) -> SchedprofError:
    """Return an error as a SchedprofError; wrap any other as an unexpected one."""
    if isinstance(error, SchedprofError):
        return error
    own = RecordingError(f"schedprof: unexpected {type(error).__name__}: {error}; please report it")
    own.__cause__ = error
    return own


def together(errors: Sequence[SchedprofError]) -> SchedprofError:
    """Join errors into one: of their common class if they have one, else of the base class."""
    first, *others = errors
    if not others:
        return first
    kinds = {type(error) for error in errors}
    kind = kinds.pop() if len(kinds) == 1 else SchedprofError
    every = kind("\n".join(str(error) for error in errors))
    every.__cause__ = first
    return every
