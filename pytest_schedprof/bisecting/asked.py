"""What a search was asked for."""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from pytest_schedprof.errors import SettingsError, quoted
from pytest_schedprof.model.metric import METRICS

PLACE = "bisect"
"""Directory of all searches, in the directory of runs."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The test that measures each version, the figures that count, and where results are kept."""

    test: str
    options: tuple[str, ...]
    """Options for pytest, of which later ones replace earlier ones."""
    metric: str = ""
    function: str = ""
    directory: Path = Path(".schedprof")
    is_anew: bool = False
    """Whether earlier measurements do not count."""

    def check(self) -> None:
        """Check what needs no measurement.

        Raises:
            SettingsError: if there is no such test file or metric.
        """
        file = self.test.partition("::")[0]
        if not file.strip() or "\0" in file or not Path(file).exists():
            raise SettingsError(
                f"schedprof: there is no test file {quoted(file)} here; give a test as pytest "
                "takes it, such as tests/test_tasks.py::test_tasks"
            )
        known = [name for name, metric in METRICS.items() if not metric.evidence]
        if self.metric and self.metric not in known:
            raise SettingsError(
                f"schedprof: there is no metric {quoted(self.metric)}; --metric is one of "
                f"{', '.join(known)}"
            )

    def place(self, *versions: str) -> Path:
        """Return the directory of all measurements with these settings of these versions."""
        parts = [str(Path(self.test.partition("::")[0]).resolve()), self.test, *self.options]
        digest = sha256(json.dumps([*parts, *versions]).encode()).hexdigest()[:16]
        return self.directory.resolve() / PLACE / digest
