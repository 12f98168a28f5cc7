"""GitHub for a job: the baseline of its default branch, and one comment on its pull request."""

from __future__ import annotations

import json
import re
import struct
import tempfile
import threading
import zlib
from collections.abc import Iterator, Mapping
from http.client import HTTPException
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import BinaryIO, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile

import msgspec

from pytest_schedprof.errors import ForgeError, SettingsError, quoted
from pytest_schedprof.store.run_directory import make_directory, write

OWN_EVENTS = ("push", "schedule", "workflow_dispatch")
"""Events whose runs have the code of the branch that GITHUB_REF names. Others, as `issue_comment`,
`workflow_run` and `pull_request_target`, have that of the default branch in GITHUB_REF too, and may
run a stranger's code."""

AUTHOR = "github-actions[bot]"
"""Who writes comments with a job's own token."""

TOKEN = "GITHUB_TOKEN"
TOKENS = frozenset(
    {
        *(TOKEN, "GH_TOKEN", "INPUT_TOKEN", "CI_JOB_TOKEN"),
        *("ACTIONS_RUNTIME_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_TOKEN"),
    }
)
"""Variables that the tests of a pull request must not see."""

NOTE = (
    "the job needs `permissions: {contents: read, actions: read, pull-requests: write}`; pull "
    "requests from forks may not write"
)

ANSWER_S = 300.0
"""Time limit of one answer, however slowly it comes."""

MOST_JSON, MOST_ARCHIVE, MOST_UNPACKED = 2**24, 2**28, 2**30
MOST_FILES = 10_000
A_PAGE, MOST_PAGES = 100, 100
MOST_WORDS = 200

PARTS, SOURCES = ".json", ".jsonl"
"""Endings of the files of a baseline; those of sources are in a directory."""

CORRUPT = (BadZipFile, EOFError, OSError, RuntimeError, ValueError, struct.error, zlib.error)

NOTHING = "## Scheduler performance: no profiled test ran\n"

Answer = TypeVar("Answer")


class _Repository(msgspec.Struct):
    default_branch: str


class _Head(msgspec.Struct, frozen=True):
    sha: str = ""


class _PullRequest(msgspec.Struct):
    number: int
    head: _Head = _Head()


class _Event(msgspec.Struct):
    repository: _Repository | None = None
    pull_request: _PullRequest | None = None


class _User(msgspec.Struct):
    login: str


class _Comment(msgspec.Struct):
    id: int
    body: str | None = None
    user: _User | None = None


class _Run(msgspec.Struct):
    id: int
    repository_id: int | None = None
    head_repository_id: int | None = None
    head_branch: str | None = None


class _Started(msgspec.Struct):
    event: str


class _Artifact(msgspec.Struct):
    id: int
    expired: bool
    created_at: str
    workflow_run: _Run | None


class _Artifacts(msgspec.Struct):
    artifacts: list[_Artifact]


class GitHub:
    """The job that this process runs in, and the API of its GitHub."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Read the job's variables.

        Raises:
            SettingsError: if this is no job of GitHub Actions.
            ForgeError: if GitHub does not tell the default branch.
        """
        if not environ.get("GITHUB_ACTIONS"):
            raise SettingsError(
                "schedprof: `schedprof ci` works in jobs of GitHub Actions: $GITHUB_ACTIONS is not "
                "set; docs/ci.md has templates for GitLab and Jenkins"
            )
        if "GITHUB_REPOSITORY" not in environ:
            raise SettingsError("schedprof: the job has no variable $GITHUB_REPOSITORY")
        self._url = environ.get("GITHUB_API_URL", "https://api.github.com")
        self._token = environ.get(TOKEN, "")
        self._repository = f"repos/{environ['GITHUB_REPOSITORY']}"
        event = _event(environ.get("GITHUB_EVENT_PATH", ""))
        self.event = environ.get("GITHUB_EVENT_NAME", "")
        self.checkout = Path(environ.get("GITHUB_WORKSPACE", "."))
        self.request = event.pull_request.number if event.pull_request else None
        self.commit = event.pull_request.head.sha if event.pull_request else ""
        self.commit = self.commit or environ.get("GITHUB_SHA", "")
        ref = environ.get("GITHUB_REF", "")
        if event.repository:
            self.default_branch = event.repository.default_branch
        elif self.event == "schedule":  # it does not tell, but is always of the default branch
            self.default_branch = ref.removeprefix("refs/heads/")
        else:
            self.default_branch = self._ask(_Repository, self._repository).default_branch
        self.is_reference = (
            self.event in OWN_EVENTS
            and self.request is None
            and ref == f"refs/heads/{self.default_branch}"
        )
        """Whether later jobs are compared with this one: it is for the default branch itself."""

    def fetch_baseline(self, name: str, place: Path) -> int:
        """Put the files of the default branch's newest baseline into a directory.

        Args:
            name: that the jobs were given.
            place: the baseline's directory.

        Returns:
            how many files there are.

        Raises:
            ForgeError: if GitHub refuses, or what it sends is no archive, or too large.
            ArtifactError: if a file cannot be written.
        """
        path = f"{self._repository}/actions/artifacts"
        listed = self._ask(_Artifacts, path, name=f"{name}-baseline", per_page=A_PAGE).artifacts
        newest = sorted(listed, key=lambda each: (each.created_at, each.id), reverse=True)
        artifact = next(filter(self._is_reference, newest), None)
        if artifact is None:
            return 0
        with tempfile.TemporaryFile(prefix="schedprof-") as archive:
            self._send("GET", f"{path}/{artifact.id}/zip", archive, MOST_ARCHIVE)
            try:
                files = dict(_unpacked(archive))
            except CORRUPT as error:
                told = f"the baseline of {name!r} is corrupt: {error}"
                raise ForgeError(f"schedprof: {told}") from None
        for within, content in files.items():
            target = place / within
            # A link in the checkout must not lead elsewhere.
            if not place.is_absolute() and not target.parent.resolve().is_relative_to(Path.cwd()):
                raise ForgeError(f"schedprof: {str(target.parent)!r} leads out of the checkout")
            make_directory(target.parent)
            write(target, content)
        return len(files)

    def _is_reference(self, artifact: _Artifact) -> bool:
        """Whether a run of the default branch itself left it, and not one with other code."""
        run = artifact.workflow_run
        if artifact.expired or run is None or run.head_branch != self.default_branch:
            return False
        if run.repository_id is None or run.head_repository_id != run.repository_id:
            return False
        return self._ask(_Started, f"{self._repository}/actions/runs/{run.id}").event in OWN_EVENTS

    def put_comment(self, name: str, summary: str, link: str = "") -> str:
        """Write the comment, or edit the one that an earlier job wrote; return what was done.

        Args:
            name: that the job was given: each name has a comment of its own.
            summary: Markdown; empty if there is none.
            link: URL of the pages and profiles; empty if it is not known.

        Raises:
            ForgeError: if GitHub refuses.
        """
        mark = f"<!-- pytest-schedprof: {name} -->"
        foot = [f"Commit {self.commit}"] if self.commit else []
        foot += [f"[pages and profiles]({link})"] if link else []
        body = {"body": "\n".join([mark, summary or NOTHING, ", ".join(foot)])}
        comments = f"{self._repository}/issues/{self.request}/comments"
        for page in range(1, MOST_PAGES + 1):
            listed = self._ask(list[_Comment], comments, per_page=A_PAGE, page=page)
            for comment in listed:
                is_own = comment.user is not None and comment.user.login == AUTHOR
                if is_own and (comment.body or "").startswith(mark):
                    path = f"{self._repository}/issues/comments/{comment.id}"
                    self._send("PATCH", path, BytesIO(), MOST_JSON, body)
                    return "edited the comment"
            if len(listed) < A_PAGE:
                break
        self._send("POST", comments, BytesIO(), MOST_JSON, body)
        return "commented"

    def _ask(self, kind: type[Answer], path: str, **query: object) -> Answer:
        """Return an answer of a known shape."""
        content = BytesIO()
        self._send("GET", f"{path}?{urlencode(query)}" if query else path, content, MOST_JSON)
        try:
            return msgspec.json.decode(content.getvalue(), type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ForgeError(
                f"schedprof: GET {self._url}/{path}: no answer of GitHub's API: {error}"
            ) from None

    def _send(
        self, method: str, path: str, to: BinaryIO, most: int, content: object = None
    ) -> None:
        """Make a request and write the answer to a file, within bounds of size and time."""
        url = f"{self._url}/{path}"
        if not url.startswith(("https://", "http://")):
            raise ForgeError(f"schedprof: the API's address must be a URL, got {quoted(self._url)}")
        errors: list[ForgeError] = []

        def ask() -> None:
            try:
                self._copy(method, url, to, most, content)
            except ForgeError as error:
                errors.append(error)
            except (OSError, HTTPException, ValueError) as error:
                errors.append(ForgeError(f"schedprof: {method} {url}: {error}"))

        # Time-outs of sockets begin anew with each byte.
        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(ANSWER_S)
        if thread.is_alive():
            raise ForgeError(f"schedprof: {method} {url}: no whole answer in {ANSWER_S:g} s")
        if errors:
            raise errors[0]

    def _copy(self, method: str, url: str, to: BinaryIO, most: int, content: object) -> None:
        data = None if content is None else json.dumps(content).encode()
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        request = Request(url, data, headers, method=method)
        if self._token:  # a redirect to a store of files does not take it along
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with urlopen(request, timeout=ANSWER_S) as answer:
                while chunk := answer.read(2**20):
                    most -= len(chunk)
                    if most < 0:
                        raise ForgeError(f"schedprof: {method} {url}: the answer is too large")
                    to.write(chunk)
        except HTTPError as error:
            with error:
                words = error.read(MOST_WORDS).decode("utf-8", "replace")
            told = f"{error.code} {error.reason}: {words}"
            raise ForgeError(f"schedprof: {method} {url}: {told}", error.code) from None


def _event(path: str) -> _Event:
    """Return what the job was started by."""
    try:
        content = Path(path).read_bytes() if path else b"{}"
        return msgspec.json.decode(content, type=_Event)
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"schedprof: cannot read {path!r} ($GITHUB_EVENT_PATH): {error}"
        ) from error


def _unpacked(archive: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a baseline; anything else in the archive is left out.

    Only the last one or two names of a path are used, so none leads out of a directory.
    """
    with ZipFile(archive) as opened:
        entries = [entry for entry in opened.infolist() if not entry.is_dir()]
        size = sum(entry.file_size for entry in entries)
        if len(entries) > MOST_FILES or size > MOST_UNPACKED:
            raise ForgeError(
                f"schedprof: the baseline has {len(entries)} files of {size} bytes; at most "
                f"{MOST_FILES} of {MOST_UNPACKED} are taken"
            )
        for entry in entries:
            path = PurePosixPath(entry.filename.replace("\\", "/"))
            is_part = len(path.parts) == 1 and path.suffix == PARTS
            is_source = path.parts[:-1] == ("sources",) and path.suffix == SOURCES
            if (is_part or is_source) and entry.compress_type in (ZIP_STORED, ZIP_DEFLATED):
                yield str(path), opened.read(entry)


def baseline_name(branch: str) -> str:
    """Return the name of a branch's baseline, which is neither a path nor a file."""
    name = re.sub(r"[^\w.-]+", "-", branch).strip("-.") or "default"
    return f"{name}-" if name.endswith(PARTS) else name
