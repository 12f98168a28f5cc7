"""Search for faults of distributed's state machines by random requests in virtual time.

    python benchmarks/deadlocks.py [--corpus DIR] [--seeds 40] [--only COMMIT ...] [--here]

For each patch of the corpus that mended a bug, the same seeds of `sweep.py` run with the release
that has the patch, and with a copy of it in which the patch is reversed. A bug is found if a seed
fails in the copy that passes in the release; other bugs of the release fail in both. With `--here`
only this environment's distributed is searched.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from backtest import PYTEST, SHARED, NotRunError, environments
from corpus import Patch, read_bugs

from pytest_schedprof.clusters.environments import run

HERE = Path(__file__).parent

SETTINGS = (
    "--schedprof=decisions",
    "--schedprof-cluster=virtual",
    "--schedprof-workers=4",
    "--schedprof-timeout=90",
    "--schedprof-cluster-option=faults=0.02",
    "--schedprof-cluster-option=config.distributed.scheduler.validate=true",
)

NUMBERS = re.compile(r"\d+")
SEED = re.compile(r"^FAILED .*\[seed(\d+)\]", re.MULTILINE)
STORY = re.compile(
    r"^E .*StuckError: schedprof: (?P<first>.*)(?P<places>(?:\nE +in .*)*)", re.MULTILINE
)
"""What a test says when it cannot go on: its first line and, of an error, its last place."""


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search came to."""

    failed: frozenset[int]
    stories: tuple[str, ...]
    seconds: float

    def __str__(self) -> str:
        stories = "".join(f"\n    {story}" for story in self.stories)
        return f"{len(self.failed)} seeds failed in {self.seconds:.0f} s{stories}"


def search(interpreter: Path, place: Path, seeds: int, most_s: float) -> Searched:
    """Run the seeds with an interpreter."""
    place.mkdir(exist_ok=True, parents=True)
    shutil.copy(HERE / "sweep.py", place)
    command = [str(interpreter), *PYTEST, "sweep.py", *SETTINGS, f"--schedprof-seeds={seeds}"]
    command += ["-p", "no:randomly", "-rf"]
    start = time.monotonic()
    os.environ.setdefault("PYTHONHASHSEED", "0")
    try:
        _, said = run(command, deadline=start + most_s, cwd=place)
    except subprocess.TimeoutExpired:
        raise NotRunError(f"the seeds did not end in {most_s:g} s") from None
    (place / "said.txt").write_text(said)
    if " passed" not in said and " failed" not in said:
        raise NotRunError((said.strip().splitlines() or ["no output"])[-1])
    failed = frozenset(int(seed) for seed in SEED.findall(said))
    return Searched(failed, tuple(stories(said)), time.monotonic() - start)


def stories(said: str) -> Iterator[str]:
    """Yield each thing that went wrong once: its last line, which says where."""
    ends = (f"{match['first']}{match['places']}".splitlines()[-1] for match in STORY.finditer(said))
    stories = (NUMBERS.sub("N", end.removeprefix("E").strip())[:150] for end in ends)
    return iter(dict.fromkeys(stories))


def try_bug(patch: Patch, place: Path, seeds: int, most_s: float) -> bool:
    """Search the release and its copy without the fix; return whether the bug was found."""
    try:
        good, bad = environments(patch, place)
        mended = search(good, place / "mended", seeds, most_s)
        broken = search(bad, place / "broken", seeds, most_s)
    except NotRunError as error:
        print(f"{patch.path.stem} {patch.number}: not run: {error}")
        return False
    print(f"{patch.path.stem} {patch.number} {patch.what}")
    print(f"  with the fix: {mended}\n  without it: {broken}", flush=True)
    only = sorted(broken.failed - mended.failed)
    print(f"  only without it: {', '.join(f'seed{seed}' for seed in only) or 'none'}", flush=True)
    return bool(only)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, default=SHARED)
    parser.add_argument("--only", nargs="+", default=(), metavar="COMMIT")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--most", type=float, default=900.0, help="seconds of a search")
    parser.add_argument("--here", action="store_true", help="search this environment's distributed")
    parser.add_argument("--keep", type=Path, help="new directory for results and environments")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="deadlocks-") as temporary:
        place = (options.keep or Path(temporary)).absolute()
        if options.here:
            print(search(Path(sys.executable), place, options.seeds, options.most))
            return
        if not options.corpus.is_dir():
            parser.error(f"there is no directory {options.corpus}; give --corpus DIR")
        bugs = [
            bug
            for bug in read_bugs(options.corpus.absolute())
            if not options.only or bug.path.stem in options.only
        ]
        outcomes = [
            try_bug(bug, place / bug.path.stem, options.seeds, options.most) for bug in bugs
        ]
    print(f"{sum(outcomes)} of {len(outcomes)} bugs found")
    sys.exit(not all(outcomes))


if __name__ == "__main__":
    main()
