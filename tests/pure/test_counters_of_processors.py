"""Tests of what a processor's counter told, and of why there is none."""

from __future__ import annotations

import errno
import json
import struct
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_schedprof.agent.perf_events import instructions
from pytest_schedprof.backends.perfcount import PerfcountBackend, PerfcountFile, refusal
from pytest_schedprof.errors import BackendNotPermittedError, FormatError
from pytest_schedprof.formats import read_json
from pytest_schedprof.model.profile import CodeLocation

RECORDED = {
    "schedprof_perfcount": 1,
    "instructions": 4_711_000_815,
    "enabled_ns": 1_300_000_000,
    "running_ns": 1_300_000_000,
}


def no_names(places: Sequence[CodeLocation]) -> list[str]:
    assert not places
    return []


def content(**changed: Any) -> bytes:
    return json.dumps({**RECORDED, **changed}).encode()


def test_a_complete_count_is_the_cost_of_the_whole() -> None:
    backend = PerfcountBackend(rate_hz=100, options={})
    profile = backend.read(content(), no_names)
    assert profile.whole == {"instructions": 4_711_000_815}
    assert not profile.functions
    assert not profile.doubt
    assert "as a whole" in profile.hides


def test_a_count_that_was_interrupted_judges_nothing() -> None:
    profile = PerfcountBackend(rate_hz=100, options={}).read(
        content(running_ns=325_000_000), no_names
    )
    assert profile.doubt.startswith("others took the processor's counter for 75% of the time")


@pytest.mark.parametrize("changed", [{"instructions": 0.5}, {"enabled_ns": None}])
def test_a_count_of_another_type_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match="not a file of perfcount"):
        read_json(content(**changed), PerfcountFile, "perfcount")


@given(st.binary(max_size=60))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="not a file of perfcount"):
        read_json(data, PerfcountFile, "perfcount")


@pytest.mark.parametrize(
    ("answer", "words", "remedy"),
    [
        (
            {"problem": "system", "system": "Windows on AMD64"},
            "needs Linux on x86-64 or ARM, and the scheduler runs Windows on AMD64",
            "callgrind",
        ),
        ({"problem": "refused", "error": errno.ENOENT}, "as most virtual machines", "callgrind"),
        ({"problem": "refused", "error": errno.ENOSYS}, "some sandboxes", "callgrind"),
        ({"problem": "refused", "error": errno.EINVAL}, "the system says EINVAL", "callgrind"),
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
    error = refusal(answer, "the scheduler")
    assert words in error.reason
    assert remedy in " ".join(error.remedies)
    is_forbidden = answer.get("error") in (errno.EACCES, errno.EPERM)
    assert isinstance(error, BackendNotPermittedError) == is_forbidden


def test_the_counter_is_of_instructions_in_user_space() -> None:
    kind, size, config, *_, flags = struct.unpack_from("=IIQQQQQ", instructions())
    assert (kind, config) == (0, 1)
    assert size == len(instructions()) == 112
    assert flags == 0b1100001  # off at first, without the kernel's and a hypervisor's
