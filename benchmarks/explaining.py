"""Measure how often `schedprof explain` names the function that a real commit changed.

    python benchmarks/explaining.py [--corpus DIR] [--only COMMIT ...]

Each patch of the corpus is reversed in a copy of its release, as in `backtest.py`. The shipped
workloads run once in the release and once in the copy, on clusters in virtual time. Both runs are
given to what `schedprof explain A B` prints: the tests whose figures changed most, first.

- first: the place of the function at fault in the first explanation that is printed. It is one that
  the patch changes, or that the lines name which the patch removed.
- any: the least such place in the ten explanations that are printed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from backtest import SHARED, Bounds, NotRunError, environments, is_at_fault, session, site_of
from corpus import Patch, changed_functions, read_corpus
from figures import closing_line

from pytest_schedprof.cli.explain import MOST_TESTS, gravest
from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.explaining.sides import explanations, pairs_of
from pytest_schedprof.model.explanation import Explanation
from pytest_schedprof.presentation.explanation import told

MISSED = 0.1
"""Part of the patches whose function may be missing."""


class Row(NamedTuple):
    """What came out for one patch."""

    patch: Patch
    first: int | None = None
    any: int | None = None
    named: str = ""
    note: str = ""

    def __str__(self) -> str:
        places = [str(each or "-") for each in (self.first, self.any)]
        name = f"{self.patch.path.stem} {self.patch.number}"
        return f"{name:18} {places[0]:>5} {places[1]:>4}  {self.named or self.note}"


def explained(good: Path, bad: Path, place: Path, bounds: Bounds) -> list[Explanation]:
    """Run the workloads on both sides; return what would be printed."""
    for name, interpreter in (("good", good), ("bad", bad)):
        session(interpreter, place / name, bounds, "--schedprof-save=explained")
    good_runs, bad_runs = (str(place / name / ".schedprof") for name in ("good", "bad"))
    return gravest(
        each for pair in pairs_of(good_runs, bad_runs, "") for each in explanations(pair)
    )


def at_fault(
    found: Explanation, patch: Patch, changed: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Yield the places of functions at fault among those that an explanation tells."""
    for place, part in enumerate(told(found), start=1):
        names = [each for each in (part.function, part.moved_from) if each]
        for name in names:
            if is_at_fault(name, patch, changed):
                yield place, name


def try_patch(patch: Patch, place: Path, bounds: Bounds) -> Row:
    """Return where the functions of a patch are named."""
    place.mkdir(parents=True)
    try:
        good, bad = environments(patch, place)
        changed = changed_functions(patch, site_of(good), site_of(bad))
        found = explained(good, bad, place, bounds)[:MOST_TESTS]
    except (NotRunError, SchedprofError) as error:
        return Row(patch, note=str(error).partition("\n")[0])
    if not found:
        return Row(patch, note="nothing changed")
    places = [list(at_fault(each, patch, changed)) for each in found]
    first = min(places[0], default=(None, ""))
    best = min((each for some in places for each in some), default=(None, ""))
    return Row(patch, first[0], best[0], best[1])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--corpus", type=Path, default=SHARED)
    parser.add_argument("--only", nargs="+", default=(), metavar="COMMIT")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--most", type=float, default=600.0, help="seconds of a session")
    parser.add_argument("--option", action="append", default=[], help="option of pytest")
    given = parser.parse_args(arguments)
    bounds = Bounds(given.tasks, given.most, tuple(given.option))
    patches = [
        each
        for each in read_corpus([given.corpus])
        if not given.only or each.path.stem in given.only
    ]
    rows: list[Row] = []
    print("patch              first  any  function", flush=True)
    with tempfile.TemporaryDirectory(prefix="schedprof-explaining-") as temporary:
        for patch in patches:
            rows.append(try_patch(patch, Path(temporary) / patch.path.stem, bounds))
            print(rows[-1], flush=True)
    missed = sum(row.first is None for row in rows) / max(1, len(rows))
    print(closing_line("part of the patches that the first explanation misses", missed, MISSED))


if __name__ == "__main__":
    main()
