"""Why a figure changed: its parts, one for each function, which sum to the whole."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field

from pytest_schedprof.model.profile import Function


class Role(StrEnum):
    """How a function explains a rise."""

    CHANGED = "changed"
    """Its code differs."""
    NEW = "new"
    """It did not run before."""
    DEARER = "dearer"
    """Its code is the same, as far as is known, and a call of it does more."""
    CALLED = "called"
    """It is called more often."""


class Cost(Struct, frozen=True):
    """What a function cost on one side."""

    amount: float = 0.0
    """Cost per task, without that of the functions that it calls."""
    calls: float | None = None
    """Calls per task; None if they were not counted."""
    error: float = 0.0
    """Half of the interval of the amount; 0 for an exact one."""
    code: str = ""
    """Digests of its code, with spaces between them; empty if they are not known."""
    share: float = 0.0
    """Part of the busy samples with the function in their stacks; 0 if calls were counted."""

    @property
    def per_call(self) -> float | None:
        """Cost of one call; None if calls were not counted, or there were none."""
        return self.amount / self.calls if self.calls else None

    @property
    def is_seen(self) -> bool:
        """Whether the function ran, as far as that was seen."""
        return bool(self.amount or self.calls or self.share)


class Source(Struct, frozen=True):
    """The source of a function, as a scheduler had loaded it."""

    file: str
    line: int
    """Number of its first line in the file."""
    text: str

    @property
    def lines(self) -> list[str]:
        """The lines as Python counts them: `str.splitlines` also ends some at a form feed."""
        return self.text.removesuffix("\n").split("\n") if self.text else []


class SourceLine(Struct, frozen=True):
    """A line of a function's source, on the sides that have it."""

    before: int | None
    """Its number in the file before; None if it is new."""
    after: int | None
    """Its number after; None if it went."""
    text: str
    more: float | None = None
    """How many more of its instructions ran per call; None if lines were not counted."""


class Place(Struct, frozen=True):
    """Lines that follow each other and explain what a call costs more."""

    first: int
    last: int
    is_new: bool
    """Whether the function had no such lines before."""
    more: float | None = None
    """How many more of their instructions ran per call; None if lines were not counted."""


class SourceChange(Struct, frozen=True):
    """How the source of a function differs between two sides."""

    file: str
    is_same: bool
    """Whether both sides have the same text."""
    lines: tuple[SourceLine, ...]
    """Lines that came, went or ran more often, with those around them."""
    places: tuple[Place, ...]
    """Those that explain the change, the dearest first."""


class Caller(Struct, frozen=True):
    """How often one function called another one, per task."""

    function: Function
    before: float
    after: float


class Part(Struct, frozen=True):
    """The part that one function has in a change."""

    function: Function
    owner: str
    before: Cost
    after: Cost
    moved_from: Function = ""
    """Its name before, if it only got another name or place."""
    callers: tuple[Caller, ...] = ()
    """Those that call it more or less often than before, the largest difference first."""
    source: SourceChange | None = None
    """None if the source of a side is not known."""
    role: Role | None = None
    """How it explains the others; None if it follows from them."""

    @property
    def amount(self) -> float:
        """What it adds to the cost of a task."""
        return self.after.amount - self.before.amount

    @property
    def error(self) -> float:
        """Half of the interval of the amount; 0 for an exact one."""
        return float((self.before.error**2 + self.after.error**2) ** 0.5)

    @property
    def is_new(self) -> bool:
        """Whether it did not run before."""
        return not self.before.is_seen

    @property
    def is_gone(self) -> bool:
        """Whether it no longer runs."""
        return not self.after.is_seen

    @property
    def is_changed(self) -> bool:
        """Whether its code differs between the sides, as far as that is known.

        Each side has some that the other one lacks: of a property, one may have run the setter too.
        """
        old, new = set(self.before.code.split()), set(self.after.code.split())
        if old and new:
            return bool(old - new and new - old)
        is_on_both = not (self.is_new or self.is_gone)
        return is_on_both and self.source is not None and not self.source.is_same

    @property
    def by_calls(self) -> float:
        """What it adds because it is called more or less often.

        Together with `by_price` this is the amount: each is taken at the mean of the other one.
        """
        old, new = self.before.per_call, self.after.per_call
        if self.is_new or self.is_gone:
            return self.amount
        if old is None or new is None:
            return 0.0
        return ((self.after.calls or 0) - (self.before.calls or 0)) * (old + new) / 2

    @property
    def by_price(self) -> float:
        """What it adds because a call costs more or less than before."""
        return self.amount - self.by_calls


class Cause(Struct, frozen=True):
    """A function that explains why others rose."""

    function: Function
    role: Role
    metric: str
    before: float
    """Its own cost per task, with that of functions that are defined in it."""
    after: float


class Explanation(Struct, frozen=True):
    """Why one figure of a test changed."""

    test_id: str
    backend: str
    metric: str
    before: float
    """Cost of the whole scheduler, or of all that takes turns with it."""
    after: float
    parts: tuple[Part, ...]
    """Functions whose costs differ, the largest difference first."""
    notes: tuple[str, ...] = ()
    """What is not known, and how to learn it."""
    per: str = "task"
    """What costs are of: a task, or a round."""

    @property
    def amount(self) -> float:
        """The change of the whole."""
        return self.after - self.before

    @property
    def rest(self) -> float:
        """What the parts leave of the change: functions that are not named in the records."""
        return self.amount - sum(part.amount for part in self.parts)


class Accounts(Struct, frozen=True):
    """What each function cost on one side, as far as it is known."""

    whole: float
    functions: Mapping[Function, Cost]
    callers: Mapping[Function, Mapping[Function, float]] = field(default_factory=dict)
    """Calls per task of each function by its callers; empty if they were not counted."""
    lines: Mapping[Function, Mapping[int, float]] = field(default_factory=dict)
    """Instructions per task by line of the file; empty if they were not counted."""
    sources: Mapping[Function, Source] = field(default_factory=dict)
    names_all: bool = True
    """Whether every function that ran is named."""
