"""The forge whose job this process runs in."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.forges import github, gitlab
from pytest_schedprof.forges.contract import Forge

TOKENS = (github.TOKEN, gitlab.TOKEN)
"""Variables that the tests of a pull request must not see."""


def forge_of(environ: Mapping[str, str]) -> Forge:
    """Return the forge of this job, by its variables.

    Raises:
        SettingsError: if this is no job of a known forge.
    """
    try:
        if environ.get("GITHUB_ACTIONS"):
            return github.GitHub(environ)
        if environ.get("GITLAB_CI"):
            return gitlab.GitLab(environ)
    except KeyError as error:
        raise SettingsError(f"schedprof: the job has no variable ${error.args[0]}") from error
    raise SettingsError(
        "schedprof: `schedprof ci` works in jobs of GitHub Actions and GitLab: neither "
        "$GITHUB_ACTIONS nor $GITLAB_CI is set"
    )
