"""`schedprof export`: what a run recorded, in formats of other tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_schedprof.cli.commands import Commands, add_command
from pytest_schedprof.cli.runs import DEFAULT, add_run
from pytest_schedprof.errors import SettingsError

EXAMPLE = """\
examples: schedprof export test_shuffle --format pprof -o shuffle.pb.gz
          schedprof export --format github-action-benchmark .schedprof/latest -o figures.json

speedscope, collapsed and pprof are made of samples, pstats of what cprofile counted, chrometrace
of a trace or else of samples; github-action-benchmark of the figures of a whole run

exit status: 0 if it was written, 1 if it cannot be made of what there is, 2 for a mistake"""

BENCHMARKS = "github-action-benchmark"
FORMATS = ("speedscope", "collapsed", "pprof", "chrometrace", "pstats", BENCHMARKS)
BINARY = ("pprof", "pstats")


def add_to(commands: Commands) -> None:
    """Its part of the command line."""
    parser = add_command(
        commands,
        "export",
        run,
        purpose="what was recorded, in a format of other tools",
        description="Writes what a test's backends recorded of the scheduler as another tool reads "
        f"it, or, as {BENCHMARKS}, the figures of all tests of a run.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "test",
        nargs="?",
        metavar="TEST",
        help=f"its ID, or a part that no other test has; none for {BENCHMARKS}",
    )
    add_run(parser)
    parser.add_argument("--format", required=True, choices=FORMATS, help="what to write")
    parser.add_argument("--backend", metavar="NAME", help="whose files to take, if there are more")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="where to (default: standard output)"
    )


def run(given: argparse.Namespace) -> int:
    """Write it."""
    if given.format == BENCHMARKS:
        content = _benchmarks(given)
    elif given.test is None:
        raise SettingsError(f"schedprof: --format {given.format} is of one test: give TEST")
    elif given.format in BINARY and not given.output and sys.stdout.isatty():
        raise SettingsError(f"schedprof: {given.format} is no text: give a file with -o")
    else:
        content = _of_test(given)
    _write(content, given.output)
    return 0


def _benchmarks(given: argparse.Namespace) -> bytes:
    from pytest_schedprof.reports.benchmarks import as_benchmarks
    from pytest_schedprof.storage.runs import find_run

    if given.test is not None and given.directory != DEFAULT:
        raise SettingsError(f"schedprof: {BENCHMARKS} is of a whole run: give DIR alone")
    run = find_run(Path(given.test or given.directory))
    return f"{as_benchmarks(run.results())}\n".encode()


def _of_test(given: argparse.Namespace) -> bytes:
    from pytest_schedprof.errors import ArtifactError
    from pytest_schedprof.formats.exports import EXPORTS, backends_for, export_of
    from pytest_schedprof.storage.runs import find_run

    test = find_run(Path(given.directory)).test(given.test)
    names = test.artifacts(given.backend)
    found = export_of(names, given.format)
    if found is None:
        whose = f" with {given.backend}" if given.backend else ""
        others = ", ".join(form for form in EXPORTS if export_of(names, form)) or "none"
        raise ArtifactError(
            f"schedprof: {given.format} is made of what {' or '.join(backends_for(given.format))} "
            f"records; formats that can be made of {test.result.test_id}{whose}: {others}"
        )
    return found.make([test.read(name) for name in found.names])


def _write(content: bytes, output: str | None) -> None:
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    from pytest_schedprof.storage.run_directory import write

    path = Path(output).resolve()
    if path.exists() and not path.is_file():  # as /dev/null, or a pipe
        path.write_bytes(content)
    else:
        write(path, content)
