"""Tests of what passes a comparison: rises within the tolerance, and accepted ones."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from drawn import kept
from hypothesis import given
from hypothesis import strategies as st
from measured import changed
from msgspec.structs import replace

from pytest_schedprof.cli.main import main
from pytest_schedprof.errors import SettingsError
from pytest_schedprof.judge.acceptance import (
    FILE,
    accept,
    accepted_in,
    unused,
    with_accepted,
    with_tolerance,
    written,
)
from pytest_schedprof.model.comparison import AcceptedFigure, Change, Comparison, Outcome
from pytest_schedprof.model.explanation import Cause, Role
from pytest_schedprof.model.limit import Verdict

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
AMOUNT = st.floats(0, 1e12).map(lambda amount: float(f"{amount:.10g}"))
FIGURES = st.lists(st.builds(AcceptedFigure, TEXT, TEXT, TEXT, AMOUNT, AMOUNT, TEXT, TEXT))


def change(subject: str, before: float, after: float, error: float = 0.0) -> Change:
    """A rise of bytecodes, which counts from 1 % on."""
    rise = after - before
    outcome = Outcome.REGRESSED if rise > 0.01 * before else Outcome.SAME
    bounds = (rise - 4 * error, rise + 4 * error)
    return Change("bytecodes", subject, "", outcome, before, after, *bounds)


def compared(*functions: Change, whole: Change, causes: str = "f") -> Comparison:
    """A comparison in which some of the functions, by their letters, are the causes."""
    changes = [change for change in (*functions, whole) if change.outcome is Outcome.REGRESSED]
    of_causes = [
        Cause(change.subject, Role.CHANGED, change.metric, change.before, change.after)
        for change in functions
        if change.subject in causes
    ]
    comparison = Comparison("test_a", "counts", "", tuple(changes), same=1, wholes=(whole,))
    return replace(comparison, causes=tuple(of_causes))


WHOLE = change("", 1000, 1200)
SLOWER = compared(change("f", 100, 250), change("g", 100, 150), whole=WHOLE)
ACCEPTED = accept((), [SLOWER], "on purpose", "abc")


@given(FIGURES)
def test_what_was_accepted_is_read_as_it_was_written(figures: list[AcceptedFigure]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory, FILE)
        path.write_bytes(written(figures).encode())
        assert list(accepted_in(Path(directory))) == figures


@pytest.mark.parametrize(
    "text",
    [
        *("accepted", "accepted = 3", "[[accepted]]", '[[accepted]]\nreason = "x"\nfigures = 3'),
        '[[accepted]]\nreason = "x"\nfigures = [{ test = "t", metric = "m", from = 1 }]',
        '[[accepted]]\nreason = "x"\nfigures = [{ test = "t", metric = "m", from = 1, to = inf }]',
        '[[accepted]]\nreason = "x"\nfigures = [{ test = "t", metric = "m", from = 1%s, to = 1 }]'
        % ("0" * 400),
    ],
)
def test_another_file_is_an_error_that_names_it(text: str, tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(SettingsError, match=f"{FILE}' is not what `schedprof accept` writes"):
        accepted_in(tmp_path)


def test_causes_and_wholes_are_accepted_and_what_follows_passes() -> None:
    assert [(figure.function, figure.before, figure.after) for figure in ACCEPTED] == [
        *(("f", 100, 250), ("", 1000, 1200)),
    ]
    passed = with_accepted(SLOWER, ACCEPTED)
    assert passed.verdict is Verdict.PASS
    assert {change.outcome for change in passed.changes} == {Outcome.ACCEPTED}
    assert (passed.causes, passed.accepted) == ((), tuple(ACCEPTED))
    assert not unused(ACCEPTED, [passed])


@pytest.mark.parametrize(
    ("worse", "left"),
    [
        (compared(change("f", 100, 260), whole=WHOLE), "f"),  # the same function
        (compared(change("f", 100, 250), whole=change("", 1000, 1220)), ""),  # nobody knows which
        (compared(change("f", 100, 250), change("h", 9, 12), whole=WHOLE, causes="fh"), "h"),
        (compared(change("f", 50, 250), whole=WHOLE), "f"),  # it had become cheaper meanwhile
    ],
)
def test_nothing_more_than_what_was_accepted_passes(worse: Comparison, left: str) -> None:
    judged = with_accepted(worse, ACCEPTED)
    assert judged.verdict is Verdict.FAIL
    assert judged.changes[0].subject == left
    assert [cause.function for cause in judged.causes] == ([left] if left else [])
    assert not unused([figure for figure in ACCEPTED if figure.function == left], [judged])


def test_a_whole_that_fell_is_not_accepted_and_may_be_any() -> None:
    """What else became cheaper hides the rise, and may do so by less the next time."""
    rise = (change("f", 100, 250), change("g", 100, 150))
    hidden = accept((), [compared(*rise, whole=change("", 1000, 700))], "on purpose", "")
    assert [figure.function for figure in hidden] == ["f"]
    later = compared(*rise, whole=change("", 1000, 800))
    assert with_accepted(later, hidden).verdict is Verdict.PASS


def test_a_figure_that_scatters_passes_if_it_may_be_the_accepted_one() -> None:
    near = change("f", 105, 260, error=5)
    assert with_accepted(compared(near, whole=WHOLE), ACCEPTED).verdict is Verdict.PASS


def test_what_is_accepted_already_is_told_and_a_link_stays_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run = kept(tmp_path / "run", changed(1.5, test_id="test_a"))
    kept(tmp_path / "same", changed(1.0, test_id="test_a"))
    (tmp_path / FILE).symlink_to("elsewhere.toml")
    command = ["accept", "test_a", "--reason", "x", "--run", str(run)]
    assert main(command) == 0
    own = accepted_in(tmp_path)
    (tmp_path / FILE).write_text(written([*own, *ACCEPTED]))  # another one stands after it
    capsys.readouterr()
    assert main(command) == 1
    assert "nothing to accept in test_a: what regressed is acc" in capsys.readouterr().out
    assert main([*command[:-1], "same"]) == 1
    assert "no figure regressed against a baseline" in capsys.readouterr().out
    assert (tmp_path / FILE).is_symlink()
    assert accepted_in(tmp_path) == (*own, *ACCEPTED)


def test_what_did_not_rise_is_unused_and_what_was_not_compared_is_not() -> None:
    same = compared(whole=change("", 1000, 1000))
    assert unused(ACCEPTED, [same]) == ACCEPTED
    elsewhere = replace(same, test_id="test_b")
    assert unused(ACCEPTED, [elsewhere]) == []


def test_an_accepted_share_is_unused_once_no_share_has_risen() -> None:
    """Shares have no whole, and are compared beside the CPU time."""
    figure = AcceptedFigure("test_a", "share", "f", 0.1, 0.2, "on purpose", "")
    whole = replace(change("", 300e-6, 300e-6), metric="cpu")
    assert unused([figure], [compared(whole=whole)]) == [figure]
    assert unused([figure], [compared(whole=change("", 1000, 1000))]) == []


def test_figures_of_another_baseline_stay_and_others_are_replaced() -> None:
    other_python = accept((), [compared(change("f", 80, 200), whole=WHOLE)], "3.13", "")
    later = accept(other_python, [SLOWER], "again", "")
    assert [(figure.function, figure.before, figure.reason) for figure in later] == [
        *(("f", 80, "3.13"), ("f", 100, "again"), ("", 1000, "again")),
    ]


def test_the_tolerance_is_of_the_whole() -> None:
    slight = compared(change("f", 10, 40), whole=change("", 1000, 1030))
    assert with_tolerance(slight, 0.03).verdict is Verdict.PASS
    assert with_tolerance(slight, 0.02).verdict is Verdict.FAIL
    assert with_tolerance(slight, 0.0) == slight
    exactly = compared(change("f", 0.1, 0.15), whole=change("", 1.0, 1.05))
    assert 1.05 - 1.0 > 0.05, "as floats have it"
    assert with_tolerance(exactly, 0.05).verdict is Verdict.PASS


def test_below_the_tolerance_all_rises_of_a_metric_count_if_one_does() -> None:
    judged = with_tolerance(SLOWER, 0.19)
    assert [change.outcome for change in judged.changes] == [Outcome.REGRESSED] * 3
    assert judged.causes == SLOWER.causes
