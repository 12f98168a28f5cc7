"""`schedprof open`: a run in the browser, and a test's profiles in their viewers."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.runs import add_run
from pytest_schedprof.errors import SettingsError

if TYPE_CHECKING:
    from pytest_schedprof.storage.runs import KeptRun, KeptTest

EXAMPLE = """\
examples: schedprof open .schedprof/latest
          schedprof open .schedprof/latest test_shuffle --view viztracer

exit status: 0 after a Ctrl-C, 1 if the run cannot be read or there is no viewer, 2 for a mistake"""


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "open",
        run,
        purpose="a run in the browser, a test's profiles in their viewers",
        description="Serves the files of a run on a free port of this machine's loopback until a "
        "Ctrl-C, or starts the viewer of what a backend recorded of one test.",
        example=EXAMPLE,
    )
    add_run(parser)
    parser.add_argument(
        "test", nargs="?", metavar="TEST", help="its ID, or a part that no other test has"
    )
    parser.add_argument(
        "--view",
        metavar="BACKEND",
        help="start what opens its recording of TEST: vizviewer for traces, speedscope for samples",
    )
    parser.add_argument("--no-browser", action="store_true", help="only say where it is served")


def run(given: argparse.Namespace) -> int:
    """Serve until the user has seen enough."""
    from pytest_schedprof.storage.runs import find_run

    if given.view and not given.test:
        raise SettingsError("schedprof: --view is of one test: give DIR and TEST")
    run = find_run(Path(given.directory))
    test = run.test(given.test) if given.test else None
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also where a shell put us behind
    try:
        if test and given.view:
            return _view(test, given.view, is_quiet=given.no_browser)
        _serve(run, test, is_quiet=given.no_browser)
    except KeyboardInterrupt:
        print()
    return 0


def _view(test: KeptTest, backend: str, *, is_quiet: bool) -> int:
    from pytest_schedprof.cli.viewers import viewer_of

    command = viewer_of(test, backend, is_quiet=is_quiet)
    print(f"schedprof: {' '.join(command)}", file=sys.stderr, flush=True)
    return subprocess.run(command, check=False).returncode


def _serve(run: KeptRun, test: KeptTest | None, *, is_quiet: bool) -> None:
    from pytest_schedprof.serving import served

    with served(run.path) as url:
        url += f"{test.path.relative_to(run.path).as_posix()}/" if test else ""
        print(f"{run.path} is served at {url} until you press Ctrl-C", flush=True)
        if test:
            _tell_viewers(test)
        if not is_quiet:
            webbrowser.open(url)
        threading.Event().wait()


def _tell_viewers(test: KeptTest) -> None:
    from pytest_schedprof.reports.openers import opener_of

    for name in test.artifacts():
        if opener := opener_of(name):
            print(f"  {name} is for {opener}", flush=True)
