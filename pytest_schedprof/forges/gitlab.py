"""GitLab: a job's variables, notes on its merge request, and artifacts of earlier jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

from pytest_schedprof.errors import ForgeError
from pytest_schedprof.forges.asking import Api
from pytest_schedprof.forges.contract import Comment, Forge, Job

TOKEN = "SCHEDPROF_TOKEN"


class GitLab(Forge):
    """gitlab.com, or a GitLab of one's own."""

    note = (
        f"the variable {TOKEN} must be a project access token with the scope `api`: the job's own "
        "token may not write notes, nor read artifacts in GitLab's free tier"
    )

    def __init__(self, environ: Mapping[str, str]) -> None:
        token, own = environ.get(TOKEN, ""), environ.get("CI_JOB_TOKEN", "")
        self.api = Api(
            environ["CI_API_V4_URL"],
            {"PRIVATE-TOKEN": token} if token else {"JOB-TOKEN": own} if own else {},
            {},
        )
        self.project = f"projects/{quote(environ['CI_PROJECT_ID'], safe='')}"
        self.job_name = environ.get("CI_JOB_NAME", "")
        request = environ.get("CI_MERGE_REQUEST_IID", "")
        self.job = Job(
            branch=environ.get("CI_COMMIT_REF_NAME", ""),
            default_branch=environ.get("CI_DEFAULT_BRANCH", ""),
            request=int(request) if request else None,
            commit=environ.get("CI_COMMIT_SHA", ""),
            checkout=Path(environ.get("CI_PROJECT_DIR", ".")),
        )

    @property
    def _notes(self) -> str:
        return f"{self.project}/merge_requests/{self.job.request}/notes"

    def comments(self) -> Iterator[Comment]:
        for page in self.api.pages(self._notes, sort="asc"):
            yield from (Comment(each["id"], each["body"] or "") for each in page)

    def add_comment(self, body: str) -> None:
        self.api.ask("POST", self._notes, {"body": body})

    def edit_comment(self, key: int, body: str) -> None:
        self.api.ask("PUT", f"{self._notes}/{key}", {"body": body})

    def download_baseline(self, name: str, to: BinaryIO) -> bool:
        branch = quote(self.job.default_branch, safe="")
        path = f"{self.project}/jobs/artifacts/{branch}/download"
        try:
            self.api.download(path, to, job=self.job_name)
        except ForgeError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return False
            raise
        return True
