"""`schedprof export`: write recordings of a run in the formats of other tools."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from pytest_schedprof.backends.registry import BackendRegistry
from pytest_schedprof.cli.main import add_run, write_output
from pytest_schedprof.errors import ArtifactError, SettingsError
from pytest_schedprof.formats.exports import EXPORTS, backends_for, export_of
from pytest_schedprof.model.backend import artifacts_of, rank_of
from pytest_schedprof.model.options import listed
from pytest_schedprof.store.runs import find_run

PURPOSE = "write recordings in the format of another tool"
DESCRIPTION = "Writes a test's recordings of the scheduler in the format of another tool."
EXAMPLE = """\
example: schedprof export test_shuffle --format collapsed -o shuffle.txt

speedscope and collapsed are made from samples, pstats from cProfile's files, chrometrace from a
trace or from samples

exit status: 0 on success, 1 if the recordings do not allow the format, 2 for a mistake"""

BINARY = "pstats"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("test", metavar="TEST", help="test ID, or a unique part of it")
    add_run(parser)
    parser.add_argument("--format", required=True, choices=EXPORTS, help="format to write")
    parser.add_argument("--backend", metavar="NAME", help="use recordings of this backend")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="file to write (default: standard output)"
    )


def run(arguments: argparse.Namespace) -> int:
    if arguments.format == BINARY and not arguments.output and sys.stdout.isatty():
        raise SettingsError(
            f"schedprof: {arguments.format} is a binary format: give a file with -o"
        )
    content = _of_test(arguments)
    if arguments.output is None:
        sys.stdout.buffer.write(content)
        sys.stdout.flush()
    else:
        write_output(arguments.output, content)
    return 0


def _of_test(arguments: argparse.Namespace) -> bytes:
    test = find_run(Path(arguments.directory)).test(arguments.test)
    names, known = test.artifacts(arguments.backend), BackendRegistry().facts
    recorded = sorted(test.result.backends, key=lambda backend: rank_of(backend.backend, known))
    artifacts = [kind for backend in recorded for kind in artifacts_of(backend.backend, known)]
    export = export_of(names, arguments.format, artifacts)
    if export is None:
        whose = f" with {arguments.backend}" if arguments.backend else ""
        forms = [form for form in EXPORTS if export_of(names, form, artifacts)]
        sources = listed(backends_for(arguments.format, known.values()), "or")
        gone = [backend.backend for backend in recorded if backend.left_out]
        why = f"; recordings of {listed(gone)} were not kept, by --schedprof-keep" if gone else ""
        raise ArtifactError(
            f"schedprof: {arguments.format} needs a recording of {sources}; formats available for "
            f"{test.result.test_id}{whose}: {', '.join(forms) or 'none'}{why}"
        )
    return export.make([test.read(name) for name in export.names])
