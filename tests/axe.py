"""Accessibility of pages, as axe checks it: WCAG 2.1 at levels A and AA, and its best practices."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page

PLACE = Path(__file__).parent / "browser"
SCRIPT = PLACE / "node_modules" / "axe-core" / "axe.min.js"

RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"]

RUN = """async tags => {
    const options = {runOnly: {type: "tag", values: tags}, resultTypes: ["violations"]}
    const {violations, passes} = await axe.run(options)
    return {violations, passes: passes.length}
}"""
"""Thousands of elements that break no rule would take long to be described, sent and read."""

SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")


@cache
def script() -> str:
    """Return the program; without it skip the test, or fail it in CI, which should install it."""
    if SCRIPT.is_file():
        return SCRIPT.read_text()
    absent = "axe-core is not installed: npm install --prefix tests/browser --no-package-lock"
    if "CI" in os.environ:
        pytest.fail(absent)
    pytest.skip(absent)


def check(page: Page) -> None:
    """Check the page as it is now, in light and in dark mode.

    Raises:
        AssertionError: with the rules that it breaks, and where.
    """
    page.evaluate(script())  # not as an element, which would need no more than the page's own ones
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        result = page.evaluate(RUN, RULES)
        broken = [f"{scheme}: {_described(rule)}" for rule in result["violations"]]
        assert not broken, "\n".join(broken)
        assert result["passes"], "no rule was checked"


def _described(violation: dict[str, Any]) -> str:
    nodes = [f"{node['html'][:200]}: {node['failureSummary']}" for node in violation["nodes"][:3]]
    return "\n".join([f"{violation['id']} ({len(violation['nodes'])})", *nodes])
