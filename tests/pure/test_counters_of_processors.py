"""Tests of what counts instructions, of what a counter says, and of why there is none."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_schedprof.agent import instructions as agent
from pytest_schedprof.agent.perf_events import instructions
from pytest_schedprof.backends import instructions as backend
from pytest_schedprof.backends.instructions import InstructionsBackend
from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.errors import (
    BackendNotPermittedError,
    BackendUnavailableError,
    FormatError,
    SettingsError,
)
from pytest_schedprof.measuring.plan import make_plan
from pytest_schedprof.measuring.settings import read_call
from pytest_schedprof.model.profile import CodeLocation

RECORDED = {
    "schedprof_instructions": 1,
    "instructions": 4_711_000_815,
    "enabled_ns": 1_300_000_000,
    "running_ns": 1_300_000_000,
}


def no_names(places: Sequence[CodeLocation]) -> list[str]:
    assert not places
    return []


def content(**changed: Any) -> bytes:
    return json.dumps({**RECORDED, **changed}).encode()


def made(by: str = "auto", *patterns: str) -> InstructionsBackend:
    return InstructionsBackend(rate_hz=100, options={"by": by}, patterns=patterns)


def test_a_count_is_the_cost_of_the_whole_unless_it_was_interrupted() -> None:
    profile = made().read(content(), no_names)
    assert profile.mode == "counter"
    assert profile.whole == {"instructions": 4_711_000_815}
    assert not profile.functions
    assert not profile.doubt
    assert "as a whole" in profile.hides
    assert made().suffix(content()) == "instructions.json"
    doubt = made().read(content(running_ns=325_000_000), no_names).doubt
    assert doubt.startswith("others took the processor's counter for 75% of the time")


@given(st.binary(max_size=60))
@example(content(instructions=0.5))
@example(content(enabled_ns=None))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match=r"not a file of (instructions|callgrind)"):
        made().read(data, no_names)


@pytest.mark.parametrize(
    ("by", "patterns", "is_lent", "can_be_emulated", "takes_valgrind"),
    [
        ("auto", (), True, True, False),
        ("auto", (), False, True, True),
        ("auto", ("c:list_sort*",), True, True, True),
        ("auto", ("@comm",), True, True, True),
        ("auto", ("c:list_sort*",), False, False, False),  # the refusal says more
        ("counter", ("c:list_sort*",), False, True, False),
        ("valgrind", (), True, False, True),
    ],
)
def test_what_counts(
    by: str,
    patterns: tuple[str, ...],
    is_lent: bool,
    can_be_emulated: bool,
    takes_valgrind: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "is_lent", lambda: is_lent)
    monkeypatch.setattr(agent, "can_be_emulated", lambda: can_be_emulated)
    assert ("valgrind" in made(by, *patterns).launcher) == takes_valgrind


@pytest.mark.parametrize(
    ("limits", "patterns"),
    [
        (("share(a:b) <= 30%", "instructions <= 5"), ()),  # no valgrind for a limit on a share
        (("instructions(a:b) <= 5", "instructions(@comm) <= 5"), ("a:b", "@comm")),
    ],
)
def test_a_backend_is_told_what_limits_on_its_own_metrics_name(
    limits: tuple[str, ...], patterns: tuple[str, ...]
) -> None:
    settings = read_call("a test", limits, {}, backend="instructions,pyspy")
    store = cast(Any, SimpleNamespace(prepare=lambda: None))
    (counting, _) = make_plan(settings, BackendRegistry(), store).backends
    assert isinstance(counting, InstructionsBackend)
    assert counting.patterns == patterns


def test_what_is_no_way_to_count_is_refused() -> None:
    words = r"option instructions\.by must be of auto, counter, valgrind, got 'perf'"
    with pytest.raises(SettingsError, match=words):
        made("perf")


@pytest.mark.parametrize(
    ("answer", "words", "remedy"),
    [
        (
            {"problem": "not-emulated"},
            "the scheduler was not started by it",
            "--schedprof-cluster=virtual",
        ),
        (
            {"problem": "system", "system": "Windows on AMD64"},
            "needs Linux on x86-64 or ARM, and the scheduler runs Windows on AMD64",
            "",
        ),
        (
            {"problem": "refused", "error": errno.ENOENT},
            "as most virtual machines",
            "valgrind counts without one",
        ),
        (
            {"problem": "refused", "error": errno.ENOSYS},
            "some sandboxes",
            "valgrind counts without one",
        ),
        (
            {"problem": "refused", "error": errno.EACCES, "paranoid": "4"},
            "perf_event_paranoid is 4",
            "sysctl kernel.perf_event_paranoid=2",
        ),
        (
            {"problem": "refused", "error": errno.EPERM, "paranoid": "2"},
            "a filter or policy refuses it",
            "--cap-add PERFMON",
        ),
    ],
)
def test_a_refusal_says_why_and_what_to_do(answer: dict[str, Any], words: str, remedy: str) -> None:
    error = made().refusal(answer, cast(Any, SimpleNamespace(label="the scheduler")), 1.0)
    assert isinstance(error, BackendUnavailableError)
    assert words in error.reason
    assert remedy in " ".join(error.remedies)
    is_forbidden = answer.get("error") in (errno.EACCES, errno.EPERM)
    assert isinstance(error, BackendNotPermittedError) == is_forbidden


def test_the_counter_is_of_instructions_in_user_space() -> None:
    kind, size, config, *_, flags = struct.unpack_from("=IIQQQQQ", instructions())
    assert (kind, config) == (0, 1)
    assert size == len(instructions()) == 112
    assert flags == 0b1100001  # off at first, without the kernel's and a hypervisor's
