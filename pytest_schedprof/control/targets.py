"""Finds processes besides the scheduler to observe: workers' and the client's."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from pytest_schedprof.agent import facts
from pytest_schedprof.agent.recordings import OwnProcess
from pytest_schedprof.control.control import Control, Target
from pytest_schedprof.errors import RecordingError
from pytest_schedprof.store.run_directory import safe_name

OWN_PROCESS = OwnProcess()
"""Holds the recordings of this process, as a scheduler object does for its process."""


class WorkerTarget:
    """A process with one or several workers, reached through the scheduler."""

    kind = "workers"

    def __init__(self, control: Control, name: str, addresses: Sequence[str]) -> None:
        self._control = control
        is_plain = re.fullmatch(r"[a-z0-9_]+", name)
        self.name = f"worker-{name if is_plain else safe_name(name)}"
        self.addresses = tuple(addresses)

    @property
    def label(self) -> str:
        """Name for messages, by the first worker of the process."""
        return f"the worker {self.addresses[0]}"

    @property
    def client_id(self) -> str:
        """Name of the client, which the worker can look up on the scheduler."""
        return self._control.client_id

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function in the worker's process and return its answer."""
        return self._control.call_worker(self.addresses[0], function, *args, timeout_s=timeout_s)


class ClientTarget:
    """This process, in which the test runs."""

    kind = "client"
    name = "client"
    addresses: tuple[str, ...] = ()
    label = "the client's process"

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        return call_here(function, args, OWN_PROCESS)


def call_here(function: Callable[..., Any], args: tuple[Any, ...], holder: object) -> Any:
    """Run an agent's function in this process as dask does; `holder` is the `dask_scheduler`."""
    asks = "dask_scheduler" in inspect.signature(function).parameters
    answer = function(*args, **({"dask_scheduler": holder} if asks else {}))
    return complete(answer) if inspect.iscoroutine(answer) else answer


def complete(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine in a new event loop of this thread, which backends observe.

    A loop that runs already, as around the body of `gen_cluster`, stands still meanwhile. Without
    `asyncio.run`, which would unset the thread's event loop.
    """
    with _no_running_loop():
        loop = asyncio.new_event_loop()
        try:
            return loop.run_until_complete(coroutine)
        finally:
            loop.close()


@contextmanager
def _no_running_loop() -> Iterator[None]:
    """Leave the task and the loop that run in this thread, as event loops do between two tasks."""
    try:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
    except RuntimeError:
        yield
        return
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    try:
        yield
    finally:
        asyncio._set_running_loop(loop)
        if task is not None:
            asyncio.tasks._enter_task(loop, task)


def find_targets(control: Control, chosen: Sequence[str]) -> list[Target]:
    """Return the chosen processes besides the scheduler's, each once.

    Args:
        control: the connection to the scheduler.
        chosen: `workers`, `workers:N`, addresses of workers, `client`; `scheduler` is ignored.

    Raises:
        RecordingError: for an address that is no worker's.
    """
    taken = {control.call(facts.process)}
    targets: list[Target] = []
    if "client" in chosen and (own := facts.process()) not in taken:
        taken.add(own)
        targets.append(ClientTarget(control.client_id))
    listed = [target for target in chosen if "://" in target]
    counts = [target.partition(":")[2] for target in chosen if target.split(":")[0] == "workers"]
    if not (listed or counts):
        return targets
    names = control.call(facts.worker_names)
    for address in listed:
        if address not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise RecordingError(f"schedprof: target {address!r} is no worker's; known: {known}")
    by_process: dict[Any, list[str]] = {}
    for address, process in control.call_workers(facts.process, on_error="return").items():
        if not isinstance(process, BaseException) and process not in taken:  # a dead one is none
            by_process.setdefault(process, []).append(address)
    named = sorted(
        (min(str(names[address]) for address in group), group) for group in by_process.values()
    )
    most = max((int(count) if count else len(named) for count in counts), default=0)
    targets += (
        WorkerTarget(control, name, addresses)
        for number, (name, addresses) in enumerate(named)
        if number < most or not set(listed).isdisjoint(addresses)
    )
    return targets
