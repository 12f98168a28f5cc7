"""Annotations for the lines of a pull request: GitHub's workflow commands, GitLab's report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

import msgspec

from pytest_schedprof.errors import printable
from pytest_schedprof.model.remark import Annotation
from pytest_schedprof.model.verdict import Verdict

MOST = 10
"""Errors, and warnings, that GitHub shows of one step."""

COMMANDS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning"}
SEVERITIES = {Verdict.FAIL: "major", Verdict.INCONCLUSIVE: "info"}
CHECKS = {Verdict.FAIL: "schedprof-regression", Verdict.INCONCLUSIVE: "schedprof-undecided"}


def as_commands(annotations: Sequence[Annotation]) -> Iterator[str]:
    """Yield a workflow command for each annotation, and a notice if some are left out."""
    for verdict, name in COMMANDS.items():
        mine = [each for each in annotations if each.remark.verdict is verdict]
        yield from map(_command, mine[:MOST])
        if len(mine) > MOST:
            yield command("notice", f"{len(mine) - MOST} more {name}s: see the summary")


def _command(each: Annotation) -> str:
    place = {"file": each.file, "line": str(each.first), "endLine": str(each.last)}
    return command(COMMANDS[each.remark.verdict], each.remark.text, **place, title=_title(each))


def _title(each: Annotation) -> str:
    return f"Scheduler performance, {each.remark.test_id}"


def command(name: str, text: str, **properties: str) -> str:
    """Return a workflow command, which no text can end or add a property to."""
    told = ",".join(f"{key}={_escaped(value, ':,')}" for key, value in properties.items())
    return f"::{name}{' ' if told else ''}{told}::{_escaped(text)}"


def _escaped(text: str, more: str = "") -> str:
    """Escape what ends a command or a property; `%` first, which begins the escapes."""
    for each in f"%\r\n{more}":
        text = text.replace(each, f"%{ord(each):02X}")
    return printable(text, keep="")


def as_code_quality(annotations: Iterable[Annotation]) -> str:
    """Return GitLab's report of code quality, which shows each annotation in the merge request."""
    entries = {_fingerprint(each): each for each in annotations}
    found = [_entry(fingerprint, each) for fingerprint, each in entries.items()]
    return msgspec.json.format(msgspec.json.encode(found), indent=2).decode()


def _entry(fingerprint: str, each: Annotation) -> dict[str, object]:
    return {
        "description": printable(f"{each.remark.test_id}: {each.remark.text}", keep=""),
        "check_name": CHECKS[each.remark.verdict],
        "fingerprint": fingerprint,
        "severity": SEVERITIES[each.remark.verdict],
        "location": {"path": each.file, "lines": {"begin": each.first, "end": each.last}},
    }


def _fingerprint(each: Annotation) -> str:
    """Return what GitLab knows an entry by in the next pipeline, so without figures and lines."""
    remark = each.remark
    known = (remark.verdict.value, remark.test_id, remark.function or remark.text, each.file)
    return blake2b("\0".join(known).encode("utf-8", "replace"), digest_size=16).hexdigest()
