"""Requests to a REST API with JSON, by the standard library alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.client import HTTPException, HTTPResponse
from typing import Any, BinaryIO
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from pytest_schedprof.errors import ForgeError, quoted

TIMEOUT_S = 60.0
A_PAGE = 100
MOST_PAGES = 100
CHUNK = 2**20
MOST_BYTES = 2**31
"""Largest archive that is fetched."""

MOST_TOLD = 200
"""Characters of a refusal that are repeated."""


@dataclass(frozen=True)
class Api:
    """A REST API."""

    url: str
    secrets: Mapping[str, str]
    """Headers that only its own host gets: a redirect to a store of files does not take them."""
    headers: Mapping[str, str]

    def ask(self, method: str, path: str, content: object = None, **query: object) -> Any:
        """Make a request and return the answer.

        Raises:
            ForgeError: if it is refused or not answered.
        """
        with self._open(method, path, content, query) as answer:
            return json.loads(answer.read(MOST_BYTES) or b"null")

    def pages(self, path: str, **query: object) -> Iterator[Any]:
        """Yield the answers for all pages of a list.

        Raises:
            ForgeError: as for `ask`.
        """
        for number in range(1, MOST_PAGES + 1):
            found = self.ask("GET", path, None, **query, per_page=A_PAGE, page=number)
            yield found
            if len(found) < A_PAGE:
                return

    def download(self, path: str, to: BinaryIO, **query: object) -> None:
        """Write a file that the API leads to.

        Raises:
            ForgeError: as for `ask`, or if it is too large.
        """
        with self._open("GET", path, None, query) as answer:
            left = MOST_BYTES
            while chunk := answer.read(CHUNK):
                left -= len(chunk)
                if left < 0:
                    raise ForgeError(f"schedprof: {path}: larger than {MOST_BYTES} bytes")
                to.write(chunk)

    def _open(
        self, method: str, path: str, content: object, query: Mapping[str, object]
    ) -> HTTPResponse:
        if not self.url.startswith(("https://", "http://")):
            raise ForgeError(f"schedprof: the API's address must be a URL, got {quoted(self.url)}")
        url = f"{self.url}/{path}" + (f"?{urlencode(query)}" if query else "")
        data = None if content is None else json.dumps(content).encode()
        request = Request(url, data, dict(self.headers), method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        for name, value in self.secrets.items():
            request.add_unredirected_header(name, value)
        try:
            answer: HTTPResponse = urlopen(request, timeout=TIMEOUT_S)
        except HTTPError as error:
            raise _refusal(f"{method} {url}", error) from error
        except (OSError, HTTPException, ValueError) as error:
            raise ForgeError(f"schedprof: {method} {url}: {error}") from error
        return answer


def _refusal(what: str, error: HTTPError) -> ForgeError:
    with error:
        said = error.read(MOST_TOLD).decode("utf-8", "replace")
    return ForgeError(f"schedprof: {what}: {error.code} {error.reason}: {said}", error.code)
