"""The watchdog of a py-spy: a process that the scheduler starts beside itself.

A profiler that hangs while it holds the scheduler stopped also stops the agent, so another process
must end it. Run as `python -c SOURCE SCHEDULER_PID PYSPY_PID`. The agent writes to the watchdog's
standard input when py-spy has ended. If the input closes without that, the scheduler died, and
py-spy is killed. The watchdog imports little because it starts at the same time as py-spy.
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


def fact(pid: int, place: int) -> str:
    """Return what the kernel tells of a process at a place after its name."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as stat:  # its name may be any bytes
            return stat.read().rpartition(")")[2].split()[place]
    except OSError:
        return ""


def state(pid: int) -> str:
    """Return the kernel's letter for the state: T and t: stopped, Z: zombie (unreaped)."""
    return fact(pid, 0)


def switches(pid: int) -> str:
    """Return the context switches of its first thread; each stop by py-spy causes one."""
    try:
        with open(f"/proc/{pid}/status", errors="replace") as status:
            return "".join(line for line in status if "ctxt_switches" in line)
    except OSError:
        return ""


def is_killed(pid: int) -> bool:
    """Return whether a SIGKILL is still to come to a process."""
    try:
        with open(f"/proc/{pid}/status", errors="replace") as file:
            pending = next((line.split()[1] for line in file if line.startswith("ShdPnd:")), "0")
    except OSError:
        return False
    return bool(int(pending, 16) >> signal.SIGKILL - 1 & 1)


def signal_to(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def birth(pid: int) -> str:
    """Return when a process started, by which it is told from a later one with the same ID."""
    return fact(pid, 19)


def end(profiler: int, born: str) -> None:
    """Kill the profiler, unless another process has its ID by now."""
    if birth(profiler) == born:
        signal_to(profiler, signal.SIGKILL)


def had_to_free(scheduler: int, profiler: int, born: str) -> bool:
    """Watch both processes; return True if the scheduler stayed stopped and was freed.

    Returns False when there is something to read on the standard input.
    """
    frozen_since, before, by_signal = None, "", False
    while not select.select([0], [], [], POLL_S)[0]:
        now = state(scheduler)
        # It was killed while the profiler held some of its threads. The kernel can leave the first
        # thread stopped for the profiler, with the signal still to come.
        if now == "Z" or is_killed(scheduler):
            end(profiler, born)
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
        end(profiler, born)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(guard(int(sys.argv[1]), int(sys.argv[2])))
