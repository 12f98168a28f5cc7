"""Measure what the plugin adds to a whole pytest run that does not use it.

    python benchmarks/startup.py [--repeats N] [--instructions]

Runs pytest on one trivial test, in turns: without a plugin, with pytest-schedprof and, where it
is installed, with pytest-benchmark. Each is found as any installed plugin is, and `-p no:` keeps
out all others. (With autoloading off and `-p schedprof` instead, the figure would contain the
search for entry points, which every run with autoloading does anyway.) One more run checks that
the plugin imported neither distributed nor msgspec.

`--instructions` counts instructions by valgrind instead, in one run each, which other load on the
machine does not change.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from importlib.metadata import entry_points
from pathlib import Path
from statistics import mean, median

from figures import closing_line, interleaved, interval

ASKED_MS = 5.0
PLUGINS = ("schedprof", "benchmark")
PYTEST = ("-q", "-p", "no:cacheprovider", "test_one.py")
HEAVY = ("distributed", "dask", "msgspec", "viztracer")

Run = tuple[float, float]
"""Milliseconds of wall time, and of CPU time."""


def arms() -> dict[str, list[str]]:
    """Arguments for each kind of run: all plugins are disabled, or all but one."""
    installed = sorted({entry.name for entry in entry_points(group="pytest11")})
    kept = ["none", *(name for name in PLUGINS if name in installed)]
    return {
        keep: [word for name in installed if name != keep for word in ("-p", f"no:{name}")]
        for keep in kept
    }


def environment(directory: Path) -> dict[str, str]:
    """Environment that keeps compiled code, as after any first run, but outside of source trees."""
    unwanted = ("PYTEST_", "PYTHONDONTWRITEBYTECODE")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(unwanted)}
    return {**environ, "PYTHONPYCACHEPREFIX": str(directory / "bytecode")}


def run(arguments: list[str], directory: Path) -> Run:
    """Run pytest once."""
    command = [sys.executable, "-m", "pytest", *arguments, *PYTEST]
    start = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=directory, env=environment(directory), stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(command)} exited with {process.returncode}")
    return wall * 1e3, (usage.ru_utime + usage.ru_stime) * 1e3


def instructions(arguments: list[str], directory: Path) -> float:
    """Count the instructions of one run, in millions."""
    valgrind = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*valgrind, sys.executable, "-m", "pytest", *arguments, *PYTEST]
    environ = {**environment(directory), "PYTHONHASHSEED": "0"}
    output = subprocess.run(
        command, cwd=directory, env=environ, check=True, capture_output=True, text=True
    ).stderr
    line = next(line for line in output.splitlines() if "Collected :" in line)
    return int(line.split()[-1]) / 1e6


def report_instructions(directory: Path) -> None:
    """Print the instructions that each plugin adds."""
    for arguments in arms().values():
        run(arguments, directory)
    counted = {name: instructions(arguments, directory) for name, arguments in arms().items()}
    for name, millions in counted.items():
        print(f"{name:9s} {millions:6.1f} million, adds {millions - counted['none']:+5.1f}")


def measure(repeats: int, directory: Path) -> dict[str, list[Run]]:
    """Interleaved runs of each arm; the first run of each is discarded."""
    arguments = arms()
    runs: dict[str, list[Run]] = {name: [] for name in arguments}
    for name in arguments:
        run(arguments[name], directory)
    for name in interleaved(list(arguments), repeats):
        runs[name].append(run(arguments[name], directory))
    return runs


def report(runs: dict[str, list[Run]]) -> float:
    """Print what each plugin adds; return schedprof's part in ms of wall time."""
    print(f"{len(runs['none'])} runs each; what a plugin adds is the median of paired differences")
    print("[its 95 % interval], and (against noise) the difference of the quickest tenths")
    added = {}
    for index, kind in enumerate(("clock", "CPU")):
        bare = [run[index] for run in runs["none"]]
        print(f"{kind:5s} none      median {median(bare):6.1f} ms")
        for name in list(runs)[1:]:
            times = [run[index] for run in runs[name]]
            differences = [a - b for a, b in zip(times, bare, strict=True)]
            added[name, kind] = median(differences)
            low, high = interval(differences)
            print(
                f"{kind:5s} {name:9s} median {median(times):6.1f} ms, adds "
                f"{median(differences):+5.1f} [{low:+.1f}, {high:+.1f}] "
                f"({quickest(times) - quickest(bare):+.1f})"
            )
    return added["schedprof", "clock"]


def quickest(values: list[float]) -> float:
    """Mean of the quickest tenth, which other load on the machine affects least."""
    return mean(sorted(values)[: max(1, len(values) // 10)])


def heavy_modules(directory: Path) -> list[str]:
    """Modules that an unused plugin must not import, but did."""
    arguments = [*arms()["schedprof"], *PYTEST]
    program = (
        f"import sys, pytest; pytest.main({arguments!r}); "
        f"print('heavy:', *(name for name in {HEAVY!r} if name in sys.modules))"
    )
    command = [sys.executable, "-c", program]
    output = subprocess.check_output(command, cwd=directory, env=environment(directory), text=True)
    return output.splitlines()[-1].split()[1:]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--instructions", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "pytest.ini").write_text("[pytest]\n")
        (directory / "test_one.py").write_text("def test_one():\n    pass\n")
        if options.instructions:
            return report_instructions(directory)
        added = report(measure(options.repeats, directory))
        heavy = heavy_modules(directory)
    if heavy:
        sys.exit(f"the unused plugin imported {', '.join(heavy)}")
    print(f"imported none of: {', '.join(HEAVY)}")
    print(closing_line("added to a pytest run", added, ASKED_MS, " ms"))


if __name__ == "__main__":
    main()
