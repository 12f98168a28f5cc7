"""What a hollow worker is told to do, and does not: a task ends when its time is over, a transfer
when its bytes would have come.
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

if TYPE_CHECKING:
    from pytest_schedprof.simulation.worker import HollowWorker

AT_ONCE_S = 0.0005
"""What takes less is not worth a timer."""


class SimulatedError(Exception):
    """What a task raises that is meant to fail."""


class Pretence:
    """The instructions of one worker's state machine, carried out in pretence."""

    def __init__(self, worker: HollowWorker) -> None:
        self._worker = worker
        self.shuffles = Shuffles(worker)
        self.timers: dict[Any, tuple[asyncio.Handle | asyncio.Task[None], float]] = {}
        """What ends each task that is running, and when it began."""

    def executing(self) -> dict[Any, float]:
        """Tasks that are running, and for how long in simulated time."""
        now, scale = time(), self._worker.desk.behaviour.time_scale
        return {key: (now - begun) * scale for key, (_, begun) in self.timers.items()}

    def end(self) -> None:
        """Nothing that is running comes to an end any more."""
        for handle, _ in self.timers.values():
            handle.cancel()

    def _after(self, seconds: float, call: Callable[[], None]) -> asyncio.Handle:
        """Call in so many simulated seconds."""
        loop, delay = asyncio.get_running_loop(), seconds / self._worker.desk.behaviour.time_scale
        return loop.call_soon(call) if delay < AT_ONCE_S else loop.call_later(delay, call)

    def execute(self, key: Any) -> None:
        """A task; one of a shuffle first has its say."""
        task = self._worker.state.tasks[key]
        if is_part(key, task.dependencies):
            self.timers[key] = asyncio.ensure_future(self._take_part(task)), time()
        else:
            self._compute(key, task.run_id)

    async def _take_part(self, task: machine.TaskState) -> None:
        """In a shuffle, and then compute."""
        key, run_id, begun = task.key, task.run_id, time()
        try:
            await self.shuffles.take_part(key, task.run_spec)
        except ElsewhereError:
            del self.timers[key]
            self._worker.handle(
                machine.RescheduleEvent(key=key, stimulus_id=f"reschedule-{time()}")
            )
        except Exception as error:  # as any task's, told to whoever wants its result
            del self.timers[key]
            self._worker.handle(self._failure(error, key, run_id, begun, time()))
        else:
            self._compute(key, run_id)

    def _compute(self, key: Any, run_id: int) -> None:
        behaviour, prefix = self._worker.desk.behaviour, key_split(key)
        seconds = behaviour.seconds(prefix)
        ending = self._after(seconds, partial(self._finish, key, run_id, seconds))
        self.timers[key] = ending, time()
        if behaviour.secedes(prefix):
            self._worker.handle(
                machine.SecedeEvent(key=key, compute_duration=0.0, stimulus_id=f"secede-{time()}")
            )

    def _finish(self, key: Any, run_id: int, seconds: float) -> None:
        del self.timers[key]
        prefix, stop = key_split(key), time()
        if self._worker.desk.behaviour.fails(prefix):
            error = SimulatedError(f"{key!r} was meant to fail")
            self._worker.handle(self._failure(error, key, run_id, stop - seconds, stop))
            return
        nbytes = self._worker.desk.behaviour.size(prefix)
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

    def end_cancelled(self, keys: list[Any]) -> None:
        """A task that nobody wants any longer ends at once: its thread is free for the next."""
        for key in keys:
            task = self._worker.state.tasks.get(key)
            if key in self.timers and task is not None and task.state == "cancelled":
                self.timers[key][0].cancel()
                self._finish(key, task.run_id, 0.0)

    def gather(self, instruction: machine.GatherDep) -> None:
        """The bytes are on this worker's account for as long as they would be on their way."""
        data = {key: self._received(instruction.worker, key) for key in instruction.to_gather}
        behaviour = self._worker.desk.behaviour
        seconds = behaviour.latency + instruction.total_nbytes / behaviour.bandwidth
        self._note_transfer(instruction, seconds)
        self._after(seconds, partial(self._receive, instruction, data))

    def _receive(self, instruction: machine.GatherDep, data: dict[Any, object]) -> None:
        """What comes is all that was asked for, unless the sender left meanwhile."""
        about: dict[str, Any] = {
            "worker": instruction.worker,
            "total_nbytes": instruction.total_nbytes,
            "stimulus_id": f"gather-dep-{time()}",
        }
        if self._worker.desk.has_left(instruction.worker):
            self._worker.handle(machine.GatherDepNetworkFailureEvent(**about))
        else:
            self._worker.handle(machine.GatherDepSuccessEvent(data=data, **about))

    def _received(self, sender: str, key: Any) -> Any:
        """What was scattered stays what it is."""
        held = self._worker.desk.look(sender, key)
        return Placeholder(key, self._worker.state.tasks[key].nbytes or 0) if held is None else held

    def _note_transfer(self, instruction: machine.GatherDep, seconds: float) -> None:
        """For the record of a task that waits for it, as any worker does."""
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
