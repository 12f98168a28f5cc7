"""Tests of damaged and hostile records: no traceback, nothing outside of the run, no markup."""

from __future__ import annotations

import io
import os
import random
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import ESCAPES, HOSTILE, changed_bytes, changed_value, damage, write_runs

from pytest_schedprof.cli.main import main
from pytest_schedprof.errors import ArtifactError, BaselineError, SchedprofError, printable
from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import BaselinePart, Run
from pytest_schedprof.report.junit import properties_of
from pytest_schedprof.report.markup import Line
from pytest_schedprof.report.summary import run_markdown
from pytest_schedprof.store.baselines import load
from pytest_schedprof.store.places import Folder, inside, is_below, read_kept
from pytest_schedprof.store.records import decode, read_record
from pytest_schedprof.store.run_directory import RunDirectory

RECORDS = (Result, Run, BaselinePart)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and a baseline without fault."""
    root = tmp_path_factory.mktemp("whole") / "runs"
    write_runs(root)
    return root


@pytest.fixture
def runs(whole: Path, tmp_path: Path) -> Path:
    """A copy of them to damage."""
    return Path(shutil.copytree(whole, tmp_path / "runs"))


def commands(root: Path) -> list[list[str]]:
    old, *_, new = map(str, sorted(root.glob("2026*")))
    place = ["--dir", str(root)]
    return [
        ["show", "test_0", "--run", new, "-v"],
        ["compare", old, new, "-v", *place],
        ["compare", old, new, "--markdown", *place],
        ["compare", "main", new, "--json", *place],
        ["compare", "latest", new, *place],
        ["history", str(root), "--all"],
        ["history", str(root), "--all", "--markdown"],
        ["history", str(root), "--json"],
        ["open", "--write", "--run", new, "--history", "--against", old],
    ]


@pytest.mark.parametrize("change", [changed_value, changed_bytes])
@given(seed=st.integers(0, 2**32))
@settings(
    max_examples=settings().max_examples // 3,  # each of them runs commands
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_a_damaged_record_gives_no_traceback_and_no_control_character(
    whole: Path,
    change: Callable[[random.Random, bytes], bytes],
    capsys: pytest.CaptureFixture[str],
    seed: int,
) -> None:
    chance = random.Random(seed)
    with TemporaryDirectory() as place:
        root = Path(shutil.copytree(whole, Path(place, "runs")))
        newest = sorted(root.glob("2026*"))[-1]
        files = list((newest if seed % 3 else root).rglob("*.json"))
        for _ in range(chance.choice([1, 1, 3])):
            damage(chance, files, change)
        for command in chance.sample(commands(root), 2):
            assert main(command) in (0, 1, 2, 3)
            said = "".join(capsys.readouterr())
            assert said.replace("\n", "").isprintable()
        assert {path.name for path in root.parent.iterdir()} == {"runs"}


@given(seed=st.integers(0, 2**32))
def test_a_record_that_does_not_fit_raises_an_error_of_our_own(whole: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = sorted(whole.rglob("*.json"))
    content = changed_value(chance, chance.choice(files).read_bytes())
    for kind in RECORDS:
        said = complaint(content, kind)
        assert said.startswith("schedprof: 'a file' ") or not said
        assert said.isprintable()


def complaint(content: bytes, kind: type[Any]) -> str:
    """Return the message of the error, or nothing if the content is such a record."""
    try:
        decode(content, "a file", kind)
    except ArtifactError as error:
        return str(error)
    return ""


def hostile(run: Path) -> None:
    """Put hostile text into every text of a run that may be any."""
    for file in run.rglob("result.json"):
        content = msgspec.json.decode(file.read_bytes())
        file.write_bytes(msgspec.json.encode(_poisoned(content)))
    file = run / "run.json"
    content = msgspec.json.decode(file.read_bytes())
    for test in content["tests"]:
        test |= {"test_id": test["test_id"] + HOSTILE, "outcome": HOSTILE}
    content["commit"] |= {"sha": HOSTILE, "branch": HOSTILE}
    file.write_bytes(msgspec.json.encode(content))


CHOSEN = {"metric", "outcome", "role", "verdict", "unit", "of"}
CHOSEN |= {"started_at", "inference", "scheduler_python", "origin", "artifacts"}
"""Fields that have one of a few values, or name files."""


def _poisoned(value: object, key: str = "") -> object:
    if isinstance(value, dict):
        return {name: _poisoned(item, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_poisoned(item, key) for item in value]
    if not isinstance(value, str) or key in CHOSEN:
        return value
    return value + HOSTILE


def test_hostile_text_reaches_no_terminal_no_table_and_no_page_as_markup(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for run in sorted(runs.glob("2026*")):
        hostile(run)
    for command in commands(runs):
        # The baseline has no test of these names.
        assert main(command) in ((2,) if "main" in command or "latest" in command else (0, 1))
        said, complaints = capsys.readouterr()
        for text in (said, complaints):
            assert text.replace("\n", "").isprintable()
        if "--markdown" in command:
            check_markdown(said)
    results = [read_record(file, Result) for file in sorted(run.rglob("result.json"))]
    check_markdown(run_markdown(results, str(run)))
    pages = list(run.rglob("index.html"))
    assert len(pages) == 3
    for page in pages:
        check_page(page.read_text())
    assert all(name for result in results for name, _ in properties_of(result, run))


def check_markdown(text: str) -> None:
    """Check that every row has the cells of its head, and nothing of a record is markup."""
    width = 0
    for line in text.splitlines():
        bare = re.sub(r"\\.", "", line)
        cells = bare.count("|")
        is_row = line.startswith("|")
        width = (width or cells) if is_row else 0
        assert cells == width, line
        code_free = re.sub(r"`[^`]*`", "", bare)
        tags = set(re.findall("<[^>]*>", code_free))
        known = {"<br>", "<code>", "</code>", "<!-- -->", "<details>", "</details>"}
        assert tags <= known | {"<summary>", "</summary>"}, line
        assert "](" not in code_free
        assert not re.search(r"@(?!<!-- -->)\w", code_free)
    assert text.replace("\n", "").isprintable()


class Tags(HTMLParser):
    """Collects what a browser would run."""

    def __init__(self) -> None:
        super().__init__()
        self.scripts: list[str] = []
        self.links: list[str] = []
        self.in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not [name for name, _ in attrs if name.startswith("on")]
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        self.in_script = tag == "script"

    def handle_endtag(self, tag: str) -> None:
        self.in_script = False

    def handle_data(self, data: str) -> None:
        if self.in_script:
            self.scripts.append(data)


def check_page(text: str) -> None:
    """Check that no script and no link comes from a record."""
    tags = Tags()
    tags.feed(text)
    assert not [script for script in tags.scripts if script.strip() == "alert(1)"]
    assert not [link for link in tags.links if link.startswith("javascript:")]


def test_a_directory_outside_of_the_run_is_refused_wherever_it_is_read(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sorted(runs.glob("2026*"))[-1]
    file = run / "run.json"
    whole = file.read_bytes()
    victim = run.parent.parent / "x"
    shutil.copytree(run / "tests" / "t0", victim)
    for name in ("../../x", str(victim), "tests/../../../x", "a\\..\\..\\x", "/", ".."):
        file.write_bytes(whole.replace(b'"tests/t0"', msgspec.json.encode(name)))
        for command in (
            ["open", "--write", "--run", str(run)],
            ["show", "test_0", "--run", str(run)],
        ):
            assert main(command) == 1
        assert "is outside of the run" in capsys.readouterr().err
    assert not (victim / "index.html").exists()


def test_a_link_that_leads_out_of_the_run_is_not_followed(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = sorted(runs.glob("2026*"))[-1]
    victim = runs.parent / "victim"
    shutil.move(run / "tests" / "t0", victim)
    (run / "tests" / "t0").symlink_to(victim)
    assert main(["open", "--write", "--run", str(run)]) == 0
    assert not (victim / "index.html").exists()
    assert main(["show", "test_0", "--run", str(run)]) == 1
    assert "is not inside of" in capsys.readouterr().err
    assert "is not inside of" in (run / "index.html").read_text()


def test_report_follows_no_link_that_lies_in_wait(runs: Path) -> None:
    run = sorted(runs.glob("2026*"))[-1]
    victim = runs.parent / "victim"
    victim.write_text("mine")
    for place in (run, run / "tests" / "t0"):
        for name in ("index.html", "index.html.part"):
            (place / name).symlink_to(victim)
    assert main(["open", "--write", "--run", str(run)]) == 0
    assert victim.read_text() == "mine"


def test_only_places_below_a_directory_are_inside_of_it(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "loop").symlink_to(tmp_path / "a" / "loop")
    assert inside(tmp_path, "a/b") == tmp_path / "a" / "b"
    for name in ("", ".", "..", "a/../../b", "/etc", "//host/x", "\0", "a\\..\\b"):
        assert not is_below(name) or name == "."
        with pytest.raises(ArtifactError, match="is not inside of"):
            inside(tmp_path / "a", name)


@pytest.mark.parametrize("kind", ["device", "pipe", "directory", "NUL", "long"])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    places = {
        "device": Path("/dev/zero"),
        "pipe": tmp_path / "pipe",
        "directory": tmp_path,
        "NUL": tmp_path / "a\0b",
        "long": tmp_path / ("a" * 5000),
    }
    os.mkfifo(places["pipe"])
    with pytest.raises(ArtifactError, match="cannot read"):
        read_kept(places[kind])
    for spec in (str(places[kind]), f"file://{places[kind]}"):
        with pytest.raises(SchedprofError):
            load(spec, str(tmp_path / "none"))


def test_a_number_that_is_too_large_makes_a_record_corrupt(whole: Path) -> None:
    file = next(iter(sorted(whole.rglob("result.json"))))
    content = file.read_bytes()
    for number in (b"1e19", b"9" * 19, b"9" * 400, b"-1e300", b"1e400", b"\t1e300"):
        broken = re.sub(rb'"confidence": [0-9.]+', b'"confidence": ' + number, content)
        with pytest.raises(ArtifactError, match="is corrupt"):
            decode(broken, "a file", Result)
    sha = content.replace(b"0.95", b'0.95, "added": "' + b"9e99" * 10 + b'"')
    assert decode(sha, "a file", Result)


@pytest.mark.parametrize("name", ["a::b", "simplecache::x", "local:x", "~", "a[1]*"])
def test_any_directory_can_have_baselines_and_runs(
    whole: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = Path(shutil.copytree(whole, tmp_path / name))
    newest = str(sorted(root.glob("2026*"))[-1])
    assert main(["compare", "main", newest, "--dir", str(root)]) in (0, 1)
    assert main(["history", str(root)]) == 0
    Folder(str(root / "new.json")).write(b"{}")
    assert Folder(str(root / "new.json")).read() == b"{}"
    assert not capsys.readouterr().err


def test_two_dots_are_a_path_and_no_name_of_a_baseline(tmp_path: Path) -> None:
    with pytest.raises(BaselineError):
        load("..", str(tmp_path / "a" / "b"))
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize("command", ["open", "history", "compare"])
def test_a_directory_with_a_name_too_long_is_told(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = {"compare": ["main"], "open": ["--write", "--run"]}
    assert main([command, *more.get(command, []), "a" * 5000]) in (1, 2)
    assert capsys.readouterr().err.startswith("schedprof: ")


def test_text_for_a_terminal_is_escaped_as_json_escapes_it() -> None:
    assert printable("a\n\tb é ✅ 你") == "a\n\tb é ✅ 你"
    for character in (*ESCAPES, "\udcff", "\u2028"):
        shown = printable(f'"{character}"', keep="")
        assert shown.isprintable()
        assert shown.isascii()
    assert printable('"é😀"', "ascii") == r'"\u00e9\ud83d\ude00"'
    assert msgspec.json.decode(printable('"é😀\x9b"', "ascii")) == "é😀\x9b"
    assert Line("a\nb\x1b[0m").text == r"a\u000ab\u001b[0m"
    assert str(ArtifactError("a\x1bb")) == r"a\u001bb"


@pytest.mark.parametrize("more", [[], ["--markdown"], ["--json"]])
def test_a_terminal_of_any_encoding_gets_what_it_can_show(
    whole: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    old, *_, new = map(str, sorted(whole.glob("2026*")))
    for encoding in ("ascii", "latin-1", "utf-8"):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
        assert main(["compare", old, new, *more]) == 1
        text = raw.getvalue().decode(encoding)
        if more == ["--json"]:
            assert msgspec.json.decode(text)["verdict"] == "fail"
        if more == ["--markdown"]:
            assert text.startswith("### \u274c" if encoding == "utf-8" else r"### \u274c")


def test_a_run_below_a_name_too_long_is_told() -> None:
    with pytest.raises(ArtifactError, match=r"cannot write '.*': File name too long; make room"):
        RunDirectory(Path("a" * 5000), "run").prepare()
