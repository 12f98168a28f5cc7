"""Tests of precedence for every option: marker > command line > ini > default; no test is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from support import Project

from pytest_schedprof.measuring.options import OPTIONS, option_named
from pytest_schedprof.measuring.settings import ANY_BACKEND, Settings, overlay, read_session


@dataclass(frozen=True)
class Case:
    """Values of one option as ini, command line and marker, and what each of them means."""

    name: str
    ini: str
    cli: list[str]
    marker: Any
    meanings: tuple[Any, Any, Any]


CASES = [
    Case("backend", "a, b", ["--schedprof=c"], "d", (("a", "b"), ("c",), ("d",))),
    Case("strict", "true", ["--no-schedprof-strict"], True, (True, False, True)),
    Case("check", "true", ["--no-schedprof-check"], True, (True, False, True)),
    Case("rate", "50", ["--schedprof-rate=60"], 70, (50.0, 60.0, 70.0)),
    Case("workers", "2", ["--schedprof-workers=3"], 5, (2, 3, 5)),
    Case("threads", "2", ["--schedprof-threads=3"], 5, (2, 3, 5)),
    Case("workload", "a", ["--schedprof-workload=b"], "c", ("a", "b", "c")),
    Case("rounds", "2", ["--schedprof-rounds=3"], 5, (2, 3, 5)),
    Case("seeds", "2", ["--schedprof-seeds=3"], 5, (2, 3, 5)),
    Case("timeout", "2", ["--schedprof-timeout=3.5"], 5, (2.0, 3.5, 5.0)),
    Case("budget", "2", ["--schedprof-budget=3.5"], 5, (2.0, 3.5, 5.0)),
    Case("keep", "20MB", ["--schedprof-keep=0"], "all", (20_000_000, 0, None)),
    Case("tolerance", "5%", ["--schedprof-tolerance=2.5%"], "0%", (0.05, 0.025, 0.0)),
    Case("scale", "20, 10", ["--schedprof-scale=3"], [5, 7], ((10, 20), (3,), (5, 7))),
    Case(
        "evidence",
        "span, memory",
        ["--schedprof-evidence=all"],
        ["tasks"],
        (("span", "memory"), ("all",), ("tasks",)),
    ),
    Case(
        "cluster",
        "tcp://a:1",
        ["--schedprof-cluster=tcp://b:2"],
        "local",
        ("tcp://a:1", "tcp://b:2", "local"),
    ),
]


def settings(pytester: pytest.Pytester, ini: str | None, *arguments: str) -> Settings:
    pytester.makeini(f"[pytest]\n{ini or ''}\n")
    return read_session(pytester.parseconfig(*arguments))


def marked(session: Settings, *limits: str, **keywords: Any) -> Settings:
    return overlay(session, [pytest.mark.schedprof(*limits, **keywords).mark])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_closer_form_wins(pytester: pytest.Pytester, case: Case) -> None:
    option = option_named(case.name)
    ini = f"{option.ini_name} = {case.ini}"
    by_ini, by_cli, by_marker = case.meanings

    def value(settings: Settings) -> Any:
        return getattr(settings, case.name)

    assert value(settings(pytester, None)) == option.default
    assert value(settings(pytester, ini)) == by_ini
    assert value(settings(pytester, None, *case.cli)) == by_cli
    assert value(settings(pytester, ini, *case.cli)) == by_cli
    keywords = {case.name: case.marker}
    assert value(marked(settings(pytester, ini), **keywords)) == by_marker
    with_all = marked(settings(pytester, ini, *case.cli), **keywords)
    assert value(with_all) == (by_cli if case.name == "backend" else by_marker)


def test_every_option_has_a_case() -> None:
    apart = {"dir", "runs", "limit", "option", "cluster_option", "save", "compare", "against"}
    assert {case.name for case in CASES} | apart == {option.name for option in OPTIONS}


def test_limits_add_up_and_the_closer_replaces_the_same_metric_and_pattern(
    pytester: pytest.Pytester,
) -> None:
    session = settings(
        pytester,
        "schedprof_limits =\n    share(@comm) <= 1%\n    share(@gc) <= 2%",
        "--schedprof-limit=share(@gc) <= 3%",
        "--schedprof-limit=share(a:b) <= 4%",
    )
    merged = marked(session, "share(a:b) <= 5%", "self(a:b) <= 6%")
    assert [str(limit) for limit in merged.limit] == [
        "share(@comm) <= 1%",
        "share(@gc) <= 3%",
        "share(a:b) <= 5%",
        "self(a:b) <= 6%",
    ]


def test_directory_is_relative_to_where_it_was_written(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = pytester.mkdir("below")
    pytester.makeini("[pytest]\nschedprof_dir = kept\n")
    monkeypatch.chdir(below)
    root = (f"--rootdir={pytester.path}", "-c", "../tox.ini")
    by_ini = read_session(pytester.parseconfig(*root))
    by_cli = read_session(pytester.parseconfig(*root, "--schedprof-dir=x"))
    assert by_ini.dir == pytester.path / "kept"
    assert by_cli.dir == below / "x"


def test_a_flag_without_a_value_loads_no_conftest_above_the_root_directory(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest("raise ImportError('of another project')")
    below = pytester.mkdir("below")
    (below / "pytest.ini").write_text("[pytest]\n")
    monkeypatch.chdir(below)
    assert read_session(pytester.parseconfig("--schedprof", str(below))).backend == ("auto",)


def test_earlier_runs_are_a_number(pytester: pytest.Pytester) -> None:
    assert [settings(pytester, "", *cli).runs for cli in ([], ["--schedprof-runs=2"])] == [10, 2]
    assert settings(pytester, "schedprof_runs = 3").runs == 3


def test_options_of_a_backend_from_every_form(pytester: pytest.Pytester) -> None:
    session = settings(
        pytester,
        "schedprof_options =\n    pyspy.native = true\n    pyspy.gil = true",
        "--schedprof-option=pyspy.gil=false",
        "--schedprof-option=other.depth=7",
    )
    merged = marked(session, options={"native": False})
    known = ("native", "gil")
    assert session.options_of("pyspy", known) == {"native": "true", "gil": "false"}
    assert merged.options_of("pyspy", known) == {"native": False, "gil": "false"}
    assert merged.options_of("other", ()) == {"depth": "7"}


@pytest.mark.parametrize(
    ("named", "owner"),
    [
        ("pyspy", "pyspy"),
        (" pyspy ", "pyspy"),
        (["pyspy"], "pyspy"),
        ("pyspy, counts", ANY_BACKEND),
        ("auto", ANY_BACKEND),
    ],
)
def test_options_in_a_marker_are_of_the_backend_that_it_names(
    pytester: pytest.Pytester, named: Any, owner: str
) -> None:
    merged = marked(settings(pytester, None), backend=named, options={"native": True})
    assert merged.option == ((owner, "native", True),)


def test_a_workload_in_a_marker_wins_in_either_form(pytester: pytest.Pytester) -> None:
    session = settings(pytester, None, "--schedprof-cluster=virtual", "--schedprof-workload=a")
    forms: list[dict[str, Any]] = [{"workload": "b"}, {"cluster_options": {"workload": "b"}}]
    for keywords in forms:
        request = marked(session, **keywords).cluster_request
        assert dict(request.options)["workload"] == "b"
    assert dict(session.cluster_request.options)["workload"] == "a"


def test_options_of_the_cluster_from_every_form(pytester: pytest.Pytester) -> None:
    session = settings(
        pytester,
        "schedprof_cluster_options =\n    tls = true\n    config.a.b = 1",
        "--schedprof-cluster-option=config.a.b=2",
    )
    merged = marked(session, cluster_options={"config.a.b": 3, "worker.x": "y=z"})
    assert dict(session.cluster_option) == {"tls": "true", "config.a.b": "2"}
    assert dict(merged.cluster_option) == {"tls": "true", "config.a.b": "3", "worker.x": "y=z"}


def test_options_of_another_kind_of_cluster_are_not_inherited(pytester: pytest.Pytester) -> None:
    session = settings(pytester, "schedprof_cluster_options =\n    tls = true\n    duration = 5ms")
    merged = marked(session, cluster="local", cluster_options={"worker.x": 1})
    assert dict(merged.cluster_option) == {"tls": "true", "duration": "5ms", "worker.x": "1"}
    simulated = settings(
        pytester,
        "schedprof_cluster_options =\n    tls = true\n    duration = 5ms",
        "--schedprof-cluster=simulated",
    )
    merged = marked(simulated, cluster="local", cluster_options={"worker.x": 1})
    assert dict(merged.cluster_option) == {"tls": "true", "worker.x": "1"}


def test_closer_markers_win_over_farther_ones(pytester: pytest.Pytester) -> None:
    session = settings(pytester, None)
    marks = [pytest.mark.schedprof(rate=1, rounds=2).mark, pytest.mark.schedprof(rate=3).mark]
    merged = overlay(session, marks)
    assert (merged.rate, merged.rounds) == (3, 2)


def test_help_and_markers_explain_every_option(pytester: pytest.Pytester) -> None:
    helped = pytester.runpytest_inprocess("--help").stdout.str()
    markers = pytester.runpytest_inprocess("--markers").stdout.str()
    for option in OPTIONS:
        assert option.flag_name in helped
        assert option.ini_name in helped
        assert (f"{option.name}=..." in markers) == option.in_marker


NATIVE = """
[pytest]
schedprof = "counts"
schedprof_workers = 20
schedprof_rate = 150
schedprof_timeout = 2.5
schedprof_strict = true
schedprof_evidence = ["span", "memory"]
schedprof_limits = ["calls(@transitions) <= 9"]
"""


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 has native TOML")
def test_native_toml_has_its_own_types(pytester: pytest.Pytester) -> None:
    (pytester.path / "pytest.toml").write_text(NATIVE)
    read = read_session(pytester.parseconfig())
    assert (read.backend, read.workers, read.rate) == (("counts",), 20, 150)
    assert (read.timeout, read.strict, read.evidence) == (2.5, True, ("span", "memory"))
    assert [str(limit) for limit in read.limit] == ["calls(@transitions) <= 9"]


@pytest.mark.skipif(pytest.version_tuple < (9,), reason="pytest 9 has native TOML")
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('schedprof_workers = "20"', "schedprof_workers must be a positive whole number: *'20'"),
        ("schedprof_keep = 20", "schedprof_keep must be a size *: *expects a string, got int: 20"),
        ("schedprof_limits = 3", "schedprof_limits must be a list of texts: *got int: 3"),
    ],
)
def test_a_wrong_type_in_toml_is_one_line(project: Project, line: str, message: str) -> None:
    (project.path / "pytest.toml").write_text(f"[pytest]\n{line}\n")
    project.write("def test_it(): pass")
    result = project.run()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"ERROR: schedprof: {message}"])
