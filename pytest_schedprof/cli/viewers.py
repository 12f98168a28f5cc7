"""Find the command that opens a backend's recording."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_schedprof.errors import ArtifactError
from pytest_schedprof.model.backend import FileKind, KnownBackends, artifacts_of, kind_of

if TYPE_CHECKING:
    from pytest_schedprof.storage.runs import KeptTest


def viewer_of(test: KeptTest, backend: str, known: KnownBackends, *, is_quiet: bool) -> list[str]:
    """Return the command that opens the first file of a backend.

    Args:
        test: the test that was recorded.
        backend: the backend whose files to open.
        known: facts about backends.
        is_quiet: open no browser, if the viewer has such an option.

    Raises:
        SettingsError: if the test was not recorded with the backend.
        ArtifactError: if no viewer is installed; says how to open the file by hand.
    """
    names = [name for name in test.artifacts(backend) if name.startswith("scheduler.")]
    artifacts = artifacts_of(backend, known)
    for name in names:
        kind = kind_of(name, artifacts)
        if kind and kind.program:
            return _command(kind, str(test.path / name), is_quiet=is_quiet)
    raise ArtifactError(
        f"schedprof: no viewer is known for the files of {backend} in {str(test.path)!r}: "
        f"{', '.join(names) or 'none'}"
    )


def _command(kind: FileKind, path: str, *, is_quiet: bool) -> list[str]:
    name, *arguments = kind.program
    quiet = kind.quiet if is_quiet else ()
    return [_program(name, kind.by_hand.format(path=path)), *arguments, *quiet, path]


def _program(name: str, by_hand: str) -> str:
    """Find a program, also in the environment of this package if it is not the active one."""
    places = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=places)
    if found is None:
        text = f"schedprof: the program {name!r} is not installed {by_hand}"
        raise ArtifactError(text.rstrip())
    return found
