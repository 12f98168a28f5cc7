"""From a run and its tests to what its page shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from pytest_schedprof.model.result import BackendResult, FunctionShare, Result, SampledShares
from pytest_schedprof.model.verdict import Estimate, Verdict
from pytest_schedprof.pages.amounts import interval_of, micros, name_of, percent
from pytest_schedprof.pages.of_changes import gravest, words_of
from pytest_schedprof.pages.of_samples import owner_rows, rows_of
from pytest_schedprof.pages.of_test import machine_facts
from pytest_schedprof.pages.reading import RunFiles, TestFiles
from pytest_schedprof.pages.views import Fact, FunctionRow, OwnerRow, RunPage, TestRow
from pytest_schedprof.reports.terminal import hottest

HOT = 12
CHANGES = 20
PAGE = "index.html"


def page_of_run(run: RunFiles) -> RunPage:
    """All of it."""
    sampled = [each for result in run.results if (each := sampling(result))]
    costs = [each.window.cpu_us_per_task or 0.0 for each in sampled]
    most = max(costs, default=0.0)
    return RunPage(
        run_id=run.run.run_id,
        facts=tuple(_facts(run)),
        counts=tuple(_counts(run)),
        tests=tuple(_row(test, most) for test in sorted(run.tests, key=_gravity)),
        owners=_owners(sampled),
        functions=_hottest(sampled),
        changes=tuple(gravest([c for each in run.results for c in each.comparisons], CHANGES)),
    )


def _gravity(test: TestFiles) -> int:
    """Broken ones first; else in the order in which they ran."""
    return (Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS).index(test.verdict)


def sampling(result: Result) -> BackendResult | None:
    """The backend that tells what the scheduler's time went to; cputime knows its cost too."""
    found = [each for each in result.backends if each.shares and each.shares.busy_samples]
    return next((each for each in found if each.backend == "cputime"), found[0] if found else None)


def _facts(run: RunFiles) -> list[Fact]:
    facts = [Fact("started", run.run.started_at[:19].replace("T", " ") + " UTC")]
    if commit := run.run.commit:
        dirty = ", with changes that are not committed" if commit.is_dirty else ""
        branch = f" on {commit.branch}" if commit.branch else ""
        facts.append(Fact("commit", f"{commit.sha[:12]}{branch}{dirty}"))
    if run.run.exit_status:
        facts.append(Fact("pytest", f"ended with exit status {run.run.exit_status}"))
    environments = [result.environment for result in run.results if result.environment]
    facts += machine_facts(environments[0] if environments else None)
    clusters = [each.cluster for each in run.results if each.cluster]
    kinds = dict.fromkeys(f"{each.kind}, {each.workers} workers" for each in clusters)
    return [*facts, *([Fact("cluster", "; ".join(kinds))] if kinds else [])]


def _counts(run: RunFiles) -> list[Fact]:
    limits = Counter(limit.verdict for result in run.results for limit in result.limits)
    verdicts = Counter(test.verdict for test in run.tests)
    return [
        Fact("tests", str(len(run.tests))),
        *(Fact(each.value, str(verdicts[each])) for each in Verdict if verdicts[each]),
        Fact("limits", str(sum(limits.values()))),
    ]


def _row(test: TestFiles, most: float) -> TestRow:
    backend = sampling(test.result) if test.result else None
    cost = (backend.window.cpu_us_per_task or 0.0) if backend else 0.0
    hot = hottest(backend.shares.functions, 1) if backend and backend.shares else []
    return TestRow(
        test_id=test.entry.test_id,
        link=quote(f"{test.entry.directory}/{PAGE}") if test.result else "",
        outcome=test.entry.outcome,
        verdict=test.verdict.value,
        limits=_limits(test.result),
        changes=words_of(test.result.comparisons) if test.result else "",
        tasks=_tasks(test.result),
        cost=micros(cost),
        cost_part=cost / most if most else 0.0,
        owners=owner_rows(backend) if backend else (),
        hottest=name_of(hot[0].function) if hot else None,
        share=percent(hot[0].share.value) if hot else "",
        problem=test.problem,
    )


def _limits(result: Result | None) -> str:
    """How many hold, of how many."""
    if result is None or not result.limits:
        return ""
    held = sum(limit.verdict is Verdict.PASS for limit in result.limits)
    return f"{held} of {len(result.limits)}"


def _tasks(result: Result | None) -> str:
    tasks = max((each.window.tasks for each in result.backends), default=0) if result else 0
    return f"{tasks:,}" if tasks else ""


def _owners(backends: Sequence[BackendResult]) -> tuple[OwnerRow, ...]:
    """Of all tests together, each by its samples."""
    sums: defaultdict[str, float] = defaultdict(float)
    for shares in _shares(backends):
        for each in shares.owners:
            sums[each.owner] += each.share.value * shares.busy_samples
    total = sum(sums.values())
    parts = sorted(((count / total, owner) for owner, count in sums.items()), reverse=True)
    return tuple(
        OwnerRow(owner, part, percent(part), "", "", interval_of(_exactly(part), 1.0))
        for part, owner in parts
    )


def _hottest(backends: Sequence[BackendResult]) -> tuple[FunctionRow, ...]:
    """Of all tests together."""
    shares = list(_shares(backends))
    total = sum(each.busy_samples for each in shares)
    held: defaultdict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for each in shares:
        for found in each.functions:
            sums = held[found.function, found.owner]
            sums[0] += found.share.value * each.busy_samples / total
            sums[1] += found.self_share.value * each.busy_samples / total
    functions = [
        FunctionShare(function, owner, _exactly(share), _exactly(own))
        for (function, owner), (share, own) in held.items()
    ]
    return rows_of(hottest(functions, HOT), 0.0)


def _shares(backends: Sequence[BackendResult]) -> Iterator[SampledShares]:
    return (backend.shares for backend in backends if backend.shares)


def _exactly(share: float) -> Estimate:
    """Shares of different tests together have no bounds: they are not of one thing."""
    return Estimate(share, share, share, 0, 0.0)
