"""Has a compose project up until its standard input ends or has a line, and then takes it down.

A process of its own, so that nothing is left of a session that is interrupted or killed. It is run
by its path, with the compose command for its arguments, and answers with one line of JSON: the exit
status of `up`, and what it said.
"""

import json
import select
import subprocess
import sys
import tempfile

POLL_S = 0.1
STOPPING_S = "5"
"""What containers may take to end by themselves."""


def is_left() -> bool:
    """Whether the session hung up."""
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
    arguments = ["down", "--volumes", "--remove-orphans", "--timeout", STOPPING_S]
    quiet = subprocess.DEVNULL  # the session may be gone, and nobody reads
    return subprocess.run([*compose, *arguments], stdin=quiet, stdout=quiet).returncode


if __name__ == "__main__":
    try:
        up(sys.argv[1:])
        sys.stdin.readline()
    except BrokenPipeError:
        pass  # the session is gone
    sys.exit(down(sys.argv[1:]))
