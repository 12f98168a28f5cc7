"""Serve a directory, and nothing outside of it, to browsers on this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

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
