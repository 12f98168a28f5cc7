"""Write a session's summary into its run, and onto the page of a GitHub Actions job."""

from __future__ import annotations

import os
from pathlib import Path

from pytest_schedprof.storage.run_directory import write

STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
"""Variable with the path of the file to which a step appends its summary."""


def write_summary(run: Path, text: str) -> str:
    """Write the summary; return what went wrong with the job's page, which fails nothing.

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
