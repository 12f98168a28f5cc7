"""Makes functions of a running scheduler slower by a known CPU time, for tests to find.

Unlike `injection.plant`, which changes the text of methods, this works for functions of modules and
for objects too. The function runs inside the scheduler, so it has its own imports.
"""

from __future__ import annotations

from typing import Any


def slow_down(module: str, path: str, seconds: float) -> None:
    """Let each call of a function take so many seconds of CPU time more."""
    import functools
    import importlib
    import time

    owner: Any = importlib.import_module(module)
    *owners, name = path.split(".")
    for attribute in owners:
        owner = getattr(owner, attribute)
    before = vars(owner)[name]

    @functools.wraps(before)
    def slower(*args: Any, **keywords: Any) -> Any:
        until = time.thread_time() + seconds
        while time.thread_time() < until:
            pass
        return before(*args, **keywords)

    setattr(owner, name, slower)
