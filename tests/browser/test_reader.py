"""Tests of the reader: it must notice faults, or no test of a page could fail by them."""

from __future__ import annotations

from pathlib import Path

from browsing import Reader
from playwright.sync_api import Browser

PAGE = """<!doctype html><img src="http://example.invalid/x.png"><img src="absent.png">
<script>console.error("as it should"); throw new Error("thrown")</script>"""


def test_network_missing_files_and_errors_are_faults(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text(PAGE)
    reader = Reader(browser)
    reader.open(tmp_path / "page.html").wait_for_load_state("load")
    reader.close()
    faults = "\n".join(reader.faults)
    for expected in ("asked the network for http://example", "absent.png", "as it", "thrown"):
        assert expected in faults
