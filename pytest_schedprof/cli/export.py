"""`schedprof export`: write recordings of a run in the formats of other tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.commands import DEFAULT, Commands, add_command, add_run, write_output
from pytest_schedprof.errors import ArtifactError, SettingsError
from pytest_schedprof.formats.exports import EXPORTS, backends_for, export_of
from pytest_schedprof.model.backend import artifacts_of, rank_of
from pytest_schedprof.model.words import listed
from pytest_schedprof.report.commands import as_benchmarks
from pytest_schedprof.store.runs import find_run

EXAMPLE = """\
examples: schedprof export test_shuffle --format pprof -o shuffle.pb.gz
          schedprof export --format github-action-benchmark .schedprof/latest -o figures.json

speedscope, collapsed and pprof are made from samples, pstats from cProfile's files, chrometrace
from a trace or from samples; github-action-benchmark from the figures of a whole run

exit status: 0 on success, 1 if the recordings do not allow the format, 2 for a mistake"""

OF_RUN = "github-action-benchmark"
FORMATS = ("speedscope", "collapsed", "pprof", "chrometrace", "pstats", OF_RUN)
BINARY = ("pprof", "pstats")


def add_to(commands: Commands) -> None:
    """Add the command to the command line."""
    parser = add_command(
        commands,
        "export",
        run,
        purpose="write recordings in the format of another tool",
        description="Writes a test's recordings of the scheduler in the format of another tool, or "
        f"with {OF_RUN} the figures of all tests of a run.",
        example=EXAMPLE,
    )
    parser.add_argument(
        "test",
        nargs="?",
        metavar="TEST",
        help=f"test ID, or a unique part of it; none for {OF_RUN}",
    )
    add_run(parser)
    parser.add_argument("--format", required=True, choices=FORMATS, help="format to write")
    parser.add_argument("--backend", metavar="NAME", help="use recordings of this backend")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="file to write (default: standard output)"
    )


def run(given: argparse.Namespace) -> int:
    """Write the export."""
    if given.format == OF_RUN:
        content = _of_run(given)
    elif given.test is None:
        raise SettingsError(f"schedprof: --format {given.format} needs a test: give TEST")
    elif given.format in BINARY and not given.output and sys.stdout.isatty():
        raise SettingsError(f"schedprof: {given.format} is a binary format: give a file with -o")
    else:
        content = _of_test(given)
    _write(content, given.output)
    return 0


def _of_run(given: argparse.Namespace) -> bytes:
    if given.test is not None and given.directory != DEFAULT:
        raise SettingsError(f"schedprof: {given.format} is for a whole run: give only DIR")
    results = find_run(Path(given.test or given.directory)).results()
    return f"{as_benchmarks(results)}\n".encode()


def _of_test(given: argparse.Namespace) -> bytes:
    test = find_run(Path(given.directory)).test(given.test)
    names, known = test.artifacts(given.backend), BackendRegistry().facts
    recorded = sorted(test.result.backends, key=lambda each: rank_of(each.backend, known))
    artifacts = [one for each in recorded for one in artifacts_of(each.backend, known)]
    found = export_of(names, given.format, artifacts)
    if found is None:
        whose = f" with {given.backend}" if given.backend else ""
        forms = [form for form in EXPORTS if export_of(names, form, artifacts)]
        sources = listed(backends_for(given.format, known.values()), "or")
        gone = [each.backend for each in recorded if each.left_out]
        why = f"; recordings of {listed(gone)} were not kept, by --schedprof-keep" if gone else ""
        raise ArtifactError(
            f"schedprof: {given.format} needs a recording of {sources}; formats available for "
            f"{test.result.test_id}{whose}: {', '.join(forms) or 'none'}{why}"
        )
    return found.make([test.read(name) for name in found.names])


def _write(content: bytes, output: str | None) -> None:
    if output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
        return
    write_output(output, content)
