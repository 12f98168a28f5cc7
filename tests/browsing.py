"""Headless Chromium without network access, for tests of pages."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    Request,
    Route,
    sync_playwright,
)
from support import HEADER, INI, python

NAMES = ("chromium", "chromium-browser", "google-chrome")

LOCAL = ("file:", "data:", "blob:")

ARGUMENTS = ("--no-sandbox", "--disable-background-networking", "--disable-gpu")
"""Chromium's own sandbox does not work for root, and CI runs as root."""

WIDTH, HEIGHT = 1280, 900

PATIENCE_MS = 120_000
"""How long a page may take to load, or to show what a test waits for, on a busy machine."""


def chromium() -> str:
    """Return the program; without one skip the test, or fail it in CI, which should install one."""
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        absent = f"none of {', '.join(NAMES)} is installed: apt-get install chromium"
        if "CI" in os.environ:
            pytest.fail(absent)
        pytest.skip(absent)
    return path


@contextmanager
def launched() -> Iterator[Browser]:
    """Yield the browser. Its event loop occupies this thread: start no other one meanwhile."""
    path = chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


SESSIONS = """
import json, os, sys
import pytest

for variables in json.loads(sys.argv[1]):
    os.environ.update(variables)
    if status := pytest.main(sys.argv[2:]):
        sys.exit(status)
"""


def ran(
    project: Path, body: str, *arguments: str, turns: Sequence[dict[str, str]] = ({},)
) -> list[Path]:
    """Run sessions in a subprocess, one with each of these variables in its environment.

    Returns the directories of their runs.
    """
    (project / "pytest.ini").write_text(INI)
    (project / "test_it.py").write_text(HEADER + body)
    python("-c", SESSIONS, json.dumps(turns), *arguments, cwd=project)
    return sorted((project / ".schedprof").glob("2*"))


def find(page: Page, function: str) -> None:
    """Move to the first box of a function in a flame graph."""
    search = page.locator(".search")
    search.fill(function)
    search.press("Enter")
    page.locator("canvas.main").focus()


def words_of_box(page: Page) -> str:
    """Return what a page tells of the box with the focus."""
    return page.locator(".told").inner_text()


class Reader:
    """Opens pages from disk and records faults: errors, dialogs, and requests to the network."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[BrowserContext] = []
        self.faults: list[str] = []

    def open(self, path: Path, **settings: Any) -> Page:
        """Open a page in a window of its own; settings are those of a Playwright context."""
        return self.open_address(path.as_uri(), **settings)

    def open_address(self, address: str, **settings: Any) -> Page:
        """Open a page by its address, which may tell a view."""
        settings.setdefault("viewport", {"width": WIDTH, "height": HEIGHT})
        context = self._browser.new_context(**settings)
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        context.set_offline(True)
        context.route("**/*", self._route)
        page = context.new_page()
        page.on("console", self._note)
        page.on("dialog", self._dismiss)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("requestfailed", self._failed)
        page.goto(address)
        return page

    def close(self) -> None:
        """Close all windows."""
        for context in self._contexts:
            context.close()

    def _route(self, route: Route) -> None:
        if route.request.url.startswith(LOCAL):
            route.continue_()
        else:
            self.faults.append(f"asked the network for {route.request.url}")
            route.abort()

    def _failed(self, request: Request) -> None:
        self.faults.append(f"could not load {request.url}: {request.failure}")

    def _dismiss(self, dialog: Dialog) -> None:
        self.faults.append(f"opened a dialog: {dialog.message}")
        dialog.dismiss()

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.faults.append(f"error: {message.text}")
