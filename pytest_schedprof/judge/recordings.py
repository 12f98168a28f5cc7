"""What backends recorded of a test, read from their files, and the same of another side."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from pytest_schedprof.errors import SchedprofError
from pytest_schedprof.formats.callgrind import is_python, read_callgrind, unfolded
from pytest_schedprof.formats.chrometrace import mended, read_times, unpacked
from pytest_schedprof.formats.speedscope import SpeedscopeFile, name_frames, read_speedscope
from pytest_schedprof.judge.shares import busy_stack
from pytest_schedprof.model.backend import CALLGRIND, TRACE, KnownBackends, artifacts_of, kind_of
from pytest_schedprof.model.metric import INSTRUCTIONS
from pytest_schedprof.model.profile import CodeLocation, Function, SampleProfile, Stack
from pytest_schedprof.model.result import BackendResult, Result, SampledShares
from pytest_schedprof.store.baselines import folder_of, folder_with_sources, is_worth_keeping, load
from pytest_schedprof.store.places import inside, read_kept
from pytest_schedprof.store.run_directory import AGAINST
from pytest_schedprof.store.runs import KeptRun, TestFiles, find_run, read_side, reason_of
from pytest_schedprof.store.sources import Key, read_stacks, stacks_file_of, write_stacks

_PATH_ENTRY = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+)/")


class Names:
    """Map places in a file of samples to the functions of one record."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self._known = frozenset(functions)
        self._entries: set[str] = set()
        self._recorded = cache(self._find_recorded)  # most places are in the files of all rounds

    def __call__(self, places: Sequence[CodeLocation]) -> list[Function]:
        """Return `module:qualname` of each place."""
        functions = [(file, name) for file, name, _ in places]  # each is there for many lines
        recorded = {place: self._recorded(*place) for place in dict.fromkeys(functions)}
        names = {
            (file, name): function or f"{self._module(file)}:{name}"
            for (file, name), function in recorded.items()
        }
        return [names[place] for place in functions]

    @cached_property
    def _aliases(self) -> dict[tuple[str, str], list[Function]]:
        """Functions by last part of the module and name: `tlz` loads modules under its own name."""
        aliases: dict[tuple[str, str], list[Function]] = defaultdict(list)
        for function in sorted(self._known):
            module, _, name = function.partition(":")
            aliases[module.rpartition(".")[2], name].append(function)
        return aliases

    def _find_recorded(self, file: str, name: str) -> Function | None:
        for entry, module in _readings(file):
            function = f"{module}:{name}"
            if function in self._known:
                self._entries.add(entry)
                return function
        stem = module.rpartition(".")[2]
        return next(iter(self._aliases.get((stem, name), ())), None)

    def _module(self, file: str) -> str:
        """Return the module of a function that the record lacks, such as one that only waits."""
        readings = _readings(file)
        # The longest entry first, which gives the shortest module name.
        for entry, module in reversed(readings):
            if (entry and entry in self._entries) or _PATH_ENTRY.fullmatch(entry):
                return module
        return readings[-1][1]


@cache
def _readings(file: str) -> tuple[tuple[str, str], ...]:
    """Return each `sys.path` entry that may contain the file, and the module name under it."""
    if file.startswith("<frozen "):
        return (("", file[len("<frozen ") : -1]),)
    path = file.replace("\\", "/")
    stem = re.sub(r"(/__init__)?\.py$", "", path)
    starts = [0, *(match.end() for match in re.finditer("/", stem))]
    return tuple((path[:start], stem[start:].replace("/", ".")) for start in starts)


def busy_stacks(profiles: Iterable[SampleProfile]) -> Counter[Stack]:
    """Count the busy samples of the scheduler by stack; shares are fractions of their sum."""
    counts: Counter[Stack] = Counter()
    for profile in profiles:
        for index, count in Counter(chain.from_iterable(profile.threads)).items():
            if busy := busy_stack(profile.stacks[index], profile.is_shared):
                counts[busy.stack] += count
    return counts


def trimmed(stacks: Mapping[Stack, int], least: float) -> Counter[Stack]:
    """Count calls below a part of the whole as their caller's own, so that a page stays small."""
    held: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        for depth in range(1, len(stack) + 1):
            held[stack[:depth]] += count
    smallest = least * sum(stacks.values())
    kept: Counter[Stack] = Counter()
    for stack, count in stacks.items():
        depth = len(stack)
        while depth > 1 and held[stack[:depth]] < smallest:
            depth -= 1
        kept[stack[:depth]] += count
    return kept


SAMPLES = ".speedscope.json"
"""Ending of the names of files with samples, whichever backend wrote them."""


class Recorded(Struct, frozen=True):
    """Stacks that one backend recorded, or why there are none: busy samples, or costs per task."""

    stacks: Counter[Stack] = field(default_factory=Counter)
    problem: str = ""
    unit: str = ""
    """Unit of costs."""
    cost: float = 1.0
    """What one of each stack's amount stands for, in the unit."""


def read_samples(directory: Path, backend: BackendResult) -> Recorded:
    files = [name for name in backend.artifacts if name.endswith(SAMPLES)]
    if backend.shares is None or not files:
        return Recorded(problem=f"{backend.backend} kept no samples")
    try:
        return Recorded(busy_stacks(_profiles(directory, files, backend.shares)))
    except SchedprofError as error:
        return Recorded(problem=reason_of(error))


def _profiles(directory: Path, files: list[str], shares: SampledShares) -> Iterator[SampleProfile]:
    names = Names(function.function for function in shares.functions)
    for file in files:
        content = read_speedscope(read_kept(inside(directory, file)))
        profile = name_frames(content, names, backend="", mode="")
        yield replace(profile, is_shared=shares.is_shared)


Lines = Mapping[Function, Mapping[int, float]]
"""What was seen in each line of each function."""


def read_lines(directory: Path, backend: BackendResult) -> tuple[Lines, Lines]:
    """Read all files of one backend with samples; nothing if any cannot be read.

    Returns:
        Samples of each line with those of what it called, where a sample counts once for each line;
        and samples of the line itself.
    """
    lines: dict[Function, Counter[int]] = defaultdict(Counter)
    own: dict[Function, Counter[int]] = defaultdict(Counter)
    functions = backend.shares.functions if backend.shares else ()
    is_shared = bool(backend.shares and backend.shares.is_shared)
    names = Names(share.function for share in functions)
    try:
        for file in (name for name in backend.artifacts if name.endswith(SAMPLES)):
            content = read_speedscope(read_kept(inside(directory, file)))
            for places, count in _busy_places(content, names, is_shared=is_shared):
                for function, line in dict.fromkeys(places):  # in an order that is always the same
                    lines[function][line] += count
                function, line = places[-1]
                own[function][line] += count
    except SchedprofError:
        return {}, {}
    return lines, own


def _busy_places(
    file: SpeedscopeFile, names: Names, *, is_shared: bool
) -> Iterator[tuple[list[tuple[Function, int]], int]]:
    """Yield function and line of each call of a busy stack, and how often it was sampled."""
    frames = file.frames
    named = names([(frame.file or "", frame.name, frame.line or 0) for frame in frames])
    counts: Counter[int] = Counter()
    for thread in file.threads:
        counts.update(thread.stacks)
    for number, count in counts.items():
        stack = file.stacks[number]
        busy = busy_stack(tuple(named[frame] for frame in stack), is_shared)
        if busy is not None:
            calls = stack[-len(busy.stack) :]
            yield [(named[call], frames[call].line or 0) for call in calls], count


UNNAMED = "the scheduler's Python does not name its functions, as Python 3.12 and newer do"

NANOSECONDS = 1000
"""In a microsecond."""


def read_calls(directory: Path, backend: BackendResult, known: KnownBackends) -> Recorded:
    artifacts = artifacts_of(backend.backend, known)
    kinds = {name: kind_of(name, artifacts) for name in backend.artifacts}
    graphs, traces = (
        [inside_of for inside_of, kind in kinds.items() if kind is chosen]
        for chosen in (CALLGRIND, TRACE)
    )
    try:
        if graphs:
            stacks = _per_task(_instructions(directory, graphs), backend)
            return Recorded(stacks, "" if stacks else UNNAMED, unit=INSTRUCTIONS)
        stacks = _per_task(_nanoseconds(directory, traces, backend), backend)
        return Recorded(stacks, unit="us", cost=1 / NANOSECONDS)
    except SchedprofError as error:
        return Recorded(problem=reason_of(error))


def _per_task(files: Iterator[Mapping[Stack, float]], backend: BackendResult) -> Counter[Stack]:
    """Return the sum of all files, divided by the tasks of the window."""
    sums: defaultdict[Stack, float] = defaultdict(float)
    for stacks in files:
        for stack, amount in stacks.items():
            sums[stack] += amount
    tasks = max(1, backend.window.tasks)
    costs = {stack: round(amount / tasks) for stack, amount in sums.items()}
    return Counter({stack: amount for stack, amount in costs.items() if amount > 0})


def read_recorded(directory: Path, backend: BackendResult, known: KnownBackends) -> Recorded:
    """Read the busy samples of a backend that samples, and what calls cost by any other one."""
    if backend.shares is None:
        return read_calls(directory, backend, known)
    return read_samples(directory, backend)


def _instructions(directory: Path, files: list[str]) -> Iterator[Mapping[Stack, float]]:
    """Yield the instructions of each stack, without what ran for hollow workers."""
    for file in files:
        graph = read_callgrind(read_kept(inside(directory, file)))
        if any(map(is_python, graph.own)):
            yield {stack: cost for stack, cost in unfolded(graph).items() if busy_stack(stack)}


def _nanoseconds(
    directory: Path, files: list[str], backend: BackendResult
) -> Iterator[Mapping[Stack, float]]:
    """Yield the time of each stack in which the scheduler did not wait."""
    functions = backend.costs.functions if backend.costs else ()
    names = Names(function.function for function in functions)
    for file in files:
        times = read_times(mended(unpacked(read_kept(inside(directory, file)))), names)
        yield {stack: time * NANOSECONDS for stack, time in times.items() if busy_stack(stack)}


class Other(Struct, frozen=True):
    """The same test on another side: its record, and its files or at least its stacks."""

    name: str
    result: Result
    directory: Path | None = None
    """Of its files; None if only a baseline is left."""
    stacks: Mapping[Key, Counter[Stack]] = field(default_factory=dict)
    """Those that the baseline keeps."""

    def recorded(self, backend: BackendResult, known: KnownBackends) -> Counter[Stack]:
        """Return what one of its backends recorded; nothing if it is not kept."""
        if self.directory:
            return read_recorded(self.directory, backend, known).stacks
        return self.stacks.get(Key(self.result.test_id, backend.backend, backend.mode), Counter())


def other_of(
    test: TestFiles, run: KeptRun | None = None, saved: Saved | None = None
) -> Other | None:
    """Return the test in another run, or the other side of a test in turns, or the saved test."""
    if run is not None:
        others = [
            Other(run.path.name, kept.result, kept.directory)
            for kept in run.attempts(test.entry.test_id)
            if kept.result and kept.result.is_usable
        ]
        return others[-1] if others else None
    if test.result is None:
        return None
    if side := read_side(test.directory):
        return Other(test.result.baseline or AGAINST, side, test.directory / AGAINST)
    return saved.test(test.result) if saved else None


class Saved:
    """Baselines that a run was compared with, by their names; each is read once."""

    def __init__(self, run: Path) -> None:
        self._run, self._directory = run.name, str(run.parent)
        self._others: dict[str, dict[str, Other]] = {}

    def test(self, result: Result) -> Other | None:
        """Return the test as the baseline has it; None without a baseline or its stacks."""
        name = result.baseline
        if name and name not in self._others:
            self._others[name] = self._read(name)
        return self._others[name].get(result.test_id) if name else None

    def _read(self, name: str) -> dict[str, Other]:
        folder = folder_with_sources(name, self._directory)
        if folder is None or stacks_file_of(folder, self._run).exists():
            return {}  # this run itself has been saved over what it was compared with
        stacks = read_stacks(folder)
        if not stacks:
            return {}
        try:
            results = load(name, self._directory).results
        except SchedprofError:
            return {}
        return {result.test_id: Other(name, result, stacks=stacks) for result in results}


LEAST = 0.0005
"""Part of all that was seen from which on a call has a stack of its own, or a box."""


def keep_stacks(run: Path, name: str, directory: str, known: KnownBackends) -> None:
    """Keep the stacks of a saved session; without them a baseline is as good for all else.

    Args:
        run: directory of the session.
        name: of the baseline.
        directory: that has the baselines.
        known: facts about backends, which tell whose files have stacks.
    """
    folder = folder_of(name, directory)
    if folder.name.endswith(".json"):
        return
    with suppress(SchedprofError):
        tests = find_run(run).attempts()
        kept = {key: counts for test in tests for key, counts in _stacks(test, known).items()}
        if kept:
            write_stacks(folder, run.name, kept)


def _stacks(test: TestFiles, known: KnownBackends) -> Mapping[Key, Counter[Stack]]:
    if test.result is None or not is_worth_keeping(test.result):
        return {}
    kept = {}
    for backend in test.result.backends:
        if stacks := read_recorded(test.directory, backend, known).stacks:
            key = Key(test.result.test_id, backend.backend, backend.mode)
            kept[key] = trimmed(stacks, LEAST)
    return kept
