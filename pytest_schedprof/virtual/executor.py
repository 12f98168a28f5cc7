"""Simulated execution of a hollow worker's instructions.

A task ends after its duration, a transfer when its bytes would have arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import dask.config
from dask.sizeof import sizeof
from dask.utils import key_split
from distributed import worker_state_machine as machine
from distributed.metrics import time
from distributed.worker_state_machine import StateMachineEvent

from pytest_schedprof.errors import MissingValueError, PlaceholderError, SettingsError
from pytest_schedprof.virtual.shuffles import ElsewhereError, Shuffles, is_part

if TYPE_CHECKING:
    from pytest_schedprof.virtual.hollow_worker import HollowWorker

CALCULATIONS = (
    "add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "divmod", "pow", "lshift",
    "rshift", "and", "or", "xor",
)  # fmt: skip

OTHER_USES = (
    "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert", "bool", "int", "float", "complex",
    "index", "bytes", "round", "trunc", "floor", "ceil", "len", "length_hint", "iter", "reversed",
    "contains", "getitem", "setitem", "delitem", "call", "enter", "exit", "array",
)  # fmt: skip

USES = [f"__{name}__" for name in (*CALCULATIONS, *OTHER_USES)]
USES += [f"__r{name}__" for name in CALCULATIONS]
"""Names of the methods that Python and numpy call when a value is used, without equality.

There is no `__next__` and no `__await__`: libraries would take it for an iterator or an awaitable.
"""

KINDS_THAT_COMPUTE = (
    "For real results take --schedprof-cluster=local, docker, or the address of a scheduler"
)

OWN = ("key", "nbytes")


def _refusal(use: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *args: object, **keywords: object) -> NoReturn:
        raise PlaceholderError(_complaint(self, use))

    refuse.__name__ = use
    return refuse


def _complaint(placeholder: Any, use: str) -> str:
    return (
        f"schedprof: no worker computed {placeholder.key!r}, so its value cannot be used ({use}): "
        f"clusters 'simulated' and 'virtual' have placeholders of results. {KINDS_THAT_COMPUTE}"
    )


class _NoValue:
    """Refuses all uses of a value."""

    __slots__ = ()

    locals().update({use: _refusal(use) for use in USES})


@dataclass(frozen=True, slots=True)
class Placeholder(_NoValue):
    """The result of a task on a simulated or virtual cluster.

    It can be passed on, kept, compared for equality, hashed and pickled. Any other use is an error
    that names the task.
    """

    key: object
    nbytes: int
    """The reported size of the result."""

    def __repr__(self) -> str:
        return f"<no value of {self.key!r}, as hollow workers compute nothing>"

    def __sizeof__(self) -> int:
        return self.nbytes

    def __format__(self, spec: str) -> str:
        if spec:
            raise PlaceholderError(_complaint(self, f"format {spec!r}"))
        return repr(self)

    def __getattr__(self, name: str) -> NoReturn:
        """Refuse attributes; libraries that look for special ones do not find them."""
        if name.startswith("_") or name in OWN:
            raise AttributeError(name)
        raise MissingValueError(_complaint(self, f".{name}"))


TARGET = "distributed.worker.memory.target"


class SpilledData(dict[Any, Any]):
    """The results of a worker by key; adds up the seconds that reads and writes take."""

    def __init__(
        self, room: float, rate: float, note: Callable[[int], None] = lambda nbytes: None
    ) -> None:
        """Begin empty.

        Args:
            room: bytes of results that fit into memory.
            rate: bytes a second to or from disk.
            note: called with the bytes of each result that is written.
        """
        super().__init__()
        self._note = note
        self._room = room
        self._rate = rate
        self._fast: dict[Any, int] = {}
        """Sizes of results in memory, those used least recently first."""
        self._slow: dict[Any, int] = {}
        """Sizes of results on disk."""
        self._in_memory = 0
        self._owed_s = 0.0

    def __setitem__(self, key: Any, value: Any) -> None:
        self._forget(key)
        super().__setitem__(key, value)
        nbytes = getattr(value, "nbytes", None)  # of a placeholder it is what the result would have
        self._keep(key, nbytes if isinstance(nbytes, int) else sizeof(value))

    def __delitem__(self, key: Any) -> None:
        super().__delitem__(key)
        self._forget(key)

    def pop(self, key: Any, *default: Any) -> Any:
        self._forget(key)
        return super().pop(key, *default)

    def read(self, key: Any) -> None:
        """Use a result, which is in memory afterwards."""
        if key in self._slow:
            nbytes = self._slow.pop(key)
            self._owed_s += nbytes / self._rate
            self._keep(key, nbytes)
        elif key in self._fast:
            self._fast[key] = self._fast.pop(key)

    def seconds_owed(self) -> float:
        """Return how long reads and writes took since the last call."""
        owed, self._owed_s = self._owed_s, 0.0
        return owed

    @property
    def on_disk(self) -> int:
        """Bytes of results on disk."""
        return sum(self._slow.values())

    def _keep(self, key: Any, nbytes: int) -> None:
        self._fast[key] = nbytes
        self._in_memory += nbytes
        while self._in_memory > self._room and len(self._fast) > 1:
            oldest = next(iter(self._fast))
            self._slow[oldest] = self._fast.pop(oldest)
            self._in_memory -= self._slow[oldest]
            self._owed_s += self._slow[oldest] / self._rate
            self._note(self._slow[oldest])

    def _forget(self, key: Any) -> None:
        self._in_memory -= self._fast.pop(key, 0)
        self._slow.pop(key, None)


def data_of(
    memory_limit: float, disk: float, note: Callable[[int], None] | None = None
) -> dict[Any, Any]:
    """Return where a worker keeps results.

    If its disk takes no time, results are spilled only for a `note` of that.
    """
    target = target_of_memory()
    if not target or (disk == float("inf") and note is None):
        return {}
    return SpilledData(memory_limit * target, disk, note or (lambda nbytes: None))


def target_of_memory() -> float:
    """Return the part of its memory that a worker fills with results, or 0 if it spills none.

    Raises:
        SettingsError: if dask's configuration has something else there.
    """
    target = dask.config.get(TARGET)
    if not isinstance(target, int | float):
        raise SettingsError(f"schedprof: {TARGET} must be false or a number, got {target!r}")
    return float(target)


def seconds_to_read(data: MutableMapping[Any, Any], keys: list[Any]) -> float:
    """Return how long it takes to get these results into memory, with all writes before them."""
    if not isinstance(data, SpilledData):
        return 0.0
    for key in keys:
        data.read(key)
    return data.seconds_owed()


AT_ONCE_S = 0.0005
"""Delays below this are not worth a timer."""


class SimulatedError(Exception):
    """The exception of a task that the trait `failures` lets fail."""


class Executor:
    """Simulates the instructions of one worker's state machine."""

    def __init__(self, worker: HollowWorker) -> None:
        self._worker = worker
        self.shuffles = Shuffles(worker)
        self._latency = worker.server.behaviour.seconds_on_way(f"transfers to {worker.name}")
        self.timers: dict[Any, tuple[asyncio.Handle | asyncio.Task[None], float]] = {}
        """The handle that ends each running task, and the time when the task began."""

    def executing(self) -> dict[Any, float]:
        """Return for how many seconds each running task has run."""
        now = time()
        return {key: now - start for key, (_, start) in self.timers.items()}

    def end(self) -> None:
        """Cancel all running tasks; none of them finishes any more."""
        for handle, _ in self.timers.values():
            handle.cancel()

    def _after(self, seconds: float, call: Callable[[], None]) -> asyncio.Handle:
        loop = asyncio.get_running_loop()
        return loop.call_soon(call) if seconds < AT_ONCE_S else loop.call_later(seconds, call)

    def execute(self, key: Any) -> None:
        """Start a task; a task of a shuffle first exchanges its messages with the scheduler."""
        task = self._worker.state.tasks[key]
        is_recorded = self._worker.server.behaviour.workload.of(key) is not None
        if is_part(key, task.dependencies) and not is_recorded:
            self.timers[key] = asyncio.ensure_future(self._take_part(task)), time()
        else:
            self._compute(key, task.run_id)

    async def _take_part(self, task: machine.TaskState) -> None:
        """Take part in a shuffle, then compute."""
        key, run_id, start = task.key, task.run_id, time()
        try:
            await self.shuffles.take_part(key, task.run_spec)
        except ElsewhereError:
            del self.timers[key]
            self._worker.handle(
                machine.RescheduleEvent(key=key, stimulus_id=f"reschedule-{time()}")
            )
        except Exception as error:  # reported like the error of any task
            del self.timers[key]
            self._worker.handle(self._failure(error, key, run_id, start, time()))
        else:
            self._compute(key, run_id)

    def _compute(self, key: Any, run_id: int) -> None:
        behaviour, prefix = self._worker.server.behaviour, key_split(key)
        state = self._worker.state
        needed = [task.key for task in state.tasks[key].dependencies]
        seconds = behaviour.seconds(key, prefix) / self._worker.pace
        seconds += seconds_to_read(state.data, needed)
        self._begin(seconds)
        ending = self._after(seconds, partial(self._finish, key, run_id, seconds))
        self.timers[key] = ending, time()

    def _begin(self, seconds: float) -> None:
        """Do nothing as a task of this length begins; virtual workers draw faults."""

    def _finish(self, key: Any, run_id: int, seconds: float) -> None:
        del self.timers[key]
        behaviour, prefix, stop = self._worker.server.behaviour, key_split(key), time()
        if behaviour.fails(key, prefix):
            error = SimulatedError(f"{key!r} was meant to fail")
            self._worker.handle(self._failure(error, key, run_id, stop - seconds, stop))
            return
        nbytes = behaviour.size(key, prefix)
        self._worker.handle(
            machine.ExecuteSuccessEvent(
                key=key,
                run_id=run_id,
                value=Placeholder(key, nbytes),
                start=stop - seconds,
                stop=stop,
                nbytes=nbytes,
                type=Placeholder,
                stimulus_id=f"task-finished-{stop}",
            )
        )

    def _failure(
        self, error: Exception, key: Any, run_id: int, start: float, stop: float
    ) -> StateMachineEvent:
        return machine.ExecuteFailureEvent.from_exception(
            error,
            key=key,
            run_id=run_id,
            start=start,
            stop=stop,
            stimulus_id=f"task-erred-{stop}",
        )

    def gather(self, instruction: machine.GatherDep) -> None:
        """Simulate a transfer, whose bytes count as incoming until its end."""
        data = dict(self._sent(instruction))
        seconds = self.transfer(instruction)
        self._note_transfer(instruction, seconds)
        self._after(seconds, partial(self._receive, instruction, data))

    def transfer(self, instruction: machine.GatherDep) -> float:
        """Let a transfer begin; return how many seconds it takes."""
        behaviour = self._worker.server.behaviour
        return behaviour.transfer_seconds(instruction.total_nbytes, self._latency())

    def _receive(self, instruction: machine.GatherDep, data: dict[Any, object]) -> None:
        """Report that all results arrived, or a network failure if the sender has left."""
        about: dict[str, Any] = {
            "worker": instruction.worker,
            "total_nbytes": instruction.total_nbytes,
            "stimulus_id": f"gather-dep-{time()}",
        }
        if self._is_lost(instruction.worker):
            self._worker.handle(machine.GatherDepNetworkFailureEvent(**about))
        else:
            self._worker.handle(machine.GatherDepSuccessEvent(data=data, **about))

    def _is_lost(self, address: str) -> bool:
        """Return whether nothing can arrive from a worker."""
        return address in self._worker.server.left

    def _sent(self, instruction: machine.GatherDep) -> Iterator[tuple[Any, object]]:
        """Yield what the sender still has: data as it is, else a placeholder.

        Of a worker in another process it is not known: that has everything.
        """
        sender = self._worker.server.hollow.get(instruction.worker)
        for key in instruction.to_gather:
            if sender is not None and key in sender.state.data:
                yield key, sender.state.data[key]
            elif sender is None or key in sender.state.actors:
                yield key, Placeholder(key, self._worker.state.tasks[key].nbytes or 0)

    def _note_transfer(self, instruction: machine.GatherDep, seconds: float) -> None:
        """Record the transfer in a task that waits for it, as real workers do."""
        tasks = [self._worker.state.tasks[key] for key in instruction.to_gather]
        cause = next((next(iter(task.dependents)) for task in tasks if task.dependents), tasks[0])
        start = time()
        cause.startstops.append(
            {
                "action": "transfer",
                "start": start,
                "stop": start + seconds,
                "source": instruction.worker,
            }
        )
