"""Processes beside the scheduler that a backend can observe: workers' and the client's."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pytest_schedprof.agent import facts
from pytest_schedprof.agent.recordings import OwnProcess
from pytest_schedprof.clusters.contract import Target
from pytest_schedprof.clusters.control import Control
from pytest_schedprof.errors import RecordingError
from pytest_schedprof.storage.names import safe_name

OWN_PROCESS = OwnProcess()
"""Holds the recordings of this process, as a scheduler does those of its own."""


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
        """By its first worker."""
        return f"the worker {self.addresses[0]}"

    @property
    def client_id(self) -> str:
        """As the scheduler knows it, and the worker can ask of it."""
        return self._control.client_id

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function there and return its answer."""
        return self._control.call_worker(self.addresses[0], function, *args, timeout_s=timeout_s)


class ClientTarget:
    """This very process, where the test runs."""

    kind = "client"
    name = "client"
    addresses: tuple[str, ...] = ()
    label = "the client's process"

    def __init__(self, client_id: str) -> None:
        self.client_id = client_id

    def call(self, function: Callable[..., Any], *args: Any, timeout_s: float | None = None) -> Any:
        """Run an agent's function here."""
        return call_here(function, args, OWN_PROCESS)


def call_here(function: Callable[..., Any], args: tuple[Any, ...], holder: object) -> Any:
    """Run an agent's function in this process, as dask would in a scheduler's or a worker's."""
    asks = "dask_scheduler" in inspect.signature(function).parameters
    answer = function(*args, **({"dask_scheduler": holder} if asks else {}))
    return complete(answer) if inspect.iscoroutine(answer) else answer


def complete(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Run it in an event loop of its own; in this thread, unless it runs one already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(coroutine)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_run, coroutine).result()


def _run(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Not by `asyncio.run`, after which the thread would have no event loop that was set."""
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


def find_targets(control: Control, wanted: Sequence[str]) -> list[Target]:
    """The processes beside the scheduler's that are wanted; each but once.

    Args:
        control: the line to the scheduler.
        wanted: `workers`, `workers:N`, addresses of workers, `client`; `scheduler` is no matter.

    Raises:
        RecordingError: for an address of no worker.
    """
    taken = {control.call(facts.process)}
    targets: list[Target] = []
    if "client" in wanted and (here := facts.process()) not in taken:
        taken.add(here)
        targets.append(ClientTarget(control.client_id))
    if any(each.split(":")[0] == "workers" or "://" in each for each in wanted):
        targets += _worker_targets(control, wanted, taken)
    return targets


def _worker_targets(control: Control, wanted: Sequence[str], taken: set[Any]) -> list[Target]:
    names = control.call(facts.worker_names)
    listed = [each for each in wanted if "://" in each]
    for address in listed:
        if address not in names:
            known = ", ".join(map(repr, names)) or "none"
            raise RecordingError(f"schedprof: target {address!r} is no worker's; known: {known}")
    processes = _processes(control, taken)
    named = sorted((min(str(names[each]) for each in found), found) for found in processes)
    count = _count(wanted, len(named))
    return [
        WorkerTarget(control, name, addresses)
        for number, (name, addresses) in enumerate(named)
        if number < count or not set(listed).isdisjoint(addresses)
    ]


def _processes(control: Control, taken: set[Any]) -> list[list[str]]:
    """Addresses of the workers by the process they live in, without the taken and the dead."""
    by_process: dict[Any, list[str]] = {}
    for address, process in control.call_workers(facts.process, on_error="return").items():
        if not isinstance(process, BaseException) and process not in taken:
            by_process.setdefault(process, []).append(address)
    return list(by_process.values())


def _count(wanted: Sequence[str], most: int) -> int:
    """How many of the workers' processes are wanted, whichever they are."""
    counts = [each.partition(":")[2] for each in wanted if each.split(":")[0] == "workers"]
    return max((int(count) if count else most for count in counts), default=0)
