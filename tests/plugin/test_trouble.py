"""Trouble while a test is profiled: told in one line, hiding nothing, leaving nothing."""

from __future__ import annotations

import os
import signal
import time

import pytest
from support import BURNED, Project, wait_for


def test_scheduler_killed_in_a_test_that_passes(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof("share(@comm) <= 1%")
def test_kills(schedprof_scheduler):
    os.kill(schedprof_scheduler.pid, 9)

@pytest.mark.schedprof
def test_next(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)
"""
    )
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(["schedprof: the scheduler's process * was killed by signal 9; *"])
    assert project.results()["test_kills"].troubles
    assert project.results()["test_next"].backends


def test_scheduler_killed_in_a_test_that_fails_hides_nothing(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.schedprof
def test_kills(schedprof_scheduler):
    os.kill(schedprof_scheduler.pid, 9)
    assert inc(1) == 3, "the test's own failure"
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*AssertionError: the test's own failure"])
    result.stdout.fnmatch_lines(["schedprof: the scheduler's process * was killed by signal 9; *"])


def test_frozen_scheduler_does_not_hang_the_session(project: Project) -> None:
    result = project.run_test(
        """
import signal
import time

@pytest.mark.schedprof(timeout=10)
def test_stops(schedprof_scheduler):
    os.kill(schedprof_scheduler.pid, signal.SIGSTOP)
""",
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["schedprof: the scheduler lay stopped for seconds; py-spy was *"])


def test_profiler_killed_during_the_test(project: Project) -> None:
    result = project.run_test(
        """
import psutil

@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    for child in psutil.Process(schedprof_scheduler.pid).children():
        if "py-spy" in child.name():
            child.kill()
            while child.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["schedprof: py-spy exited with -9 and left 0 bytes: *"])


@pytest.mark.parametrize("ending", ["assert False", "raise KeyError(1)", "pytest.skip('now')"])
def test_artifacts_are_kept_however_the_test_ends(project: Project, ending: str) -> None:
    project.run_test(
        f"""
@pytest.mark.schedprof("share({BURNED}) <= 1%")
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.7)
    {ending}
"""
    )
    record = project.result()
    assert record.outcome == ("skipped" if "skip" in ending else "failed")
    assert (project.run_directory / project.run_record().tests[0].directory).is_dir()
    assert record.backends[0].artifacts
    assert record.limits


def test_artifacts_are_kept_when_the_test_times_out(project: Project) -> None:
    result = project.run_test(
        """
@pytest.mark.timeout(3, method="signal", func_only=True)
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.5)
    time.sleep(60)
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*Failed: Timeout*"])
    assert project.result().backends[0].artifacts


def test_failed_test_shows_its_own_failure_and_the_broken_limit(project: Project) -> None:
    result = project.run_test(
        f"""
@pytest.mark.schedprof("share({BURNED}) <= 1%")
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler)
    assert False, "my own"
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*AssertionError: my own"])
    result.stdout.fnmatch_lines(["*schedprof*", "schedprof: limit broken: *"])


def test_known_broken_limit_can_be_expected_to_fail(project: Project) -> None:
    result = project.run_test(
        f"""
@pytest.mark.xfail(reason="known")
@pytest.mark.schedprof("share({BURNED}) <= 1%")
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler)
"""
    )
    result.assert_outcomes(xfailed=1)
    assert project.result().outcome == "xfailed"


def test_directory_that_cannot_be_written(project: Project) -> None:
    (project.path / "file").write_text("not a directory")
    result = project.run_test(
        """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    pass
""",
        "--schedprof-dir=file/below",
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["schedprof: cannot write '*file/below/*; make room or choose *"])


def test_full_disk(project: Project) -> None:
    """A limit on the size of files is a full disk to whoever writes more than that."""
    result = project.run_test(
        """
import resource

@pytest.fixture
def room_again():
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))

@pytest.mark.schedprof
def test_it(room_again, schedprof_scheduler):
    burn(schedprof_scheduler)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, -1))
"""
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "schedprof: cannot write '*scheduler.pyspy.speedscope.json': File too large; make *",
            "schedprof: cannot write '*result.json': File too large; make room or choose another*",
        ]
    )
    assert not list(project.run_directory.rglob("*.part"))


def test_run_directory_that_vanishes(project: Project) -> None:
    result = project.run_test(
        """
import shutil

@pytest.fixture
def vanishing(schedprof_scheduler):
    yield
    shutil.rmtree(".schedprof")

@pytest.mark.schedprof
def test_it(schedprof_scheduler, vanishing):
    pass
"""
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["schedprof: cannot write '*run.json': No such file *"])


SLEEPING = """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.3)
    print("READY", flush=True)
    time.sleep(60)
"""


def test_interrupt_leaves_no_process_and_keeps_the_artifacts(project: Project) -> None:
    project.write(SLEEPING)
    with project.running("READY") as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert "KeyboardInterrupt" in process.stdout.read()
    assert process.returncode == pytest.ExitCode.INTERRUPTED
    wait_for(lambda: not project.processes(), "processes to end")
    assert list(project.run_directory.rglob("scheduler.pyspy.speedscope.json"))


@pytest.mark.parametrize("gap_s", [0.005, 0.02, 0.08])
def test_impatient_interrupts_leave_no_process_and_no_file(
    project: Project, monkeypatch: pytest.MonkeyPatch, gap_s: float
) -> None:
    """The second one may come while the profile is fetched, which then nobody discards."""
    temporary = project.path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    project.write(SLEEPING)
    with project.running("READY") as process:
        process.send_signal(signal.SIGINT)
        time.sleep(gap_s)
        process.send_signal(signal.SIGINT)
        process.communicate()
    wait_for(lambda: not project.processes(), "processes to end")
    assert not list(temporary.glob("schedprof-*/profile"))


def test_killed_session_leaves_no_process(project: Project) -> None:
    project.write(SLEEPING)
    with project.running("READY") as process:
        assert project.processes()
        process.kill()
    wait_for(lambda: not project.processes(), "processes to end")


HOSTILE_IDS = ["a/b", "a|b", "..", "Case", "case", "é" * 300, "a b\\tc", "<script>", "nul"]


def test_hostile_test_ids_each_get_a_directory(project: Project) -> None:
    result = project.run_test(
        f"""
@pytest.mark.schedprof
@pytest.mark.parametrize("value", {HOSTILE_IDS!r}, ids=lambda value: value)
def test_it(schedprof_scheduler, value):
    pass
"""
    )
    result.assert_outcomes(passed=len(HOSTILE_IDS))
    tests = project.run_record().tests
    names = [os.path.basename(entry.directory) for entry in tests]
    assert len({name.lower() for name in names}) == len(HOSTILE_IDS)
    for entry in tests:
        directory = project.run_directory / entry.directory
        assert directory.resolve().parent == (project.run_directory / "tests").resolve()
        assert (directory / "result.json").exists()
