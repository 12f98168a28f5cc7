"""One comment on a pull request, edited from then on."""

from __future__ import annotations

from pytest_schedprof.forges.contract import Forge

NOTHING = "## Scheduler performance: no profiled test ran\n"


def put_comment(forge: Forge, name: str, summary: str, link: str = "") -> str:
    """Write the comment, or edit the one that an earlier job wrote; return what was done.

    Args:
        forge: of a job for a pull request.
        name: that the job was given: each name has a comment of its own.
        summary: Markdown; empty if there is none.
        link: URL of the pages and profiles; empty if it is not known.

    Raises:
        ForgeError: if the forge refuses.
    """
    mark = f"<!-- pytest-schedprof: {name} -->"
    body = "\n".join([mark, summary or NOTHING, _foot(forge, link)])
    mine = next((each for each in forge.comments() if each.body.startswith(mark)), None)
    if mine is None:
        forge.add_comment(body)
        return "commented"
    forge.edit_comment(mine.key, body)
    return "edited the comment"


def _foot(forge: Forge, link: str) -> str:
    commit = f"Commit {forge.job.commit}" if forge.job.commit else ""
    pages = f"[pages and profiles]({link})" if link else ""
    return ", ".join(filter(None, [commit, pages]))
