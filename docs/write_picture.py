"""Take the screenshots of README and artifacts.md: `python docs/write_picture.py RUN TEST [NAME]`.

RUN is the directory of a run that kept sources (`--schedprof-save`), TEST a part of a test's ID;
the README shows a test of the examples. The pictures are written beside this file; with a NAME,
only the head of the page, as that of virtual.md: `own`, a test of distributed whose worker is
dearer. Chromium is needed, as for the tests of pages.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page

sys.path.append(str(Path(__file__).parents[1] / "tests"))
from browsing import Reader, find, launched

SIZE = {"width": 1100, "height": 1300}
LOW = {"width": 1100, "height": 760}
HEAD = {"width": 1100, "height": 700}
ROW = 18
"""Height of a box in the flame graph, in pixels; used to point at a box in the picture."""

FUNCTION = "SchedulerState._transition"


def main(run: str, test: str, head: str = "") -> None:
    path = next(Path(run).resolve().glob(f"tests/*{test}*/index.html"))
    with launched() as browser:
        reader = Reader(browser)
        for scheme in ("light", "dark"):
            if head:
                page = reader.open(path, color_scheme=scheme, viewport=HEAD)
                page.screenshot(path=Path(__file__).with_name(f"{head}-{scheme}.png"))
                continue
            page = reader.open(path, color_scheme=scheme, viewport=SIZE)
            box = page.locator("canvas.main").bounding_box()
            assert box is not None
            page.mouse.move(box["x"] + 120, box["y"] + 3.5 * ROW)  # without scrolling to it
            page.screenshot(path=Path(__file__).with_name(f"page-{scheme}.png"))
            for name, choose in VIEWS.items():
                page = reader.open(path, color_scheme=scheme, viewport=LOW)
                choose(page)
                page.screenshot(path=Path(__file__).with_name(f"{name}-{scheme}.png"))
        reader.close()


def callers(page: Page) -> None:
    """Show the callers and callees of a function, in a window."""
    for name, slices in (("from", 20), ("to", 30)):
        slider = page.get_by_role("slider", name=name)
        for _ in range(slices):
            slider.press("ArrowRight" if name == "from" else "ArrowLeft")
    find(page, FUNCTION)
    page.keyboard.press("b")
    page.locator(".flame").evaluate("figure => figure.scrollIntoView()")


def code(page: Page) -> None:
    """Show the code of the hottest function of the scheduler with the samples of its lines."""
    held = page.locator('details.code[data-function^="distributed.scheduler:"]').first
    held.locator("summary").click()
    page.locator("details.code summary .dim").evaluate_all(  # paths of files
        "paths => paths.forEach(path => path.remove())"
    )
    held.evaluate("code => code.scrollIntoView()")


VIEWS: dict[str, Callable[[Page], None]] = {"callers": callers, "code": code}


if __name__ == "__main__":
    main(*sys.argv[1:])
