"""What a project lets pass: rises within its tolerance, and rises that somebody accepted.

Both concern rises that a comparison has already judged to be regressions. An accepted rise passes
up to its figure and no further, while the baseline still has the figure from which it rose.
Hundreds of figures may have risen for one cause. The causes are accepted by name, and the wholes:
all others follow from the causes, and a whole has the costs of all.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from pytest_schedprof.errors import SettingsError
from pytest_schedprof.judge.causes import GRAVITY, enclosing
from pytest_schedprof.judge.estimate import ROUNDING
from pytest_schedprof.judge.exact import EXACT_RISE
from pytest_schedprof.model.comparison import AcceptedFigure, Change, Comparison, Outcome
from pytest_schedprof.model.explanation import Cause
from pytest_schedprof.model.metric import CPU, SHARE
from pytest_schedprof.store.places import read_kept

FILE = "schedprof-accepted.toml"
"""Name of the file with what was accepted, in the directory in which pytest is started."""

HEAD = """\
# Rises that pass: `from` a figure of the baseline up to `to`, and no further.
# `schedprof accept` writes this file; with --prune it removes what no longer applies.
"""


def with_tolerance(comparison: Comparison, tolerance: float) -> Comparison:
    """Let the rises of a metric pass if none is above this part of the whole that it has.

    A figure without a whole, such as a share, is compared with itself.
    """
    if not tolerance:
        return comparison
    wholes = {whole.metric: whole.before for whole in comparison.wholes}
    most = tolerance * (1 + ROUNDING)
    too_large = {
        change.metric
        for change in comparison.of(Outcome.REGRESSED)
        if change.difference > most * wholes.get(change.metric, change.before)
    }
    note = f"within the tolerance of {100 * tolerance:g} % of the whole"
    passing = _passing(comparison, lambda change: change.metric not in too_large, note)
    return replace(
        passing, causes=tuple(cause for cause in passing.causes if cause.metric in too_large)
    )


def with_accepted(comparison: Comparison, figures: Iterable[AcceptedFigure]) -> Comparison:
    """Accept the regressions that the project accepted.

    If these are all of `decisive`, accept the rest too: it follows from them.
    """
    mine = [figure for figure in figures if figure.test == comparison.test_id]
    if not mine:
        return comparison
    needed = decisive(comparison)
    fitting = {key_of(change): fit for change in needed if (fit := _fit(change, mine))}
    is_all = len(fitting) == len(needed)

    def passes(change: Change) -> bool:
        return is_all or (change.metric, enclosing(change.subject)) in fitting

    passing = _passing(comparison, passes, "")
    causes = (cause for cause in comparison.causes if (cause.metric, cause.function) not in fitting)
    return replace(passing, causes=tuple(causes), accepted=tuple(fitting.values()))


def _passing(comparison: Comparison, passes: Callable[[Change], bool], note: str) -> Comparison:
    """Return the comparison with those regressions accepted that pass."""
    changes = [
        replace(change, outcome=Outcome.ACCEPTED, note=note)
        if change.outcome is Outcome.REGRESSED and passes(change)
        else change
        for change in comparison.changes
    ]
    changes.sort(key=lambda change: GRAVITY.index(change.outcome))
    return replace(comparison, changes=tuple(changes))


def key_of(figure: Change | AcceptedFigure) -> tuple[str, str]:
    return figure.metric, figure.function if isinstance(figure, AcceptedFigure) else figure.subject


def decisive(comparison: Comparison) -> list[Change]:
    """Return the figures that must be accepted for all regressions to pass.

    They are those of the causes, or of all that regressed if no cause is known and no whole has it,
    and the wholes that have risen with them.
    """
    regressed = comparison.of(Outcome.REGRESSED)
    if not regressed:
        return []
    metrics = {change.metric for change in regressed}
    wholes = [whole for whole in comparison.wholes if whole.metric in metrics]
    of_causes = [_of_cause(comparison, cause) for cause in comparison.causes]
    in_wholes = {whole.metric for whole in wholes}
    others = [change for change in regressed if change.subject and change.metric not in in_wholes]
    named = of_causes or [change for change in regressed if change.subject][:1]
    risen = [whole for whole in wholes if whole.difference > 0]
    return list({key_of(change): change for change in (*named, *others, *risen)}.values())


def _of_cause(comparison: Comparison, cause: Cause) -> Change:
    """Return the figure of a cause with what is defined in it, as certain as its own."""
    mine = (cause.metric, cause.function)
    own = (change.high - change.low for change in comparison.changes if key_of(change) == mine)
    rise, width = cause.after - cause.before, next(own, 0.0) / 2
    figures = (cause.before, cause.after, rise - width, rise + width)
    return Change(*mine, "", Outcome.REGRESSED, *figures)


def _fit(change: Change, figures: Iterable[AcceptedFigure]) -> AcceptedFigure | None:
    """Return what was accepted of a figure if it lies between the two; 1 % more does not count."""
    width = (change.high - change.low) / 2
    for figure in figures:
        least = figure.before * (1 - EXACT_RISE) - width
        most = figure.after * (1 + EXACT_RISE)
        is_between = least <= change.before and change.before + change.low <= most
        if key_of(figure) == key_of(change) and is_between:
            return figure
    return None


def accept(
    known: Iterable[AcceptedFigure], comparisons: Iterable[Comparison], reason: str, commit: str
) -> list[AcceptedFigure]:
    """Return what was accepted with what these comparisons need, in place of what they replace.

    A figure from another baseline stays: it may be of another release of Python.
    """
    accepted = [
        AcceptedFigure(
            comparison.test_id, *key_of(change), change.before, change.after, reason, commit
        )
        for comparison in comparisons
        for change in decisive(comparison)
    ]
    return [*(old for old in known if not any(_replaces(new, old) for new in accepted)), *accepted]


def _replaces(new: AcceptedFigure, old: AcceptedFigure) -> bool:
    is_same = (new.test, *key_of(new)) == (old.test, *key_of(old))
    return is_same and abs(new.before - old.before) <= EXACT_RISE * old.before


def unused(
    known: Iterable[AcceptedFigure], comparisons: Sequence[Comparison]
) -> list[AcceptedFigure]:
    """Return what no longer applies: the figure was compared, and has not risen."""
    compared = {
        (comparison.test_id, whole.metric)
        for comparison in comparisons
        for whole in (*comparison.wholes, *comparison.changes)
    }
    # Shares have no whole; they are compared wherever the CPU time is.
    compared |= {(test, SHARE) for test, metric in compared if metric == CPU}
    used = {figure for comparison in comparisons for figure in comparison.accepted}
    risen = {
        (comparison.test_id, *key_of(change))
        for comparison in comparisons
        for change in comparison.of(Outcome.REGRESSED)
    }
    return [
        figure
        for figure in known
        if (figure.test, figure.metric) in compared
        and figure not in used
        and (figure.test, *key_of(figure)) not in risen
    ]


def accepted_in(directory: Path) -> tuple[AcceptedFigure, ...]:
    """Return what the file in this directory accepts; nothing if there is none.

    Raises:
        ArtifactError: if it cannot be read.
        SettingsError: if something else stands in it.
    """
    path = directory / FILE
    if not path.exists():
        return ()
    content = read_kept(path)
    try:
        groups = tomllib.loads(content.decode()).get("accepted", [])
        return tuple(_figure(group, figure) for group in groups for figure in group["figures"])
    except (
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        OverflowError,
        RecursionError,
    ) as error:
        raise SettingsError(
            f"schedprof: {str(path)!r} is not what `schedprof accept` writes: "
            f"{type(error).__name__}: {error}"
        ) from None


def _figure(group: dict[str, Any], figure: dict[str, Any]) -> AcceptedFigure:
    before, after = float(figure["from"]), float(figure["to"])
    if not (isfinite(before) and isfinite(after)):
        raise ValueError(f"{before:g} to {after:g}")
    names = (str(figure["test"]), str(figure["metric"]), str(figure.get("function", "")))
    return AcceptedFigure(*names, before, after, str(group["reason"]), str(group.get("commit", "")))


def written(figures: Iterable[AcceptedFigure]) -> str:
    """Return the text of the file: a group for each reason and commit, a line for each figure."""
    groups = groupby(figures, lambda figure: (figure.reason, figure.commit))
    return "\n".join([HEAD, *("\n".join(_group(*key, of_group)) for key, of_group in groups)])


def _group(reason: str, commit: str, figures: Iterable[AcceptedFigure]) -> Iterator[str]:
    yield "[[accepted]]"
    yield f"reason = {_quoted(reason)}"
    if commit:
        yield f"commit = {_quoted(commit)}"
    yield "figures = ["
    for figure in figures:
        function = f"function = {_quoted(figure.function)}, " if figure.function else ""
        yield (
            f"  {{ test = {_quoted(figure.test)}, metric = {_quoted(figure.metric)}, {function}"
            f"from = {figure.before:.10g}, to = {figure.after:.10g} }},"
        )
    yield "]\n"


def _quoted(text: str) -> str:
    """Return text as a string of TOML."""
    text = text.encode("utf-8", "backslashreplace").decode()  # a name of a file may be no text
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in escaped) + '"'
