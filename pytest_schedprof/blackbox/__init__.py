"""A black box for a scheduler: its last minutes, written when something happens to it.

dask scheduler --preload pytest_schedprof.blackbox
"""

from __future__ import annotations

import logging
from typing import Any

logger = logging.getLogger("distributed.schedprof")  # dask shows what is below `distributed`


async def dask_setup(scheduler: Any) -> None:
    """Begin as the scheduler starts; dask calls this for `--preload`.

    Dask's options below `schedprof.blackbox` say what is kept, and when it is written where.
    """
    import dask

    try:
        _begin(scheduler, dask.config.get("schedprof.blackbox", {}))
    except Exception as error:  # never into the scheduler, which must start
        logger.warning("schedprof: there is no black box: %s", error)


def _begin(scheduler: Any, given: dict[str, Any]) -> None:
    from pytest_schedprof.blackbox.asking import NAME
    from pytest_schedprof.blackbox.box import BlackBox
    from pytest_schedprof.blackbox.options import read_options

    if NAME in scheduler.extensions:
        return  # it is preloaded twice
    box = BlackBox(scheduler, read_options(given))
    try:
        box.begin()
    except Exception:
        box.end()
        raise
    if box.no_samples:
        logger.warning("schedprof: the black box takes no samples: %s", box.no_samples)
    logger.info("schedprof: the black box keeps the last %g s", box.options.window)


async def dask_teardown(scheduler: Any) -> None:
    """Write a last run before the scheduler ends; dask calls this, too."""
    from pytest_schedprof.blackbox.asking import NAME

    box = scheduler.extensions.get(NAME)
    if box is not None:
        await box.close()
