"""Take the screenshots that the README shows: `python docs/write_picture.py RUN TEST`.

RUN is the directory of a run, TEST a part of a test's ID; the README shows a test of the examples.
The pictures are written beside this file. Chromium is needed, as for the tests of pages.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from browsing import Reader, launched

SIZE = {"width": 1100, "height": 1160}
ROW = 18
"""Height of a box in the flame graph, in pixels; used to point at a box in the picture."""


def main(run: str, test: str) -> None:
    page = next(Path(run).resolve().glob(f"tests/*{test}*/index.html"))
    with launched() as browser:
        reader = Reader(browser)
        for scheme in ("light", "dark"):
            opened = reader.open(page, color_scheme=scheme, viewport=SIZE)
            opened.locator(".flame canvas").hover(position={"x": 120, "y": 14.5 * ROW})
            opened.screenshot(path=Path(__file__).with_name(f"page-{scheme}.png"))
        reader.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
