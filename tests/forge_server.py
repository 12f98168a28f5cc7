"""A server on this machine with the parts of GitHub's REST API that jobs use, and one of GitLab's.

It keeps comments and artifacts as a forge does, and every request. What it is sent is checked here,
since a real forge would refuse it: a token where one is needed, and none at the store of files.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

REPOSITORY, REPOSITORY_ID, FORKS_ID = "owner/project", 1, 2
REQUEST = 7
TOKEN = "a-token"

ENDED = {
    "id": 12,
    "event": "pull_request",
    "head_branch": "change",
    "head_sha": "abc123",
    "head_repository": {"owner": {"login": "eve"}},
    "conclusion": "failure",
    "html_url": "https://example.com/runs/12",
}
"""A run for the open pull request that has ended, as the event `workflow_run` describes it."""


class Artifact(NamedTuple):
    """An artifact of GitHub, or of a job in GitLab."""

    name: str
    content: bytes
    branch: str = "main"
    repository: int = REPOSITORY_ID
    is_expired: bool = False
    event: str = "push"
    """What started the run that left it."""
    has_ids: bool = True


class ApiRequest(NamedTuple):
    method: str
    path: str


@dataclass
class ForgeServer:
    """What the server keeps."""

    url: str = ""
    comments: list[str] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    requests: list[ApiRequest] = field(default_factory=list)
    strangers: set[int] = field(default_factory=set)
    """Indexes of the comments that others wrote."""
    heads: dict[str, str] = field(default_factory=lambda: {"eve:change": "abc123"})
    """The commit of the open pull request, by the owner and the branch of its head."""
    may_write: bool = True
    instead: bytes | None = None
    """What is answered in place of JSON."""
    faults: list[str] = field(default_factory=list)

    @property
    def writes(self) -> list[str]:
        """The methods of the requests that changed a comment."""
        return [
            request.method
            for request in self.requests
            if request.method != "GET" and not request.path.startswith("/upload/")
        ]

    def environment(self, *, event: str) -> dict[str, str]:
        """Variables of a job in GitHub Actions."""
        return {
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.url,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_TOKEN": TOKEN,
            "GITHUB_EVENT_PATH": event,
            "GITHUB_EVENT_NAME": "pull_request",
            "GITHUB_REF": f"refs/pull/{REQUEST}/merge",
        }


@contextmanager
def forge_server() -> Iterator[ForgeServer]:
    """Start a server, and end it."""
    state = ForgeServer()

    class Handler(_Handler):
        forge = state

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert state.faults == []


class _Handler(BaseHTTPRequestHandler):
    forge: ForgeServer

    def log_message(self, *arguments: object) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer a question."""
        url = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(url.query).items()}
        self.forge.requests.append(ApiRequest("GET", self.path))
        names = [unquote(name) for name in url.path.strip("/").split("/")]
        match names:
            case ["store", number]:
                self._store(int(number))
            case ["repos", _, _, "issues", _, "comments"]:
                self._comments(int(query["per_page"]), int(query["page"]))
            case ["repos", _, _, "actions", "artifacts"]:
                self._artifacts(query["name"], int(query["per_page"]), int(query["page"]))
            case ["repos", _, _, "actions", "runs", _, "artifacts"]:
                self._artifacts(query["name"])
            case ["repos", _, _, "pulls"]:
                self._answer(
                    [{"number": REQUEST, "head": {"sha": self.forge.heads[query["head"]]}}]
                )
            case ["repos", _, _, "actions", "runs", number]:
                self._answer({"id": int(number), "event": self.forge.artifacts[int(number)].event})
            case ["repos", _, _, "actions", "artifacts", number, "zip"]:
                self._redirect(int(number))
            case ["projects", _, "jobs", "artifacts", branch, "download"]:
                self._job(branch, query["job"])
            case _:
                self._answer({"message": "Not Found"}, 404)

    def _comments(self, per_page: int, page: int) -> None:
        comments = [
            {
                "id": 100 + at,
                "body": body,
                "user": {"login": "eve" if at in self.forge.strangers else "github-actions[bot]"},
            }
            for at, body in enumerate(self.forge.comments)
        ]
        self._answer(comments[(page - 1) * per_page : page * per_page])

    def _artifacts(self, name: str, per_page: int = 30, page: int = 1) -> None:
        artifacts = [
            _entry(number, artifact)
            for number, artifact in enumerate(self.forge.artifacts)
            if artifact.name == name
        ]
        shown = artifacts[::-1][(page - 1) * per_page : page * per_page]
        self._answer({"total_count": len(artifacts), "artifacts": shown})

    def _redirect(self, number: int) -> None:
        if not self._is_known():
            return self._answer({"message": "Requires authentication"}, 401)
        self.send_response(302)
        elsewhere = self.forge.url.replace("127.0.0.1", "localhost")
        self.send_header("Location", f"{elsewhere}/store/{number}")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _store(self, number: int) -> None:
        if self.headers["Authorization"]:
            self.forge.faults.append("the store got the token")
        self._send(self.forge.artifacts[number].content, 200, "application/zip")

    def _job(self, branch: str, job: str) -> None:
        if not self._is_known():
            self.forge.faults.append("a question without the token")
        for artifact in reversed(self.forge.artifacts):
            if (artifact.branch, artifact.name) == (branch, job):
                return self._send(artifact.content, 200, "application/zip")
        self._answer({"message": "404 Not Found"}, 404)

    def do_POST(self) -> None:
        """Keep a comment, or an artifact that a job uploads."""
        self.forge.requests.append(ApiRequest("POST", self.path))
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/upload/"):
            name, branch = self.path.removeprefix("/upload/").split("/")
            self.forge.artifacts.append(Artifact(name, content, branch))
            return self._answer({"url": f"{self.forge.url}/pages/{name}"})
        if self._may_write():
            self.forge.comments.append(json.loads(content)["body"])
            self._answer({"id": 99 + len(self.forge.comments)}, 201)

    def do_PATCH(self) -> None:
        """Replace a comment."""
        self.forge.requests.append(ApiRequest(self.command, self.path))
        content = self.rfile.read(int(self.headers["Content-Length"]))
        if self._may_write():
            number = int(self.path.rpartition("/")[2])
            self.forge.comments[number - 100] = json.loads(content)["body"]
            self._answer({})

    def _is_known(self) -> bool:
        return TOKEN in (self.headers["Authorization"] or self.headers["PRIVATE-TOKEN"] or "")

    def _may_write(self) -> bool:
        if self._is_known() and self.forge.may_write:
            return True
        self._answer({"message": "Resource not accessible by integration"}, 403)
        return False

    def _answer(self, content: Any, status: int = 200) -> None:
        text = json.dumps(content).encode() if self.forge.instead is None else self.forge.instead
        self._send(text, status, "application/json")

    def _send(self, content: bytes, status: int, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _entry(number: int, artifact: Artifact) -> dict[str, Any]:
    """An artifact in the form of GitHub's API; later ones are newer."""
    return {
        "id": number,
        "name": artifact.name,
        "expired": artifact.is_expired,
        "created_at": f"2026-11-24T{number // 60:02}:{number % 60:02}:00Z",
        "workflow_run": {
            "id": number,
            "repository_id": REPOSITORY_ID if artifact.has_ids else None,
            "head_repository_id": artifact.repository if artifact.has_ids else None,
            "head_branch": artifact.branch,
        },
    }
