"""A hollow worker's part in P2P shuffles: the messages to the scheduler, without the data.

A worker that takes part asks the scheduler for the run of the shuffle. The barrier task tells the
scheduler that all data was sent. An output task that started on another worker than the one that
its partition was sent to is rescheduled there.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dask.utils import key_split
from distributed.core import clean_exception
from distributed.protocol.serialize import Serialize, Serialized, ToPickle, deserialize
from distributed.shuffle import _core as p2p

if TYPE_CHECKING:
    from pytest_schedprof.virtual.hollow_worker import HollowWorker

BARRIER = "shuffle-barrier-"
TRANSFER = "-transfer"
"""Suffix of tasks that send data into a shuffle. Tasks that read its output depend on its
barrier."""

IDS = ("id", "shuffle_id_left", "shuffle_id_right")
INPUTS = ("input_partition", "input_chunk")
OUTPUTS = ("output_partition", "output_chunk")
"""Arguments of the functions that dask's shuffles consist of, in whichever module they are."""

IS_KNOWN = hasattr(p2p, "P2PBarrierTask")
"""Whether hollow workers can take part. Before distributed 2024.12 the specification of a shuffle
came with its data; only the graph of a shuffle is then the same as with real workers."""


def is_part(key: Any, dependencies: Any) -> bool:
    """Return whether a task belongs to a P2P shuffle."""
    return IS_KNOWN and (
        key_split(key).endswith(TRANSFER)
        or _is_barrier(key)
        or any(_is_barrier(dependency.key) for dependency in dependencies)
    )


def _is_barrier(key: Any) -> bool:
    return isinstance(key, str) and key.startswith(BARRIER)


class ElsewhereError(Exception):
    """The output of a shuffle is on another worker, to which the scheduler restricts the task."""


class Shuffles:
    """The shuffles of one worker."""

    def __init__(self, worker: HollowWorker) -> None:
        self._worker = worker
        self._runs: dict[str, Any] = {}
        self._asking: dict[str, asyncio.Lock] = {}

    def forget(self, shuffle_id: str, run_id: int) -> None:
        """Forget a run that ended or starts again."""
        run = self._runs.get(shuffle_id)
        if run is not None and run.run_id == run_id:
            del self._runs[shuffle_id]

    async def take_part(self, key: Any, spec: Any) -> None:
        """Exchange the messages of a task of a shuffle with the scheduler.

        Raises:
            ElsewhereError: if the task must run on another worker.
        """
        if _is_barrier(key):
            run = await self._run(key.removeprefix(BARRIER))
            await self._ask("barrier", id=run.id, run_id=run.run_id, consistent=True)
            return
        for arguments in _calls(_read(spec)):
            partition = next((arguments[name] for name in OUTPUTS if name in arguments), None)
            for shuffle_id in (arguments[name] for name in IDS if name in arguments):
                if partition is None:
                    await self._run(shuffle_id, key)
                else:
                    await self._take_output(shuffle_id, partition, key)

    async def _take_output(self, shuffle_id: str, partition: Any, key: Any) -> None:
        run = await self._run(shuffle_id)
        address = run.worker_for[partition]
        if address != self._worker.address:
            await self._ask("restrict_task", id=run.id, run_id=run.run_id, key=key, worker=address)
            raise ElsewhereError

    async def _run(self, shuffle_id: str, key: Any = None) -> Any:
        """Return the current run; a transfer task, which gives its key, may create one."""
        async with self._asking.setdefault(shuffle_id, asyncio.Lock()):
            if shuffle_id not in self._runs:
                address = self._worker.address
                answer = (
                    await self._ask("get", id=shuffle_id, worker=address)
                    if key is None
                    else await self._ask(
                        "get_or_create", shuffle_id=shuffle_id, key=key, worker=address
                    )
                )
                self._runs[shuffle_id] = answer["run_spec"]
            return self._runs[shuffle_id]

    async def _ask(self, operation: str, **message: Any) -> Any:
        async with self._worker.server.connection_slots:
            answer = await getattr(self._worker.scheduler, f"shuffle_{operation}")(**message)
        if answer is not None and answer["status"] == "error":
            _, error, _ = clean_exception(**answer)
            raise error or RuntimeError(f"the scheduler refuses {operation}")
        return answer


def _read(spec: Any) -> Any:
    """Return a task as its function and arguments; in virtual time nothing was serialised."""
    if isinstance(spec, Serialized):
        return deserialize(spec.header, spec.frames)
    return spec.data if isinstance(spec, (Serialize, ToPickle)) else spec


def _calls(spec: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the arguments of each call of a shuffle's function in a task, also of fused ones."""
    if (function := getattr(spec, "func", None)) is not None:
        names = _parameters(function)
        if names & {*IDS} and names & {*INPUTS, *OUTPUTS}:
            yield inspect.signature(function).bind(*spec.args, **spec.kwargs).arguments
        else:
            yield from _calls([*spec.args, *spec.kwargs.values()])
    elif isinstance(spec, Mapping):
        yield from _calls(list(spec.values()))
    elif isinstance(spec, (list, tuple)):
        for element in spec:
            yield from _calls(element)


def _parameters(function: Any) -> set[str]:
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # a function in C
        return set()
