"""Hook of mkdocs: turn links that leave docs/ into links to the repository.

`[errors](../pytest_schedprof/errors.py)` works where the Markdown itself is read, but the site has
no such file.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LEAVES_DOCS = re.compile(r"\]\(\.\./([^)#\s]+)")


def on_page_markdown(markdown: str, config: dict[str, Any], **_: Any) -> str:
    """Rewrite the links of one page; mkdocs calls this before it renders the page."""

    def absolute(link: re.Match[str]) -> str:
        path = link.group(1)
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        if not (ROOT / path).exists():
            return link.group(0)  # mkdocs itself then warns of it
        return f"]({config['extra']['repository']}/{kind}/main/{path}"

    return LEAVES_DOCS.sub(absolute, markdown)
