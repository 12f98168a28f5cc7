"""Search for faults of distributed's state machines by random requests in virtual time.

    python benchmarks/deadlocks.py [--corpus DIR] [--seeds 40] [--only COMMIT ...] [--here]

For each patch of the corpus that mended a bug, the same seeds of `sweep.py` run with the release
that has the patch, and with a copy of it in which the patch is reversed. A bug is found if a seed
fails in the copy that passes in the release. With `--here` only this environment's distributed is
searched. The time is that of one process; seeds can be shared out with pytest-xdist (`-n auto`).
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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from backtest import PYTEST, SHARED, NotRunError, environments
from corpus import read_bugs

from pytest_schedprof.environments.programs import run

HERE = Path(__file__).parent

SETTINGS = (
    "--schedprof=decisions",
    "--schedprof-cluster=virtual",
    "--schedprof-workers=4",
    "--schedprof-timeout=90",
    "--schedprof-cluster-option=faults=0.02",
    "--schedprof-cluster-option=config.distributed.scheduler.validate=true",
)

SEED = re.compile(r"^FAILED .*\[seed(\d+)\]", re.MULTILINE)
STORY = re.compile(r"(?:StuckError|log ends): (schedprof: .*|.*StuckError: .*)")


@dataclass(frozen=True, slots=True)
class Searched:
    """What a search came to."""

    failed: tuple[int, ...]
    story: str
    seconds: float

    def __str__(self) -> str:
        seeds = ", ".join(f"seed{each}" for each in self.failed[:5]) or "none"
        return f"{len(self.failed)} seeds failed ({seeds}) in {self.seconds:.0f} s  {self.story}"


def search(interpreter: Path, place: Path, seeds: int, most_s: float, stop: bool) -> Searched:
    """Run the seeds with an interpreter; perhaps stop at the first that fails."""
    place.mkdir(exist_ok=True, parents=True)
    shutil.copy(HERE / "sweep.py", place)
    command = [str(interpreter), *PYTEST, "sweep.py", *SETTINGS, f"--schedprof-seeds={seeds}"]
    command += ["-p", "no:randomly", "-rf", *(["-x"] if stop else [])]
    begun = time.monotonic()
    os.environ.setdefault("PYTHONHASHSEED", "0")
    try:
        _, said = run(command, deadline=begun + most_s, cwd=place)
    except subprocess.TimeoutExpired:
        raise NotRunError(f"the seeds did not end in {most_s:g} s") from None
    (place / "said.txt").write_text(said)
    if " passed" not in said and " failed" not in said:
        raise NotRunError((said.strip().splitlines() or ["no output"])[-1])
    failed = tuple(sorted(int(each) for each in SEED.findall(said)))
    story = STORY.search(said)
    return Searched(failed, story[1][:200] if story else "", time.monotonic() - begun)


def try_bugs(given: argparse.Namespace, place: Path) -> bool:
    """Search for each bug of a corpus; return whether all were found."""
    found = []
    for patch in read_bugs(given.corpus.absolute()):
        if given.only and patch.path.stem not in given.only:
            continue
        try:
            good, bad = environments(patch, place / patch.path.stem)
            for name, interpreter in (("with the fix", good), ("without it", bad)):
                searched = search(
                    interpreter,
                    place / patch.path.stem / name,
                    given.seeds,
                    given.most,
                    bad is interpreter,
                )
                print(f"{patch.path.stem} {patch.number} {name}: {searched}", flush=True)
            found.append(bool(searched.failed))
        except NotRunError as error:
            print(f"{patch.path.stem} {patch.number}: not run: {error}", flush=True)
            found.append(False)
    print(f"{sum(found)} of {len(found)} bugs found")
    return all(found)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, default=SHARED)
    parser.add_argument("--only", nargs="+", default=(), metavar="COMMIT")
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--most", type=float, default=300.0, help="seconds of a search")
    parser.add_argument("--here", action="store_true", help="search this environment's distributed")
    parser.add_argument("--keep", type=Path, help="new directory for results and environments")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="deadlocks-") as temporary:
        place = (given.keep or Path(temporary)).absolute()
        if given.here:
            print(search(Path(sys.executable), place, given.seeds, given.most, False))
        elif not given.corpus.is_dir():
            parser.error(f"there is no directory {given.corpus}; give --corpus DIR")
        else:
            sys.exit(not try_bugs(given, place))


if __name__ == "__main__":
    main()
