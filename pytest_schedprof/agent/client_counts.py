"""Counts the bytecodes of the client's code in the test's own process.

Only for clusters in virtual time: there the client does the same in each run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from distributed import Client

from .choice import BODY, Choice
from .digests import digests_of
from .monitoring import Monitor
from .names import codes_of
from .opcodes import Opcodes

METRIC = "client_bytecodes"


NOT_COUNTED = (
    # How often a test looks for the next result depends on how fast its process is.
    "distributed.client:as_completed.__next__",
    "distributed.client:as_completed.__anext__",
    # They look through all modules that this process has imported, for whichever test.
    "cloudpickle.cloudpickle:_find_imported_submodules",
    "cloudpickle.cloudpickle:_whichmodule",
)
"""Functions that differ between runs in virtual time too: neither they nor what they call count."""


class ClientCounts:
    """Counts in the thread that begins, and in those of the clients' event loops."""

    def __init__(self, modules: Sequence[str], without: Sequence[str]) -> None:
        self.choice = Choice(modules, without)
        self.counter: Monitor | Opcodes
        left_out = list(codes_of(NOT_COUNTED))
        if hasattr(sys, "monitoring"):
            self.counter = Monitor(self.choice, left_out, bytecodes=True, all_threads=True)
        else:
            self.counter = Opcodes(self.choice, left_out, bytecodes=True, others=run_on_loops)

    def begin(self) -> bool:
        """Start to count; False if that is not possible here.

        A client on the event loop of an `async def` test cannot be waited for.
        """
        if any(client.asynchronous for client in clients()):
            return False
        return self.counter.begin()

    def end(self) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
        """Remove the hooks; return the bytecodes of each function that ran, and its digests."""
        self.counter.end()
        # A module is imported by whichever test of a session needs it first.
        ran = {
            name: codes
            for name, codes in sorted(self.choice.functions().items())
            if not name.endswith(f":{BODY}")
        }
        counts = {name: sum(map(self.counter.bytecodes_of, codes)) for name, codes in ran.items()}
        return (
            {name: {METRIC: count} for name, count in counts.items() if count},
            {name: digests_of(ran[name]) for name, count in counts.items() if count},
        )


def clients() -> list[Any]:
    """Return the clients that are connected, but for the session's own."""
    every: list[Any] = list(Client._instances)
    return [each for each in every if each.status == "running" and not hasattr(each, "is_sessions")]


def run_on_loops(function: Callable[[], None]) -> None:
    """Run a function in the threads of the clients' event loops."""

    async def run() -> None:
        function()

    for client in clients():
        client.sync(run)
