"""Records the work that a scheduler is asked to do, and replays it on other clusters.

DASK_SCHEDPROF__RECORD__PATH=monday.schedprof dask scheduler --preload pytest_schedprof.record
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

    Dask's options say where and how: `schedprof.record.path` is the file, which has a name of its
    own by default; with `schedprof.record.hashed` prefixes of tasks are replaced by letters.
    """
    import dask

    default = f"workload-{time.strftime('%Y%m%dT%H%M%S')}-{os.getpid()}.schedprof"
    path = Path(dask.config.get("schedprof.record.path", default))
    try:
        _begin(scheduler, path, hashed=bool(dask.config.get("schedprof.record.hashed", False)))
    except Exception as error:  # never into the scheduler, which must start
        logger.warning("schedprof: the workload is not recorded into %s: %s", path, error)


def _begin(scheduler: Any, path: Path, *, hashed: bool) -> None:
    from pytest_schedprof.record.recorder import WorkloadRecorder
    from pytest_schedprof.record.writer import FileWriter

    WorkloadRecorder(scheduler, FileWriter(path), hashed=hashed).begin()
    logger.info("schedprof: records the workload into %s", path)
