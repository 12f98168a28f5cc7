"""What happens in a virtual cluster: its log, and the figures of the scheduler's decisions."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from heapq import heapify, heappop, heappush
from typing import Any


class Names(dict[Any, int]):
    """Numbers names in the order of their first use."""

    def __missing__(self, name: Any) -> int:
        self[name] = number = len(self)
        return number

    def in_order(self) -> list[str]:
        """Return the names in the order of their numbers."""
        return [str(name) for name in self]


class Table:
    """Rows that are written as columns."""

    def __init__(self, *names: str) -> None:
        self.names = names
        self.rows: list[list[Any]] = []

    def columns(self) -> dict[str, list[Any]]:
        columns = zip(*self.rows, strict=True) if self.rows else ((),) * len(self.names)
        return {name: list(column) for name, column in zip(self.names, columns, strict=True)}


POINTS = 400
"""Most points that are kept. Each is the peak of an interval; all intervals have one length."""

INTERVAL_S = 0.01
"""Length of an interval at first. It doubles whenever there are too many."""


class Holding:
    """The peaks, in each interval, of what all workers hold and of what the fullest one holds."""

    def __init__(self, held: Mapping[str, int], now: float) -> None:
        self._begun = now
        self._interval_s = INTERVAL_S
        self._held = dict(held)
        self._all = sum(held.values())
        self._heap = [(-nbytes, name) for name, nbytes in held.items()]
        heapify(self._heap)
        self._points: dict[int, tuple[int, int]] = {}
        self._add(0)

    def note(self, now: float, name: str, held: int) -> None:
        """Note that a worker holds so many bytes from now on."""
        self._all += held - self._held.get(name, 0)
        self._held[name] = held
        heappush(self._heap, (-held, name))
        number = int((now - self._begun) / self._interval_s)
        if number >= POINTS:
            self._thin(number)
            number = int((now - self._begun) / self._interval_s)
        self._add(number)

    def columns(self) -> dict[str, list[int]]:
        """Return microseconds since the window began, and the bytes of all and of the fullest."""
        return {
            "at": [round(number * self._interval_s * 1e6) for number in self._points],
            "all": [everything for everything, _ in self._points.values()],
            "worst": [worst for _, worst in self._points.values()],
        }

    def _add(self, number: int) -> None:
        before = self._points.get(number, (0, 0))
        self._points[number] = max(before[0], self._all), max(before[1], self._worst())

    def _worst(self) -> int:
        """Return the most that a worker holds now; older entries of the heap are dropped."""
        while self._heap and self._held[self._heap[0][1]] != -self._heap[0][0]:
            heappop(self._heap)
        return -self._heap[0][0] if self._heap else 0

    def _thin(self, number: int) -> None:
        """Make the intervals so long that the number of the last one is below `POINTS`."""
        times = 1
        while number // times >= POINTS:
            times *= 2
        points, self._points = self._points, {}
        self._interval_s *= times
        for earlier, (everything, worst) in points.items():
            before = self._points.get(earlier // times, (0, 0))
            self._points[earlier // times] = max(before[0], everything), max(before[1], worst)


SUBJECTS = ("key", "keys", "status")
"""Fields of messages that the log has. Names of stimuli and times are left out."""

RELEASES = frozenset({"free-keys", "release-worker-data"})
"""Kinds of messages by which workers forget what clients have released."""


class Log:
    """The hash of all that happened since a time, without releases.

    The order in which a test forgets a set of futures depends on where they lie in memory.
    """

    def __init__(self, now: float) -> None:
        self._begun = now
        self._hash = hashlib.blake2b(digest_size=16)
        self._graphs = hashlib.blake2b(digest_size=16)

    def write(self, now: float, receiver: str, message: dict[str, Any]) -> None:
        if message["op"] in RELEASES:
            return
        about = " ".join(str(message[name]) for name in SUBJECTS if name in message)
        self.note(now, f"{receiver} {message['op']} {about}")

    def note(self, now: float, text: str) -> None:
        """Write down what happened."""
        self._hash.update(f"{now - self._begun:.6f} {text}\n".encode())

    def sent(self, graph: Mapping[Any, Any]) -> None:
        """Write down the tasks that a client sent, in their order."""
        for key, task in graph.items():
            needed = sorted(map(str, getattr(task, "dependencies", ())))
            self._graphs.update(f"{key} {needed}\n".encode())

    def digest(self) -> str:
        return self._hash.hexdigest()

    def digest_of_graphs(self) -> str:
        return self._graphs.hexdigest()


class Journal:
    """Passes what happens to the log and the window that are open now."""

    def __init__(self) -> None:
        self.window: Window | None = None
        self.log: Log | None = None
        """The log of a window that any backend measures."""
        self.meter: Callable[[str, Any], None] | None = None
        """Counts the messages of scheduler and workers while a backend counts those of clients."""

    def passed(self, way: str, message: Any) -> None:
        """Count a message, or a batch, that comes `in` to the scheduler or goes `out`."""
        if self.meter is not None:
            self.meter(way, message)

    def arrived(self, now: float, way: str, worker: str, message: dict[str, Any]) -> None:
        """Note that a message `to` a worker, or `from` it, has arrived."""
        if self.log is not None:
            self.log.write(now, f"{way} {worker}", message)
        if self.window is not None:
            self.window.arrived(now, way, worker, message)

    def sent(self, graph: Mapping[Any, Any]) -> None:
        """Note a graph that a client sent."""
        if self.log is not None:
            self.log.sent(graph)

    def spilled(self, nbytes: int) -> None:
        """Note that a worker wrote a result to disk, because its memory is limited."""
        if self.window is not None:
            self.window.figures["spilled"] += nbytes


class Window:
    """What happens while it is open: a log, figures, and the task stream."""

    def __init__(self, workers: Workforce, now: float) -> None:
        self.begun = now
        self.keys, self.names = Names(), Names()
        """Tasks and workers that the tables of the window name by number."""
        self.tasks = Table("key", "worker", "start", "took", "nbytes")
        """Tasks that were reported finished."""
        self.transfers = Table("worker", "start", "took")
        """The transfers that they waited for."""
        self.figures: Counter[str] = Counter()
        self._first: float | None = None
        self._last = now
        self.log = Log(now)
        self._finished: set[Any] = set()
        self._workers = workers
        workers.begin(now)

    def arrived(self, now: float, way: str, worker: str, message: dict[str, Any]) -> None:
        """Note a message; tasks and thefts are decisions."""
        self.log.write(now, f"{way} {worker}", message)
        op = message["op"]
        if op in ("compute-task", "steal-request"):
            self._first = now if self._first is None else self._first
        elif op == "task-finished":
            self.figures["recomputed"] += message["key"] in self._finished
            self._finished.add(message["key"])
            self._last = now
            self._add_to_stream(worker, message)
        elif op == "task-erred":
            self._last = now
        elif op == "steal-response":
            self.figures["steals"] += message["state"] in ("ready", "constrained", "waiting")

    def _add_to_stream(self, worker: str, message: dict[str, Any]) -> None:
        number = self.names[worker]
        for span in message.get("startstops", ()):
            start = round((span["start"] - self.begun) * 1e6)
            took = round((span["stop"] - self.begun) * 1e6) - start
            if span["action"] == "compute":
                nbytes = message.get("nbytes") or 0
                self.tasks.rows.append([self.keys[message["key"]], number, start, took, nbytes])
            elif span["action"] == "transfer":
                self.transfers.rows.append([number, start, took])

    def note_transfer(self, count: int, nbytes: int) -> None:
        """Note that a worker fetches some results from another one."""
        self.figures["transfers"] += count
        self.figures["transferred"] += nbytes

    def report(self, now: float) -> dict[str, Any]:
        """Return the figures and the log's hash."""
        self._workers.look(now)
        # If none has ended since the first was sent, there is no such time.
        makespan = 0.0 if self._first is None else max(0.0, self._last - self._first)
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
