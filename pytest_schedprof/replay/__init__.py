"""Records the work that a scheduler is asked to do, and replays it on other clusters.

DASK_SCHEDPROF__RECORD__PATH=monday.schedprof dask scheduler --preload pytest_schedprof.replay
"""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

logger = logging.getLogger("distributed.schedprof")  # dask shows what is below `distributed`


def dask_setup(scheduler: Any) -> None:
    """Begin to record as the scheduler starts; dask calls this for `--preload`.

    Dask's options are `schedprof.record.path`, the file, which has a new name by default; and
    `schedprof.record.anonymous`, which keeps no name of the users.
    """
    import dask

    default = f"workload-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.schedprof"
    # dask reads a name of digits as a number.
    path = Path(str(dask.config.get("schedprof.record.path", default)))
    try:
        from pytest_schedprof.replay.recorder import WorkloadRecorder
        from pytest_schedprof.replay.writing import FileWriter

        anonymous = bool(dask.config.get("schedprof.record.anonymous", False))
        WorkloadRecorder(scheduler, FileWriter(path), anonymous=anonymous).begin()
        logger.info("schedprof: records the workload into %s", path)
    except Exception as error:  # the scheduler must start
        logger.warning("schedprof: the workload is not recorded into %s: %s", path, error)
