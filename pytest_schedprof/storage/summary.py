"""A session's summary: a file of its run, and a part of the page of a job in GitHub's CI."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_schedprof.storage.run_directory import write

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Names the file that a step's summaries are appended to."""


def write_summary(run: Path, text: str) -> str:
    """Keep it; a line of what went wrong with the job's page, which is no failure.

    Raises:
        ArtifactError: if the run's own file cannot be written.
    """
    content = text.encode("utf-8", "backslashreplace")
    write(run / "summary.md", content)
    page = os.environ.get(STEP_SUMMARY)
    if not page:
        return ""
    try:
        with open(page, "ab") as file:
            file.write(content + b"\n")
    except OSError as error:
        return (
            f"schedprof: cannot append the summary to {page!r} (${STEP_SUMMARY}): {error.strerror}"
        )
    return ""
