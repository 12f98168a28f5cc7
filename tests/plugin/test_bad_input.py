"""Tests of wrong input: each mistake gives one clear message with the value and the remedy."""

from __future__ import annotations

import shlex
from fnmatch import fnmatchcase as fnmatch

import pytest
from support import Project, shares_in


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--schedprof=pyspi", "backend 'pyspi' is unknown (did you mean 'pyspy'?); known: *pyspy"),
        ("--schedprof=pyspi -n2", "backend 'pyspi' is unknown"),
        ("--schedprof=off,pyspy", "'off,pyspy' is contradictory: 'off' cannot be combined"),
        ("--schedprof=auto,counts", "'auto' cannot be combined with others"),
        (
            "--schedprof-rate=-5",
            "rate must be a positive number of samples per second, got '-5' (from --schedprof-rat",
        ),
        ("--schedprof-workers=1.5", "workers must be a positive whole number, got '1.5' "),
        (
            "--schedprof-cluster=lokal",
            "cluster must be 'local', 'simulated', 'virtual', 'docker', or an address*'lokal' ",
        ),
        ("--schedprof-option=native", "option must be backend.option=value, got 'native' "),
        (
            "--schedprof-option=pyspi.native=1",
            "backend 'pyspi' is unknown (did you mean 'pyspy'?)",
        ),
        ("--schedprof-save=test_it.py/main", "cannot write *: Not a directory; *--schedprof-save"),
        (
            "--schedprof-option=counts.details=true",
            "backend 'counts' has no option 'details' (did you mean 'detail'?)",
        ),
        ("--schedprof-keep=some", "keep must be a size such as 20MB or 0, or 'all', got 'some'"),
        ("'--schedprof-limit=share(x) < 3%'", "limit 'share(x) < 3%': column 7: expected "),
        # What is wrong with baselines, their files and names: tests/pure/test_baseline_files.py
        (
            "--schedprof-compare=latest",
            "no baseline has been saved in *: save one with --schedprof-save=NAME",
        ),
        ("--schedprof-compare=nowhere://bucket/x.json", "Protocol not known: nowhere"),
        (
            "--schedprof-compare=http://127.0.0.1:1/x.json",
            "cannot read 'http://127.0.0.1:1/x.json'",
        ),
        # What is wrong with the other side: tests/pure/test_against.py
        ("--schedprof-against=/no/such/python", "there is nothing at '/no/such/python'"),
        ("--schedprof-against=python3 --schedprof-compare=run", "cannot be used together"),
        ("'--schedprof-against= '", "against must be an interpreter, a requirement, a checkout or"),
        (
            "--schedprof-against=config:worker-saturation=inf",
            "no configuration key * did you mean 'distributed.scheduler.worker-saturation'",
        ),
    ],
)
def test_wrong_command_line_is_one_clear_line(project: Project, arguments: str, words: str) -> None:
    project.write("def test_it():\n    pass\n")
    assert fnmatch(project.refusal(*shlex.split(arguments)), f"ERROR: schedprof: *{words}*")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("schedprof_rate = -1", "rate must be a positive *, got -1* (from schedprof_rate)"),
        ("schedprof_workers = many", "schedprof_workers must be a positive whole number: *'many'"),
        ("schedprof_strict = perhaps", "schedprof_strict must be true or false: *'perhaps'"),
        (
            "schedprof_wrokers = 3",
            "there is no setting 'schedprof_wrokers' (did you mean 'schedprof_workers'?); known: "
            "schedprof, ",
        ),
        ("schedprof_limits = share(", "limit 'share(': column 7: expected module:qualname "),
    ],
)
def test_wrong_ini_is_one_clear_line(project: Project, line: str, words: str) -> None:
    ini = project.path / "tox.ini"
    ini.write_text(f"{ini.read_text()}\n{line}\n")
    project.write("def test_it():\n    pass\n")
    assert fnmatch(project.refusal(), f"ERROR: schedprof: *{words}*")


WRONG_MARKERS = [
    ("backend='pyspi'", "schedprof: backend 'pyspi' is unknown (did you mean 'pyspy'?); *"),
    ("dir='x'", "schedprof: marker keyword 'dir' is unknown; known: *"),
    ("rate=True", "schedprof: rate must be a positive number *, got True (from a marker)"),
    ("'share(a:b) <= 3'", "*limit 'share(a:b) <= 3': column 16: expected a bound in percent*"),
    ("3", "schedprof: limit must be a limit such as 'share(@comm) <= 30%', got 3 *"),
    (
        "options={'nativ': True}",
        "*backend 'counts' has no option 'nativ'; known: bytecodes, detail, *",
    ),
    (
        "'share(@comm) <= 99%', backend='counts'",
        "*limit 'share(@comm) <= 99%' needs a backend that measures 'share'; counts cannot, * can",
    ),
    (
        "scale=[10, 20]",
        "*has scale 10, 20 but does not use the fixture *; add it *",
    ),
    ("options=7", "*options must be a dictionary of options by name, got 7*"),
]


CLUSTER = """
@pytest.fixture
def schedprof_cluster():
    return {value!r}

@pytest.mark.schedprof{arguments}
def test_it(schedprof_scheduler):
    pass
"""


@pytest.mark.slow
def test_wrong_marker_or_fixture_is_one_error_of_its_own_test(project: Project) -> None:
    project.write(CLUSTER.format(value=7, arguments=""), "test_no_cluster.py")
    project.write(CLUSTER.format(value="tcp://127.0.0.1:1", arguments="(workers=2)"), "test_own.py")
    tests = [
        f"@pytest.mark.schedprof({arguments})\ndef test_{number}(schedprof_scheduler):\n    pass\n"
        for number, (arguments, _) in enumerate(WRONG_MARKERS)
    ]
    result = project.run_test("\n".join([*tests, "def test_other():\n    pass\n"]))
    messages = [
        *(message for _, message in WRONG_MARKERS),
        "schedprof: the fixture schedprof_cluster returned 7; return a*",
        "schedprof: marker keyword 'workers' has no effect here: *",
    ]
    result.assert_outcomes(errors=len(messages), passed=1)
    result.stdout.fnmatch_lines_random(messages)
    assert "During handling" not in result.stdout.str()


HOSTILE = ("*" * 24 + "x:y", "d" + "*t" * 12 + ":*_x")

PATTERNS = f"""
@pytest.mark.schedprof("share(distributed.scheduler:Scheduler.nothing) <= 3%", backend="cputime")
def test_nothing(schedprof_scheduler):
    burn(schedprof_scheduler, 0.3)

@pytest.mark.schedprof("share(distributed.scheduler:Scheduler.rebalance) <= 50%",
                       backend="cputime", rate=200)
def test_never_called(schedprof_scheduler):
    burn(schedprof_scheduler, 0.7)

@pytest.mark.parametrize((), [
    pytest.param(marks=pytest.mark.schedprof(f"calls({{pattern}}) <= 1", backend="counts"), id="x")
    for pattern in {HOSTILE!r}
])
def test_stars(schedprof_scheduler):
    wait(schedprof_scheduler.client.map(inc, range(10)))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "body", "error"),
    [
        ("backends", "raise ImportError('no module mine')", "ImportError(*no module mine*"),
        ("backends", "return ['no mapping']", "AttributeError(*"),
        ("evidence", "raise ImportError('no module mine')", "ImportError(*no module mine*"),
        ("evidence", "return dict", "TypeError(*"),
    ],
)
def test_a_hook_that_fails_is_an_error_of_profiled_tests_alone(
    project: Project, name: str, body: str, error: str
) -> None:
    hook = f"def pytest_schedprof_{name}():\n    {body}"
    (project.path / "conftest.py").write_text(hook)
    result = project.run_test(
        """
@pytest.mark.schedprof(backend="counts", evidence="phases")
def test_it(schedprof_scheduler): pass

def test_other(): pass
"""
    )
    result.assert_outcomes(errors=1, passed=1)
    hook = f"pytest_schedprof_{name}"
    result.stdout.fnmatch_lines([f"schedprof: the hook {hook} failed: {error}"])


def test_pattern_that_names_nothing_fails_and_keeps_the_profile(project: Project) -> None:
    """One of many stars stops no scheduler."""
    result = project.run_test(PATTERNS)
    result.assert_outcomes(failed=1 + len(HOSTILE), passed=1)
    for pattern in ("distributed.scheduler:Scheduler.nothing", *HOSTILE):
        result.stdout.fnmatch_lines([f"schedprof: *{pattern!r} names nothing in the scheduler's*"])
    records = project.results()
    assert shares_in(records["test_nothing"]).functions
    (unseen,) = records["test_never_called"].limits[0].findings
    assert (unseen.subject, unseen.estimate.value) == (
        "distributed.scheduler:Scheduler.rebalance",
        0,
    )
