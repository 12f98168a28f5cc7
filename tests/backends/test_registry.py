"""Backends of the package and of the hook, in one registry."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from test_contract import BACKENDS, ELSEWHERE, TELLING_NO_FUNCTION, marked

from pytest_schedprof.backends.contract import Backend, facts_of
from pytest_schedprof.backends.cputime import CpuTimeBackend
from pytest_schedprof.backends.registry import BUILTIN, BackendRegistry
from pytest_schedprof.backends.remote import RemoteBackend
from pytest_schedprof.clusters.in_process import InProcess
from pytest_schedprof.errors import (
    BackendInvalidError,
    BackendUnavailableError,
    BackendUnknownError,
    SchedprofError,
    SettingsError,
)
from pytest_schedprof.model.backend import BackendFacts, rank_of, recommended
from pytest_schedprof.model.metric import METRICS


class Other(CpuTimeBackend):
    """A backend that a hook adds."""

    name = "found"


@pytest.mark.parametrize("name", BUILTIN)
def test_each_built_in_backend_declares_what_a_third_partys_must(name: str) -> None:
    facts = BackendRegistry().facts_of(name)
    assert facts.name == name
    assert facts.measures <= METRICS.keys()
    assert all(
        isinstance(getattr(facts, name_of_fact), kind) for name_of_fact, kind in KINDS.items()
    )
    assert all(artifact.ending.startswith(f"{name}.") for artifact in facts.artifacts)


KINDS: dict[str, Any] = {
    "rank": int | None,
    "artifacts": tuple,
    "measures": frozenset,
    "sees_threads": bool,
    "disturbs": bool,
    "needs": tuple,
}


def test_ranks_and_endings_are_each_of_one_backend() -> None:
    known = BackendRegistry().facts
    ranks = [facts.rank for facts in known.values() if facts.rank is not None]
    endings = [artifact.ending for facts in known.values() for artifact in facts.artifacts]
    assert len(ranks) == len(set(ranks))
    assert len(endings) == len(set(endings))
    assert recommended(known.values())[0] == "cputime"
    assert rank_of("tachyon", known) == rank_of("of a later release", known) == float("inf")


def test_what_is_declared_is_read_without_making_a_backend() -> None:
    class Unmade(CpuTimeBackend):
        name = "unmade"

        def __init__(
            self, *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str] = ()
        ) -> None:
            raise AssertionError("a backend was made")

    registry = BackendRegistry([{"unmade": Unmade}])
    registry.check(["unmade"])
    assert registry.options_of("unmade") == {"formats"}
    assert registry.facts["unmade"].rank == CpuTimeBackend.rank


REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("counts", {"bytecodes": "perhaps"}, "counts.bytecodes must be true or false, got 'perhaps'"),
    ("counts", {"depth": 3}, "backend 'counts' has no option 'depth'"),
    ("counts", {"modules": 3}, "counts.modules must be"),
    ("cputime", {"native": True}, "has no option 'native'; known: formats"),
    ("instructions", {"by": "perf"}, "by must be one of auto, counter, valgrind, got 'perf'"),
    ("memray", {"follow_fork": True}, "known: native, trace_python_allocators"),
    ("pyspy", {"formats": ["svg"]}, "pyspy.formats must be one of flamegraph, raw, "),
    ("tachyon", {"blocking": True}, "backend 'tachyon' has no option 'blocking'"),
    ("tachyon", {"formats": "png"}, "tachyon.formats must be one of"),
    ("tachyon", {"mode": "idle"}, "must be one of cpu, wall, gil, exception, got 'idle'"),
    ("tachyon", {"tasks": "all"}, "tachyon.tasks needs tachyon.mode=wall, got mode 'cpu'"),
    ("tachyon", {"tasks": "some"}, "tachyon.tasks must be one of running, all, got 'some'"),
    ("viztracer", {"entries": 1}, "has no option 'entries'"),
    ("viztracer", {"format": "xml"}, "must be one of json, json.gz, html, got 'xml'"),
    ("viztracer", {"include_files": "/a", "exclude_files": "/b"}, "viztracer.exclude_files excl"),
    ("viztracer", {"min_duration": "short"}, "viztracer.min_duration must be a number"),
    ("viztracer", {"tracer_entries": "0"}, "viztracer.tracer_entries must be above 0, got 0"),
    ("viztracer", {"tracer_entries": "many"}, "viztracer.tracer_entries must be a whole number"),
]


@pytest.mark.parametrize(("name", "options", "words"), REFUSED)
def test_an_option_that_cannot_be_is_one_clear_error(
    name: str, options: dict[str, object], words: str
) -> None:
    with pytest.raises(SettingsError, match=f"schedprof: .*{re.escape(words)}"):
        BackendRegistry().make(name, rate_hz=100, options=options)


@pytest.mark.parametrize(
    ("name", "rate_hz", "words"),
    [
        ("pyspy", 0.4, "at least one sample per second, got rate 0.4"),
        ("tachyon", 0.5, "takes 1 to 10000 samples per second, got rate 0.5"),
        ("tachyon", 20_000, "takes 1 to 10000 samples per second, got rate 20000"),
    ],
)
def test_a_rate_that_cannot_be_is_refused(name: str, rate_hz: float, words: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(words)):
        BackendRegistry().make(name, rate_hz=rate_hz, options={})


def test_a_factory_that_is_no_class_makes_one_for_that() -> None:
    def factory(
        *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str]
    ) -> Backend:
        return CpuTimeBackend(rate_hz=rate_hz, options=options)

    registry = BackendRegistry([{"made": factory}])
    assert registry.options_of("made") == {"formats"}
    assert registry.make("made", rate_hz=50, options={}).name == "cputime"


def test_a_factory_that_makes_none_without_options_hides_no_other_backend() -> None:
    def factory(
        *, rate_hz: float, options: Mapping[str, object], patterns: Sequence[str]
    ) -> Backend:
        if not options:
            raise SettingsError("schedprof: 'made' needs the option formats")
        return CpuTimeBackend(rate_hz=rate_hz, options=options)

    registry = BackendRegistry([{"made": factory}])
    assert registry.make("made", rate_hz=50, options={"formats": "raw"}).name == "cputime"
    assert set(registry.facts) == set(BUILTIN)
    with pytest.raises(SettingsError, match="needs the option formats"):
        registry.facts_of("made")


def test_a_factory_that_raises_is_one_clear_error_and_its_backend_is_missing() -> None:
    def factory(**given: object) -> Backend:
        raise ImportError("no module of that name")

    registry = BackendRegistry([{"made": factory}])
    with pytest.raises(BackendInvalidError, match="'made' cannot be used: making it raised Import"):
        registry.make("made", rate_hz=50, options={})
    assert set(registry.facts) == set(BUILTIN)


def test_the_hook_wins_over_a_built_in_backend_and_adds_others() -> None:
    registry = BackendRegistry([{"cputime": Other}, {"found": Other}])
    assert type(registry.make("cputime", rate_hz=50, options={})) is Other
    assert type(registry.make("found", rate_hz=50, options={})) is Other
    assert registry.names == (*BUILTIN, "found")


def test_a_class_is_refused_when_it_is_made_without_what_must_be_declared() -> None:
    lacks = "lacks rank, artifacts, measures, sees_threads, disturbs, needs, drift"
    with pytest.raises(TypeError, match=f"Bare {lacks}$"):

        class Bare(Backend):
            name = "bare"

    with pytest.raises(TypeError, match="rank must be class attributes, not properties"):

        class Late(CpuTimeBackend):
            @property
            def rank(self) -> int:  # type: ignore[override]
                return 7


class NoMethods(RemoteBackend):
    """A backend that cannot read what it recorded."""

    name, rank, artifacts, measures = "found", None, (), frozenset()
    sees_threads = disturbs = True


@pytest.mark.parametrize(
    ("added", "fault"),
    [
        (dict, "<class 'dict'> does not derive from pytest_schedprof."),
        (NoMethods, "NoMethods lacks read; see docs/write-a-backend.md"),
    ],
)
def test_one_that_cannot_be_used_is_one_clear_error_when_it_is_asked_for(
    added: Any, fault: str
) -> None:
    registry = BackendRegistry([{"found": added}])
    registry.check(["cputime", "pyspy"])
    with pytest.raises(BackendInvalidError) as caught:
        registry.check(["found"])
    label = "'found' (from the hook pytest_schedprof_backends)"
    assert str(caught.value).startswith(f"schedprof: backend {label} cannot be used: ")
    assert fault in str(caught.value)
    assert "\n" not in str(caught.value)
    assert registry.facts.get("found") is None
    assert set(registry.facts) == set(BUILTIN)


@pytest.mark.parametrize("name", [*map(marked, BACKENDS + TELLING_NO_FUNCTION)])
def test_garbage_is_no_profile(name: str) -> None:
    backend = BackendRegistry().make(name, rate_hz=200, options={})
    for content in (b"", b"{}", b"\x00\xff", b'{"shared": {"frames": []}, "profiles": [7]}'):
        with pytest.raises(SchedprofError, match="schedprof: not a"):
            backend.read(content, lambda places: [])


def test_a_class_or_factory_that_measures_no_metric_is_refused() -> None:
    class Measuring(CpuTimeBackend):
        measures = frozenset({"share", "lateness"})

    for added in (Measuring, lambda **given: Measuring(**given)):
        with pytest.raises(BackendInvalidError, match=r"'late' .*lateness, which is no metric"):
            BackendRegistry([{"late": added}]).make("late", rate_hz=100, options={})


def test_an_unknown_name_is_told_those_that_are_known() -> None:
    known = ", ".join(BUILTIN)
    with pytest.raises(BackendUnknownError, match=f"did you mean 'pyspy'..; known: {known}$"):
        BackendRegistry().check(["pyspi"])
    assert BackendRegistry().facts.get("pyspi") is None


def test_facts_are_the_class_attributes_of_the_same_names() -> None:
    facts = facts_of(CpuTimeBackend)
    names = BackendFacts.__struct_fields__
    assert facts == BackendFacts(**{name: getattr(CpuTimeBackend, name) for name in names})


def test_what_is_of_a_whole_process_is_not_told_of_that_of_the_test() -> None:
    process = InProcess()
    with pytest.raises(BackendUnavailableError, match="process of its own"):
        BackendRegistry().make("stalls", rate_hz=100, options={}).start(process, timeout_s=10)
    process.leave(())


def test_every_builtin_is_held_to_the_contract() -> None:
    known = {*BACKENDS, *TELLING_NO_FUNCTION, *ELSEWHERE}
    assert set(BUILTIN) == known, "add it to one of the lists of test_contract.py"
