"""`schedprof ci`: the steps of a job in GitHub Actions, and all that knows GitHub."""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from http.client import HTTPException
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen
from zipfile import ZipFile

from pytest_schedprof.cli.main import add_directory, add_run, complain, say
from pytest_schedprof.clusters.interpreters import is_site
from pytest_schedprof.errors import (
    ArtifactError,
    ForgeError,
    SettingsError,
    printable,
    without_secrets,
)
from pytest_schedprof.judge.explanation import Pairs, why_regressed
from pytest_schedprof.model.explanation import Explanation, SourceChange
from pytest_schedprof.model.limit import Verdict
from pytest_schedprof.model.result import Result
from pytest_schedprof.report.changes import has_news, regressions, undecided
from pytest_schedprof.report.summary import run_markdown
from pytest_schedprof.report.tables import describe
from pytest_schedprof.report.words import sentence, top_parts
from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.runs import find_run

PURPOSE = "the steps of a job in GitHub Actions"
DESCRIPTION = (
    "Fetches the baseline of the default branch, marks the lines that became slower, and "
    "comments on the pull request."
)
EXAMPLE = """\
examples: schedprof ci baseline
          schedprof ci annotate
          schedprof ci comment

exit status: 0, 1 if GitHub or a file refuses, 2 for a mistake"""

OWN_EVENTS = ("push", "schedule", "workflow_dispatch")
"""Events whose runs have the code of the branch that GITHUB_REF names. Others, as `issue_comment`,
`workflow_run` and `pull_request_target`, have that of the default branch in GITHUB_REF too, and may
run a stranger's code."""

AUTHOR = "github-actions[bot]"
"""Who writes comments with a job's own token."""

REFUSED = (401, 403, 404)
"""Statuses if a token may not do it; what a token may not see is said to be missing."""

NOTE = (
    "; the job of the tests needs `permissions: {contents: read, actions: read}`, that of the "
    "comment `{actions: read, pull-requests: write}`"
)

A_PAGE, MOST_PAGES, SILENT_S, ANSWER_S, MOST_BYTES = 100, 100, 60.0, 300.0, 2**30

PART = re.compile(r"[^/\\:]+\.json|sources/[^/\\:]+\.jsonl|stacks/[^/\\:]+\.json\.gz")
"""Matches the names of a baseline's files."""

RECORD = re.compile(r"(\w[^/\\:]*/)?(run\.json|tests/\w[^/\\:]*/result\.json)")
"""Matches the names of a run's records, of what the action uploads."""

MOST_EXPLAINED, MOST_FUNCTIONS = 10, 3
"""Tests of which is told in which functions they became slower, and functions of each figure."""

KINDS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning"}

Answer = TypeVar("Answer")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("step", choices=list(STEPS), help="fetch a baseline, mark lines, comment")
    for name, default, metavar, purpose in (
        ("--name", "schedprof", "NAME", "tells apart several jobs for one pull request"),
        ("--url", "", "URL", "of the baseline, such as s3://bucket/main, if in no artifact"),
    ):
        parser.add_argument(name, default=default, metavar=metavar, help=purpose)
    parser.add_argument(
        "--always", action="store_true", help="comment on pull requests that change nothing too"
    )
    add_directory(parser)
    add_run(parser)


def run(arguments: argparse.Namespace) -> int:
    STEPS[arguments.step](arguments, GitHub(os.environ))
    return 0


def baseline(arguments: argparse.Namespace, github: GitHub) -> None:
    """Fetch the baseline, and write the option for pytest into the outputs of the step."""
    # A name that is neither a path nor a file.
    name = re.sub(r"[^\w.-]+", "-", github.default_branch).strip("-.") or "default"
    place = Path(arguments.dir, "baselines", f"{name}-" if name.endswith(".json") else name)
    option, saved, url = "", "", arguments.url
    if github.is_reference:
        option = f"--schedprof-save={url or place.name}"
        saved = "" if url else str(place)
    elif Folder(url).exists() if url else github.fetch_baseline(arguments.name, place):
        option = f"--schedprof-compare={url or place.name}"
    else:
        say(workflow_command("notice", f"{github.default_branch} has no baseline yet"))
    say(f"option for pytest: {without_secrets(option) or 'none'}")
    if path := os.environ.get("GITHUB_OUTPUT"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"option={option}\nsaved={saved}\n")


def annotate(arguments: argparse.Namespace, github: GitHub) -> None:
    """Print the annotations of a run; none if none was made, which the tests have told."""
    try:
        kept = find_run(Path(arguments.directory))
    except ArtifactError as error:
        return complain(error)
    tests = list(kept.tests())
    regressed = [test for test in tests if test.result.has_regressed][:MOST_EXPLAINED]
    why = why_regressed(regressed, Pairs(kept.path, arguments.dir))
    for test in tests:
        for line in annotations_of(test.result, why, github.checkout, Path.cwd()):
            say(line)


def comment(arguments: argparse.Namespace, github: GitHub) -> None:
    """Write the comment; a token that may not write is told, and fails nothing.

    Where nothing changed only an earlier comment is edited, unless all are to be told.
    """
    if (request := github.find_request()) is None:
        return say("the run that has ended was for no pull request: nothing to comment on")
    summary, is_new = NOTHING_RAN, github.has_failed
    try:
        if github.fetch_run(arguments.name, Path(arguments.dir)):
            kept = find_run(Path(arguments.dir))
            # Made anew of the records, because the text that the run left may be a stranger's.
            results = [test.result for test in kept.tests()]
            summary = run_markdown(results, kept.path.name, kept.record.unmatched)
            is_new = arguments.always or any(map(has_news, results))
    except (ArtifactError, ForgeError) as error:
        if isinstance(error, ForgeError) and error.status:  # which nothing in an artifact causes
            raise
        complain(error)
        summary, is_new = UNREADABLE, True  # an earlier comment must not stay
    try:
        done = github.comment(request, arguments.name, summary, is_new=is_new)
    except ForgeError as error:
        if error.status not in REFUSED:
            raise
        return say(workflow_command("notice", str(error)))
    say(f"{done} on pull request {request}")


NOTHING_RAN = "## Scheduler performance: no profiled test ran\n"

UNREADABLE = """\
## Scheduler performance: the records of the run cannot be read

The log of the job that wrote this comment says why.
"""

STEPS = {"baseline": baseline, "annotate": annotate, "comment": comment}


class GitHub:
    """The job that this process runs in, and the API of its GitHub."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        for name in ("GITHUB_ACTIONS", "GITHUB_REPOSITORY", "GITHUB_EVENT_PATH"):
            if not environ.get(name):
                raise SettingsError(
                    f"schedprof: `schedprof ci` works in jobs of GitHub Actions: ${name} is not "
                    "set; docs/ci.md has templates for GitLab and Jenkins"
                )
        self._url = environ.get("GITHUB_API_URL", "https://api.github.com")
        self._token = environ.get("GITHUB_TOKEN", "")
        self._repository = f"repos/{environ['GITHUB_REPOSITORY']}"
        self.checkout = Path(environ.get("GITHUB_WORKSPACE", "."))
        event = json.loads(Path(environ["GITHUB_EVENT_PATH"]).read_bytes())
        self._ended: dict[str, Any] | None = event.get("workflow_run")
        ref = environ.get("GITHUB_REF", "")
        # Only a schedule does not tell the repository, and it is always of the default branch.
        repository = event.get("repository") or {"default_branch": ref.removeprefix("refs/heads/")}
        self.default_branch: str = repository["default_branch"]
        is_own = environ.get("GITHUB_EVENT_NAME") in OWN_EVENTS
        self.is_reference = is_own and ref == f"refs/heads/{self.default_branch}"
        """Whether later jobs are compared with this one: it is for the default branch itself."""

    @property
    def _run(self) -> dict[str, Any]:
        """The run for which this job was started when it had ended."""
        if self._ended is None:
            raise SettingsError(
                "schedprof: the comment is written by a job of its own, for the event "
                "workflow_run, where nothing of the pull request runs; docs/ci.md shows it"
            )
        return self._ended

    @property
    def has_failed(self) -> bool:
        """Whether that run failed; one that was skipped, or waits for an approval, has not."""
        return bool(self._run["conclusion"] == "failure")

    def find_request(self) -> int | None:
        """Return the number of the pull request of the run that has ended, if any.

        It is asked of GitHub, since what the run left may say anything. Its head must still be the
        commit of that run.
        """
        if self._run["event"] != "pull_request" or not (head := self._run["head_repository"]):
            return None
        branch = quote(f"{head['owner']['login']}:{self._run['head_branch']}")

        def numbers(answer: Any) -> list[int]:
            sha = self._run["head_sha"]
            return [request["number"] for request in answer[:] if request["head"]["sha"] == sha]

        query = f"{self._repository}/pulls?state=open&head={branch}"
        return next(iter(self._ask(query, numbers)), None)

    def fetch_run(self, name: str, place: Path) -> bool:
        """Put the records that the run has left into a directory; return whether it left any."""

        def numbers(answer: Any) -> list[int]:
            return [artifact["id"] for artifact in answer["artifacts"] if not artifact["expired"]]

        actions = f"{self._repository}/actions"
        query = f"{actions}/runs/{self._run['id']}/artifacts?name={quote(name)}"
        for artifact in sorted(self._ask(query, numbers))[-1:]:  # of the last attempt
            _unpack(self._send("GET", f"{actions}/artifacts/{artifact}/zip"), place, RECORD)
            return True
        return False

    def fetch_baseline(self, name: str, place: Path) -> bool:
        """Put the newest baseline of the default branch's own runs into a directory, if any."""

        def count_and_fitting(answer: Any) -> tuple[int, list[tuple[int, int]]]:
            artifacts = sorted(
                answer["artifacts"], key=lambda artifact: artifact["created_at"], reverse=True
            )
            return len(artifacts), [
                (artifact["id"], run["id"])
                for artifact in artifacts
                if not artifact["expired"]
                and (run := artifact["workflow_run"])
                and run["head_branch"] == self.default_branch
                and run["head_repository_id"] == run["repository_id"] is not None
            ]

        actions = f"{self._repository}/actions"
        named = {"name": f"{name}-baseline"}
        for artifact, run in self._entries(f"{actions}/artifacts", count_and_fitting, **named):
            if self._ask(f"{actions}/runs/{run}", lambda answer: answer["event"]) in OWN_EVENTS:
                content = self._send("GET", f"{actions}/artifacts/{artifact}/zip")
                _unpack(content, place, PART)
                return True
        return False

    def comment(self, request: int, name: str, summary: str, *, is_new: bool) -> str:
        """Edit the comment of this name, or write one if this is news; return what was done."""
        mark = f"<!-- pytest-schedprof: {name} -->"
        foot = f"Commit {self._run['head_sha']}, [pages and profiles]({self._run['html_url']})"
        body = {"body": "\n".join([mark, summary, foot])}

        def count_and_ours(comments: Any) -> tuple[int, list[int]]:
            return len(comments), [
                comment["id"]
                for comment in comments[:]  # nothing but a list
                if comment["body"] and comment["body"].startswith(mark)
                if comment["user"] and comment["user"]["login"] == AUTHOR
            ]

        issues = f"{self._repository}/issues"
        for number in self._entries(f"{issues}/{request}/comments", count_and_ours):
            self._send("PATCH", f"{issues}/comments/{number}", body)
            return "edited the comment"
        if not is_new:
            return "nothing changed: no comment"
        self._send("POST", f"{issues}/{request}/comments", body)
        return "commented"

    def _entries(
        self, path: str, read: Callable[[Any], tuple[int, list[Answer]]], **query: str
    ) -> Iterator[Answer]:
        """Yield what is read of a list, page by page; `read` also counts the entries of a page."""
        for page in range(1, MOST_PAGES + 1):
            pages = {"per_page": A_PAGE, "page": page}
            count, entries = self._ask(f"{path}?{urlencode({**query, **pages})}", read)
            yield from entries
            if count < A_PAGE:
                return

    def _ask(self, path: str, read: Callable[[Any], Answer]) -> Answer:
        content = self._send("GET", path)
        try:
            return read(json.loads(content))
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            text = f"schedprof: GET {self._url}/{path}: no answer of GitHub's API: {error!r}"
            raise ForgeError(text) from None

    def _send(self, method: str, path: str, body: object = None) -> bytes:
        url = f"{self._url}/{path}"
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}
        request = Request(url, data, headers, method=method)
        if self._token:  # a redirect to a store of files does not take it along
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        try:
            with urlopen(request, timeout=SILENT_S) as answer:
                return _all_of(answer)
        except HTTPError as error:
            words = ""
            with error, suppress(OSError, HTTPException):  # it may stall, or break off
                words = f": {error.read(200).decode('utf-8', 'replace')}"
            text = f"{error.code} {error.reason}{words}{NOTE if error.code in REFUSED else ''}"
            raise ForgeError(f"schedprof: {method} {url}: {text}", error.code) from None
        except (OSError, HTTPException, ValueError) as error:
            raise ForgeError(f"schedprof: {method} {url}: {error}") from None


def _all_of(answer: Any) -> bytes:
    """Return all of an answer, which may take so long and have so many bytes."""
    content, deadline = bytearray(), time.monotonic() + ANSWER_S
    while piece := answer.read1(2**16):
        content += piece
        if len(content) > MOST_BYTES or time.monotonic() > deadline:
            raise ValueError(f"more than {MOST_BYTES} bytes, or {ANSWER_S:g} s")
    return bytes(content)


def _unpack(content: bytes, place: Path, known: re.Pattern[str]) -> None:
    """Write those files of an archive whose names are known below a directory."""
    try:
        with ZipFile(BytesIO(content)) as archive:
            files = [entry for entry in archive.infolist() if known.fullmatch(entry.filename)]
            if (size := sum(entry.file_size for entry in files)) > MOST_BYTES:
                raise ValueError(f"it has {size} bytes, too many")
            # A link in the checkout must not lead elsewhere.
            for path in (place / entry.filename for entry in files):
                if not place.is_absolute() and not path.parent.resolve().is_relative_to(Path.cwd()):
                    raise ValueError(f"{str(path.parent)!r} leads out of the checkout")
                path.unlink(missing_ok=True)
            archive.extractall(place, files)
    except Exception as error:  # each kind of compression has errors of its own
        raise ArtifactError(f"schedprof: the artifact cannot be unpacked: {error}") from None


def annotations_of(
    result: Result, explained: Iterable[Explanation], root: Path, working: Path
) -> Iterator[str]:
    """Yield workflow commands for lines below `root`, of a test that ran in `working`."""
    for verdict, text, source in _remarks(result, explained):
        file, first, last = _place(result.test_id, source, root, working)
        place = {"file": file, "line": first, "endLine": last}
        title = f"Scheduler performance, {result.test_id}"
        yield workflow_command(KINDS[verdict], text, **place, title=title)


def _remarks(
    result: Result, explained: Iterable[Explanation]
) -> Iterator[tuple[Verdict, str, SourceChange | None]]:
    """Yield what got worse in a test, or may have, and the lines that explain it if known."""
    for comparison in (comparison for comparison in result.comparisons if comparison.is_binding):
        if comparison.verdict is Verdict.FAIL:
            rises = [
                (why, part)
                for why in explained
                if (why.test_id, why.backend) == (result.test_id, comparison.backend)
                for part in top_parts(why, MOST_FUNCTIONS)
                if part.amount > 0
            ]
            for why, part in rises:
                text = f"{why.metric} per task: {sentence(why, part).replace('`', '')}"
                yield Verdict.FAIL, text, part.source
            if not rises:
                yield Verdict.FAIL, f"regressed: {regressions(comparison)}", None
        elif comparison.reasons:  # not for single figures, of which there are some in each run
            yield Verdict.INCONCLUSIVE, f"undecided: {undecided(comparison)}", None
    for limit in result.limits:
        if limit.verdict is not Verdict.PASS:
            yield limit.verdict, describe(limit), None
    yield from ((Verdict.INCONCLUSIVE, text, None) for text in result.troubles)


def _place(
    test_id: str, source: SourceChange | None, root: Path, working: Path
) -> tuple[str, int, int]:
    """Return a file below the checkout and lines: those that explain it, or else the test."""
    if source and source.places and (own := _own(Path(source.file), root)):
        return own, source.places[0].first, source.places[0].last
    named, _, names = test_id.partition("::")
    for path in (base / named for base in (working, *working.parents)):
        if own := _own(path, root):
            text = path.read_text(encoding="utf-8", errors="replace")
            line = _line(text, filter(None, names.partition("[")[0].split("::")))
            return own, line, line
    return named, 1, 1


def _line(text: str, names: Iterable[str]) -> int:
    """Return the line where the last of some classes and a function begins that are nested."""
    line, end = 1, 0
    for name in names:
        definition = rf"^[ \t]*(class|(async )?def) {re.escape(name)}\b"
        if not (begin := re.compile(definition, re.MULTILINE).search(text, end)):
            break
        line, end = text.count("\n", 0, begin.start()) + 1, begin.end()
    return line


def _own(path: Path, root: Path) -> str:
    """Return the path of a file below the checkout; empty if it is none of its own files."""
    path, root = path.resolve(), root.resolve()
    is_own = path.is_file() and path.is_relative_to(root) and not is_site(str(path))
    return path.relative_to(root).as_posix() if is_own else ""


def workflow_command(name: str, text: str, **properties: object) -> str:
    """Return a workflow command, which no text can end or add a property to."""
    pairs = ",".join(f"{key}={_escaped(str(value), ':,')}" for key, value in properties.items())
    return f"::{name}{' ' if pairs else ''}{pairs}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    """Escape what ends a command or a property; `%` first, which begins the escapes."""
    for character in f"%\r\n{more}":
        text = text.replace(character, f"%{ord(character):02X}")
    return printable(text, keep="")
