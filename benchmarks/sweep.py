"""Random requests of two clients, for searches over seeds: what `deadlocks.py` runs.

    pytest benchmarks/sweep.py --schedprof=decisions --schedprof-cluster=virtual \
        --schedprof-workers=4 --schedprof-seeds=50 --schedprof-cluster-option=faults=0.02 \
        --schedprof-cluster-option=config.distributed.scheduler.validate=true

Each seed is another sequence of requests at other times, while workers are lost, paused and cut
off. A seed fails if the scheduler's or a worker's state machine raises an error, if the scheduler's
own code fails at a message, if tasks can never end, or if none ends. What tasks return is of no
interest, nor are other errors that clients are told.

`Client.replicate` is left out: with distributed 2026.8 it goes on for ever once a worker has left
that was to get a copy, and would end most seeds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from distributed import CancelledError, Client, Future, Queue, Variable, wait

from pytest_schedprof import SchedulerUnderTest
from pytest_schedprof.errors import StuckError

STEPS = 60
KEPT = 30
"""Number of futures that are held at once; more are released."""


class Thing:
    """An actor."""

    count = 0

    def increment(self) -> int:
        self.count += 1
        return self.count


def inc(number: Any) -> int:
    return 1


def join(*parts: Any) -> int:
    return 1


class Requests:
    """Makes random requests; every method whose name begins with `do_` is one."""

    def __init__(self, scheduler: SchedulerUnderTest, other: Client, seed: int) -> None:
        self.random = random.Random(seed)
        self.clients = [scheduler.client, other]
        self.scheduler = scheduler
        self.held: list[tuple[Client, Future[Any]]] = []
        self.kinds: list[Callable[[Client], object]] = [
            getattr(self, name) for name in sorted(dir(self)) if name.startswith("do_")
        ]

    def run(self) -> None:
        """Make all requests, then wait for what they left."""
        for _ in range(STEPS):
            client = self.random.choice(self.clients)
            try:
                self.random.choice(self.kinds)(client)
            except Exception as error:  # of killed workers, lost data, cancelled futures
                if isinstance(error, StuckError) or client.status != "running":
                    raise
            if self.random.random() < 0.7:
                time.sleep(self.random.expovariate(10))
        for client, future in self.held:
            with suppress(CancelledError), client.as_current():
                wait([future])

    def hold(self, client: Client, *futures: Future[Any]) -> None:
        self.held += [(client, future) for future in futures]
        self.random.shuffle(self.held)
        del self.held[KEPT:]

    def some(self, client: Client, most: int = 4) -> list[Future[Any]]:
        """Return some of the futures that a client holds."""
        own = [future for owner, future in self.held if owner is client]
        return self.random.sample(own, min(len(own), self.random.randint(0, most)))

    def where(self, client: Client) -> dict[str, Any]:
        """Return random restrictions and priorities of a task."""
        chosen: dict[str, Any] = {"pure": False, "retries": self.random.choice([0, 0, 2])}
        if self.random.random() < 0.3:
            chosen["priority"] = self.random.randint(-2, 2)
        if self.random.random() < 0.2:
            name = f"inproc://worker-{self.random.randrange(4)}"
            chosen |= {"workers": [name], "allow_other_workers": True}
        return chosen

    def do_submit(self, client: Client) -> None:
        self.hold(client, client.submit(join, *self.some(client), **self.where(client)))

    do_submit_too = do_submit

    def do_map(self, client: Client) -> None:
        self.hold(client, *client.map(inc, range(self.random.randint(2, 25)), pure=False))

    def do_chain(self, client: Client) -> None:
        future = client.submit(inc, 0, pure=False)
        for _ in range(self.random.randint(1, 5)):
            future = client.submit(join, future, *self.some(client, 2), pure=False)
        self.hold(client, future)

    def do_actor(self, client: Client) -> None:
        actor = client.submit(Thing, actor=True, pure=False)
        users = [client.submit(join, actor, *self.some(client, 1), pure=False) for _ in range(3)]
        self.hold(client, actor, *users)

    def do_release(self, client: Client) -> None:
        gone = set(self.some(client, 10))
        self.held = [pair for pair in self.held if pair[1] not in gone]

    def do_cancel(self, client: Client) -> None:
        client.cancel(self.some(client), force=self.random.random() < 0.2)

    def do_retry(self, client: Client) -> None:
        client.retry(self.some(client))

    def do_result(self, client: Client) -> None:
        for future in self.some(client, 2):
            future.result(timeout=self.random.choice([0.05, 1, 20]))

    def do_gather(self, client: Client) -> None:
        client.gather(self.some(client), errors="skip")

    def do_scatter(self, client: Client) -> None:
        broadcast = self.random.random() < 0.3
        (future,) = client.scatter([self.random.random()], broadcast=broadcast)
        self.hold(client, future, client.submit(inc, future, pure=False))

    def do_rebalance(self, client: Client) -> None:
        client.rebalance()

    def do_pass_by_queue(self, client: Client) -> None:
        Queue("queue", client=client).put(client.submit(inc, 0, **self.where(client)))
        self.take(lambda other: Queue("queue", client=other).get(timeout=5))

    def do_pass_by_variable(self, client: Client) -> None:
        Variable("variable", client=client).set(client.submit(inc, 0, **self.where(client)))
        self.take(lambda other: Variable("variable", client=other).get(timeout=5))

    def do_pass_by_dataset(self, client: Client) -> None:
        name = f"dataset-{self.random.randrange(3)}"
        with suppress(KeyError):
            client.unpublish_dataset(name)
        client.publish_dataset(client.submit(inc, 0, **self.where(client)), name=name)
        self.take(lambda other: other.get_dataset(name))

    def take(self, get: Callable[[Client], Any]) -> None:
        """Let a client take what another one passed on, and use it."""
        other = self.random.choice(self.clients)
        future = get(other)
        self.hold(other, future, other.submit(inc, future, pure=False))

    def do_retire(self, client: Client) -> None:
        if len(self.scheduler.workers) > 2:
            client.retire_workers([self.random.choice(sorted(self.scheduler.workers))])
        self.scheduler.plan(1.0, "arrive", f"new-{self.random.randrange(10**9)}")

    def do_restart(self, client: Client) -> None:
        if self.random.random() < 0.2:
            client.restart(wait_for_workers=False)

    def do_wait(self, client: Client) -> None:
        with client.as_current():
            wait(self.some(client), timeout=self.random.choice([0.1, 1, 10]))


@pytest.mark.schedprof(
    cluster_options={
        "duration": "exponential(200ms); inc: exponential(50ms)",
        "nbytes": "lognormal(1MB, 2)",
        "failures": "0.02",
        "horizon": "3h",
    }
)
def test_random_requests(schedprof_scheduler: SchedulerUnderTest, schedprof_seed: int) -> None:
    with Client(schedprof_scheduler.address, set_as_default=False) as other:
        Requests(schedprof_scheduler, other, schedprof_seed).run()
