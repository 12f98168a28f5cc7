"""The watchdog of a py-spy: a process that the scheduler starts beside itself.

A profiler that hangs while it holds the scheduler stopped also stops the agent, so another process
must end it. Run as `python -c SOURCE SCHEDULER_PID PYSPY_PID`. The agent writes to the watchdog's
standard input when py-spy has ended. If the input closes without that, the scheduler died: py-spy
then has some time to write what it has sampled until then, and is killed if it takes longer. The
watchdog imports little because it starts at the same time as py-spy.
"""

import os
import select
import signal
import sys
import time

POLL_S = 0.5
FROZEN_S = 5.0
FORCED = 3
"""Exit status after the profiler was killed to free the scheduler."""

WRITING_S = 10.0
"""How long a profiler whose scheduler died may take to write its file."""

WAITING_S = 0.5
"""How long it may take before its wait for a dead scheduler is broken off, if it is in one."""


def state(pid: int) -> str:
    """Return the kernel's letter for the state: T and t: stopped, Z: zombie (unreaped)."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def switches(pid: int) -> str:
    """Return the context switches of its first thread; each stop by py-spy causes one."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return "".join(line for line in status if "ctxt_switches" in line)
    except OSError:
        return ""


def status(pid: int, thread: int, key: str) -> str:
    """Return a value that the kernel tells about a thread."""
    try:
        with open(f"/proc/{pid}/task/{thread}/status") as file:
            return next((line.split()[1] for line in file if line.startswith(f"{key}:")), "")
    except OSError:
        return ""


def has_signal(pid: int, thread: int, key: str, number: int) -> bool:
    """Return whether a signal is in a set that the kernel tells, such as that of pending ones."""
    return bool(int(status(pid, thread, key) or "0", 16) >> number - 1 & 1)


def threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def signal_to(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def birth(pid: int) -> str:
    """Return when a process started, by which it is told from a later one with the same ID."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def has_ended(pid: int, born: str) -> bool:
    """Return whether the process that was born then is gone, or a zombie."""
    if os.path.isdir("/proc/self"):
        return not born or birth(pid) != born or state(pid) in ("", "Z")
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def end(profiler: int, born: str, scheduler: int = 0) -> None:
    """Wait until a profiler whose scheduler died has written its file; kill it if it hangs.

    It is told to end, because one that samples children too goes on while one of them lives.
    """
    if has_ended(profiler, born):
        return
    signal_to(profiler, signal.SIGCONT)  # it may have been stopped
    signal_to(profiler, signal.SIGINT)
    if not ends_within(WAITING_S, profiler, born):
        break_wait(scheduler, profiler)
    if not ends_within(WRITING_S, profiler, born):
        signal_to(profiler, signal.SIGKILL)


def ends_within(seconds: float, profiler: int, born: str) -> bool:
    deadline = time.monotonic() + seconds
    while not has_ended(profiler, born) and time.monotonic() < deadline:
        time.sleep(0.02)
    return has_ended(profiler, born)


def break_wait(scheduler: int, profiler: int) -> None:
    """Break off the wait of a profiler that holds threads of a dead scheduler, if it does.

    Killed at a bad moment, the scheduler's first thread does not end before the others do, and
    py-spy holds these while it waits for the first one. A SIGBUS ends that wait: Rust's runtime
    handles the first one, harmlessly, and has waits not go on after it.
    """
    held_by = {int(status(scheduler, thread, "TracerPid") or 0) for thread in threads(scheduler)}
    for thread in held_by.intersection(threads(profiler)):
        if has_signal(profiler, thread, "SigCgt", signal.SIGBUS):
            signal_to(thread, signal.SIGBUS)


def had_to_free(scheduler: int, profiler: int, born: str) -> bool:
    """Watch both processes; return True if the scheduler stayed stopped and was freed.

    Returns False when there is something to read on the standard input.
    """
    frozen_since, before, by_signal = None, "", False
    while not select.select([0], [], [], POLL_S)[0]:
        now = state(scheduler)
        # It was killed while the profiler held some of its threads. The kernel can leave the first
        # thread stopped for the profiler, with the signal still to come.
        if now == "Z" or has_signal(scheduler, scheduler, "ShdPnd", signal.SIGKILL):
            end(profiler, born, scheduler)
            continue
        if now not in ("T", "t"):
            frozen_since, by_signal = None, False
            continue
        # Stopped by a signal, it does not run between samples either.
        by_signal = by_signal or now == "T"
        last, before = before, switches(scheduler)
        if frozen_since is None or (before != last and not by_signal):
            # Stopped for another sample: a profiler that falls behind stops it most of the time.
            frozen_since = time.monotonic()
        elif time.monotonic() - frozen_since > FROZEN_S:
            signal_to(profiler, signal.SIGKILL)
            os.kill(scheduler, signal.SIGCONT)
            return True
    return False


def guard(scheduler: int, profiler: int) -> int:
    born = birth(profiler)
    if had_to_free(scheduler, profiler, born):
        return FORCED
    if not os.read(0, 1):  # closed: the scheduler died
        end(profiler, born, scheduler)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(guard(int(sys.argv[1]), int(sys.argv[2])))
