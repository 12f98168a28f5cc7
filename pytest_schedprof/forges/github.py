"""GitHub: a job's variables, comments on its pull request, and artifacts of earlier runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.forges.asking import Api
from pytest_schedprof.forges.contract import Comment, Forge, Job

TOKEN = "GITHUB_TOKEN"


class GitHub(Forge):
    """GitHub, or a GitHub Enterprise Server."""

    note = (
        "the job needs `permissions: {contents: read, actions: read, pull-requests: write}`; pull "
        "requests from forks may not write"
    )

    def __init__(self, environ: Mapping[str, str]) -> None:
        token = environ.get(TOKEN, "")
        self.api = Api(
            environ.get("GITHUB_API_URL", "https://api.github.com"),
            {"Authorization": f"Bearer {token}"} if token else {},
            {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
        )
        self.repository = f"repos/{environ['GITHUB_REPOSITORY']}"
        event = _event(environ)
        branch = environ.get("GITHUB_REF_NAME", "")
        # An event of a schedule does not tell it, but is always of the default branch.
        is_scheduled = environ.get("GITHUB_EVENT_NAME") == "schedule"
        told = (event.get("repository") or {}).get("default_branch")
        known = branch if is_scheduled else told
        self.job = Job(
            branch=branch,
            default_branch=known or self.api.ask("GET", self.repository)["default_branch"],
            request=(event.get("pull_request") or {}).get("number"),
            commit=((event.get("pull_request") or {}).get("head") or {}).get("sha")
            or environ.get("GITHUB_SHA", ""),
            checkout=Path(environ.get("GITHUB_WORKSPACE", ".")),
        )

    def comments(self) -> Iterator[Comment]:
        for page in self.api.pages(f"{self.repository}/issues/{self.job.request}/comments"):
            yield from (Comment(each["id"], each["body"] or "") for each in page)

    def add_comment(self, body: str) -> None:
        path = f"{self.repository}/issues/{self.job.request}/comments"
        self.api.ask("POST", path, {"body": body})

    def edit_comment(self, key: int, body: str) -> None:
        self.api.ask("PATCH", f"{self.repository}/issues/comments/{key}", {"body": body})

    def download_baseline(self, name: str, to: BinaryIO) -> bool:
        path = f"{self.repository}/actions/artifacts"
        found = self.api.ask("GET", path, name=f"{name}-baseline", per_page=100)["artifacts"]
        mine = [each for each in found if self._is_reference(each)]
        if not mine:
            return False
        newest = max(mine, key=lambda each: (each["created_at"], each["id"]))
        self.api.download(f"{path}/{quote(str(newest['id']))}/zip", to)
        return True

    def _is_reference(self, artifact: Mapping[str, Any]) -> bool:
        """Whether a run of the default branch left it, and no fork's branch of the same name."""
        run = artifact.get("workflow_run") or {}
        is_own = run.get("head_repository_id") == run.get("repository_id")
        is_default = run.get("head_branch") == self.job.default_branch
        return not artifact["expired"] and is_own and is_default


def _event(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return what the job was started by."""
    path = environ.get("GITHUB_EVENT_PATH", "")
    try:
        event = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"schedprof: cannot read {path!r} ($GITHUB_EVENT_PATH): {error}"
        ) from error
    return event if isinstance(event, dict) else {}
