"""Messages and bytes that the scheduler's connections carry."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from typing import Any

MODULES = ("distributed.comm.tcp", "distributed.comm.ws")
"""Each has names of its own for what turns messages into frames and back."""


class Traffic:
    """Stands between messages and frames while it counts."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.originals: list[tuple[Any, str, Callable[..., Any]]] = []

    def begin(self) -> None:
        """Put a counter before each function."""
        for name in MODULES:
            module = import_module(name)
            for function, counter in (("to_frames", self._out), ("from_frames", self._in)):
                original = getattr(module, function)
                self.originals.append((module, function, original))
                setattr(module, function, counter(original))

    def end(self) -> None:
        """Put every function back."""
        for module, name, original in self.originals:
            setattr(module, name, original)

    def _out(self, to_frames: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(to_frames)
        async def counted(message: Any, *args: Any, **options: Any) -> Any:
            frames = await to_frames(message, *args, **options)
            self._count("out", message, frames)
            return frames

        return counted

    def _in(self, from_frames: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(from_frames)
        async def counted(frames: Any, *args: Any, **options: Any) -> Any:
            message = await from_frames(frames, *args, **options)
            self._count("in", message, frames)
            return message

        return counted

    def _count(self, way: str, message: Any, frames: Any) -> None:
        """A batch is as many messages as it holds."""
        batch = len(message) if isinstance(message, (list, tuple)) else 1
        self.counts[f"messages_{way}"] += batch
        self.counts[f"bytes_{way}"] += sum(memoryview(frame).nbytes for frame in frames)
