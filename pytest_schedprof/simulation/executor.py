"""Simulated execution of a hollow worker's instructions.

A task ends when its duration is over, a transfer when its bytes would have arrived.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from dask.utils import key_split
from distributed import worker_state_machine as machine
from distributed.metrics import time
from distributed.worker_state_machine import StateMachineEvent

from pytest_schedprof.simulation.placeholder import Placeholder
from pytest_schedprof.simulation.shuffles import ElsewhereError, Shuffles, is_part
from pytest_schedprof.simulation.spilling import seconds_to_read

if TYPE_CHECKING:
    from pytest_schedprof.simulation.worker import HollowWorker

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
        """Return for how many simulated seconds each running task has run."""
        now, scale = time(), self._worker.server.behaviour.time_scale
        return {key: (now - begun) * scale for key, (_, begun) in self.timers.items()}

    def end(self) -> None:
        """Cancel all running tasks; none of them finishes any more."""
        for handle, _ in self.timers.values():
            handle.cancel()

    def _after(self, seconds: float, call: Callable[[], None]) -> asyncio.Handle:
        """Call a function after a number of simulated seconds."""
        loop, delay = asyncio.get_running_loop(), seconds / self._worker.server.behaviour.time_scale
        return loop.call_soon(call) if delay < AT_ONCE_S else loop.call_later(delay, call)

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
        key, run_id, begun = task.key, task.run_id, time()
        try:
            await self.shuffles.take_part(key, task.run_spec)
        except ElsewhereError:
            del self.timers[key]
            self._worker.handle(
                machine.RescheduleEvent(key=key, stimulus_id=f"reschedule-{time()}")
            )
        except Exception as error:  # reported like the error of any task
            del self.timers[key]
            self._worker.handle(self._failure(error, key, run_id, begun, time()))
        else:
            self._compute(key, run_id)

    def _compute(self, key: Any, run_id: int) -> None:
        behaviour, prefix = self._worker.server.behaviour, key_split(key)
        seconds = behaviour.seconds(key, prefix) / self._worker.pace + self._seconds_to_read(key)
        self._begin(seconds)
        ending = self._after(seconds, partial(self._finish, key, run_id, seconds))
        self.timers[key] = ending, time()
        if behaviour.secedes(prefix):
            self._worker.handle(
                machine.SecedeEvent(key=key, compute_duration=0.0, stimulus_id=f"secede-{time()}")
            )

    def _begin(self, seconds: float) -> None:
        """Do what is to be done as a task of so many seconds begins."""

    def _seconds_to_read(self, key: Any) -> float:
        """Return how long the task's dependencies take to be in memory."""
        state = self._worker.state
        return seconds_to_read(state.data, [each.key for each in state.tasks[key].dependencies])

    def _finish(self, key: Any, run_id: int, seconds: float) -> None:
        del self.timers[key]
        prefix, stop = key_split(key), time()
        if (error := self._error_of(key)) is not None:
            self._worker.handle(self._failure(error, key, run_id, stop - seconds, stop))
            return
        nbytes = self._worker.server.behaviour.size(key, prefix)
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

    def _error_of(self, key: Any) -> Exception | None:
        """Return the error with which a task ends, if so."""
        if self._worker.server.behaviour.fails(key, key_split(key)):
            return SimulatedError(f"{key!r} was meant to fail")
        return None

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

    def end_cancelled(self, keys: list[Any]) -> None:
        """Finish cancelled tasks at once, so that their threads are free."""
        for key in keys:
            task = self._worker.state.tasks.get(key)
            if key in self.timers and task is not None and task.state == "cancelled":
                self.timers[key][0].cancel()
                self._finish(key, task.run_id, 0.0)

    def gather(self, instruction: machine.GatherDep) -> None:
        """Simulate a transfer: the bytes count as incoming for as long as it would take."""
        data = {key: self._received(instruction.worker, key) for key in instruction.to_gather}
        seconds = self._transfer_seconds(instruction)
        self._note_transfer(instruction, seconds)
        self._after(seconds, partial(self._receive, instruction, data))

    def _transfer_seconds(self, instruction: machine.GatherDep) -> float:
        """Return how long a transfer takes."""
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
        """Return whether nothing can come from a worker."""
        return self._worker.server.has_left(address)

    def _received(self, sender: str, key: Any) -> Any:
        """Return scattered data as it is, a placeholder for anything else."""
        held = self._worker.server.held_by(sender, key)
        return Placeholder(key, self._worker.state.tasks[key].nbytes or 0) if held is None else held

    def _note_transfer(self, instruction: machine.GatherDep, seconds: float) -> None:
        """Record the transfer in a task that waits for it, as real workers do."""
        wanted = [self._worker.state.tasks[key] for key in instruction.to_gather]
        cause = next((next(iter(each.dependents)) for each in wanted if each.dependents), wanted[0])
        start = time()
        cause.startstops.append(
            {
                "action": "transfer",
                "start": start,
                "stop": start + seconds,
                "source": instruction.worker,
            }
        )
