"""Schedulers of the test's own process: of `gen_cluster`, a `LocalCluster`, and dask's local ones.

They come and go within the test, so nothing can be asked of one in advance: the whole process is
observed, samples are told apart by owner, and tasks are counted over all schedulers that lived
meanwhile. No line is opened and no thread started, for tests of dask itself look for such.
"""

from __future__ import annotations

import functools
import os
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

from dask.callbacks import Callback
from distributed import Scheduler
from distributed.core import Status

from pytest_schedprof.agent import facts, names
from pytest_schedprof.agent.recordings import OwnProcess
from pytest_schedprof.backends.contract import Backend
from pytest_schedprof.clusters.targets import call_here
from pytest_schedprof.errors import ClusterError, SchedprofError

ENDINGS = ("memory", "erred")
GONE = (Status.closing, Status.closed, Status.failed)


class Schedulers(OwnProcess):
    """Stands for all schedulers of this process; counts what each of them did until it closed."""

    def __init__(self) -> None:
        self.lived = False
        """Whether there was any."""
        self.threads: set[int] = set()
        """Where their event loops ran."""
        self._left: Counter[str] = Counter()
        self._begun_at: WeakKeyDictionary[Scheduler, int] = WeakKeyDictionary()
        """Transitions that schedulers had made before."""
        self._counted: WeakSet[Scheduler] = WeakSet()
        self._local = Callback(start=self._begin_locally, posttask=self._end_locally)
        self._patched = {name: getattr(Scheduler, name) for name in ("close", "_clear_task_state")}

    def watch(self) -> None:
        """Stand before what makes a scheduler forget."""
        for scheduler in list(Scheduler._instances):
            self._begun_at[scheduler] = scheduler.transition_counter
        before_close, before_clear = self._patched.values()
        counting = self

        @functools.wraps(before_close)
        async def close(scheduler: Scheduler, *args: Any, **keywords: Any) -> Any:
            counting._count_out(scheduler)
            return await before_close(scheduler, *args, **keywords)

        @functools.wraps(before_clear)
        def clear(scheduler: Scheduler) -> Any:
            if scheduler not in counting._counted:  # forgets tasks, not transitions
                counting._left.update(finished(scheduler))
            return before_clear(scheduler)

        patched: Any = Scheduler
        patched.close, patched._clear_task_state = close, clear
        self._local.register()

    def unwatch(self) -> None:
        """Leave all as it was."""
        self._living()
        self._local.unregister()
        for name, function in self._patched.items():
            setattr(Scheduler, name, function)

    def _begin_locally(self, graph: Any) -> None:
        """One of dask's schedulers for threads, processes, or none of them."""
        self.lived = True

    def _end_locally(self, *task: Any) -> None:
        self._left["memory"] += 1

    def _count_out(self, scheduler: Scheduler) -> None:
        self._note(scheduler)
        if scheduler not in self._counted:
            self._counted.add(scheduler)
            self._left.update(finished(scheduler), transitions=scheduler.transition_counter)

    def _living(self) -> list[Scheduler]:
        living = [each for each in list(Scheduler._instances) if self._lives(each)]
        for scheduler in living:
            self._note(scheduler)
        return living

    def _note(self, scheduler: Scheduler) -> None:
        self.lived = True
        has_worked = scheduler.transition_counter > self._begun_at.get(scheduler, 0)
        if has_worked and scheduler.thread_id:
            self.threads.add(scheduler.thread_id)

    def _lives(self, scheduler: Scheduler) -> bool:
        """Those of tests before may be closed and yet in memory, for who knows how long."""
        return scheduler not in self._counted and scheduler.status not in GONE

    @property
    def transition_counter(self) -> int:
        """Transitions of all of them, as a scheduler counts its own."""
        living = sum(each.transition_counter for each in self._living())
        return self._left["transitions"] + living

    @property
    def task_prefixes(self) -> dict[str, Any]:
        """Tasks that came to an end on any of them, as a scheduler keeps its own."""
        counts = Counter({ending: self._left[ending] for ending in ENDINGS})
        for scheduler in self._living():
            counts.update(finished(scheduler))
        return {"all": SimpleNamespace(state_counts=counts)}


def finished(scheduler: Any) -> Counter[str]:
    """Tasks that came to an end, by how."""
    counts: Counter[str] = Counter()
    for prefix in scheduler.task_prefixes.values():
        counts.update({ending: prefix.state_counts[ending] for ending in ENDINGS})
    return counts


class InProcess:
    """Takes the place of a scheduler under test, of its cluster and of the control line to it."""

    kind = name = "scheduler"
    label = "the test's own process"
    address = "in-process"
    client_id = ""
    addresses: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.schedulers = Schedulers()
        self.schedulers.watch()
        self.window: Any = None
        self.cluster = SimpleNamespace(kind="in-process", death=self.death, is_ours=True)
        self.control: Any = self
        self.description: dict[str, Any] = {
            "pid": os.getpid(),
            "workers": [],
            "threads": 0,
            **facts.environment(),
        }

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function here."""
        return call_here(function, args, self.schedulers)

    def name_places(self, places: list[tuple[str, str, int]]) -> list[str]:
        """`module:qualname` of each place in the code."""
        return names.name_places(places)

    def leave(self, backends: Sequence[Backend]) -> list[SchedprofError]:
        """A test in which no scheduler ran, or none that was seen, has nothing to be judged."""
        self.schedulers.unwatch()
        blind = [backend.name for backend in backends if not backend.sees_threads]
        if not self.schedulers.lived:
            what = "no scheduler ran in its own process; give it"
        elif blind and self.schedulers.threads - {threading.main_thread().ident}:
            what = (
                f"{' and '.join(blind)} cannot see its scheduler, whose event loop was not in the "
                "main thread: use pyspy, or give it"
            )
        else:
            return []
        fixture = "the fixture schedprof_scheduler, as an argument"
        return [ClusterError(f"schedprof: the test is marked, but {what} {fixture}")]

    def death(self, patience_s: float = 0) -> None:
        """It would be that of the test itself."""
