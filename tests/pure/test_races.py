"""Which statement of a test raised an error, and calls before each visit of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_schedprof.virtual.races import Statement, calling_before, statement_of

BODY = """\
def look(numbers):
    for number in numbers:
        assert (
            number
            < 2
        ), "too large"


def call(numbers):
    return numbers.index(7)
"""


@pytest.fixture
def body(tmp_path: Path) -> tuple[str, dict[str, object]]:
    """The file of a test's code, and what it defines."""
    path = tmp_path / "body.py"
    path.write_text(BODY)
    names: dict[str, object] = {}
    exec(compile(BODY, str(path), "exec"), names)
    return str(path), names


def test_a_statement_is_that_of_the_file_which_raised(body: tuple[str, dict[str, object]]) -> None:
    file, names = body
    with pytest.raises(AssertionError) as raised:
        names["look"]([1, 3])  # type: ignore[operator]
    statement = statement_of(raised.value, file)
    assert statement is not None
    assert (statement.first, str(statement)) == (3, "line 3 of body.py")
    assert statement_of(raised.value, "another.py") is None
    with pytest.raises(AttributeError) as elsewhere:
        names["call"](sorted)  # type: ignore[operator]
    assert statement_of(elsewhere.value, __file__) is None


def test_each_visit_of_a_statement_is_told_before_it(body: tuple[str, dict[str, object]]) -> None:
    file, names = body
    visits: list[int] = []
    with calling_before(Statement(file, 3, 5), lambda: visits.append(len(visits))):
        names["look"]([0, 1, 1])  # type: ignore[operator]
    assert visits == [0, 1, 2]
    names["look"]([0])  # type: ignore[operator]
    assert len(visits) == 3
