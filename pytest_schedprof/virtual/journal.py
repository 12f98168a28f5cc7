"""What happens in a virtual cluster: its log, and the figures of what the scheduler decides."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import Any

from pytest_schedprof.virtual.holding import Holding
from pytest_schedprof.virtual.stream import Stream
from pytest_schedprof.virtual.tables import Names

SUBJECTS = ("key", "keys", "status")
"""What a message is about, apart from its kind. Names of stimuli and times are left out."""


RELEASES = frozenset({"free-keys", "release-worker-data"})
"""Kinds of messages by which workers forget what clients have released."""


class Log:
    """The hash of all that happened since a time, but for releases.

    In which order a test forgets a set of futures depends on where they lie in memory.
    """

    def __init__(self, now: float) -> None:
        self._begun = now
        self._hash = hashlib.blake2b(digest_size=16)

    def write(self, now: float, whom: str, message: dict[str, Any]) -> None:
        """Write a message down."""
        if message["op"] in RELEASES:
            return
        about = " ".join(str(message[name]) for name in SUBJECTS if name in message)
        self.note(now, f"{whom} {message['op']} {about}")

    def note(self, now: float, what: str) -> None:
        """Write down what happened."""
        self._hash.update(f"{now - self._begun:.6f} {what}\n".encode())

    def digest(self) -> str:
        """Return the hash."""
        return self._hash.hexdigest()


class Journal:
    """Keeps logs, and the figures of a window; does nothing if nobody asked for them."""

    def __init__(self) -> None:
        self.window: Window | None = None
        self.log: Log | None = None
        """The log of a window that backends measure, whichever they are."""
        self.meter: Callable[[str, Any], None] | None = None
        """Counts the messages of scheduler and workers while a backend counts those of clients."""

    def passed(self, way: str, message: Any) -> None:
        """Note that a message, or a batch of them, comes `in` to the scheduler or goes `out`."""
        if self.meter is not None:
            self.meter(way, message)

    def sent(self, now: float, worker: str, message: dict[str, Any]) -> None:
        """Note that a message of the scheduler reached a worker."""
        if self.log is not None:
            self.log.write(now, f"to {worker}", message)
        if self.window is not None:
            self.window.sent(now, worker, message)

    def told(self, now: float, worker: str, message: dict[str, Any]) -> None:
        """Note that a message of a worker reached the scheduler."""
        if self.log is not None:
            self.log.write(now, f"from {worker}", message)
        if self.window is not None:
            self.window.told(now, worker, message)

    def note(self, now: float, what: str) -> None:
        """Note what happened to the scheduler itself."""
        for log in (self.log, self.window.log if self.window is not None else None):
            if log is not None:
                log.note(now, what)

    def spilled(self, nbytes: int) -> None:
        """Note that a worker wrote a result to disk, because its memory is limited."""
        if self.window is not None:
            self.window.figures["spilled"] += nbytes


class Window:
    """The log and the figures from its beginning on."""

    def __init__(self, workers: Workforce, now: float) -> None:
        self.begun = now
        self.keys, self.names = Names(), Names()
        """Tasks and workers that the tables of the window name by number."""
        self.stream = Stream(self.keys, self.names, now)
        self.figures: Counter[str] = Counter()
        self._first: float | None = None
        self._last = now
        self.log = Log(now)
        self._finished: set[Any] = set()
        self._workers = workers
        workers.begin(now)

    def sent(self, now: float, worker: str, message: dict[str, Any]) -> None:
        """Note a message to a worker; tasks and thefts are decisions."""
        self.log.write(now, f"to {worker}", message)
        if self._first is None and message["op"] in ("compute-task", "steal-request"):
            self._first = now

    def told(self, now: float, worker: str, message: dict[str, Any]) -> None:
        """Note a message to the scheduler."""
        self.log.write(now, f"from {worker}", message)
        op = message["op"]
        if op == "task-finished":
            self.figures["recomputed"] += message["key"] in self._finished
            self._finished.add(message["key"])
            self.stream.finished(worker, message)
        if op in ("task-finished", "task-erred"):
            self._last = now
        elif op == "steal-response":
            self.figures["steals"] += message["state"] in ("ready", "constrained", "waiting")

    def note_transfer(self, count: int, nbytes: int) -> None:
        """Note that a worker fetches results from another one."""
        self.figures["transfers"] += count
        self.figures["transferred"] += nbytes

    def report(self, now: float) -> dict[str, Any]:
        """Return the figures and the log's hash."""
        self._workers.look(now)
        makespan = 0.0 if self._first is None else self._last - self._first
        return {
            "hash": self.log.digest(),
            "makespan": round(makespan, 9),
            "transfers": self.figures["transfers"],
            "transferred": self.figures["transferred"],
            "spilled": self.figures["spilled"],
            "steals": self.figures["steals"],
            "recomputed": self.figures["recomputed"],
            "held_by_worst": self._workers.worst,
            "held_by_all": self._workers.most,
            "idle": round(self._workers.idle_s, 9),
        }


class Workforce:
    """Sums over all workers: what they hold, their free threads, and tasks that wait for one."""

    def __init__(self) -> None:
        self.held = self.free = self.ready = 0
        self.worst = self.most = 0
        """The most that one worker held, and all together, since the window began."""
        self.idle_s = 0.0
        """Seconds of free threads while tasks were ready elsewhere."""
        self.holding: Holding | None = None
        """What they held over time, since the window began."""
        self._since = 0.0
        self._known: dict[str, tuple[int, int, int]] = {}

    def begin(self, now: float) -> None:
        """Begin a window."""
        self.worst = max((held for held, _, _ in self._known.values()), default=0)
        self.most, self.idle_s, self._since = self.held, 0.0, now
        self.holding = Holding({name: held for name, (held, _, _) in self._known.items()}, now)

    def look(self, now: float) -> None:
        """Count the time since something last changed."""
        if self.ready:
            self.idle_s += self.free * (now - self._since)
        self._since = now

    def update(self, now: float, name: str, held: int, free: int, ready: int) -> None:
        """Note the state of a worker; all zero if it has left."""
        before = self._known.get(name, (0, 0, 0))
        if before == (held, free, ready):
            return
        self.look(now)
        self._known[name] = held, free, ready
        if self.holding is not None and held != before[0]:
            self.holding.note(now, name, held)
        self.held += held - before[0]
        self.free += free - before[1]
        self.ready += ready - before[2]
        self.worst, self.most = max(self.worst, held), max(self.most, self.held)
