"""`schedprof open`: open a run in the browser."""

from __future__ import annotations

import argparse
import signal
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import add_run, at_once, say
from pytest_schedprof.model.backend import artifacts_of, kind_of
from pytest_schedprof.store.run_directory import in_use
from pytest_schedprof.store.runs import KeptRun, KeptTest, find_run

PURPOSE = "open a run in the browser"
DESCRIPTION = (
    "Serves the files of a run on a free local port until a Ctrl-C, and says what opens the "
    "profiles of a test. pytest has written the pages, which need no server, at the end of the "
    "session; they are written again with --write, and in comparison or with a history."
)
EXAMPLE = """\
examples: schedprof open
          schedprof open test_shuffle
          schedprof open --against ../main/.schedprof/latest
          schedprof open --write --history        for a job that uploads them

exit status: 0 after a Ctrl-C or if the pages were written, 1 if not, 2 for a mistake"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("test", nargs="?", metavar="TEST", help="test ID, or a unique part of it")
    add_run(parser)
    parser.add_argument("--no-browser", action="store_true", help="only print the URL")
    parser.add_argument(
        "--write", action="store_true", help="write the pages again, and serve nothing"
    )
    parser.add_argument(
        "--against",
        metavar="DIR",
        help="an earlier run; show what changed since then, also in flame graphs",
    )
    parser.add_argument(
        "--history",
        nargs="?",
        const="",
        metavar="DIR_OR_URL",
        help="also show figures over the runs there, with steps and trends (without a value: the "
        "runs beside this one)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the pages if they are to change, and serve them until a Ctrl-C."""
    run = find_run(Path(arguments.directory))
    test = run.test(arguments.test) if arguments.test else None
    if arguments.write or arguments.against or arguments.history is not None:
        page = _written(run.path, arguments.against, arguments.history)
        if arguments.write:
            say(page)
            return 0
    signal.signal(signal.SIGINT, signal.default_int_handler)  # also as a background job of a shell
    try:
        _serve(run, test, is_quiet=arguments.no_browser)
    except KeyboardInterrupt:
        say()
    return 0


def _written(run: Path, other: str | None, history: str | None) -> Path:
    from pytest_schedprof.measuring.pages import write_pages  # imports the templates

    against = find_run(Path(other)).path if other else None
    place = str(run.parent) if history == "" else history or ""
    return write_pages(run, against, place, known=BackendRegistry().facts, work=at_once)


def _serve(run: KeptRun, test: KeptTest | None, *, is_quiet: bool) -> None:
    with in_use(run.path), served(run.path) as url:
        url += f"{test.path.relative_to(run.path).as_posix()}/" if test else ""
        say(f"{run.path} is served at {url} until you press Ctrl-C")
        if test:
            _tell_viewers(test)
        if not is_quiet:
            webbrowser.open(url)
        threading.Event().wait()


def _tell_viewers(test: KeptTest) -> None:
    known = BackendRegistry().facts
    for backend in test.result.backends:
        for name in backend.artifacts:
            kind = kind_of(name, artifacts_of(backend.backend, known))
            if kind and kind.opener:
                say(f"  {name}: open with {kind.opener}")


LOOPBACK = "127.0.0.1"


@contextmanager
def served(directory: Path) -> Iterator[str]:
    """Run a server on a free port of the loopback inside the block; yield its URL."""
    handler = partial(_Handler, directory=str(directory.resolve()))
    with ThreadingHTTPServer((LOOPBACK, 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://{LOOPBACK}:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


class _Handler(SimpleHTTPRequestHandler):
    """Serves files below its directory."""

    def send_head(self) -> Any:
        """Refuse files outside of the directory, also through a link."""
        if not self._has_own_host():
            return self.send_error(HTTPStatus.FORBIDDEN)
        return super().send_head() if self._is_inside() else self.send_error(HTTPStatus.NOT_FOUND)

    def _is_inside(self) -> bool:
        try:
            return Path(self.translate_path(self.path)).resolve().is_relative_to(self.directory)
        except (ValueError, OSError, RuntimeError):  # a NUL, too long a name, a circle of links
            return False

    def _has_own_host(self) -> bool:
        """Check the Host header: another site's name may point here, to read what is served."""
        port = self.connection.getsockname()[1]
        return self.headers.get("Host") in (f"{LOOPBACK}:{port}", f"localhost:{port}")

    def log_message(self, *arguments: object) -> None:
        """Print nothing on the user's terminal."""
