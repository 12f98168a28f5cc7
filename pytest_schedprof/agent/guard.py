"""The watchdog of a py-spy at work: a process beside the scheduler, started by it.

A profiler that hangs while it holds the scheduler stopped stops the agent too, so whoever
ends it must live outside. Run as `python -c SOURCE SCHEDULER_PID PYSPY_PID FILE`. The agent
tells it on its standard input when py-spy has ended and when the file was fetched. When that
closes without a word, the scheduler died; then it leaves nothing of the recording. Imports
little, for it starts while py-spy does.
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

ENDED = b"e"
"""The agent's word that the profiler is gone; any other is its leave."""


def state(pid: int) -> str:
    """The letter that the kernel gives: T and t for stopped, Z for dead but not buried."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def switches(pid: int) -> str:
    """How often the kernel has switched its first thread; it does so each time that it is held."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return "".join(line for line in status if "ctxt_switches" in line)
    except OSError:
        return ""


def kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def remove(path: str) -> None:
    """Delete the file's directory, again where a dying profiler still wrote to it."""
    directory = os.path.dirname(path)
    for _ in range(20):
        try:
            for name in os.listdir(directory):
                os.unlink(os.path.join(directory, name))
            os.rmdir(directory)
        except OSError:
            pass
        if not os.path.exists(directory):
            return
        time.sleep(0.1)


def had_to_free(scheduler: int, profiler: int) -> bool:
    """Watch over both until there is something to read, or the scheduler lies stopped."""
    frozen_since, before, by_signal = None, "", False
    while not select.select([0], [], [], POLL_S)[0]:
        now = state(scheduler)
        if now == "Z":
            # It was killed while the profiler held some of its threads: it lasts until these
            # are let go, and the profiler waits for its first thread, forever.
            kill(profiler)
        if now not in ("T", "t"):
            frozen_since, by_signal = None, False
            continue
        by_signal = by_signal or now == "T"  # then it does not run between samples either
        last, before = before, switches(scheduler)
        if frozen_since is None or (before != last and not by_signal):
            # Held for one sample more: a profiler that does not keep up holds it at most looks.
            frozen_since = time.monotonic()
        elif time.monotonic() - frozen_since > FROZEN_S:
            kill(profiler)
            os.kill(scheduler, signal.SIGCONT)
            return True
    return False


def guard(scheduler: int, profiler: int, path: str) -> int:
    if had_to_free(scheduler, profiler):
        remove(path)  # nobody will fetch it, and from here on nobody watches over it
        return FORCED
    word = os.read(0, 1)
    if word == ENDED:  # from now on the profiler's number may be another's
        word = os.read(0, 1)
    elif not word:  # just the end: nobody is left to stop the profiler
        kill(profiler)
    if not word:
        remove(path)
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(guard(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
