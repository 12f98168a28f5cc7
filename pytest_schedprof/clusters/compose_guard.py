"""Keep a compose project running until standard input ends or has a line, then remove it.

This runs in a process of its own, so that nothing is left of a session that is interrupted or
killed. It is run by its path, with the compose command as arguments, and answers with one line of
JSON: the exit status of `up` and its output.
"""

import json
import select
import subprocess
import sys
import tempfile

POLL_S = 0.1
STOPPING_S = "5"
"""Seconds that containers have to stop by themselves."""

DOWN = ("down", "--volumes", "--remove-orphans", "--timeout", STOPPING_S)
"""Arguments of compose that remove a project."""


def is_left() -> bool:
    """Return whether the session closed the pipe or asked for the end."""
    return bool(select.select([sys.stdin], [], [], POLL_S)[0])


def up(compose: list[str]) -> None:
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [*compose, "up", "--detach"], stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        while process.poll() is None:
            if is_left():
                process.terminate()
                process.wait()
        said.seek(0)
        sys.stdout.write(json.dumps([process.returncode, said.read()]) + "\n")
        sys.stdout.flush()


def down(compose: list[str]) -> int:
    quiet = subprocess.DEVNULL  # the session may be gone, so nobody reads the output
    return subprocess.run([*compose, *DOWN], stdin=quiet, stdout=quiet).returncode


if __name__ == "__main__":
    try:
        up(sys.argv[1:])
        sys.stdin.readline()
    except BrokenPipeError:
        pass  # the session is gone
    sys.exit(down(sys.argv[1:]))
