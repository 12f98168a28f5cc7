"""Record the sessions of the goldens for real, and keep their directories of runs in one archive.

    python tests/goldens/record.py                  all of them, in ten minutes on two cores
    python tests/goldens/record.py viztracer turns  these anew, the others as they are kept

Then `UPDATE_GOLDENS=1 pytest tests/pure/test_goldens.py` writes the texts, and the diff shows what
changed. No path, host or user of this machine is kept: each file is rewritten without them.
"""

from __future__ import annotations

import getpass
import gzip
import io
import json
import os
import re
import shutil
import site
import socket
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_schedprof.store.places import Folder
from pytest_schedprof.store.sources import file_of

sys.path.append(str(Path(__file__).parents[1]))
from support import environment_behind

HERE = Path(__file__).parent
ARCHIVE = HERE / "sessions.tar.xz"

PRELOAD = f"""
import os, sys

def dask_setup(scheduler):
    if os.environ.get("PLANTED") and sys.prefix == {sys.prefix!r}:  # not on the other side
        sys.path.append({str(HERE.parent)!r})
        from injection import plant
        plant("distributed.scheduler", "SchedulerState._transition", "_ = None; " * 99)
"""

OTHER = "other/bin/python"
SIMULATED = ("--schedprof-cluster=simulated", "--schedprof-workers=4")
PAIR = "-ktree or samples or growth"

SESSIONS = {
    "before": (PAIR, "--schedprof-save=main"),
    "regression": (PAIR, "--schedprof-compare=main"),
    "pyspy": ("-ksamples", "--schedprof=pyspy"),
    "viztracer": (
        *("-ktasks", "--schedprof=viztracer", *SIMULATED),
        "--schedprof-option=viztracer.min_duration=50",
    ),
    "instructions": (
        *("-ktasks", "--schedprof=instructions", *SIMULATED),
        "--schedprof-option=instructions.by=valgrind",
    ),
    "evidence": ("-kevidence",),
    "turns": (
        *("-ktasks", "--schedprof=counts", *SIMULATED),
        *(f"--schedprof-against={OTHER}", "--schedprof-budget=150"),
    ),
    "limits": ("-kbusy or idle", "--schedprof=cputime"),
    "killed": ("-kkilled", "--schedprof=cputime,pyspy"),
    "gen_cluster": ("-kgen_cluster",),
}
"""The tests of each session, and its options."""

ENVIRONMENT = {
    "regression": {"PLANTED": "1", "DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION": "4"},
    "turns": {"PLANTED": "1"},
}
"""For sessions whose scheduler does more for each transition, or queues tasks otherwise."""

PICTURES = {".html", ".svg"}
"""Evidence that others draw, which is large: its files are kept empty."""


def record(name: str, project: Path) -> None:
    """Run a session; its directory of the run gets its name."""
    before = set((project / ".schedprof").glob("2*"))
    sys.stdout.write(f"--- {name}\n")
    subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-pno:cacheprovider", "-pno:randomly"),
            *("--override-ini=filterwarnings=ignore", "--schedprof-timeout=300", *SESSIONS[name]),
        ],
        cwd=project,
        env={
            **os.environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "PYTHONHASHSEED": "0",
            "DASK_DISTRIBUTED__SCHEDULER__PRELOAD": json.dumps([str(project / "preload.py")]),
            **ENVIRONMENT.get(name, {}),
        },
        check=False,
        timeout=900,
    )
    (made,) = set((project / ".schedprof").glob("2*")) - before
    kept = project / ".schedprof" / name
    shutil.rmtree(kept, ignore_errors=True)
    made.rename(kept)
    old, new = made.name.encode(), name.encode()
    for file in (project / ".schedprof").rglob("*.json"):
        file.write_bytes(file.read_bytes().replace(old, new))
    for file in (project / ".schedprof").rglob(f"*{made.name}*"):
        file.rename(file.with_name(file.name.replace(made.name, name)))


def clean(runs: Path, project: Path) -> None:
    """Take what is this machine's out of all files, and what `report` does not read."""
    paths = {
        str(project): "/project",
        str(HERE.parents[1]): "/pytest-schedprof",
        sys.prefix: "/env",
        sys.base_prefix: "/python",
        **dict.fromkeys(site.getsitepackages(), "/env/lib/python/site-packages"),
    }
    codes = {
        code
        for file in runs.rglob("result.json")
        for code in re.findall(rb'"code": ?"([^"]+)"', file.read_bytes())
    }
    for code in codes:
        sources = file_of(Folder(""), code.decode()).name
        new = file_of(Folder(""), replaced(code, paths).decode()).name
        for file in [*runs.rglob(sources)]:
            file.rename(file.with_name(new))
    for file in [*runs.rglob("*")]:
        if file.is_dir() or file.is_symlink():
            continue
        if file.suffix in PICTURES:
            file.write_bytes(b"")
        content = file.read_bytes()
        is_packed = content.startswith(b"\x1f\x8b")
        content = gzip.decompress(content) if is_packed else content
        content = replaced(content, paths)
        if content.startswith(b"# callgrind"):
            content = b"\n".join(without_lines(content))
        for path in (Path.home(), project, HERE.parents[2]):
            assert os.fsencode(path / "_")[:-1] not in content, f"{path} in {file}"
        for word in (socket.gethostname(), getpass.getuser()):
            match = re.search(rb'"%s["@:]' % re.escape(word.encode()), content)
            assert match is None, f"{word!r} in {file}"
        file.write_bytes(gzip.compress(content, mtime=0) if is_packed else content)


def without_lines(content: bytes) -> Iterator[bytes]:
    """Add up the lines of code of each function in a file of callgrind, as our reader does."""
    cost, is_call = 0, False
    for line in content.splitlines():
        if re.match(rb"(ob|fl|fi|fe|cob|cfi|cfl)=", line):
            continue
        if re.match(rb"[0-9+*-]", line) and not is_call:
            cost += int(line.split()[1])
            continue
        if cost:
            yield b"0 %d" % cost
        cost, is_call = 0, line.startswith(b"calls=")
        yield line


def replaced(content: bytes, paths: Mapping[str, str]) -> bytes:
    """Put what stands for each path in its place; the longest first, since it may hold others."""
    for path in sorted(paths, key=len, reverse=True):
        content = content.replace(os.fsencode(path), paths[path].encode())
    return content


def main(names: list[str]) -> None:
    """Record the named sessions, or all, and pack them with the others."""
    if "regression" in names:
        names = ["before", *names]  # in one project, since it compares the paths of the code too
    project = Path(tempfile.mkdtemp(prefix="goldens-"))
    runs = project / ".schedprof"
    runs.mkdir()
    try:
        if names:
            with tarfile.open(ARCHIVE) as archive:
                archive.extractall(runs, filter="data")
        for old in {file.parent for file in runs.glob("*/run.json")}:
            if old.name not in SESSIONS:  # it has another name now
                shutil.rmtree(old)
                (HERE / f"{old.name}.txt").unlink(missing_ok=True)
        if "before" in names:
            shutil.rmtree(runs / "baselines")
        shutil.copy(HERE / "sample.py", project / "test_sample.py")
        (project / "preload.py").write_text(PRELOAD)
        environment_behind(project / "other")
        for name in names or SESSIONS:
            record(name, project)
            (HERE / f"{name}.txt").touch()  # the tests are of the sessions that have a text
        clean(runs, project)
        with tarfile.open(ARCHIVE, "w:xz", preset=9) as archive:
            for file in sorted(runs.rglob("*")):
                if file.is_file() and not file.is_symlink():
                    entry = archive.gettarinfo(file, str(file.relative_to(runs)))
                    entry.uid = entry.gid = entry.mtime = 0
                    entry.uname = entry.gname = ""
                    archive.addfile(entry, io.BytesIO(file.read_bytes()))
        sys.stdout.write(f"{ARCHIVE.stat().st_size / 1000:.0f} kB in {ARCHIVE}\n")
    finally:
        shutil.rmtree(project, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
