"""Tests of failing pictures: the failure is reported, and the data is kept."""

from __future__ import annotations

from pytest_schedprof.evidence.pictures import with_pictures


def test_data_outlast_a_picture_that_fails() -> None:
    def fail() -> bytes:
        raise AttributeError("module 'bokeh' has no attribute 'x'\nand more")

    brought = with_pictures({"a.json": b"1"}, {"a.html": fail, "b.html": lambda: b"2"}, ("note",))
    assert brought.files == {"a.json": b"1", "b.html": b"2"}
    told = "no a.html: AttributeError: module 'bokeh' has no attribute 'x'"
    assert brought.notes == ("note", told)
