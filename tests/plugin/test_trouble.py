"""Tests of trouble while profiling: reported in one line; hides nothing and leaves nothing."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from support import BURNED, Project, wait_for

from pytest_schedprof.clusters.own import LocalProcesses
from pytest_schedprof.model.limit import Verdict

TROUBLED = """
import platform, signal, threading
from concurrent.futures import ThreadPoolExecutor
import psutil

@pytest.mark.schedprof(backend="pyspy")
def test_windows_of_threads(schedprof_scheduler):
    window, together = schedprof_scheduler.measure(), threading.Barrier(3)

    def measured(number):
        with window:
            together.wait()
            burn(schedprof_scheduler, 0.1)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(measured, range(3)))

@pytest.fixture(scope="module")
def holder():
    release = threading.Event()
    yield (threads := []), release
    release.set()
    for thread in threads:
        thread.join()

def hold(window, entered, release):
    with window:
        entered.set()
        release.wait(600)

@pytest.mark.schedprof("transitions <= 0", backend="counts", rounds=2)
def test_open_window(schedprof_scheduler, holder):
    threads, release = holder
    entered = threading.Event()
    arguments = (schedprof_scheduler.measure(), entered, release)
    threads.append(threading.Thread(target=hold, args=arguments))
    threads[-1].start()
    entered.wait(300)

@pytest.mark.schedprof("transitions <= 1000", backend="counts")
def test_after_open_window(schedprof_scheduler, holder):
    with schedprof_scheduler.measure():
        schedprof_scheduler.client.submit(inc, 1).result()
        holder[1].set()  # the window of the test before ends inside this one
        holder[0][0].join()

@pytest.mark.schedprof(backend="counts")
def test_out_of_time(schedprof_scheduler):
    raise TimeoutError

@pytest.mark.xfail(strict=True, reason="known to be slow")
@pytest.mark.schedprof("share(no.such:thing) <= 9%")
def test_expected(schedprof_scheduler):
    burn(schedprof_scheduler, 0.4)

@pytest.mark.schedprof(backend="pyspy")
def test_patched_and_failed(schedprof_scheduler, monkeypatch):
    monkeypatch.setattr(os, "replace", lambda *arguments: 1 / 0)
    assert False, "OWN FAILURE"

@pytest.mark.schedprof(backend="pyspy")
def test_patched(schedprof_scheduler, monkeypatch):
    monkeypatch.setattr(platform, "platform", lambda: 1 / 0)

@pytest.mark.schedprof(backend="pyspy")
def test_without_profiler(schedprof_scheduler):
    for child in psutil.Process(schedprof_scheduler.pid).children():
        if "py-spy" in child.name():
            child.kill()
            while child.status() != psutil.STATUS_ZOMBIE:
                time.sleep(0.01)

@pytest.mark.schedprof("share(@comm) <= 1%")
def test_kills(schedprof_scheduler):
    os.kill(schedprof_scheduler.pid, 9)

@pytest.mark.schedprof(backend="pyspy")
def test_after_killed(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)

@pytest.mark.schedprof(backend="pyspy")
def test_kills_and_fails(schedprof_scheduler):
    os.kill(schedprof_scheduler.pid, 9)
    assert inc(1) == 3, "the test's own failure"

@pytest.mark.schedprof(backend="pyspy")
def test_stops(schedprof_scheduler):
    os.kill(schedprof_scheduler.pid, signal.SIGSTOP)
"""


@pytest.mark.slow
def test_trouble_fails_its_test_alone_and_hides_nothing(project: Project) -> None:
    """Of windows, of patches, of an expected failure, and of processes that end or stand still.

    A limit would pass unchecked with a window that outlives its body: it has measured nothing.
    """
    result = project.run_test(TROUBLED)
    killed = "schedprof: the scheduler's process * was killed by signal 9; *"
    result.stdout.fnmatch_lines(
        [
            "_* test_open_window _*",
            "schedprof: a measure() block was still open when the *",
            "_* test_out_of_time _*",
            "*schedprof: it ran out of time while counts recorded. What slows a test least is c*",
            "_* test_expected _*",
            "*names nothing in the scheduler's code*",
            "_* test_patched_and_failed _*",
            "*OWN FAILURE*",
            "*ZeroDivisionError*",
            "_* test_without_profiler _*",
            "schedprof: py-spy ended before the window did, with exit * -9*",
            "_* test_kills _*",
            killed,
            "_* test_kills_and_fails _*",
            "E*AssertionError: the test's own failure",
            killed,
            "_* test_stops _*",
            "schedprof: the scheduler lay stopped for seconds; py-spy was *",
        ]
    )
    result.assert_outcomes(passed=4, failed=8)
    results = project.results()
    assert len(results["test_windows_of_threads"].backends[0].window.segments) == 1
    assert [limit.verdict for limit in results["test_after_open_window"].limits] == [Verdict.PASS]
    assert results["test_kills"].troubles
    assert results["test_after_killed"].backends


INTERRUPTING = """
import pytest
from types import SimpleNamespace
from pytest_schedprof.backends.cputime import CpuTimeBackend

def interrupting(when):
    class Interrupting(CpuTimeBackend):
        name = f"interrupting_{when}"
        is_first = True

        def start(self, target, *, timeout_s):
            if when == "read":
                return super().start(target, timeout_s=timeout_s)
            if when == "start":
                self.interrupt()
            return SimpleNamespace(stop=self.interrupt, abandon=self.interrupt)

        def read(self, *arguments):
            self.interrupt()
            return super().read(*arguments)

        def interrupt(self, *, timeout_s=0):
            if Interrupting.is_first:
                Interrupting.is_first = False
                pytest.fail("as pytest-timeout does")

    return Interrupting

def pytest_schedprof_backends():
    return {f"interrupting_{when}": interrupting(when) for when in ("start", "stop", "read")}
"""


def test_recording_that_a_timeout_interrupts_is_not_in_the_next_tests_way(project: Project) -> None:
    """`pytest.fail` raises an exception that `except Exception` does not catch.

    A test that it interrupts while it is judged is judged again, and so is kept.
    """
    (project.path / "conftest.py").write_text(INTERRUPTING)
    result = project.run_test(
        """
@pytest.mark.parametrize("when", [
    pytest.param(when, marks=pytest.mark.schedprof(backend=["cputime", f"interrupting_{when}"]))
    for when in ("start", "stop")
])
def test_first(schedprof_scheduler, when):
    pass

@pytest.mark.schedprof(backend="interrupting_read")
def test_judged(schedprof_scheduler):
    burn(schedprof_scheduler, 0.2)

@pytest.mark.schedprof(backend="cputime")
def test_next(schedprof_scheduler):
    burn(schedprof_scheduler, 0.1)
"""
    )
    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines(3 * ["*as pytest-timeout does*"])
    results = project.results()
    assert results["test_next"].troubles == ()
    judged = results["test_judged"]
    assert (judged.outcome, judged.troubles) == ("failed", ())
    assert judged.backends[0].artifacts


def test_after_an_interrupt_no_error_of_the_cluster_takes_its_place(project: Project) -> None:
    project.is_apart = True
    session = project.run_test("""
from pytest_schedprof.errors import StuckError

@pytest.mark.schedprof(backend="counts")
def test_it(schedprof_scheduler):
    attributes = vars(schedprof_scheduler.client)

    def fail_once(**keywords):
        del attributes["close"]
        raise StuckError("the cluster has ended meanwhile")

    attributes["close"] = fail_once
    raise KeyboardInterrupt
""")
    assert session.ret == pytest.ExitCode.INTERRUPTED
    session.stderr.no_fnmatch_line("*has ended meanwhile*")


ENDINGS = f"""
@pytest.mark.schedprof("share({BURNED}) <= 1%")
@pytest.mark.parametrize("how", ["assert", "raise", "skip"])
def test_ending(schedprof_scheduler, how):
    burn(schedprof_scheduler, 0.4)
    assert how != "assert", "my own"
    if how == "skip":
        pytest.skip("now")
    raise KeyError(1)

@pytest.mark.xfail(reason="known")
@pytest.mark.schedprof("share({BURNED}) <= 1%")
def test_known(schedprof_scheduler):
    burn(schedprof_scheduler, 0.4)

@pytest.mark.timeout(300, method="signal", func_only=True)
@pytest.mark.schedprof
def test_late(schedprof_scheduler):
    import signal
    burn(schedprof_scheduler, 0.2)
    signal.setitimer(signal.ITIMER_REAL, 0.1)  # the time that was given is over
    while True:
        time.sleep(0.1)  # one long sleep would not end if the signal comes just before it
"""


@pytest.mark.slow
def test_artifacts_are_kept_however_the_test_ends(project: Project) -> None:
    """Its own failure is shown beside the broken limit, which can be expected to fail."""
    result = project.run_test(ENDINGS, "--schedprof=cputime", "--schedprof-rate=200")
    result.assert_outcomes(failed=3, skipped=1, xfailed=1)
    result.stdout.fnmatch_lines(
        [
            "_* test_ending?assert? _*",
            "E*AssertionError: my own",
            "*schedprof*",
            "schedprof: limit broken: *",
            "*Failed: Timeout*",
        ]
    )
    results = project.results()
    assert {name: result.outcome for name, result in results.items()} == {
        "test_ending[assert]": "failed",
        "test_ending[raise]": "failed",
        "test_ending[skip]": "skipped",
        "test_known": "xfailed",
        "test_late": "failed",
    }
    for test in project.run_record().tests:
        assert (project.run_directory / test.directory).is_dir()
    for name, record in results.items():
        assert record.backends[0].artifacts
        assert bool(record.limits) is (name != "test_late")


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


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory for temporary files of the sessions that are started."""
    path = tmp_path / "temporary"
    path.mkdir()
    monkeypatch.setenv("TMPDIR", str(path))
    return path


SLEEPING = """
@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    burn(schedprof_scheduler, 0.3)
    print("READY", flush=True)
    time.sleep(600)
"""


def clusters_in(temporary: Path) -> list[Path]:
    return list(temporary.glob("schedprof-cluster-*"))


@pytest.mark.slow
def test_impatient_interrupts_leave_no_process_and_no_file(
    project: Project, temporary: Path
) -> None:
    """The second interrupt may come while the profile is fetched, and then nobody discards it."""
    project.write(SLEEPING)
    with project.running("READY") as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        process.communicate()
    assert not clusters_in(temporary)


@pytest.mark.slow
def test_terminated_session_leaves_no_process_and_no_files(
    project: Project, temporary: Path
) -> None:
    project.write(SLEEPING)
    with project.running("READY") as process:
        assert project.processes()
        assert clusters_in(temporary)
        process.terminate()
    assert not clusters_in(temporary)


def test_two_interrupts_during_start_up_leave_no_files(project: Project, temporary: Path) -> None:
    project.write(
        """
@pytest.fixture
def early():
    print("READY", flush=True)

def test_it(early, schedprof_scheduler):
    pass
"""
    )
    with project.running("READY") as process:
        wait_for(lambda: bool(clusters_in(temporary)), "the cluster's directory")
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGINT)
    assert not clusters_in(temporary)


SHUTTING_DOWN = """
import logging

@pytest.fixture(autouse=True, scope="session")
def log():
    # distributed's own loggers do not reach pytest's.
    logging.getLogger("distributed").addHandler(logging.FileHandler("log.txt"))

@pytest.mark.schedprof
def test_profiled(schedprof_scheduler):
    schedprof_scheduler.client.shutdown()

def test_plain(schedprof_scheduler):
    assert schedprof_scheduler.client.submit(inc, 1).result() == 2
    schedprof_scheduler.client.shutdown()

def test_next(schedprof_scheduler):
    assert schedprof_scheduler.client.submit(inc, 1).result() == 2
"""


@pytest.mark.slow
def test_scheduler_that_the_test_shuts_down(project: Project) -> None:
    result = project.run_test(SHUTTING_DOWN, "--durations=0", "-vv")
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["schedprof: the scheduler's process * exited with 0; *"])
    result.stdout.no_fnmatch_line("[3-9][0-9].??s teardown*")  # distributed would wait 30 s
    assert "Traceback" not in (project.path / "log.txt").read_text() + result.stderr.str()


@pytest.mark.slow
@pytest.mark.parametrize("how", ["os.kill({0}.pid, 9)", "{0}.client.shutdown()"])
def test_attached_scheduler_that_ends(
    own_cluster: LocalProcesses, project: Project, how: str
) -> None:
    result = project.run_test(
        f"""
import logging
logging.getLogger("distributed").addHandler(logging.FileHandler("log.txt"))

@pytest.mark.schedprof
def test_it(schedprof_scheduler):
    {how.format("schedprof_scheduler")}

def test_next(schedprof_scheduler):
    pass
""",
        f"--schedprof-cluster={own_cluster.address}",
        "--schedprof-timeout=100",
    )
    result.assert_outcomes(failed=1, errors=1)
    result.stdout.fnmatch_lines(["schedprof: the scheduler at * hung up *"])
    result.stdout.fnmatch_lines(["schedprof: no scheduler answers at *: nobody listens *"])
    assert "Traceback" not in (project.path / "log.txt").read_text() + result.stderr.str()
