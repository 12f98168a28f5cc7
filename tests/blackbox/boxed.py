"""A scheduler of dask's command line with a black box, as users start it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from support import wait_for

HERE = Path(__file__).parent

COMMAND = (sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1",
           "--port", "0", "--dashboard-address", "127.0.0.1:0", "--no-dashboard",
           "--preload", "plants", "--preload", "pytest_schedprof.blackbox")  # fmt: skip

KEEPS, REFUSED = "the black box keeps", "there is no black box"


@dataclass
class Boxed:
    """The scheduler's process, its log, and where its black box is written."""

    process: subprocess.Popen[str]
    directory: Path
    log: list[str] = field(default_factory=list)

    @property
    def address(self) -> str:
        (line,) = self.lines("Scheduler at:")
        return line.split()[-1]

    @property
    def own_lines(self) -> list[str]:
        """What the black box said."""
        return self.lines(" schedprof: ")

    def lines(self, text: str) -> list[str]:
        return [line for line in self.log if text in line]

    def wait_for(self, text: str, times: int = 1, timeout_s: float = 60) -> str:
        """Wait until the log has a text, and return its line."""
        wait_for(lambda: len(self.lines(text)) >= times, repr(text), timeout_s)
        return self.lines(text)[-1]

    def runs(self) -> list[Path]:
        return sorted(each.parent for each in self.directory.glob("*/run.json"))


@contextmanager
def boxed(
    path: Path,
    *arguments: str,
    options: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    says: str = KEEPS,
) -> Iterator[Boxed]:
    """Start one, and wait until its black box says something; `options` are the box's."""
    directory = path / "boxes"
    given = {"directory": str(directory), "prometheus": "False", **(options or {})}
    variables = {
        **os.environ,
        **{f"DASK_SCHEDPROF__BLACKBOX__{name.upper()}": value for name, value in given.items()},
        "PYTHONPATH": os.pathsep.join(
            filter(None, (str(HERE), str(HERE.parent), os.environ.get("PYTHONPATH")))
        ),
        **(environment or {}),
    }
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env=variables,
        cwd=path,
    )
    found = Boxed(process, directory)
    reader = threading.Thread(target=lambda: found.log.extend(process.stderr or ()))
    reader.start()
    try:
        found.wait_for(says)
        yield found
    finally:
        process.kill()
        process.wait()
        reader.join()
        sys.stdout.writelines(found.log)  # pytest shows it if the test fails
        if process.stderr is not None:
            process.stderr.close()
