"""A directory served to browsers of this machine, and nothing beside it."""

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
    """The URL of a server on a free port of the loopback, which ends with the block."""
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
    def send_head(self) -> Any:
        """Refuse what is not below the directory, also by a link."""
        if not self._is_asked_for_itself():
            return self.send_error(HTTPStatus.FORBIDDEN)
        path = Path(self.translate_path(self.path)).resolve()
        if not path.is_relative_to(self.directory):
            return self.send_error(HTTPStatus.NOT_FOUND)
        return super().send_head()

    def _is_asked_for_itself(self) -> bool:
        """A page of another site may have its name lead here, to read what is served."""
        port = self.connection.getsockname()[1]
        return self.headers.get("Host") in (f"{LOOPBACK}:{port}", f"localhost:{port}")

    def log_message(self, *arguments: object) -> None:
        """The terminal is the user's."""
