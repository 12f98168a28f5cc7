"""A directory of runs as sessions leave it, and random damage to its files."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measured import TRANSITION, compare, counted, measured, sampled
from msgspec.structs import replace

from pytest_schedprof.judge.limits import parse_limit
from pytest_schedprof.model.evidence import Evidence
from pytest_schedprof.model.limit import Estimate, Finding, LimitResult, Verdict
from pytest_schedprof.model.result import BackendResult, Result
from pytest_schedprof.model.run import Commit, Run, TestEntry
from pytest_schedprof.store.baselines import save
from pytest_schedprof.store.records import encode

STEAL = "distributed.stealing:WorkStealing.balance"
SAMPLES = "scheduler.cputime.speedscope.json"

ESCAPES = ("\x1b[31m", "\x9b31m", "\x07", "\r", "\n", "\u202e", "\x7f")
"""What a terminal must never get from a record."""

MARKUP = ("<script>alert(1)</script>", "|", "`", "](x)", "@someone", "</code>", "![a](b)")
HOSTILE = "".join([*ESCAPES, *MARKUP])

VALUES: tuple[Any, ...] = (
    HOSTILE, "", "\0", "../../x", "/etc/passwd", "javascript:alert(1)", "é", "a" * 5000, "nan",
    "9999-12-31T23:59:59+23:59", "0001-01-01T00:00:00", "counts", "bytecodes", "share", "regressed",
    0, -1, 1, 3, 2**63, 10**18, 10**19, 10**400, 0.0, -0.5, 1e-320, 1e18, -1e18, 1.5,
    None, True, [], {}, [[]], {"x": 1}, [HOSTILE],
)  # fmt: skip


def _limit(text: str, verdict: Verdict) -> LimitResult:
    estimate = Estimate(0.4, 0.35, 0.45, 900, 1.2)
    finding = Finding(STEAL, estimate, verdict, before=estimate)
    return LimitResult(text, verdict, (finding,), parsed=parse_limit(text))


def _backends(factor: float) -> tuple[BackendResult, ...]:
    counts = counted({TRANSITION: 1000 * factor, STEAL: 100})
    samples = sampled({("a:root", TRANSITION): 0.5, ("a:root", STEAL): 0.5}, samples=200)
    limit = _limit("share(@stealing) <= 30%", Verdict.FAIL)
    return (
        replace(counts, limits=(_limit("bytecodes <= 6", Verdict.PASS),)),
        replace(
            samples,
            limits=(limit, _limit("cpu <= baseline * 1.05", Verdict.INCONCLUSIVE)),
            artifacts=(SAMPLES,),
            warnings=("torn",),
        ),
    )


def result(factor: float, number: int) -> Result:
    """One test's record with something of everything; the factor makes it dearer."""
    before = measured(*_backends(1.0))
    after = measured(*_backends(factor))
    comparisons = compare([before], [after]).comparisons
    evidence = (Evidence("span", ("span.json", "span.svg"), ("a note",), "", "spans"),)
    return replace(
        after,
        test_id=f"test_a.py::test_{number}",
        baseline="main",
        unjudged=("self(a:b) <= 1%",),
        evidence=evidence,
        comparisons=comparisons,
        troubles=("é went wrong",) if number == 1 else (),
    )


def speedscope() -> bytes:
    frames = [{"name": "balance", "file": "/x/distributed/stealing.py", "line": 3}, {"name": "a"}]
    profile = {
        "type": "sampled", "name": "loop", "unit": "seconds", "startValue": 0, "endValue": 1,
        "samples": [[1, 0], [1], [], [1, 0]], "weights": [1, 1, 1, 1],
    }  # fmt: skip
    return json.dumps({"shared": {"frames": frames}, "profiles": [profile]}).encode()


def write_runs(root: Path, runs: int = 4) -> None:
    """Write runs with two tests each, and a baseline."""
    for number in range(runs):
        results = [result(1.0 + (number > 1) * 0.4, index) for index in range(2)]
        name = f"2026010{number + 1}T000000-abcdef"
        entries = []
        for index, record in enumerate(results):
            directory = root / name / "tests" / f"t{index}"
            directory.mkdir(parents=True)
            (directory / "result.json").write_bytes(encode(record))
            (directory / SAMPLES).write_bytes(speedscope())
            figures = {"counts": {"bytecodes": 1100.0 + number}}
            entries.append(
                TestEntry(
                    record.test_id, record.outcome, record.verdict, f"tests/t{index}", figures
                )
            )
        time = f"2026-01-0{number + 1}T00:00:00+00:00"
        commit = Commit(f"{number}" * 40, "main", time, is_dirty=False)
        run = Run(name, time, 0, tuple(entries), commit)
        (root / name / "run.json").write_bytes(encode(run))
        save("main", str(root), name, [replace(result, troubles=()) for result in results])


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield each container with each of its keys or indexes."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in list(items):
        yield value, key
        if isinstance(inner, (dict, list)):
            yield from _places(inner)


def changed_value(chance: random.Random, content: bytes) -> bytes:
    """Return JSON with one value replaced, or removed, or a key renamed."""
    try:
        value = json.loads(content)
    except ValueError:  # damaged before
        return changed_bytes(chance, content)
    container, key = chance.choice(list(_places(value)) or [({0: 0}, 0)])
    what = chance.random()
    if what < 0.8:
        container[key] = chance.choice(VALUES)
    elif isinstance(container, dict) and what < 0.9:
        container[HOSTILE] = container.pop(key)
    else:
        del container[key]
    return json.dumps(value).encode()


def changed_bytes(chance: random.Random, content: bytes) -> bytes:
    """Return a file with a piece cut out, doubled, or overwritten."""
    start = chance.randrange(len(content) + 1)
    stop = min(len(content), start + chance.choice([1, 1, 4, 100, len(content)]))
    new = chance.choice(
        [b"", content[start:stop] * 2, chance.randbytes(stop - start), b"\xff", b"9" * 400]
    )
    return content[:start] + new + content[stop:]


def damage(chance: random.Random, files: list[Path], change: Callable[..., bytes]) -> None:
    """Change one of the files."""
    file = chance.choice(files)
    file.write_bytes(change(chance, file.read_bytes()))
