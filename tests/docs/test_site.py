"""The documentation site has every public name, and its links lead out of docs/ correctly."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

import pytest_schedprof

ROOT = Path(__file__).parents[2]
REPOSITORY = "https://example.org/project"
CONFIG = {"extra": {"repository": REPOSITORY}}


@pytest.fixture
def hook() -> ModuleType:
    """The module that mkdocs loads."""
    spec = importlib.util.spec_from_file_location("site_links", ROOT / "docs" / "site_links.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", sorted({*pytest_schedprof.__all__} - {"__version__"}))
def test_every_public_name_is_in_the_reference(name: str) -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert f"\n::: pytest_schedprof.{name}\n" in page


def test_every_page_is_in_the_navigation() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r"^ +- .*: ([\w-]+\.md)$", text, re.MULTILINE)
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert len(listed) == len({*listed})
    assert pages - {*listed} == set()


@pytest.mark.parametrize(
    ("link", "target"),
    [
        ("../CONTRIBUTING.md", f"{REPOSITORY}/blob/main/CONTRIBUTING.md"),
        ("../tests/docs", f"{REPOSITORY}/tree/main/tests/docs"),
        ("../README.md#use-it", f"{REPOSITORY}/blob/main/README.md#use-it"),
        ("../no-such-file.md", "../no-such-file.md"),
        ("limits.md", "limits.md"),
        ("https://docs.pytest.org", "https://docs.pytest.org"),
    ],
)
def test_links_that_leave_docs_lead_to_the_repository(
    hook: ModuleType, link: str, target: str
) -> None:
    page = SimpleNamespace(url="pages/")
    assert hook.on_page_markdown(f"See [it]({link}).", page, CONFIG) == f"See [it]({target})."


@pytest.mark.parametrize(("url", "above"), [("", ""), ("pages/", "../")])
def test_pictures_in_html_are_found_from_every_page(hook: ModuleType, url: str, above: str) -> None:
    written = '<source srcset="a-dark.png"><img src="a-light.png" alt="b">'
    page = hook.on_page_markdown(written, SimpleNamespace(url=url), CONFIG)
    assert page == f'<source srcset="{above}a-dark.png"><img src="{above}a-light.png" alt="b">'


def test_every_picture_of_a_page_is_there() -> None:
    for page in (ROOT / "docs").glob("*.md"):
        for name in re.findall(r'src(?:set)?="([^"]+\.png)"', page.read_text(encoding="utf-8")):
            assert (ROOT / "docs" / name).is_file()
