"""`schedprof open`: open a run in the browser, and a test's profiles in their viewers."""

from __future__ import annotations

import argparse
import signal
import subprocess
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_schedprof.cli.commands import Commands, add_command, add_run
from pytest_schedprof.cli.output import complain, say
from pytest_schedprof.errors import SettingsError

if TYPE_CHECKING:
    from pytest_schedprof.storage.runs import KeptRun, KeptTest

EXAMPLE = """\
examples: schedprof open .schedprof/latest
          schedprof open .schedprof/latest test_shuffle --view viztracer

exit status: 0 after a Ctrl-C, 1 if the run cannot be read or no viewer is found, 2 for a mistake"""


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "open",
        run,
        purpose="open a run in the browser, or a test's profiles in their viewers",
        description="Serves the files of a run on a free local port until a Ctrl-C, or starts the "
        "viewer of one backend's recording of a test.",
        example=EXAMPLE,
    )
    add_run(parser)
    parser.add_argument("test", nargs="?", metavar="TEST", help="test ID, or a unique part of it")
    parser.add_argument(
        "--view",
        metavar="BACKEND",
        help="start the viewer of its recording of TEST: vizviewer (traces), speedscope (samples)",
    )
    parser.add_argument("--no-browser", action="store_true", help="only print the URL")


def run(given: argparse.Namespace) -> int:
    """Serve until a Ctrl-C."""
    from pytest_schedprof.storage.runs import find_run

    if given.view and not given.test:
        raise SettingsError("schedprof: --view needs a test: give DIR and TEST")
    run = find_run(Path(given.directory))
    test = run.test(given.test) if given.test else None
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also as a background job of a shell
    try:
        if test and given.view:
            return _view(test, given.view, is_quiet=given.no_browser)
        _serve(run, test, is_quiet=given.no_browser)
    except KeyboardInterrupt:
        say()
    return 0


def _view(test: KeptTest, backend: str, *, is_quiet: bool) -> int:
    from pytest_schedprof.backends.registry import find_backends
    from pytest_schedprof.cli.viewers import viewer_of

    command = viewer_of(test, backend, find_backends().facts, is_quiet=is_quiet)
    complain(f"schedprof: {' '.join(command)}")
    return subprocess.run(command, check=False).returncode


def _serve(run: KeptRun, test: KeptTest | None, *, is_quiet: bool) -> None:
    from pytest_schedprof.cli.serving import served

    with served(run.path) as url:
        url += f"{test.path.relative_to(run.path).as_posix()}/" if test else ""
        say(f"{run.path} is served at {url} until you press Ctrl-C")
        if test:
            _tell_viewers(test)
        if not is_quiet:
            webbrowser.open(url)
        threading.Event().wait()


def _tell_viewers(test: KeptTest) -> None:
    from pytest_schedprof.backends.registry import find_backends
    from pytest_schedprof.model.backend import artifacts_of, kind_of

    known = find_backends().facts
    for backend in test.result.backends:
        for name in backend.artifacts:
            kind = kind_of(name, artifacts_of(backend.backend, known))
            if kind and kind.opener:
                say(f"  {name}: open with {kind.opener}")
