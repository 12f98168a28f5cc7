"""`schedprof memory`: draw the memory of several tests, runs or sides in one picture."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_schedprof.cli.commands import DEFAULT, Commands, add_command
from pytest_schedprof.cli.output import say, write_output
from pytest_schedprof.cli.sources import add_directory
from pytest_schedprof.errors import ArtifactError, SchedprofError, SettingsError

if TYPE_CHECKING:
    from pytest_schedprof.storage.kept_memory import KeptMemory
    from pytest_schedprof.storage.runs import KeptTest

EXAMPLE = """\
examples: schedprof memory --test test_rechunk --test test_shuffle
          schedprof memory main .schedprof/latest --test test_rechunk --measures process

The tests must have been run with --schedprof-evidence=memory.

exit status: 0 if the picture was written, 1 if not, 2 for a mistake on the command line"""


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "memory",
        run,
        purpose="draw the memory of tests, of several runs or sides, in one picture",
        description="Draws the memory of workers over time, of all tests of one or more sources "
        "that have it, each from the begin of a run of its body. A test that ran in turns has its "
        "other side beside it. A source is a baseline by name, the directory of a run or of one of "
        "its tests, or a directory of runs, of which the newest is used.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "sources", nargs="*", metavar="SOURCE", help=f"what to draw (default: {DEFAULT})"
    )
    parser.add_argument(
        "--test",
        action="append",
        default=[],
        metavar="TEST",
        help="only this test: its ID, or a part of the IDs of some; can be repeated",
    )
    parser.add_argument(
        "--measures", metavar="NAMES", help="only these measures, separated by commas"
    )
    add_directory(parser)
    parser.add_argument(
        "-o",
        "--output",
        default="memory.html",
        metavar="FILE",
        help="file to write (default: %(default)s)",
    )


def run(given: argparse.Namespace) -> int:
    """Write the picture and print its path."""
    if find_spec("bokeh") is None:
        raise SchedprofError(
            "schedprof: this needs Bokeh: pip install 'pytest-schedprof[evidence]'"
        )
    from pytest_schedprof.evidence.memory_picture import MOST, Drawn, memory_picture

    found = _found(given.sources or [DEFAULT], given.dir, given.test)
    if given.measures:
        names = [name.strip() for name in given.measures.split(",")]
        found = [_of_measures(each, names) for each in found]
    if len(found) > MOST:
        raise SettingsError(
            f"schedprof: a picture has room for {MOST} tests and sides, these are {len(found)}: "
            "choose some with --test"
        )
    drawn = [Drawn(name, each.samples) for name, each in zip(_names(found), found, strict=True)]
    write_output(given.output, memory_picture(drawn, _title(found)))
    say(given.output)
    return 0


def _found(sources: Sequence[str], directory: str, names: Sequence[str]) -> list[KeptMemory]:
    from pytest_schedprof.storage.kept_memory import kept_memory

    tests = [test for source in sources for test in _tests(source, directory)]
    chosen = {test.path.resolve(): test for test in _chosen(tests, names)}
    found = [each for test in chosen.values() for each in kept_memory(test)]
    if not found:
        raise ArtifactError(
            f"schedprof: no test of {', '.join(map(repr, sources))} has kept memory: run it with "
            "--schedprof-evidence=memory"
        )
    return found


def _tests(source: str, directory: str) -> list[KeptTest]:
    from pytest_schedprof.storage.baselines import kept_run
    from pytest_schedprof.storage.run_directory import RESULT_FILE
    from pytest_schedprof.storage.runs import find_run, read_test

    if (Path(source) / RESULT_FILE).is_file():
        return [read_test(Path(source))]
    return find_run(kept_run(source, directory) or Path(source)).tests()


def _chosen(tests: Sequence[KeptTest], names: Sequence[str]) -> Iterator[KeptTest]:
    """Yield the tests of these names, or that have one of them in their IDs; all without names."""
    known = dict.fromkeys(each.result.test_id for each in tests)
    for name in names:
        if not any(name in test_id for test_id in known):
            raise SettingsError(f"schedprof: no test {name!r}; known: {', '.join(known)}")
    for test in tests:
        test_id = test.result.test_id
        if not names or any(test_id == n or (n in test_id and n not in known) for n in names):
            yield test


def _of_measures(kept: KeptMemory, names: Sequence[str]) -> KeptMemory:
    sampled = dict.fromkeys(each.measure for each in kept.samples)
    for name in names:
        if name not in sampled:
            raise SettingsError(
                f"schedprof: {kept.test_id} has no samples of {name!r}, only of "
                f"{', '.join(sampled)}; --schedprof-option=memory.measures={name} adds it"
            )
    return replace(kept, samples=tuple(each for each in kept.samples if each.measure in names))


def _names(found: Sequence[KeptMemory]) -> list[str]:
    """Name each by what differs between them: test, run, side."""
    rows = [(each.test_id, each.run, each.side) for each in found]
    differs = [len(set(column)) > 1 for column in zip(*rows, strict=True)]
    return [
        ", ".join(word for word, told in zip(row, differs, strict=True) if told and word)
        for row in rows
    ]


def _title(found: Sequence[KeptMemory]) -> str:
    """Name what is the same for all."""
    tests, runs = {each.test_id for each in found}, {each.run for each in found}
    same = [*(tests if len(tests) == 1 else ()), *(runs if len(runs) == 1 else ())]
    return ", ".join(["memory of all workers", *same])
