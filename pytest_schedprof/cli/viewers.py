"""Commands that open what a backend recorded."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_schedprof.errors import ArtifactError

if TYPE_CHECKING:
    from pytest_schedprof.storage.runs import KeptTest

TRACES = (".viztracer.json", ".viztracer.json.gz", ".chrometrace.json")
SAMPLES = ".speedscope.json"


def viewer_of(test: KeptTest, backend: str, *, is_quiet: bool) -> list[str]:
    """The command that opens the first file of a backend.

    Args:
        is_quiet: without a browser, as far as the viewer can do that.

    Raises:
        SettingsError: if the test was not recorded with it.
        ArtifactError: if nothing opens it here; says how to do it by hand.
    """
    names = [name for name in test.artifacts(backend) if name.startswith("scheduler.")]
    for name in names:
        path = str(test.path / name)
        if name.endswith(TRACES):
            return [_program("vizviewer"), *(["--server_only"] if is_quiet else []), path]
        if name.endswith(SAMPLES):
            return [_speedscope(path), path]
    raise ArtifactError(
        f"schedprof: no viewer is known for what {backend} left of {test.result.test_id} in "
        f"{str(test.path)!r}: {', '.join(names) or 'nothing'}"
    )


def _program(name: str) -> str:
    """Also one that was installed beside this package in an environment which is not active."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=places)
    if found is None:
        raise ArtifactError(f"schedprof: there is no program {name!r} here")
    return found


def _speedscope(path: str) -> str:
    try:
        return _program("speedscope")
    except ArtifactError as error:
        raise ArtifactError(
            f"{error} (npm has it): open https://www.speedscope.app and drop {path!r} onto it"
        ) from None
