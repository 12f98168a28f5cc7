"""Hook of mkdocs: what works where the Markdown itself is read works on the site, too.

Links that leave docs/, such as `[errors](../pytest_schedprof/errors.py)`, become links to the
repository. Pictures in HTML, which mkdocs leaves as they are, are above the page on the site.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
LEAVES_DOCS = re.compile(r"\]\(\.\./([^)#\s]+)")
PICTURE = re.compile(r'\b(src|srcset)="(?=[\w-]+\.png")')


def on_page_markdown(markdown: str, page: Any, config: dict[str, Any], **_: Any) -> str:
    """Rewrite the links of one page; mkdocs calls this before it renders the page."""
    above = "../" * page.url.count("/")

    def absolute(link: re.Match[str]) -> str:
        path = link.group(1)
        kind = "tree" if (ROOT / path).is_dir() else "blob"
        if not (ROOT / path).exists():
            return link.group(0)  # mkdocs itself then warns of it
        return f"]({config['extra']['repository']}/{kind}/main/{path}"

    return PICTURE.sub(rf'\1="{above}', LEAVES_DOCS.sub(absolute, markdown))
