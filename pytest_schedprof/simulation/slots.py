"""Places of workers that the scheduler may restart."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class NodeSlot:
    """Holds a node, and after a restart its replacement."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self.node = make()

    async def until_left(self) -> None:
        """Wait until the node is closed for good; replace it when it was restarted."""
        await self.node.finished()
        while getattr(self.node, "is_wanted_back", False):
            self.node = self._make()
            await self.node
            await self.node.finished()
