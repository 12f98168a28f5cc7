"""Tests of fork servers, which start the processes of clusters, and of how these end."""

from __future__ import annotations

import atexit
import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import dask.config
import psutil
import pytest
from at_work import PATIENCE_S, by_value
from distributed import Client
from support import Project, python, wait_for

from pytest_schedprof.clusters import child, fork_server, process
from pytest_schedprof.clusters.fork_server import Forked, ForkServers
from pytest_schedprof.clusters.own import LocalProcesses, SimulatedCluster
from pytest_schedprof.control.control import Control
from pytest_schedprof.errors import ClusterError

pytestmark = pytest.mark.skipif(
    not fork_server.is_possible(), reason="this system has no descriptors of processes"
)


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[ForkServers]:
    """Servers of this test alone."""
    servers = ForkServers()
    monkeypatch.setattr(fork_server, "PATIENCE_S", PATIENCE_S)
    monkeypatch.setattr(child, "SERVERS", servers)
    yield servers
    servers.end()


@contextmanager
def started() -> Iterator[LocalProcesses]:
    with closing(LocalProcesses(0, timeout_s=PATIENCE_S)) as cluster:
        yield cluster


def server_of(cluster: LocalProcesses) -> psutil.Process:
    server = psutil.Process(cluster.pid).parent()
    assert server is not None
    return server


@by_value
def facts() -> tuple[str, str | None, bool, int]:
    where = os.environ.get("SCHEDPROF_TESTED")
    import dask

    return os.getcwd(), where, dask.config.get("schedprof.tested", False), os.getpid()


def ask(cluster: LocalProcesses) -> tuple[str, str | None, bool, int]:
    with Control(cluster.address) as control:
        answer: tuple[str, str | None, bool, int] = control.call(facts)
    return answer


@pytest.mark.slow
def test_processes_of_all_clusters_have_one_server_and_end_with_it(servers: ForkServers) -> None:
    with started() as one, started() as two:
        server = server_of(one)
        assert one.pid != two.pid
        assert server_of(two) == server
        assert server.ppid() == os.getpid()
        assert os.getsid(one.pid) == one.pid  # a Ctrl-C in the terminal is not for it
        servers.end()
        assert not server.is_running()
        assert one.death(PATIENCE_S) is not None


@pytest.mark.slow
def test_process_is_as_if_this_one_had_started_it(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It has a directory though that of this one was removed."""
    place = tmp_path / "removed"
    place.mkdir()
    monkeypatch.chdir(place)
    place.rmdir()
    with started() as cluster:
        assert ask(cluster)[0] == os.sep
    monkeypatch.chdir(tmp_path)
    with started() as cluster:
        directory, _, _, pid = ask(cluster)
        assert (directory, pid) == (str(tmp_path), cluster.pid)


@pytest.mark.slow
def test_what_distributed_reads_when_it_is_imported_has_a_server_of_its_own(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started() as plain:
        monkeypatch.setenv("SCHEDPROF_TESTED", "here")
        with (
            started() as by_environment,
            dask.config.set({"schedprof.tested": True}),
            started() as by_config,
        ):
            clusters = [plain, by_environment, by_config]
            answers = [ask(cluster)[1:3] for cluster in clusters]
            assert answers == [(None, False), ("here", False), ("here", True)]
            assert len({server_of(cluster).pid for cluster in clusters}) == len(clusters)


@pytest.mark.slow
def test_options_that_only_this_process_can_have_stay_here(
    servers: ForkServers, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(1) as pool:
        options = {"pool": pool, "schedprof.function": len, "schedprof.tested": tmp_path}
        with dask.config.set(options), started() as cluster:
            assert str(ask(cluster)[2]) == str(tmp_path)


@pytest.mark.slow
def test_a_process_whose_log_a_test_has_removed_is_ended_all_the_same(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child, "TELLING_S", 0.0)
    with started() as cluster:
        shutil.rmtree(cluster._directory)
        cluster._children[-1].give_up("stood still")
        assert "stood still, and was ended: where it was is" in str(cluster.death(PATIENCE_S))


def test_processes_may_have_as_many_open_files_as_macos_accepts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It tells no limit, and refuses that number."""
    unlimited = 2**63 - 1
    accepted: list[tuple[int, int]] = []

    def set_limits(_: int, limits: tuple[int, int]) -> None:
        if limits[0] > process.OPEN_MAX:
            raise ValueError("not allowed to raise maximum limit")
        accepted.append(limits)

    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, unlimited))
    monkeypatch.setattr(resource, "setrlimit", set_limits)
    process._allow_descriptors()
    assert accepted == [(process.OPEN_MAX, unlimited)]


@pytest.mark.slow
def test_without_room_for_a_log_the_other_cluster_lives_on(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(process: child.Child) -> IO[bytes]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with started() as cluster:
        monkeypatch.setattr(child.Child, "_opened", refuse)
        with pytest.raises(ClusterError, match="no place for the cluster's files"), started():
            pass
        assert ask(cluster)[3] == cluster.pid


AHEAD = """
import sys
from contextlib import closing
from pytest_schedprof.clusters import child
from pytest_schedprof.clusters.fork_server import SERVERS

child.start_server_ahead()
assert "distributed" not in sys.modules
(server,) = SERVERS._servers.values()

import dask.config
from pytest_schedprof.clusters.own import LocalProcesses

with closing(LocalProcesses(0, timeout_s=100)):
    assert [*SERVERS._servers.values()] == [server]
name = "distributed.scheduler.work-stealing"  # off by a variable; by default it is on
for value, servers in ((False, 1), (True, 2)):
    with dask.config.set({name: value}), closing(LocalProcesses(0, timeout_s=100)):
        assert len(SERVERS._servers) == servers
"""


@pytest.mark.slow
def test_server_that_was_started_ahead_serves_once_this_process_has_imported_distributed() -> None:
    python("-c", AHEAD, DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING="False")


NUMBER_OF_SERVERS = """
from pytest_schedprof.clusters.fork_server import SERVERS

def pytest_collection_finish():
    print("servers:", len(SERVERS._servers))
"""

WITHIN = """
import psutil, pytest

assert pytest.main(["-s", "--schedprof"]) == 0
assert not psutil.Process().children()
"""


@pytest.mark.slow
@pytest.mark.usefixtures("apart")
def test_server_is_started_before_tests_are_collected_and_ends_with_its_session(
    project: Project,
) -> None:
    """It does not last as long as its process."""
    project.write(NUMBER_OF_SERVERS, "conftest.py")
    project.write("def test_it(): pass")
    assert "servers: 1\n" in python("-c", WITHIN, cwd=project.path).stdout
    for arguments in (
        "--schedprof --collect-only",
        "--schedprof --schedprof-cluster-option=config.a=1",
        "--schedprof --schedprof-cluster=tcp://127.0.0.1:1",
        "",
    ):
        result = project.run("-s", *arguments.split())
        result.stdout.fnmatch_lines(["*servers: 0"])
    project.write("import dask\n\ndask.config.config['tested'] = object()", "conftest.py")
    project.run("--schedprof").assert_outcomes(passed=1)


def test_server_that_nobody_used_ends_at_once(servers: ForkServers) -> None:
    child.start_server_ahead()
    (server,) = servers._servers.values()
    servers.end()
    assert server._process.returncode == -signal.SIGKILL


def test_end_of_a_process_is_told(servers: ForkServers) -> None:
    with started() as cluster:
        os.kill(cluster.pid, signal.SIGKILL)
        assert (cluster.death(PATIENCE_S) or "").startswith(
            f"the scheduler's process {cluster.pid} was killed by signal 9; its log ends: "
        )
        (process,) = (child.process for child in cluster._children)
        assert isinstance(process, Forked)
        process.kill()  # does nothing, whoever has its number now
        assert process.poll() == -signal.SIGKILL


@pytest.mark.slow
def test_processes_end_with_their_server_and_another_one_follows(servers: ForkServers) -> None:
    with started() as cluster:
        scheduler, server = psutil.Process(cluster.pid), server_of(cluster)
        server.kill()
        wait_for(lambda: not scheduler.is_running(), "the scheduler to end")
        assert cluster.death(PATIENCE_S) is not None
        with started() as after:
            assert server_of(after) != server


@pytest.mark.slow
def test_servers_that_were_not_used_for_long_end_after_their_clusters(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fork_server, "MOST_SERVERS", 1)
    with started() as first:
        server = server_of(first)
        for number in range(2):
            monkeypatch.setenv("SCHEDPROF_TESTED", f"{number}")
            with started():
                pass
        assert ask(first)[-1] == first.pid
        assert server.is_running()
    wait_for(lambda: server.status() == psutil.STATUS_ZOMBIE, "the server to end")


DIES = """
import os, signal, socket
from pytest_schedprof.clusters.fork_server import SERVERS
from pytest_schedprof.clusters.own import LocalProcesses

LocalProcesses(0, timeout_s=60).close()
(server,) = SERVERS._servers.values()
os.kill(server._process.pid, signal.SIGSTOP)
print(server._process.pid, flush=True)
socket.recv_fds = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # once the order is sent
LocalProcesses(0, timeout_s=60)
"""


def test_a_session_that_dies_after_an_order_to_its_server_leaves_no_directory(
    tmp_path: Path,
) -> None:
    done = python("-c", DIES, status=-signal.SIGKILL, TMPDIR=str(tmp_path))
    assert list(tmp_path.iterdir())
    os.kill(int(done.stdout), signal.SIGCONT)  # the server, which learns of both at once
    wait_for(lambda: not list(tmp_path.iterdir()), "the directory to be removed", PATIENCE_S)


def test_a_cluster_without_a_place_for_its_files_is_refused_in_one_line(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "file"))
    with pytest.raises(ClusterError, match=r"no place for the cluster's files: .* in TMPDIR"):
        LocalProcesses(0, timeout_s=PATIENCE_S)


def test_server_that_cannot_import_is_replaced_by_what_tells_why(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "distributed.py").write_text("raise ImportError('planted')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(Exception, match="exited with 1 while starting: ImportError: planted"):
        LocalProcesses(0, timeout_s=PATIENCE_S)


@pytest.mark.slow
def test_cluster_of_a_process_with_many_open_files(servers: ForkServers) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    held = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with started() as cluster:
            assert ask(cluster)[-1] == cluster.pid
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.parametrize("is_forked", [True, False])
def test_what_python_skips_in_the_path_is_skipped_also_without_descriptors_of_processes(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch, is_forked: bool
) -> None:
    """Each process is then started by itself."""
    monkeypatch.setattr(sys, "path", [Path(), *sys.path])
    if not is_forked:
        monkeypatch.delattr(os, "pidfd_open")
        monkeypatch.setattr(subprocess, "_CAN_USE_PIDFD_OPEN", False, raising=False)  # since 3.15
    with started() as cluster:
        assert (server_of(cluster).pid == os.getpid()) is not is_forked


def test_server_has_the_modules_of_no_test(
    servers: ForkServers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "distributed.py").write_text("raise ImportError('planted')")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with started() as cluster:
        assert ask(cluster)[-1] == cluster.pid


@by_value
def be_patient() -> None:
    """Let a process take its time to end, also on a busy machine; runs there."""
    process.GRACE_S = PATIENCE_S


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_scheduler_that_ends_does_not_tell_workers_of_others_that_leave() -> None:
    options = {"config.logging.distributed": "info"}
    with closing(SimulatedCluster(50, timeout_s=PATIENCE_S, options=options)) as cluster:
        with Client(cluster.address) as client:
            client.run(be_patient)
            client.run_on_scheduler(be_patient)
        with cluster._children[-1].log.open() as stream:  # each process removes the file
            ended = []
            for child in reversed(cluster._children):  # workers could leave before it ends
                child.hang_up()
                ended.append(child.process.wait(PATIENCE_S))
            log = stream.read()
    assert ended == [0, 0]
    assert "Closing scheduler" in log
    assert "Remove worker" not in log


class Sign:
    """Makes a file, also when there are no modules any more."""

    def __init__(self, *path: str) -> None:
        self.path, self.open, self.how = os.path.join(*path), os.open, os.O_CREAT

    def leave(self) -> None:
        self.open(self.path, self.how)


class SignOfClearing(Sign):
    def __del__(self) -> None:
        self.leave()


def leave_signs(directory: str) -> None:
    """Note which of the things that an interpreter does at its end are done; runs there."""

    def outlive() -> None:
        threading.main_thread().join()
        Sign(directory, "thread").leave()

    atexit.register(Sign(directory, "exit").leave)
    threading.Thread(target=outlive).start()
    vars(threading)["of_a_test"] = SignOfClearing(directory, "cleared")


@pytest.mark.slow
@pytest.mark.parametrize("is_forked", [True, False])
def test_threads_and_exit_functions_end_but_nothing_is_cleared(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, is_forked: bool
) -> None:
    """Clearing the interpreter is what takes most of the CPU time of a short cluster."""
    monkeypatch.setattr(fork_server, "is_possible", lambda: is_forked)
    with started() as cluster:
        with Control(cluster.address) as control:
            control.call(be_patient)
            control.call(leave_signs, str(tmp_path))
        (child,) = cluster._children
        child.hang_up()
        assert child.process.wait(PATIENCE_S) == 0
    assert sorted(sign.name for sign in tmp_path.iterdir()) == ["exit", "thread"]
