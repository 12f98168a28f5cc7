"""distributed's own state machine of a worker, as hollow workers have it by the thousand."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

from dask.config import get as get_config
from dask.utils import parse_bytes
from distributed.worker_state_machine import WorkerState

NO_LOG: deque[Any] = deque(maxlen=0)


class LateRandom:
    """Does as a generator of a seed, which is made when it is first asked: it has 2.5 kB."""

    __slots__ = ("_made", "_seed")

    def __init__(self, seed: int | str) -> None:
        self._seed = seed
        self._made: random.Random | None = None

    def __getattr__(self, name: str) -> Any:
        if self._made is None:
            self._made = random.Random(self._seed)
        return getattr(self._made, name)


def make_state(address: str, nthreads: int, data: Any = None) -> WorkerState:
    """Return the state machine of a worker.

    It keeps no logs: hollow workers tell no story, and a log holds up to 1000 entries.
    """
    state = WorkerState(
        address=address,
        nthreads=nthreads,
        data=data,
        validate=get_config("distributed.scheduler.validate"),
        transfer_incoming_count_limit=get_config("distributed.worker.connections.outgoing"),
        transfer_message_bytes_limit=parse_bytes(
            get_config("distributed.worker.transfer.message-bytes-limit")
        ),
    )
    state.log = state.stimulus_log = NO_LOG
    state.rng = LateRandom(0)  # type: ignore[assignment]
    return state
